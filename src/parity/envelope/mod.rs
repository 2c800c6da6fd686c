//! Messages of the dialect, read from JSON.
//!
//! Invariants: an id is a string of at most [`ID_BYTES_MAX`] bytes or an integer; a member that is
//! `null` counts as absent, and unknown members are ignored; a known member occurs once.

use super::capabilities::Capabilities;
use super::error::ParityError;
use super::idempotency::KEY_BYTES_MAX;
use corelane_protocol::json::{Object, Value, ValueKind};
use corelane_protocol::jsonrpc::Id;

/// Longest string id in bytes.
pub const ID_BYTES_MAX: usize = 256;

/// The values of `type`.
pub const TYPES: [&str; 10] = [
    "handshake",
    "handshakeAck",
    "capabilities",
    "capabilitiesAck",
    "request",
    "response",
    "stream.chunk",
    "keepalive",
    "cancel",
    "error",
];

/// One message.
#[derive(Clone, Copy, Debug)]
pub enum Envelope<'a> {
    /// The first message of a client.
    Handshake(Handshake<'a>),
    /// The response to it.
    HandshakeAck(HandshakeAck<'a>),
    /// The explicit capabilities of a client.
    Capabilities(Capabilities),
    /// The response to them: the refined intersection.
    CapabilitiesAck(Capabilities),
    /// A request.
    Request(Request<'a>),
    /// The response to a request.
    Response(Response<'a>),
    /// One chunk of a stream.
    Chunk(Chunk<'a>),
    /// A message that only shows that the connection is alive.
    Keepalive {
        /// Seconds in which the receiver has to send something.
        timeout_hint: Option<u64>,
    },
    /// The end of a request or stream, on behalf of its client.
    Cancel(Target<'a>),
    /// An error that is not the response to a request.
    Error {
        /// The request that it is about.
        id: Option<Id<'a>>,
        /// The stream that it is about.
        stream_id: Option<&'a str>,
        /// The error object.
        error: Value<'a>,
    },
}

/// `handshake`.
#[derive(Clone, Copy, Debug)]
pub struct Handshake<'a> {
    /// The version that the client speaks.
    pub protocol_version: &'a str,
    /// What the client offers; `None` if the member is absent.
    pub capabilities: Option<Capabilities>,
    /// `clientInfo`, an object.
    pub client_info: Option<Value<'a>>,
    /// A `capabilities` message follows.
    pub exchanges_capabilities: bool,
    /// The token of the caller.
    pub auth_token: Option<&'a str>,
    /// The session to resume.
    pub resume: Option<Resume<'a>>,
    /// W3C Trace Context.
    pub traceparent: Option<&'a str>,
}

/// What a client resumes.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// The token of the session.
    pub token: &'a str,
    /// The number of the last chunk received, by stream.
    pub last_ack_seq: Option<Object<'a>>,
}

/// `handshakeAck`.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeAck<'a> {
    /// The id of the session, which the server chooses.
    pub session_id: &'a str,
    /// The intersection.
    pub capabilities: Capabilities,
    /// `serverInfo`, an object.
    pub server_info: Option<Value<'a>>,
    /// The token to resume the session with.
    pub resume_token: Option<&'a str>,
    /// Whether the presented token was accepted.
    pub resumed: Option<bool>,
    /// The streams that continue: objects with `streamId` and `nextSeq`.
    pub streams: Option<Value<'a>>,
    /// Why it was not accepted.
    pub reason: Option<&'a str>,
}

/// `request`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The id, unique among the requests in flight.
    pub id: Id<'a>,
    /// The method.
    pub method: &'a str,
    /// An object.
    pub params: Option<Value<'a>>,
    /// Whether the result is streamed.
    pub streams: bool,
    /// The key under which it is accepted once.
    pub idempotency_key: Option<&'a str>,
    /// The token of the caller.
    pub auth_token: Option<&'a str>,
    /// W3C Trace Context.
    pub traceparent: Option<&'a str>,
}

/// `response`.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The id of the request.
    pub id: Id<'a>,
    /// The result, or the error object.
    pub outcome: Result<Value<'a>, Value<'a>>,
}

/// `stream.chunk`.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The id of the stream.
    pub stream_id: &'a str,
    /// The number, from 1.
    pub seq: u64,
    /// What it carries.
    pub chunk_type: ChunkType,
    /// The data; absent in `eos`.
    pub data: Option<Value<'a>>,
    /// Why the stream has ended.
    pub reason: Option<&'a str>,
}

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ChunkType {
    /// Progress of the handler.
    Progress,
    /// A log message.
    Log,
    /// A part of the result.
    Partial,
    /// The result.
    Result,
    /// The error.
    Error,
    /// The end of the stream.
    Eos,
}

impl ChunkType {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Progress, Self::Log, Self::Partial, Self::Result, Self::Error, Self::Eos];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Log => "log",
            Self::Partial => "partial",
            Self::Result => "result",
            Self::Error => "error",
            Self::Eos => "eos",
        }
    }
}

/// What a `cancel` is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target<'a> {
    /// The request with this id.
    Request(Id<'a>),
    /// The stream with this id.
    Stream(&'a str),
}

/// A message that is no valid envelope.
#[derive(Clone, Debug)]
pub struct InvalidEnvelope<'a> {
    /// The id of the message, if it could be read.
    pub id: Option<Id<'a>>,
    /// Whether it is a request.
    pub is_request: bool,
    /// What is wrong.
    pub error: ParityError,
}

/// Returns the `type` of a message of the dialect; `None` for every other message.
pub fn type_of(value: Value<'_>) -> Option<&'static str> {
    let object = value.as_object()?;
    let name = object.find("type")?.as_str()?;
    let known = TYPES.into_iter().find(|known| *known == name)?;
    object.find("jsonrpc").is_none().then_some(known)
}

impl<'a> Envelope<'a> {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`InvalidEnvelope`] if it is not an object, has an unknown `type`, or lacks a member.
    #[inline]
    pub fn read(value: Value<'a>) -> Result<Self, InvalidEnvelope<'a>> {
        let Some(object) = value.as_object() else {
            return Err(invalid(None, "a message must be a JSON object"));
        };
        let id = object.find("id").and_then(read_id);
        let Some(kind) = object.find("type").and_then(Value::as_str) else {
            return Err(invalid(id, "missing \"type\" (a string)"));
        };
        let read = match kind {
            "request" => Request::read(object).map(Self::Request),
            "handshake" => Handshake::read(object).map(Self::Handshake),
            "handshakeAck" => HandshakeAck::read(object).map(Self::HandshakeAck),
            "capabilities" => required_capabilities(object).map(Self::Capabilities),
            "capabilitiesAck" => required_capabilities(object).map(Self::CapabilitiesAck),
            "response" => Response::read(object).map(Self::Response),
            "stream.chunk" => Chunk::read(object).map(Self::Chunk),
            "keepalive" => {
                let hint = object.find("timeoutHintSec").and_then(Value::as_u64);
                Ok(Self::Keepalive { timeout_hint: hint })
            }
            "cancel" => read_target(object).map(Self::Cancel),
            "error" => match object.find("error").filter(|error| error.as_object().is_some()) {
                Some(error) => {
                    let stream_id = object.find("streamId").and_then(Value::as_str);
                    Ok(Self::Error { id, stream_id, error })
                }
                None => Err(error("missing \"error\" (an object)")),
            },
            _ => Err(error(format!("unknown \"type\": {}", shorten(kind)))),
        };
        read.map_err(|error| InvalidEnvelope { id, is_request: kind == "request", error })
    }
}

impl<'a> Handshake<'a> {
    fn read(object: Object<'a>) -> Result<Self, ParityError> {
        let keys = [
            "protocolVersion",
            "capabilities",
            "clientInfo",
            "capabilitiesExchange",
            "auth_token",
            "resumeToken",
            "lastAckSeq",
            "traceparent",
        ];
        let [version, capabilities, client, exchange, auth, token, acks, trace] =
            find(object, keys)?;
        let protocol_version = required_str(version, "protocolVersion")?;
        let last_ack_seq = match acks {
            None => None,
            Some(acks) => {
                Some(acks.as_object().ok_or_else(|| error("lastAckSeq must be an object"))?)
            }
        };
        let token = optional_str(token, "resumeToken")?;
        Ok(Self {
            protocol_version,
            capabilities: capabilities.map(Capabilities::read).transpose()?,
            client_info: client,
            exchanges_capabilities: optional_bool(exchange, "capabilitiesExchange")?,
            auth_token: optional_str(auth, "auth_token")?,
            resume: token.map(|token| Resume { token, last_ack_seq }),
            traceparent: trace.and_then(Value::as_str),
        })
    }
}

impl<'a> Resume<'a> {
    /// Returns the acknowledged numbers: streams with the last number received.
    ///
    /// # Errors
    ///
    /// A malformed message: a number that is not an unsigned integer.
    pub fn acknowledged(&self) -> Result<Vec<(&'a str, u64)>, ParityError> {
        let members = self.last_ack_seq.into_iter().flatten();
        let read = members.map(|(stream, seq)| {
            let seq = seq.as_u64().ok_or_else(|| error("lastAckSeq has numbers of chunks"))?;
            Ok((stream, seq))
        });
        read.collect()
    }
}

impl<'a> HandshakeAck<'a> {
    fn read(object: Object<'a>) -> Result<Self, ParityError> {
        let keys = [
            "protocolVersion",
            "sessionId",
            "serverInfo",
            "resumeToken",
            "resumed",
            "streams",
            "reason",
        ];
        let [version, session, server_info, token, resumed, streams, reason] = find(object, keys)?;
        required_str(version, "protocolVersion")?;
        Ok(Self {
            session_id: required_str(session, "sessionId")?,
            capabilities: required_capabilities(object)?,
            server_info,
            resume_token: optional_str(token, "resumeToken")?,
            resumed: resumed.and_then(Value::as_bool),
            streams,
            reason: optional_str(reason, "reason")?,
        })
    }
}

impl<'a> Request<'a> {
    #[inline]
    fn read(object: Object<'a>) -> Result<Self, ParityError> {
        let keys =
            ["id", "method", "params", "stream", "idempotencyKey", "auth_token", "traceparent"];
        let [id, method, params, stream, key, auth, trace] = find(object, keys)?;
        let id = id.and_then(read_id).ok_or_else(|| error(ID_ERROR))?;
        let method = required_str(method, "method")?;
        if params.is_some_and(|params| params.kind() != ValueKind::Object) {
            return Err(error("\"params\" must be an object"));
        }
        let idempotency_key = optional_str(key, "idempotencyKey")?;
        if idempotency_key.is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES_MAX) {
            return Err(error("\"idempotencyKey\" must have 1 to 128 bytes"));
        }
        Ok(Self {
            id,
            method,
            params,
            streams: optional_bool(stream, "stream")?,
            idempotency_key,
            auth_token: optional_str(auth, "auth_token")?,
            traceparent: trace.and_then(Value::as_str),
        })
    }
}

impl<'a> Response<'a> {
    fn read(object: Object<'a>) -> Result<Self, ParityError> {
        let id = object.find("id").and_then(read_id).ok_or_else(|| error(ID_ERROR))?;
        let outcome = match (object.find("result"), object.find("error")) {
            (Some(result), None) => Ok(result),
            (None, Some(failure)) if failure.as_object().is_some() => Err(failure),
            _ => return Err(error("a response has exactly one of \"result\" and \"error\"")),
        };
        Ok(Self { id, outcome })
    }
}

impl<'a> Chunk<'a> {
    fn read(object: Object<'a>) -> Result<Self, ParityError> {
        let keys = ["streamId", "seq", "chunkType", "data", "reason"];
        let [stream, seq, kind, data, reason] = find(object, keys)?;
        let kind = required_str(kind, "chunkType")?;
        let chunk_type = ChunkType::ALL.into_iter().find(|known| known.as_str() == kind);
        let seq = seq.and_then(Value::as_u64).filter(|seq| *seq > 0);
        Ok(Self {
            stream_id: required_str(stream, "streamId")?,
            seq: seq.ok_or_else(|| error("\"seq\" must be an integer above 0"))?,
            chunk_type: chunk_type.ok_or_else(|| error("unknown \"chunkType\""))?,
            data,
            reason: optional_str(reason, "reason")?,
        })
    }
}

fn read_target(object: Object<'_>) -> Result<Target<'_>, ParityError> {
    let [id, stream] = find(object, ["id", "streamId"])?;
    match (id, stream) {
        (Some(id), None) => read_id(id).map(Target::Request).ok_or_else(|| error(ID_ERROR)),
        (None, Some(stream)) => Ok(Target::Stream(required_str(Some(stream), "streamId")?)),
        _ => Err(error("a cancel has exactly one of \"id\" and \"streamId\"")),
    }
}

fn required_capabilities(object: Object<'_>) -> Result<Capabilities, ParityError> {
    let [capabilities] = find(object, ["capabilities"])?;
    Capabilities::read(capabilities.ok_or_else(|| error("missing \"capabilities\" (an object)"))?)
}

/// Reads an id; `None` if it is neither a text of at most [`ID_BYTES_MAX`] bytes nor an integer.
#[inline]
fn read_id(value: Value<'_>) -> Option<Id<'_>> {
    Id::from_value(value).filter(|id| !matches!(id, Id::Text(text) if text.len() > ID_BYTES_MAX))
}

/// Returns the members with these keys; `null` counts as absent.
#[inline]
fn find<'a, const COUNT: usize>(
    object: Object<'a>,
    keys: [&'static str; COUNT],
) -> Result<[Option<Value<'a>>; COUNT], ParityError> {
    let found = object.find_unique(keys);
    let found = found.map_err(|duplicate| error(format!("duplicate key \"{}\"", duplicate.key)))?;
    Ok(found.map(|value| value.filter(|value| !value.is_null())))
}

fn required_str<'a>(value: Option<Value<'a>>, name: &str) -> Result<&'a str, ParityError> {
    value.and_then(Value::as_str).ok_or_else(|| error(format!("missing \"{name}\" (a string)")))
}

#[inline]
fn optional_str<'a>(value: Option<Value<'a>>, name: &str) -> Result<Option<&'a str>, ParityError> {
    let Some(value) = value else { return Ok(None) };
    value.as_str().map(Some).ok_or_else(|| error(format!("\"{name}\" must be a string")))
}

#[inline]
fn optional_bool(value: Option<Value<'_>>, name: &str) -> Result<bool, ParityError> {
    let Some(value) = value else { return Ok(false) };
    value.as_bool().ok_or_else(|| error(format!("\"{name}\" must be true or false")))
}

#[cold]
fn error(message: impl Into<std::borrow::Cow<'static, str>>) -> ParityError {
    ParityError::invalid_envelope(message)
}

#[cold]
fn invalid<'a>(id: Option<Id<'a>>, message: &'static str) -> InvalidEnvelope<'a> {
    InvalidEnvelope { id, is_request: false, error: error(message) }
}

/// Returns the beginning of a text of the peer.
fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

const ID_ERROR: &str = "\"id\" must be a string of at most 256 bytes or a 64-bit integer";

#[cfg(test)]
mod tests;
