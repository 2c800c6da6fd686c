//! Steps of checks on a connection that is Ready.

use serde_json::{Value, json};

use super::deadline::Deadline;
use super::peer::{Message, Peer};
use super::suite::{CheckError, CheckResult, Context};

/// Makes a request and returns its response, with a result. What goes wrong has other checks.
pub fn call(peer: &mut Peer<'_>, method: &str, params: &Value) -> Result<Message, CheckError> {
    let id = peer.request(json!({"method": method, "params": params}))?;
    let answer = peer.answer(&id).map_err(CheckError::blocked)?;
    if answer.value.get("result").is_none() {
        return Err(CheckError::Blocked(format!("{method} was answered by {}", answer.text)));
    }
    Ok(answer)
}

/// Checks that the connection still serves requests.
pub fn expect_ready(peer: &mut Peer<'_>) -> CheckResult {
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    if answer.value.get("result").is_some() {
        return Ok(());
    }
    Err(CheckError::failed(format!("the connection is not Ready: ping gave {}", answer.text)))
}

/// Waits until what was sent has arrived, where each message has a connection and a response of its
/// own: otherwise a later one may overtake it.
pub fn settle(peer: &mut Peer<'_>, context: &Context<'_>) {
    if let Some(channel) = peer.channel().http() {
        channel.settle(context.settings.deadline());
    }
}

/// Sends a request that runs for seconds twice. Returns the answer to the second one that arrives,
/// and cancels the other one. Over HTTP, where either may overtake the other, the second one is
/// that which is answered first.
pub fn send_twice(
    peer: &mut Peer<'_>,
    context: &Context<'_>,
    request: &Value,
) -> Result<Message, CheckError> {
    let ids = [peer.request(request.clone())?, peer.request(request.clone())?];
    let awaited = if context.settings.endpoint.is_http() { &ids[..] } else { &ids[1..] };
    let answer = peer.first_answer(awaited)?;
    let other = ids.iter().find(|id| answer.value["id"] != **id);
    peer.send(&json!({"type": "cancel", "id": other}))?;
    Ok(answer)
}

/// Cancels a request and returns its answer. Over HTTP the cancel may overtake the request, and is
/// then one of an unknown id, which has no answer: another one follows.
pub fn cancel_running(
    peer: &mut Peer<'_>,
    context: &Context<'_>,
    id: Value,
) -> Result<Message, CheckError> {
    let quiet = context.settings.quiet;
    let cancel = json!({"type": "cancel", "id": id, "reason": "parity-check"});
    let (ids, deadline) = ([id], context.settings.deadline());
    loop {
        peer.send(&cancel)?;
        let is_http = context.settings.endpoint.is_http();
        let end = if is_http { Deadline::after(quiet) } else { deadline };
        let wanted = "response to the cancelled request";
        let answer = peer.wait_until(end, wanted, |message| message.is_answer(&ids));
        if answer.is_ok() || deadline.is_over() || peer.is_closed() {
            return answer;
        }
    }
}

/// Checks that the server sends nothing for a while.
pub fn expect_silence(peer: &mut Peer<'_>, after: &str) -> CheckResult {
    match peer.drain().first() {
        None => Ok(()),
        Some(message) => {
            Err(CheckError::failed(format!("{after} was answered by {}", message.text)))
        }
    }
}

/// Opens a stream; returns the id of its request, and its own.
pub fn open_stream(
    peer: &mut Peer<'_>,
    method: &str,
    params: &Value,
) -> Result<(Value, String), CheckError> {
    let id = peer.request(json!({"method": method, "params": params, "stream": true}))?;
    let answer = peer.answer(&id).map_err(CheckError::blocked)?;
    match answer.value["result"]["streamId"].as_str() {
        Some(stream) => Ok((id, stream.to_owned())),
        None => Err(CheckError::Blocked(format!("no stream was opened: {}", answer.text))),
    }
}

/// Opens a stream of `ping`, which every server has.
pub fn open_short_stream(peer: &mut Peer<'_>) -> Result<String, CheckError> {
    open_stream(peer, "ping", &json!({})).map(|(_, stream)| stream)
}

/// Waits for the next chunk of a stream.
pub fn next_chunk(peer: &mut Peer<'_>, stream: &str) -> Result<Message, CheckError> {
    peer.wait(&format!("chunk of the stream '{stream}'"), |message| {
        message.is("stream.chunk") && message.value["streamId"] == stream
    })
}

/// Collects the chunks of a stream up to its `eos`, or for the time of one step.
pub fn chunks(peer: &mut Peer<'_>, context: &Context<'_>, stream: &str) -> Vec<Message> {
    let deadline = context.settings.deadline();
    let mut chunks = Vec::new();
    let is_wanted =
        |message: &Message| message.is("stream.chunk") && message.value["streamId"] == stream;
    while let Ok(chunk) = peer.wait_until(deadline, "chunk", is_wanted) {
        let is_last = chunk.is_chunk("eos");
        chunks.push(chunk);
        if is_last || deadline.is_over() {
            break;
        }
    }
    chunks
}

/// Checks that a stream has ended, which is the rule of another check: all chunks have come.
pub fn expect_end(stream: &str, chunks: &[Message]) -> CheckResult {
    let has_ended = chunks.last().is_some_and(|last| last.is_chunk("eos"));
    ensure(has_ended, || format!("the stream '{stream}' has no eos")).map_err(CheckError::blocked)
}

/// Returns the parameters of a tool call that takes seconds.
pub fn long_call(context: &Context<'_>) -> Value {
    let tool = &context.settings.long_tool;
    json!({"name": tool.name, "arguments": tool.arguments})
}

/// Opens the stream of a tool call that takes seconds.
pub fn open_long_stream(
    peer: &mut Peer<'_>,
    context: &Context<'_>,
) -> Result<(Value, String), CheckError> {
    open_stream(peer, "tools/call", &long_call(context))
}

/// Fails unless `condition` holds.
pub fn ensure(condition: bool, reason: impl FnOnce() -> String) -> CheckResult {
    if condition { Ok(()) } else { Err(CheckError::Failed(reason())) }
}
