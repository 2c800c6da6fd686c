//! Resume: continuing streams on another connection, and the advice to restart.

use serde_json::{Value, json};

use crate::peer::{Message, Peer, capabilities, full_handshake, handshake};
use crate::steps::{chunks, ensure, expect_ready, next_chunk, open_long_stream, open_short_stream};
use crate::suite::Level::{Must, Should, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

const NEEDS: &[Need] = &[Need::Flag("resume"), Need::Flag("streaming")];
/// A resume that succeeds.
const RESUMED: &[Need] = &[Need::Server, Need::Flag("resume"), Need::Flag("streaming")];
const LONG: &[Need] =
    &[Need::Server, Need::Flag("resume"), Need::Flag("streaming"), Need::LongTool];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "resume.token",
        level: Should,
        needs: &[Need::Flag("resume")],
        rule: "the acknowledgement has a resumeToken if resume is in the intersection",
        run: token,
    },
    Check {
        name: "resume.continues",
        level: Transition,
        needs: RESUMED,
        rule: "Resuming --([window OK])--> Ready: a stream continues at lastAckSeq + 1",
        run: continues,
    },
    Check {
        name: "resume.from_start",
        level: Must,
        needs: RESUMED,
        rule: "lastAckSeq 0 resumes a stream from its first chunk",
        run: from_start,
    },
    Check {
        name: "resume.next_seq",
        level: Must,
        needs: RESUMED,
        rule: "the acknowledgement names the next seq of each stream",
        run: next_seq,
    },
    Check {
        name: "resume.ready_after",
        level: Transition,
        needs: RESUMED,
        rule: "Ready --(reconnect + resumeToken)--> Resuming --> Ready: requests are served after \
               a resume",
        run: ready_after,
    },
    Check {
        name: "resume.running_stream",
        level: Must,
        needs: LONG,
        rule: "a stream that is produced during a disconnect continues without a gap",
        run: running_stream,
    },
    Check {
        name: "resume.one_owner",
        level: Must,
        needs: LONG,
        rule: "after a resume the earlier connection gets no more chunks",
        run: one_owner,
    },
    Check {
        name: "resume.stale_advice",
        level: Transition,
        needs: NEEDS,
        rule: "Resuming --([window stale])--> Ready: a lastAckSeq outside of the window gets \
               resumed false, advice restart and a reason",
        run: |context| expect_advice(context, |stream| json!({stream: 1_000_000})).map(drop),
    },
    Check {
        name: "resume.unknown_stream",
        level: Must,
        needs: NEEDS,
        rule: "a stream that is unknown gets the advice to restart",
        run: |context| expect_advice(context, |_| json!({"no-such-stream": 1})).map(drop),
    },
    Check {
        name: "resume.ready_after_advice",
        level: Transition,
        needs: NEEDS,
        rule: "requests are served after the advice to restart",
        run: |context| {
            let mut peer = expect_advice(context, |_| json!({"no-such-stream": 1}))
                .map_err(CheckError::blocked)?;
            expect_ready(&mut peer)
        },
    },
    Check {
        name: "resume.forged_token",
        level: Must,
        needs: &[Need::Flag("resume")],
        rule: "a forged token is rejected by error.auth.unauthorized, or gets the advice to \
               restart",
        run: forged_token,
    },
    Check {
        name: "resume.without_capability",
        level: Must,
        needs: NEEDS,
        rule: "a token without the capability resume resumes nothing",
        run: without_capability,
    },
];

/// A session that was left after one of its streams had ended.
struct Left {
    token: Value,
    stream: String,
    chunks: Vec<Message>,
}

/// Returns the members of an acknowledgement that belong to a resume.
fn outcome(ack: &Value) -> Value {
    let names = ["resumed", "advice", "reason", "streams"];
    let members =
        names.iter().filter_map(|name| Some(((*name).to_owned(), ack.get(name)?.clone())));
    Value::Object(members.collect())
}

fn blocked(reason: String) -> CheckError {
    CheckError::Blocked(reason)
}

/// Opens a stream, reads it to its end, and drops the connection.
fn leave(context: &Context<'_>) -> Result<Left, CheckError> {
    let mut peer = Peer::ready(context)?;
    let token = token_of(&peer)?;
    let stream = open_short_stream(&mut peer)?;
    let chunks = chunks(&mut peer, context, &stream);
    let is_regular = chunks.iter().map(Message::seq).eq(1..=chunks.len() as u64);
    if !is_regular || chunks.len() < 2 {
        return Err(blocked(format!("the stream '{stream}' has not two chunks in order")));
    }
    peer.abandon();
    Ok(Left { token, stream, chunks })
}

fn token_of(peer: &Peer<'_>) -> Result<Value, CheckError> {
    match peer.ack().get("resumeToken") {
        Some(token) => Ok(token.clone()),
        None => Err(blocked(format!("no resumeToken: {}", peer.ack()))),
    }
}

fn token(context: &Context<'_>) -> CheckResult {
    let peer = Peer::ready(context)?;
    ensure(peer.ack().get("resumeToken").is_some(), || format!("no resumeToken: {}", peer.ack()))
}

/// Presents a token with `lastAckSeq`.
fn resume<'a>(
    context: &'a Context<'a>,
    token: &Value,
    last_ack_seq: Value,
) -> Result<Peer<'a>, CheckError> {
    let mut message = full_handshake(context);
    message["resumeToken"] = token.clone();
    message["lastAckSeq"] = last_ack_seq;
    Peer::ready_with(context, &message)
}

/// Resumes a session that was left.
fn resume_left<'a>(
    context: &'a Context<'a>,
    left: &Left,
    last_ack_seq: u64,
) -> Result<Peer<'a>, CheckError> {
    let stream = left.stream.as_str();
    let peer = resume(context, &left.token, json!({stream: last_ack_seq}))?;
    ensure(peer.ack()["resumed"] == true, || format!("not resumed: {}", outcome(peer.ack())))?;
    Ok(peer)
}

/// Checks that the chunks after `last_ack_seq` come again, and no others.
fn expect_rest(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    left: &Left,
    last_ack_seq: u64,
) -> CheckResult {
    let again = chunks(peer, context, &left.stream);
    let seqs: Vec<u64> = again.iter().map(Message::seq).collect();
    let wanted: Vec<u64> = (last_ack_seq + 1..=left.chunks.len() as u64).collect();
    ensure(seqs == wanted, || format!("resumed with {seqs:?} instead of {wanted:?}"))?;
    let before = left.chunks.iter().filter(|chunk| chunk.seq() > last_ack_seq);
    let is_same = before.zip(&again).all(|(one, other)| one.value == other.value);
    ensure(is_same, || "a chunk was changed by the resume".to_owned())
}

fn continues(context: &Context<'_>) -> CheckResult {
    let left = leave(context)?;
    let mut peer = resume_left(context, &left, 1)?;
    expect_rest(context, &mut peer, &left, 1)
}

fn from_start(context: &Context<'_>) -> CheckResult {
    let left = leave(context)?;
    let mut peer = resume_left(context, &left, 0)?;
    expect_rest(context, &mut peer, &left, 0)
}

fn next_seq(context: &Context<'_>) -> CheckResult {
    let left = leave(context)?;
    let peer = resume_left(context, &left, 1)?;
    let streams = peer.ack()["streams"].as_array();
    let is_named = streams.is_some_and(|streams| {
        streams.iter().any(|it| it["streamId"] == left.stream.as_str() && it["nextSeq"] == 2)
    });
    ensure(is_named, || format!("`streams` has not nextSeq 2: {}", outcome(peer.ack())))
}

fn ready_after(context: &Context<'_>) -> CheckResult {
    let left = leave(context)?;
    let mut peer = resume_left(context, &left, 1).map_err(CheckError::blocked)?;
    expect_ready(&mut peer)
}

fn running_stream(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let token = token_of(&peer)?;
    let (_, stream) = open_long_stream(&mut peer, context)?;
    let first = next_chunk(&mut peer, &stream).map_err(CheckError::blocked)?;
    peer.abandon();
    drop(peer);
    let stream = stream.as_str();
    let mut peer = resume(context, &token, json!({stream: first.seq()}))?;
    ensure(peer.ack()["resumed"] == true, || format!("not resumed: {}", outcome(peer.ack())))?;
    let second = next_chunk(&mut peer, stream)?;
    let cancelled = peer.send(&json!({"type": "cancel", "streamId": stream}));
    cancelled.map_err(CheckError::blocked)?;
    ensure(second.seq() == first.seq() + 1, || {
        format!("chunk {} was followed by {}", first.seq(), second.text)
    })
}

fn one_owner(context: &Context<'_>) -> CheckResult {
    let mut earlier = Peer::ready(context)?;
    let token = token_of(&earlier)?;
    let (_, stream) = open_long_stream(&mut earlier, context)?;
    earlier.abandon();
    let name = stream.as_str();
    let mut peer = resume(context, &token, json!({name: 0}))?;
    if peer.ack()["resumed"] != true {
        // The server may leave the session to the earlier connection.
        return Ok(());
    }
    // What was on its way at the resume.
    earlier.drain();
    earlier.drain();
    let late = earlier.drain();
    peer.send(&json!({"type": "cancel", "streamId": name}))?;
    let chunk = late.iter().find(|message| message.is("stream.chunk"));
    match chunk {
        None => Ok(()),
        Some(chunk) => {
            let text = &chunk.text;
            Err(CheckError::failed(format!("the earlier connection received {text}")))
        }
    }
}

/// Checks that nothing is resumed, and that the acknowledgement advises to restart.
fn expect_advice<'a>(
    context: &'a Context<'a>,
    last_ack_seq: impl Fn(&str) -> Value,
) -> Result<Peer<'a>, CheckError> {
    let left = leave(context)?;
    let peer = resume(context, &left.token, last_ack_seq(&left.stream))?;
    check_advice(peer.ack())?;
    Ok(peer)
}

fn check_advice(ack: &Value) -> CheckResult {
    let has_advice = ack["advice"] == "restart" && ack["reason"].is_string();
    ensure(ack["resumed"] == false && has_advice, || {
        format!("no `resumed` false with advice and reason: {}", outcome(ack))
    })
}

fn forged_token(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["resumeToken"] = json!("Zm9yZ2VkLXRva2Vu");
    message["lastAckSeq"] = json!({"s": 1});
    let reply = Peer::open(context)?.handshake_reply(&message).map_err(CheckError::blocked)?;
    if reply.is("handshakeAck") {
        return check_advice(&reply.value);
    }
    let code = &reply.value["error"]["code"];
    ensure(code == "error.auth.unauthorized", || format!("answered by {}", reply.text))
}

fn without_capability(context: &Context<'_>) -> CheckResult {
    let left = leave(context)?;
    let flags = ["tools", "resources", "prompts", "streaming"];
    let mut message = handshake(context, &capabilities(&flags));
    message["resumeToken"] = left.token.clone();
    message["lastAckSeq"] = json!({left.stream.as_str(): 1});
    let peer = Peer::ready_with(context, &message)?;
    ensure(peer.ack()["resumed"] != true, || format!("resumed: {}", outcome(peer.ack())))
}
