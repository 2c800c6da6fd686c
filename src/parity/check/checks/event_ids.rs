//! Event streams that continue after `Last-Event-ID`.

use std::io;

use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::http_steps::{channel, next_event};
use crate::peer::{Message, Peer};
use crate::steps::{ensure, long_call, open_short_stream};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::exchange::{Exchange, SseEvent};

const NEEDS: &[Need] = &[Need::Http, Need::Flag("streaming"), Need::Flag("resume")];
const LONG: &[Need] = &[Need::Http, Need::Flag("streaming"), Need::Flag("resume"), Need::LongTool];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "sse.last_event_id",
        level: Must,
        needs: NEEDS,
        rule: "an event stream with Last-Event-ID continues behind that event: no chunk is lost, \
               comes twice or out of order",
        run: last_event_id,
    },
    Check {
        name: "sse.last_event_id_of_post",
        level: Must,
        needs: LONG,
        rule: "Last-Event-ID of an event of a POST continues its stream on the event stream: no \
               chunk is lost, comes twice or out of order",
        run: last_event_id_of_post,
    },
    Check {
        name: "sse.unknown_event_id",
        level: Must,
        needs: NEEDS,
        rule: "an unknown Last-Event-ID gets resumed false, advice restart and a reason",
        run: unknown_event_id,
    },
];

/// Streams of the first check.
const STREAMS: usize = 3;
/// Chunks of a POST that are received, and those of them that the client forgets.
const POST_CHUNKS: usize = 5;
const FORGOTTEN: usize = 2;

/// Continues the event stream of a session, and returns it with its acknowledgement.
fn continue_after(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    last_event_id: &str,
) -> Result<(Exchange, Value), CheckError> {
    let failed = |error: io::Error| CheckError::Failed(format!("GET events: {error}"));
    let mut events = channel(peer)?.start_after(last_event_id).map_err(failed)?;
    let event = next_event(context, &mut events)?;
    let ack: Value = serde_json::from_str(&event.data).unwrap_or_default();
    ensure(event.name == "handshake", || format!("the first event is {event:?}"))
        .map_err(CheckError::blocked)?;
    Ok((events, ack))
}

fn expect_resumed(ack: &Value, last_event_id: &str) -> CheckResult {
    ensure(ack["resumed"] == true, || {
        format!(
            "not resumed after '{last_event_id}': resumed {}, reason {}",
            ack["resumed"], ack["reason"]
        )
    })
}

/// Waits for the next chunk.
fn next_chunk(context: &Context<'_>, events: &mut Exchange) -> Result<SseEvent, CheckError> {
    loop {
        let event = next_event(context, events)?;
        if event.name == "stream.chunk" {
            return Ok(event);
        }
    }
}

/// Returns the id of an event.
fn id_of(event: &SseEvent) -> Result<String, CheckError> {
    let missing = || CheckError::Blocked(format!("an event without an id: {}", event.data));
    event.id.clone().ok_or_else(missing)
}

/// Checks that these chunks come, and no other.
fn expect_chunks(
    context: &Context<'_>,
    events: &mut Exchange,
    wanted: &[SseEvent],
    last_event_id: &str,
) -> CheckResult {
    for event in wanted {
        let found = next_chunk(context, events)
            .map_err(|error| error.prefixed(&format!("after '{last_event_id}'")))?;
        ensure(found.id == event.id && found.data == event.data, || {
            format!("after '{last_event_id}': {} instead of {}", found.data, event.data)
        })?;
    }
    Ok(())
}

/// Checks that no other chunk comes for a while.
fn expect_no_chunk(context: &Context<'_>, events: &mut Exchange) -> CheckResult {
    let deadline = Deadline::after(context.settings.quiet);
    while !deadline.is_over() && !events.is_complete() {
        if events.advance(deadline.left()).is_err() {
            break;
        }
        while let Some(event) = events.next_event() {
            ensure(event.name != "stream.chunk", || format!("once more: {}", event.data))?;
        }
    }
    Ok(())
}

/// Reads short streams to their end, and returns the events of their chunks in order.
fn short_streams(peer: &mut Peer<'_>) -> Result<Vec<SseEvent>, CheckError> {
    for _ in 0..STREAMS {
        open_short_stream(peer)?;
    }
    let (mut sent, mut ended) = (Vec::new(), 0);
    while ended < STREAMS {
        let chunk = peer.wait("chunk", |message: &Message| message.is("stream.chunk"));
        let chunk = chunk.map_err(CheckError::blocked)?;
        ended += usize::from(chunk.is_chunk("eos"));
        sent.extend(chunk.event);
    }
    Ok(sent)
}

fn last_event_id(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let sent = short_streams(&mut peer)?;
    for received in [1, sent.len() / 2, sent.len()] {
        channel(&mut peer)?.detach();
        let last = id_of(&sent[received - 1])?;
        let (mut events, ack) = continue_after(context, &mut peer, &last)?;
        expect_resumed(&ack, &last)?;
        expect_chunks(context, &mut events, &sent[received..], &last)?;
        expect_no_chunk(context, &mut events)?;
    }
    Ok(())
}

fn last_event_id_of_post(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::acked(context)?;
    let request = json!({
        "type": "request", "id": 1, "method": "tools/call", "params": long_call(context),
        "stream": true,
    });
    let (body, accept) = (request.to_string(), Some("text/event-stream"));
    let failed = |error: io::Error| CheckError::Blocked(format!("POST: {error}"));
    let exchange = channel(&mut peer)?.start("POST", "", Some(body.as_bytes()), accept);
    let mut exchange = exchange.map_err(failed)?;
    let mut sent = Vec::new();
    while sent.len() < POST_CHUNKS {
        sent.push(next_chunk(context, &mut exchange).map_err(CheckError::blocked)?);
    }
    drop(exchange);
    let received = POST_CHUNKS - FORGOTTEN;
    let last = id_of(&sent[received - 1])?;
    let (mut events, ack) = continue_after(context, &mut peer, &last)?;
    expect_resumed(&ack, &last)?;
    expect_chunks(context, &mut events, &sent[received..], &last)?;
    let chunk = |event: &SseEvent| serde_json::from_str::<Value>(&event.data).unwrap_or_default();
    let (stream, mut seq) = (chunk(&sent[0])["streamId"].clone(), POST_CHUNKS as u64);
    let cancel = json!({"type": "cancel", "streamId": stream}).to_string();
    loop {
        let event = next_chunk(context, &mut events)?;
        seq += 1;
        ensure(chunk(&event)["seq"] == seq, || {
            format!("chunk {} was followed by {}", seq - 1, event.data)
        })?;
        if chunk(&event)["chunkType"] == "eos" {
            return Ok(());
        }
        if seq == POST_CHUNKS as u64 + 2 && context.has_flag("cancellation") {
            peer.send_text(&cancel)?;
        } else if seq > POST_CHUNKS as u64 + 2 && !context.has_flag("cancellation") {
            return Ok(());
        }
    }
}

fn unknown_event_id(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    short_streams(&mut peer)?;
    channel(&mut peer)?.detach();
    let (_, ack) = continue_after(context, &mut peer, "no-such-stream:1")?;
    let has_advice = ack["advice"] == "restart" && ack["reason"].is_string();
    ensure(ack["resumed"] == false && has_advice, || {
        format!("no `resumed` false with advice and reason: {ack}")
    })
}
