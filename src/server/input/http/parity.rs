//! Requests of the parity dialect, on the shard of their connection: each becomes a message to the
//! shard of its session.

use std::borrow::Cow;

use corelane_base::principal::Principal;
use corelane_parity::capabilities::Feature;
use corelane_parity::error::ParityError;
use corelane_parity::write;
use corelane_protocol::json::{PaddedBuffer, PaddedText};
use corelane_protocol::message_head::MessageHead;
use corelane_transport::http::checks::{self, ParityRequest};
use corelane_transport::http::response::BodyKind;
use corelane_transport::http::status::Status;
use percent_encoding::percent_decode;
use serde_json::{Map, Value as Json};

use super::IncomingRequest;
use super::session::send_request;
use crate::server::connection_state::{ResponseFormat, ResponseOwner};
use crate::server::owner_id::SessionId;
use crate::server::shard::Shard;
use crate::server::shard_message::{EventPosition, LastEvent, ParityOp, SessionOp};
use crate::telemetry::label::Transport;

/// Declares the table of schemas: file name and text.
macro_rules! schemas {
    ($($name:literal,)+) => {
        [$((
            concat!("protocol.", $name, ".schema.json"),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/docs/parity/protocol.",
                $name,
                ".schema.json"
            )),
        ),)+]
    };
}

/// The JSON Schemas of the dialect.
static SCHEMAS: [(&str, &str); 8] = schemas! {
    "handshake",
    "capabilities",
    "request",
    "response",
    "stream.chunk",
    "keepalive",
    "cancel",
    "error",
};

/// Handles a request.
pub(super) fn handle(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    request: ParityRequest<'_>,
    text: &PaddedText<'_>,
) {
    match request {
        ParityRequest::Message { session_id: None, streams } => {
            let token = resume_token(text.as_bytes());
            let text = PaddedBuffer::copy_of(text.as_bytes());
            begin(shard, incoming, token.as_deref(), ParityOp::Message { text, streams });
        }
        ParityRequest::Message { session_id: Some(id), streams } => {
            let text = PaddedBuffer::copy_of(text.as_bytes());
            send(shard, incoming, id, ParityOp::Message { text, streams });
        }
        ParityRequest::Events { session_id: Some(id), last_event_id, .. } => {
            let last_event = last_event_id.map(last_event);
            send(shard, incoming, id, ParityOp::Events { handshake: None, last_event });
            shard.exchanges().mark_idle_stream(incoming.key);
        }
        ParityRequest::Events { session_id: None, last_event_id, query } => {
            let last_event = last_event_id.map(last_event);
            let handshake = Some(PaddedBuffer::new(handshake_of_query(query)));
            let named = last_event.as_ref().and_then(|event| event.session);
            let op = ParityOp::Events { handshake, last_event };
            if named.is_some() {
                forward(shard, incoming, None, named, op);
            } else {
                let token = parameter(query, "resumeToken");
                begin(shard, incoming, token.as_deref(), op);
            }
            shard.exchanges().mark_idle_stream(incoming.key);
        }
        ParityRequest::End { session_id: Some(id) } => send(shard, incoming, id, ParityOp::End),
        ParityRequest::End { session_id: None } => {
            let message = "Mcp-Session-Id is missing: it names the session to end";
            let error = ParityError::feature_not_available(message);
            respond_error(shard, incoming, &[], &error);
        }
        ParityRequest::Schema { path: requested } => respond_schema(shard, incoming, requested),
    }
}

/// Sends a request to the shard of its session.
fn send(shard: &mut Shard, incoming: &IncomingRequest<'_>, session: &[u8], op: ParityOp) {
    let Some(id) = SessionId::parse(session) else {
        shard.record_invalid(incoming.key);
        return respond_error(shard, incoming, op.text(), &ParityError::unknown_session());
    };
    forward(shard, incoming, Some(id), Some(id), op);
}

/// Sends a handshake: to the shard of the session that it resumes, or to this one.
fn begin(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    resume_token: Option<&str>,
    op: ParityOp,
) {
    let connection = shard.transports.connections.table.get(incoming.key);
    let principal = connection.and_then(|it| it.state.principal());
    let principal: Option<&Principal> = principal.map(|principal| &**principal);
    let resumed =
        resume_token.and_then(|it| shard.transports.parity.session_of_token(it, principal));
    forward(shard, incoming, None, resumed, op);
}

/// Sends a request to the shard that owns `owned`, or to this one.
fn forward(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    session: Option<SessionId>,
    owned: Option<SessionId>,
    op: ParityOp,
) {
    // Its session writes events itself, if any.
    let format =
        ResponseFormat { accepts_event_stream: false, protocol_version: None, ..incoming.format };
    let owner = ResponseOwner::Parity(session);
    send_request(shard, incoming, format, owner, owned, SessionOp::Parity(op));
}

/// Responds with the JSON Schema that the path ends with.
fn respond_schema(shard: &mut Shard, incoming: &IncomingRequest<'_>, requested: &[u8]) {
    let name = requested.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let found = SCHEMAS.iter().find(|(known, _)| known.as_bytes() == name);
    let Some((_, schema)) = found else {
        let error = ParityError::feature_not_available("no such schema");
        return respond_failure(shard, incoming, Status::NOT_FOUND, &[], &error);
    };
    let kind = BodyKind::Text("application/schema+json");
    let fields = incoming.response_fields();
    shard.respond_http(incoming, Status::OK, kind, fields, schema.as_bytes());
}

/// Responds with an error to a request whose body is `message`.
fn respond_error(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    message: &[u8],
    error: &ParityError,
) {
    let status = Status::from(error.http_status().code);
    respond_failure(shard, incoming, status, message, error);
}

fn respond_failure(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    status: Status,
    message: &[u8],
    error: &ParityError,
) {
    let (mut text, head) = (Vec::new(), MessageHead::read(message));
    if !message.is_empty() {
        shard.outbox.record_refusal(Transport::Http, &head, message, error);
    }
    write::rejection(&mut text, &head, error);
    shard.respond_http(incoming, status, BodyKind::Json, incoming.response_fields(), &text);
}

/// Returns the resume token of a handshake, if it has one.
fn resume_token(text: &[u8]) -> Option<String> {
    memchr::memmem::find(text, b"\"resumeToken\"")?;
    let message: Json = serde_json::from_slice(text).ok()?;
    Some(message.get("resumeToken")?.as_str()?.to_owned())
}

/// Returns the handshake in a query, as a message.
fn handshake_of_query(query: &[u8]) -> Vec<u8> {
    let mut handshake = Map::new();
    handshake.insert("type".to_owned(), "handshake".into());
    for name in ["protocolVersion", "resumeToken"] {
        if let Some(value) = parameter(query, name) {
            handshake.insert(name.to_owned(), value.into_owned().into());
        }
    }
    if let Some(names) = parameter(query, "capabilities") {
        let known = |name: &&str| Feature::ALL.iter().any(|feature| feature.as_str() == *name);
        let flags = names.split(',').filter(known);
        let flags = flags.map(|name| (name.to_owned(), Json::Bool(true)));
        handshake.insert("capabilities".to_owned(), Json::Object(flags.collect()));
    }
    if let Some(acknowledged) = parameter(query, "lastAckSeq") {
        let streams = acknowledged.split(',').filter_map(|entry| entry.rsplit_once(':'));
        let streams = streams.map(|(stream, seq)| {
            // Another value than a number is malformed, as in a message.
            let seq = seq.parse::<u64>().map_or_else(|_| Json::from(seq), Json::from);
            (stream.to_owned(), seq)
        });
        handshake.insert("lastAckSeq".to_owned(), Json::Object(streams.collect()));
    }
    Json::Object(handshake).to_string().into_bytes()
}

/// Reads the id of an event: `0` or `streamId:seq`, then `@` and the session where it names that.
fn last_event(id: &[u8]) -> LastEvent {
    let at = memchr::memchr(b'@', id);
    let (position, session) = id.split_at(at.unwrap_or(id.len()));
    let session = session.get(1..).and_then(SessionId::parse);
    let chunk = str::from_utf8(position).ok().and_then(|text| text.rsplit_once(':'));
    let chunk = chunk.and_then(|(stream, seq)| Some((stream, seq.parse().ok()?)));
    let position = match chunk {
        Some((stream, seq)) => Some(EventPosition::Chunk { stream: stream.into(), seq }),
        None if position == b"0" => Some(EventPosition::Start),
        None => None,
    };
    LastEvent { session, position }
}

/// Returns a parameter of a query, decoded.
fn parameter<'b>(query: &'b [u8], name: &str) -> Option<Cow<'b, str>> {
    let value = checks::query_parameter(query, name)?;
    percent_decode(value).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_are_read() {
        let id = "01234567-89ab-4def-8123-456789abcdef";
        let session = SessionId::parse(id.as_bytes());
        assert!(session.is_some());
        let chunk = |stream: &str, seq| Some(EventPosition::Chunk { stream: stream.into(), seq });
        for (text, expected) in [
            ("s1:4".to_owned(), LastEvent { session: None, position: chunk("s1", 4) }),
            (format!("s2:9@{id}"), LastEvent { session, position: chunk("s2", 9) }),
            (format!("0@{id}"), LastEvent { session, position: Some(EventPosition::Start) }),
            ("3-7".to_owned(), LastEvent { session: None, position: None }),
            ("s1:x@y".to_owned(), LastEvent { session: None, position: None }),
        ] {
            assert_eq!(last_event(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn query_becomes_a_handshake() {
        let query = b"protocolVersion=1.0&capabilities=tools,streaming,x&resumeToken=a%2Eb\
                      &lastAckSeq=s1:4,s2:x";
        let handshake: Json = serde_json::from_slice(&handshake_of_query(query)).unwrap();
        let expected = serde_json::json!({
            "type": "handshake",
            "protocolVersion": "1.0",
            "resumeToken": "a.b",
            "capabilities": {"tools": true, "streaming": true},
            "lastAckSeq": {"s1": 4, "s2": "x"},
        });
        assert_eq!(handshake, expected);
        let text = handshake_of_query(query);
        assert_eq!(resume_token(&text).as_deref(), Some("a.b"));
        assert_eq!(resume_token(b"{}"), None);
    }
}
