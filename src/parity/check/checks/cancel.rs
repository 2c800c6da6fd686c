//! Cancellation of requests and streams.

use serde_json::{Value, json};

use crate::peer::{Message, Peer, expect_error};
use crate::steps::{
    call, cancel_running, chunks, ensure, expect_end, expect_ready, expect_silence, long_call,
    next_chunk, open_long_stream, open_short_stream, settle,
};
use crate::suite::Level::{Must, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

const NEEDS: &[Need] = &[Need::Flag("cancellation")];
const LONG: &[Need] = &[Need::Flag("cancellation"), Need::LongTool];
const STREAMS: &[Need] = &[Need::Flag("cancellation"), Need::Flag("streaming"), Need::LongTool];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "cancel.unknown",
        level: Must,
        needs: NEEDS,
        rule: "a cancel of an unknown id has no answer",
        run: |context| ignored(context, &json!({"type": "cancel", "id": "no-such-request"})),
    },
    Check {
        name: "cancel.unknown_stream",
        level: Must,
        needs: NEEDS,
        rule: "a cancel of an unknown stream has no answer",
        run: |context| ignored(context, &json!({"type": "cancel", "streamId": "no-such-stream"})),
    },
    Check {
        name: "cancel.finished",
        level: Must,
        needs: NEEDS,
        rule: "a cancel of a finished request has no answer",
        run: finished,
    },
    Check {
        name: "cancel.two_targets",
        level: Must,
        needs: NEEDS,
        rule: "a cancel with id and streamId is rejected by error.internal, mcpCode -32600",
        run: |context| rejected(context, &json!({"type": "cancel", "id": 1, "streamId": "s"})),
    },
    Check {
        name: "cancel.no_target",
        level: Must,
        needs: NEEDS,
        rule: "a cancel without a target is rejected by error.internal, mcpCode -32600",
        run: |context| rejected(context, &json!({"type": "cancel"})),
    },
    Check {
        name: "cancel.request",
        level: Must,
        needs: LONG,
        rule: "a cancelled request is answered by error.internal, not retryable, details.reason \
               cancelled",
        run: cancelled_request,
    },
    Check {
        name: "cancel.stream_stops",
        level: Transition,
        needs: STREAMS,
        rule: "Ready --(sendCancel/stop production)--> Canceling: no data follows a cancel",
        run: stream_stops,
    },
    Check {
        name: "cancel.terminal_frame",
        level: Transition,
        needs: STREAMS,
        rule: "Canceling --(recvEos)--> Ready: a cancelled stream ends by eos `cancelled`",
        run: |context| cancelled_stream(context, false),
    },
    Check {
        name: "cancel.stream_by_id",
        level: Must,
        needs: STREAMS,
        rule: "a stream is also cancelled by the id of its request",
        run: |context| cancelled_stream(context, true),
    },
    Check {
        name: "cancel.ready_after",
        level: Transition,
        needs: STREAMS,
        rule: "Canceling --(finalize)--> Ready: requests are served after a cancel",
        run: ready_after,
    },
    Check {
        name: "cancel.others_continue",
        level: Must,
        needs: STREAMS,
        rule: "other streams go on",
        run: others_continue,
    },
];

fn ignored(context: &Context<'_>, cancel: &Value) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send(cancel)?;
    expect_silence(&mut peer, "the cancel")?;
    expect_ready(&mut peer)
}

fn finished(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let answer = call(&mut peer, "ping", &json!({}))?;
    peer.send(&json!({"type": "cancel", "id": answer.value["id"]}))?;
    expect_silence(&mut peer, "the cancel")
}

fn rejected(context: &Context<'_>, cancel: &Value) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send(cancel)?;
    expect_error(&peer.error()?, "error.internal", Some(-32600))?;
    expect_ready(&mut peer)
}

fn cancelled_request(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "tools/call", "params": long_call(context)}))?;
    let answer = cancel_running(&mut peer, context, id)?;
    ensure(answer.value.get("result").is_none(), || format!("it went on: {}", answer.text))?;
    expect_error(&answer, "error.internal", None)?;
    let error = &answer.value["error"];
    ensure(error["retryable"] != true && error["details"]["reason"] == "cancelled", || {
        format!("not the error of a cancelled request: {}", answer.text)
    })
}

/// Cancels a stream, and returns the chunks that follow.
fn cancel<'a>(
    context: &'a Context<'a>,
    is_by_id: bool,
) -> Result<(Peer<'a>, String, Vec<Message>), CheckError> {
    let mut peer = Peer::ready(context)?;
    let (id, stream) = open_long_stream(&mut peer, context)?;
    let target = if is_by_id { ("id", id) } else { ("streamId", json!(stream)) };
    peer.send(&json!({"type": "cancel", target.0: target.1}))?;
    let chunks = chunks(&mut peer, context, &stream);
    Ok((peer, stream, chunks))
}

fn cancelled_stream(context: &Context<'_>, is_by_id: bool) -> CheckResult {
    let (_, stream, chunks) = cancel(context, is_by_id)?;
    match chunks.last().filter(|last| last.is_chunk("eos")) {
        Some(eos) => ensure(eos.value["reason"] == "cancelled", || {
            format!("the stream ended, but not by the cancel: {}", eos.text)
        }),
        None => Err(CheckError::failed(format!("no eos of the cancelled stream '{stream}'"))),
    }
}

fn stream_stops(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let (_, stream) = open_long_stream(&mut peer, context)?;
    peer.send(&json!({"type": "cancel", "streamId": stream.as_str()}))?;
    settle(&mut peer, context);
    // What was on its way when the cancel arrived precedes the chunks of a later stream.
    let later = open_short_stream(&mut peer)?;
    next_chunk(&mut peer, &later).map_err(CheckError::blocked)?;
    let is_of_stream = |message: &Message| message.value["streamId"] == stream.as_str();
    let earlier = peer.take_pending();
    let has_ended = earlier.iter().any(|chunk| chunk.is_chunk("eos") && is_of_stream(chunk));
    let next = if has_ended {
        peer.drain().into_iter().find(is_of_stream)
    } else {
        next_chunk(&mut peer, &stream).ok()
    };
    match next.filter(|chunk| !chunk.is_chunk("eos")) {
        None => Ok(()),
        Some(data) => Err(CheckError::failed(format!("produced after the cancel: {}", data.text))),
    }
}

fn ready_after(context: &Context<'_>) -> CheckResult {
    let (mut peer, _, _) = cancel(context, false)?;
    expect_ready(&mut peer)
}

fn others_continue(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let (_, kept) = open_long_stream(&mut peer, context)?;
    let (_, cancelled) = open_long_stream(&mut peer, context)?;
    peer.send(&json!({"type": "cancel", "streamId": cancelled}))?;
    let before = chunks(&mut peer, context, &cancelled);
    expect_end(&cancelled, &before)?;
    let late = peer.drain();
    let ended = late.iter().find(|chunk| chunk.is_chunk("eos") && chunk.value["streamId"] == kept);
    if let Some(eos) = ended {
        return ensure(eos.value["reason"] == "completed", || {
            format!("the other stream '{kept}' ended too: {}", eos.text)
        });
    }
    peer.send(&json!({"type": "cancel", "streamId": kept}))?;
    let chunks = chunks(&mut peer, context, &kept);
    ensure(chunks.last().is_some_and(|last| last.is_chunk("eos")), || {
        format!("the other stream '{kept}' was not open")
    })
}
