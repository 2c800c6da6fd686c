//! HTTP: sessions, statuses, schemas; Server-Sent Events: prelude, headers, chunks.

use serde_json::{Value, json};

use crate::peer::{Message, Peer, capabilities, expect_error, full_handshake, handshake};
use crate::rules::{FLAGS, SCHEMAS};
use crate::steps::{call, chunks, ensure, next_chunk, open_short_stream};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::exchange::{Exchange, Head, SseEvent};
use crate::wire::http::{HttpChannel, SESSION_HEADER};

const NEEDS: &[Need] = &[Need::Http];
const STREAMS: &[Need] = &[Need::Http, Need::Flag("streaming")];
const RESUME: &[Need] = &[Need::Http, Need::Flag("streaming"), Need::Flag("resume")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "http.session_header",
        level: Must,
        needs: NEEDS,
        rule: "the response to a handshake has status 200 and Mcp-Session-Id with the sessionId",
        run: session_header,
    },
    Check {
        name: "http.missing_session",
        level: Must,
        needs: NEEDS,
        rule: "a request without a session has status 400 and error.feature_not_available",
        run: missing_session,
    },
    Check {
        name: "http.unknown_session",
        level: Must,
        needs: NEEDS,
        rule: "an unknown session has status 404 and error.internal, retryable, details.reason \
               unknown_session",
        run: unknown_session,
    },
    Check {
        name: "http.status_version",
        level: Must,
        needs: NEEDS,
        rule: "error.version_unsupported has status 400",
        run: status_version,
    },
    Check {
        name: "http.status_feature",
        level: Must,
        needs: NEEDS,
        rule: "error.feature_not_available has status 400",
        run: |context| {
            let mut peer = Peer::ready(context)?;
            status(&mut peer, json!({"method": "no/such/method"}), 400)
        },
    },
    Check {
        name: "http.status_payload",
        level: Must,
        needs: NEEDS,
        rule: "error.payload_too_large has status 413",
        run: status_payload,
    },
    Check {
        name: "http.status_processed",
        level: Must,
        needs: NEEDS,
        rule: "error.already_processed has status 409",
        run: status_processed,
    },
    Check {
        name: "http.accepted",
        level: Must,
        needs: NEEDS,
        rule: "a message without a response has status 202 and no body",
        run: accepted,
    },
    Check {
        name: "http.delete",
        level: Must,
        needs: NEEDS,
        rule: "DELETE ends the session",
        run: delete,
    },
    Check {
        name: "http.schemas",
        level: Must,
        needs: NEEDS,
        rule: "the eight JSON Schemas are served",
        run: schemas,
    },
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

fn channel<'a>(peer: &'a mut Peer<'_>) -> Result<&'a mut HttpChannel, CheckError> {
    let channel = peer.channel().http();
    channel.ok_or_else(|| CheckError::Skipped("only for HTTP".to_owned()))
}

/// Makes a request that is no message, and returns the exchange with its response.
fn fetch(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    method: &'static str,
    path: &str,
) -> Result<(Head, String), CheckError> {
    let failed = |error: std::io::Error| CheckError::Failed(format!("{method} {path}: {error}"));
    let exchange = channel(peer)?.start(method, path, None, None);
    complete(context, exchange.map_err(failed)?).map_err(failed)
}

/// Waits for the whole response.
fn complete(context: &Context<'_>, mut exchange: Exchange) -> std::io::Result<(Head, String)> {
    let deadline = context.settings.deadline();
    while !exchange.is_complete() && !deadline.is_over() {
        exchange.advance(deadline.left())?;
    }
    match exchange.head() {
        Some(head) => Ok((head.clone(), exchange.body())),
        None => Err(std::io::Error::other("no response in time")),
    }
}

/// Makes a handshake, without an event stream.
fn acked<'a>(context: &'a Context<'a>) -> Result<Peer<'a>, CheckError> {
    let mut peer = Peer::open(context)?;
    peer.handshake(&full_handshake(context)).map_err(CheckError::blocked)?;
    Ok(peer)
}

fn session_header(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let ack = peer.handshake(&full_handshake(context))?;
    ensure(ack.status == Some(200), || format!("the status is {:?}", ack.status))?;
    let session = channel(&mut peer)?.session().map(str::to_owned);
    let wanted = ack.value["sessionId"].as_str();
    ensure(session.is_some() && session.as_deref() == wanted, || {
        format!("{SESSION_HEADER} is {session:?} and sessionId {wanted:?}")
    })
}

fn missing_session(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    expect_status(&answer, 400)?;
    expect_error(&answer, "error.feature_not_available", None)
}

fn unknown_session(context: &Context<'_>) -> CheckResult {
    let mut peer = acked(context)?;
    let session = channel(&mut peer)?.session().unwrap_or_default().to_owned();
    let (head, _) = fetch(context, &mut peer, "DELETE", "")?;
    ensure((200..300).contains(&head.status), || {
        format!("DELETE of '{session}' has status {}", head.status)
    })
    .map_err(CheckError::blocked)?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    expect_status(&answer, 404)?;
    expect_error(&answer, "error.internal", None)?;
    let error = &answer.value["error"];
    let is_named = error["details"]["reason"] == "unknown_session" && error["retryable"] == true;
    ensure(is_named, || format!("not retryable with details.reason: {}", answer.text))
}

fn expect_status(message: &Message, status: u16) -> CheckResult {
    ensure(message.status == Some(status), || {
        let found = message.status.unwrap_or_default();
        format!("the status is {found} instead of {status}: {}", message.text)
    })
}

fn status_version(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["protocolVersion"] = json!("99.0");
    let reply = Peer::open(context)?.handshake_reply(&message)?;
    if reply.is("handshakeAck") {
        return Err(CheckError::Blocked("the version was accepted".to_owned()));
    }
    expect_status(&reply, 400)
}

fn status(peer: &mut Peer<'_>, request: Value, status: u16) -> CheckResult {
    let id = peer.request(request)?;
    let answer = peer.answer(&id)?;
    if answer.value.get("error").is_none() {
        return Err(CheckError::Blocked(format!("it was served: {}", answer.text)));
    }
    expect_status(&answer, status)
}

fn status_payload(context: &Context<'_>) -> CheckResult {
    let mut flags = capabilities(&FLAGS);
    flags["maxPayloadBytes"] = json!(2048);
    let mut peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let params = json!({"_meta": {"padding": "x".repeat(4096)}});
    status(&mut peer, json!({"method": "ping", "params": params}), 413)
}

fn status_processed(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let request = json!({"method": "ping", "idempotencyKey": "parity-check-http"});
    let id = peer.request(request.clone())?;
    peer.answer(&id)?;
    status(&mut peer, request, 409)
}

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
    peer.drain();
    let statuses = peer.empty_statuses();
    ensure(statuses == [202], || format!("statuses without a body: {statuses:?}"))
}

fn delete(context: &Context<'_>) -> CheckResult {
    let mut peer = acked(context)?;
    let (head, _) = fetch(context, &mut peer, "DELETE", "")?;
    ensure((200..300).contains(&head.status), || format!("the status is {}", head.status))?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))
}

fn schemas(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    for (name, _) in SCHEMAS {
        let path = format!("/schemas/protocol.{name}.schema.json");
        let (head, body) = fetch(context, &mut peer, "GET", &path)?;
        let schema: Value = serde_json::from_str(&body).unwrap_or_default();
        ensure(head.status == 200 && schema["$schema"].is_string(), || {
            format!("{path}: status {}, and no schema", head.status)
        })?;
    }
    Ok(())
}

/// Makes a handshake and attaches the event stream.
fn attached<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Head, SseEvent), CheckError> {
    let mut peer = acked(context)?;
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
    let mut peer = acked(context)?;
    fetch(context, &mut peer, "DELETE", "").map_err(CheckError::blocked)?;
    let (head, body) = fetch(context, &mut peer, "GET", "/events")?;
    ensure(head.status == 404, || format!("the status is {}: {body}", head.status))
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

fn next_event(context: &Context<'_>, events: &mut Exchange) -> Result<SseEvent, CheckError> {
    let failed = |error: std::io::Error| CheckError::Failed(format!("event stream: {error}"));
    let deadline = context.settings.deadline();
    loop {
        if let Some(event) = events.next_event() {
            return Ok(event);
        }
        if deadline.is_over() || events.is_complete() {
            let status = events.head().map(|head| head.status);
            let text = format!("no event in time, status {status:?}: {}", events.body());
            return Err(CheckError::Failed(text));
        }
        events.advance(deadline.left()).map_err(failed)?;
    }
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
    let exchange = channel(&mut peer)?.start("POST", "", Some(&body), accept);
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
