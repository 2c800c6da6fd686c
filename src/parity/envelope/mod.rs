//! Messages of the dialect, read from JSON.
//!
//! Invariants: a message of a client is accepted if, and only if, it matches its schema and has
//! each known member once; capabilities that a handshake lacks are left to the session. An id is a
//! string of at most [`ID_CHARS_MAX`] characters or an integer up to [`ID_INTEGER_MAX`], of either
//! sign. Unknown members are ignored.

use super::capabilities::{Capabilities, read_unsigned};
use super::error::{ErrorCode, ParityError};
use super::idempotency::KEY_CHARS_MAX;
use corelane_protocol::json::{Object, Value, ValueKind};
use corelane_protocol::jsonrpc::Id;

/// Longest string id in characters.
pub const ID_CHARS_MAX: usize = 256;

/// Largest integer id, and without its sign the smallest: every JSON implementation keeps these
/// exact (RFC 8259, section 6).
pub const ID_INTEGER_MAX: u64 = (1 << 53) - 1;

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
    /// The number of the last chunk received, by stream: integers from 0.
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

/// Returns whether an incomplete text begins a message of the dialect: its first member is `type`.
pub fn begins_message(text: &[u8]) -> bool {
    let members = text.trim_ascii_start().strip_prefix(b"{");
    members.is_some_and(|members| members.trim_ascii_start().starts_with(br#""type""#))
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
            "keepalive" => read_keepalive(object),
            "cancel" => read_target(object).map(Self::Cancel),
            "error" => read_error(object),
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
        client.map(check_implementation).transpose()?;
        let last_ack_seq = acks.map(read_last_ack_seq).transpose()?;
        let token = token.map(|token| required_str(Some(token), "resumeToken")).transpose()?;
        if last_ack_seq.is_some() && token.is_none() {
            return Err(error("\"lastAckSeq\" needs \"resumeToken\""));
        }
        Ok(Self {
            protocol_version,
            capabilities: capabilities.map(Capabilities::read).transpose()?,
            client_info: client,
            exchanges_capabilities: optional_bool(exchange, "capabilitiesExchange")?,
            auth_token: optional_str(auth, "auth_token")?,
            resume: token.map(|token| Resume { token, last_ack_seq }),
            traceparent: trace.map(read_traceparent).transpose()?,
        })
    }
}

/// Checks `clientInfo`.
fn check_implementation(value: Value<'_>) -> Result<(), ParityError> {
    let member = |name| value.as_object()?.find(name)?.as_str();
    match (member("name"), member("version")) {
        (Some(name), Some(_)) if !name.is_empty() => Ok(()),
        _ => Err(error("\"clientInfo\" must have the strings \"name\" and \"version\"")),
    }
}

fn read_last_ack_seq(value: Value<'_>) -> Result<Object<'_>, ParityError> {
    let object = value.as_object();
    let valid = object.filter(|it| it.into_iter().all(|(_, seq)| read_unsigned(seq).is_some()));
    valid.ok_or_else(|| error("\"lastAckSeq\" must be an object with integers from 0"))
}

/// Reads W3C Trace Context, section 3.2: four fields of lower-case hexadecimal digits; a later
/// version may have more.
fn read_traceparent(value: Value<'_>) -> Result<&str, ParityError> {
    let text = value.as_str().unwrap_or_default();
    let mut fields = text.splitn(5, '-');
    let is_field = |field: &str, len: usize| {
        field.len() == len && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_valid =
        [2, 32, 16, 2].iter().all(|len| fields.next().is_some_and(|it| is_field(it, *len)));
    let message = "\"traceparent\" must be version-traceid-parentid-flags in hexadecimal digits";
    is_valid.then_some(text).ok_or_else(|| error(message))
}

impl<'a> Resume<'a> {
    /// Returns the acknowledged numbers: streams with the last number received.
    pub fn acknowledged(&self) -> impl Iterator<Item = (&'a str, u64)> {
        let members = self.last_ack_seq.into_iter().flatten();
        members.filter_map(|(stream, seq)| Some((stream, read_unsigned(seq)?)))
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
        if idempotency_key.is_some_and(|key| key.is_empty() || !has_at_most(key, KEY_CHARS_MAX)) {
            return Err(error("\"idempotencyKey\" must have 1 to 128 characters"));
        }
        Ok(Self {
            id,
            method,
            params,
            streams: optional_bool(stream, "stream")?,
            idempotency_key,
            auth_token: optional_str(auth, "auth_token")?,
            traceparent: trace.map(read_traceparent).transpose()?,
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

fn read_keepalive(object: Object<'_>) -> Result<Envelope<'_>, ParityError> {
    let [hint] = find(object, ["timeoutHintSec"])?;
    let read = |hint| read_unsigned(hint).filter(|seconds| *seconds > 0);
    match hint.map(|hint| read(hint).ok_or(hint)).transpose() {
        Ok(timeout_hint) => Ok(Envelope::Keepalive { timeout_hint }),
        Err(_) => Err(error("\"timeoutHintSec\" must be an integer above 0")),
    }
}

fn read_error(object: Object<'_>) -> Result<Envelope<'_>, ParityError> {
    let [id, stream, failure] = find(object, ["id", "streamId", "error"])?;
    let read = |id| read_id(id).ok_or_else(|| error(ID_ERROR));
    let id = id.map(read).transpose()?;
    let stream_id = stream.map(|stream| required_str(Some(stream), "streamId")).transpose()?;
    let failure = failure.ok_or_else(|| error("missing \"error\" (an object)"))?;
    check_error(failure)?;
    Ok(Envelope::Error { id, stream_id, error: failure })
}

/// Checks an error object.
fn check_error(value: Value<'_>) -> Result<(), ParityError> {
    let object = value.as_object().ok_or_else(|| error("\"error\" must be an object"))?;
    let keys = ["code", "message", "retryable", "retryAfter", "details"];
    let [code, message, retryable, retry_after, details] = find(object, keys)?;
    required_str(message, "message")?;
    let Some(code) = ErrorCode::parse(required_str(code, "code")?) else {
        return Err(error("\"code\" is unknown"));
    };
    let is_retryable = match code {
        ErrorCode::RateLimited => Some(true),
        ErrorCode::VersionUnsupported
        | ErrorCode::FeatureNotAvailable
        | ErrorCode::PayloadTooLarge
        | ErrorCode::AlreadyProcessed => Some(false),
        ErrorCode::Unauthorized | ErrorCode::Forbidden | ErrorCode::Internal => None,
    };
    let Some(retryable) = retryable.and_then(Value::as_bool) else {
        return Err(error("missing \"retryable\" (true or false)"));
    };
    if is_retryable.is_some_and(|expected| expected != retryable) {
        return Err(error("\"retryable\" is not that of \"code\""));
    }
    let seconds = retry_after.map(|it| it.as_f64().filter(|seconds| *seconds >= 0.0));
    if matches!(seconds, Some(None)) || (code == ErrorCode::RateLimited && seconds.is_none()) {
        return Err(error("\"retryAfter\" must be a number from 0"));
    }
    if details.is_some_and(|details| details.kind() != ValueKind::Object) {
        return Err(error("\"details\" must be an object"));
    }
    Ok(())
}

fn read_target(object: Object<'_>) -> Result<Target<'_>, ParityError> {
    let [id, stream, reason] = find(object, ["id", "streamId", "reason"])?;
    optional_str(reason, "reason")?;
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

/// Reads an id; `None` if `value` is none.
#[inline]
fn read_id(value: Value<'_>) -> Option<Id<'_>> {
    Id::from_value(value).filter(|id| match *id {
        Id::Signed(number) | Id::Whole(number) => number.unsigned_abs() <= ID_INTEGER_MAX,
        Id::Unsigned(_) => false,
        Id::Text(text) => has_at_most(text, ID_CHARS_MAX),
    })
}

/// Returns whether a text has at most so many characters.
#[inline]
fn has_at_most(text: &str, chars_max: usize) -> bool {
    text.len() <= chars_max || text.chars().nth(chars_max).is_none()
}

/// Returns the members with these keys.
#[inline]
fn find<'a, const COUNT: usize>(
    object: Object<'a>,
    keys: [&'static str; COUNT],
) -> Result<[Option<Value<'a>>; COUNT], ParityError> {
    let found = object.find_unique(keys);
    found.map_err(|duplicate| error(format!("duplicate key \"{}\"", duplicate.key)))
}

/// Reads a string that is not empty.
fn required_str<'a>(value: Option<Value<'a>>, name: &str) -> Result<&'a str, ParityError> {
    let Some(value) = value else {
        return Err(error(format!("missing \"{name}\" (a string)")));
    };
    let text = value.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| error(format!("\"{name}\" must be a string that is not empty")))
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

const ID_ERROR: &str = "\"id\" must be a string of at most 256 characters or an integer from \
                        -(2^53 - 1) to 2^53 - 1";

#[cfg(test)]
mod tests;
