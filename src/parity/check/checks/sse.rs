//! Server-Sent Events: prelude, headers, chunks.

use serde_json::{Value, json};

use crate::http_steps::{channel, fetch, next_event};
use crate::peer::Peer;
use crate::rules::FLAGS;
use crate::steps::{call, chunks, ensure, next_chunk, open_short_stream};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::exchange::{Exchange, Head, SseEvent};
use crate::wire::http::SESSION_HEADER;

const NEEDS: &[Need] = &[Need::Http];
const STREAMS: &[Need] = &[Need::Http, Need::Flag("streaming")];
const RESUME: &[Need] = &[Need::Http, Need::Flag("streaming"), Need::Flag("resume")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "sse.prelude",
        level: Must,
        needs: NEEDS,
        rule: "the event stream begins with the event `handshake`: the acknowledgement of the \
               session",
        run: prelude,
    },
    Check {
        name: "sse.headers",
        level: Must,
        needs: NEEDS,
        rule: "the event stream has Content-Type text/event-stream, Cache-Control no-cache and \
               Mcp-Session-Id",
        run: headers,
    },
    Check {
        name: "sse.accel_buffering",
        level: Must,
        needs: NEEDS,
        rule: "the event stream has X-Accel-Buffering no",
        run: accel_buffering,
    },
    Check {
        name: "sse.unknown_session",
        level: Must,
        needs: NEEDS,
        rule: "the event stream of an unknown session has status 404",
        run: unknown_event_stream,
    },
    Check {
        name: "sse.delete_announced",
        level: Must,
        needs: NEEDS,
        rule: "DELETE of a session ends its event stream by an event `error`",
        run: delete_announced,
    },
    Check {
        name: "sse.query_handshake",
        level: Must,
        needs: NEEDS,
        rule: "an event stream without a session makes the handshake of its query",
        run: query_handshake,
    },
    Check {
        name: "sse.query_version",
        level: Must,
        needs: NEEDS,
        rule: "an unknown version in the query has status 400",
        run: query_version,
    },
    Check {
        name: "sse.chunk_events",
        level: Must,
        needs: STREAMS,
        rule: "a chunk on the event stream is an event `stream.chunk`",
        run: chunk_events,
    },
    Check {
        name: "sse.post_chunks",
        level: Must,
        needs: STREAMS,
        rule: "a POST that accepts event streams has the chunks in its response, with ids \
               streamId:seq",
        run: post_chunks,
    },
    Check {
        name: "sse.query_resume",
        level: Must,
        needs: RESUME,
        rule: "resumeToken and lastAckSeq in the query resume streams",
        run: query_resume,
    },
];

/// Makes a handshake and attaches the event stream.
fn attached<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Head, SseEvent), CheckError> {
    let mut peer = Peer::acked(context)?;
    let (head, event) = peer.attach()?;
    Ok((peer, head, event))
}

fn prelude(context: &Context<'_>) -> CheckResult {
    let (peer, _, event) = attached(context)?;
    expect_prelude(&event)?;
    let ack: Value = serde_json::from_str(&event.data).unwrap_or_default();
    ensure(ack["sessionId"] == peer.ack()["sessionId"], || {
        format!("not the acknowledgement of the session: {}", event.data)
    })
}

fn expect_prelude(event: &SseEvent) -> CheckResult {
    let ack: Value = serde_json::from_str(&event.data).unwrap_or_default();
    ensure(event.name == "handshake" && ack["type"] == "handshakeAck", || {
        format!("the first event is {event:?}")
    })
}

fn headers(context: &Context<'_>) -> CheckResult {
    let (_, head, _) = attached(context)?;
    let cache = head.header("cache-control").unwrap_or_default();
    ensure(cache.contains("no-cache"), || format!("Cache-Control is '{cache}'"))?;
    ensure(head.header(SESSION_HEADER).is_some(), || format!("{SESSION_HEADER} is missing"))
}

fn accel_buffering(context: &Context<'_>) -> CheckResult {
    let (_, head, _) = attached(context)?;
    let server = head.header("server").unwrap_or_default();
    if server.starts_with("nginx") {
        let text = "nginx removes X-Accel-Buffering from responses";
        return Err(CheckError::Skipped(text.to_owned()));
    }
    let found = head.header("x-accel-buffering");
    ensure(found == Some("no"), || format!("X-Accel-Buffering is {found:?}"))
}

fn unknown_event_stream(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::acked(context)?;
    fetch(context, &mut peer, "DELETE", "").map_err(CheckError::blocked)?;
    let (head, body) = fetch(context, &mut peer, "GET", "/events")?;
    ensure(head.status == 404, || format!("the status is {}: {body}", head.status))
}

fn delete_announced(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    fetch(context, &mut peer, "DELETE", "").map_err(CheckError::blocked)?;
    let error = peer.error()?;
    let name = error.event.as_ref().map(|event| event.name.as_str());
    ensure(name == Some("error"), || format!("its event is {name:?}: {}", error.text))?;
    peer.closed(context.settings.deadline()).map(drop)
}

/// Opens an event stream with a query, and returns it with its first event.
fn open_query(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    query: &str,
) -> Result<(Exchange, SseEvent), CheckError> {
    let failed = |error: std::io::Error| CheckError::Failed(format!("GET events: {error}"));
    let path = format!("/events?{query}");
    let accept = Some("text/event-stream");
    let mut events = channel(peer)?.start("GET", &path, None, accept).map_err(failed)?;
    let event = next_event(context, &mut events)?;
    Ok((events, event))
}

/// The query of a handshake with every capability.
fn query_of(version: &str) -> String {
    format!("protocolVersion={version}&capabilities={}", FLAGS.join(","))
}

fn query_handshake(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let (events, event) = open_query(context, &mut peer, &query_of("1.0"))?;
    expect_prelude(&event)?;
    let session = events.head().and_then(|head| head.header(SESSION_HEADER));
    ensure(session.is_some(), || format!("{SESSION_HEADER} is missing"))
}

fn query_version(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let path = format!("/events?{}", query_of("99.0"));
    let (head, body) = fetch(context, &mut peer, "GET", &path)?;
    ensure(head.status == 400, || format!("the status is {}: {body}", head.status))
}

fn chunk_events(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let stream = open_short_stream(&mut peer)?;
    let chunk = next_chunk(&mut peer, &stream)?;
    let name = chunk.event.as_ref().map(|event| event.name.as_str());
    ensure(name == Some("stream.chunk"), || format!("its event is {name:?}: {}", chunk.text))
}

fn post_chunks(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    call(&mut peer, "ping", &json!({}))?;
    let request = json!({"type": "request", "id": 1000, "method": "ping", "stream": true});
    let (body, accept) = (request.to_string(), Some("text/event-stream"));
    let exchange = channel(&mut peer)?.start("POST", "", Some(body.as_bytes()), accept);
    let mut exchange = exchange.map_err(|error| CheckError::Failed(format!("POST: {error}")))?;
    let mut next = 1;
    loop {
        let event = next_event(context, &mut exchange)?;
        if event.name != "stream.chunk" {
            continue;
        }
        let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let wanted = format!("{}:{next}", chunk["streamId"].as_str().unwrap_or_default());
        ensure(event.id.as_ref() == Some(&wanted), || {
            format!("the id of an event is {:?} instead of '{wanted}'", event.id)
        })?;
        if chunk["chunkType"] == "eos" {
            return Ok(());
        }
        next += 1;
    }
}

fn query_resume(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let blocked = |text: &str| CheckError::Blocked(text.to_owned());
    let token = peer.ack()["resumeToken"].as_str().map(str::to_owned);
    let token = token.ok_or_else(|| blocked("no resumeToken"))?;
    let stream = open_short_stream(&mut peer)?;
    if chunks(&mut peer, context, &stream).len() < 2 {
        return Err(blocked("the stream has not two chunks"));
    }
    peer.abandon();
    drop(peer);
    let query = format!("{}&resumeToken={token}&lastAckSeq={stream}:1", query_of("1.0"));
    let mut peer = Peer::open(context)?;
    let (mut events, event) = open_query(context, &mut peer, &query)?;
    let ack: Value = serde_json::from_str(&event.data).unwrap_or_default();
    ensure(ack["resumed"] == true, || format!("not resumed: {}", event.data))?;
    let event = next_event(context, &mut events)?;
    let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
    ensure(chunk["seq"] == 2, || format!("continued with {}", event.data))
}
