//! Messages between the shard of a connection and the shard of the session that it is used with,
//! of both kinds of sessions: legacy HTTP sessions, and those of the parity dialect.
//!
//! ```text
//!   HTTP request   ── Request, ResponseDelayed, Sent, Expired, Closed ──▶ session
//!                  ◀── Output ─────────────────────────────────────────
//!   connection     ── Resume, Relay, Sent, Expired, Closed ────────────▶ session
//!                  ◀── Resumed, RelayOutput, CloseFront ───────────────
//! ```
//!
//! The client of a session of the dialect may resume it on a connection of another shard: there a
//! **front** stands for the session, and relays its messages.
//!
//! Invariants: a message names its exchange or front, so that a late one is ignored.

use std::sync::Arc;

use bytes::Bytes;
use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_engine::mesh::ShardId;
use corelane_parity::capabilities::Capabilities;
use corelane_parity::error::HttpStatus;
use corelane_protocol::error::ErrorKind;
use corelane_protocol::json::PaddedBuffer;
use corelane_transport::http::checks::CheckId;
use corelane_transport::http::request_id::RequestIdBuf;
use corelane_transport::http::response::BodyKind;
use corelane_transport::http::sse::EventId;
use corelane_transport::http::status::Status;

use super::ShardMessage;
use crate::connection::{CloseReason, PeerAddress};
use crate::guard::rate::limiter::Exceeded;
use crate::server::extension_slot::ExtensionSlot;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::{Outcome, ParityKey, RefusalFields};
use crate::telemetry::label::Transport;

/// Address of an exchange: a request and its response on a connection of any shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExchangeAddress {
    /// Shard of the connection.
    pub shard: ShardId,
    /// Key of the connection.
    pub connection: Key,
    /// Serial number of the exchange on its connection.
    pub serial: u32,
}

/// Address of a front.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrontAddress {
    /// Shard of the connection.
    pub shard: ShardId,
    /// Key of the front among the sessions of that shard.
    pub key: ParityKey,
}

/// Address of what carries output of a session to its client, on any shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CarrierAddress {
    Exchange(ExchangeAddress),
    /// The front on a connection of another shard.
    Front(FrontAddress),
}

/// A message about a session and what carries it.
#[derive(Debug)]
pub enum SessionMessage {
    /// To the session: an HTTP request.
    Request {
        /// Id of the session; `None` for a handshake of the dialect.
        session: Option<SessionId>,
        /// Exchange of the request, which gets the output.
        exchange: ExchangeAddress,
        /// Who sends it.
        caller: Box<SessionCaller>,
        /// What is requested.
        op: SessionOp,
    },
    /// To the session: the response of the exchange is delayed. Its stream begins if its request is
    /// running.
    ResponseDelayed {
        /// Session of the exchange.
        session: SessionId,
        exchange: ExchangeAddress,
    },
    /// To the session: so many bytes of its output are sent.
    Sent {
        session: SessionId,
        /// What has carried the output.
        carrier: CarrierAddress,
        /// Number of the bytes, those of chunks only over HTTP.
        bytes: usize,
    },
    /// To the session: the token of what carries it is valid no more.
    Expired { session: SessionId, carrier: CarrierAddress },
    /// To the session: what has carried it is gone.
    Closed {
        session: SessionId,
        /// The closed exchange, or the front of the closed connection.
        carrier: CarrierAddress,
        /// Whether all output was sent.
        is_sent: bool,
    },
    /// To the session: its client resumes it.
    Resume(Box<RelayedResume>),
    /// To the session: a message of its client.
    Relay {
        session: SessionId,
        /// The front that the message came to.
        front: FrontAddress,
        /// Text of the message.
        text: PaddedBuffer,
        /// The length of the message as it came.
        bytes: usize,
    },
    /// To the exchange: output.
    Output {
        /// The exchange that gets the output.
        exchange: ExchangeAddress,
        output: HttpOutput,
    },
    /// To the front: it carries the session from now on, or its client has to start again, for this
    /// reason.
    Resumed(FrontAddress, Result<(), &'static str>),
    /// To the front: messages for the client.
    RelayOutput {
        front: FrontAddress,
        /// Texts of the messages.
        texts: Vec<Vec<u8>>,
        /// Whether a message of the client is handled with that.
        is_handled: bool,
        /// Responses that the session owes.
        pending: u32,
    },
    /// To the front: the session does not need its connection any more.
    CloseFront {
        front: FrontAddress,
        /// Close code of a WebSocket.
        code: u16,
        /// Why.
        reason: &'static str,
    },
}

impl From<SessionMessage> for ShardMessage {
    fn from(message: SessionMessage) -> Self {
        Self::Session(Box::new(message))
    }
}

/// Who sends a message to a session, and the connection that it comes with.
#[derive(Debug, Default)]
pub struct SessionCaller {
    /// The authenticated caller.
    pub principal: Option<Arc<Principal>>,
    /// The address that counts against the shares.
    pub client: Option<ClientAddress>,
    /// Address of the peer, if known.
    pub peer_addr: Option<PeerAddress>,
    /// Head of the HTTP request.
    pub http_head: Box<[u8]>,
    /// The id of the HTTP request.
    pub request_id: Option<RequestIdBuf>,
    /// The slot of the extensions of the connection.
    pub extensions: Option<ExtensionSlot>,
}

/// What an HTTP request asks of a session.
#[derive(Debug)]
pub enum SessionOp {
    /// An operation on a legacy session.
    Legacy(LegacyOp),
    /// An operation on a session of the parity dialect.
    Parity(ParityOp),
    /// Sends the response to a request that the shard of its connection has refused. It names the
    /// session if that is open to the caller.
    RespondRefused(Box<RefusedRequest>),
}

/// An operation on a legacy session.
#[derive(Debug)]
pub enum LegacyOp {
    /// Handles a JSON-RPC message.
    HandleMessage {
        /// Text of the message.
        text: PaddedBuffer,
        /// Whether it was posted to the endpoint of 2024-11-05.
        is_legacy_sse: bool,
    },
    /// Ends the session (DELETE).
    End,
    /// Opens the listening stream (GET), or resumes a stream after this event.
    OpenStream(Option<EventId>),
}

/// An operation on a session of the parity dialect.
#[derive(Debug)]
pub enum ParityOp {
    /// Handles a message.
    Message {
        /// Its text.
        text: PaddedBuffer,
        /// Whether the response to a streaming request is an event stream.
        streams: bool,
    },
    /// Attaches the event stream.
    Events {
        /// The handshake of a new session, without one.
        handshake: Option<PaddedBuffer>,
        /// The last event that the client has.
        last_event: Option<LastEvent>,
    },
    /// Ends the session.
    End,
}

impl ParityOp {
    /// Returns the text of its message; empty without one.
    pub fn text(&self) -> &[u8] {
        match self {
            Self::Message { text, .. } => text.as_bytes(),
            Self::Events { .. } | Self::End => &[],
        }
    }
}

/// The last event that the client of an event stream has received: the value of `Last-Event-ID`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LastEvent {
    /// The session that it names.
    pub session: Option<SessionId>,
    /// Its position; `None` if no server of the dialect has written such an id.
    pub position: Option<EventPosition>,
}

/// A position in the event stream of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EventPosition {
    /// Before the first chunk.
    Start,
    /// After this chunk of a stream.
    Chunk {
        stream: Box<str>,
        /// The number of the chunk.
        seq: u64,
    },
}

/// The response to a request that the shard of its connection has refused.
#[derive(Debug)]
pub struct RefusedRequest {
    /// The complete response, with `Mcp-Session-Id`.
    pub named: Vec<u8>,
    /// The complete response, without `Mcp-Session-Id`.
    pub unnamed: Vec<u8>,
    /// Why the connection closes after the response, if it does for what the client has sent.
    pub violation: Option<CloseReason>,
}

/// Output of a session for one exchange.
#[derive(Debug)]
pub enum HttpOutput {
    /// The complete response as JSON.
    Response {
        /// What was written.
        outcome: Outcome,
        /// Text of the response.
        text: Vec<u8>,
    },
    /// The complete response to a request that is refused for lack of a scope or by a limit.
    Refused {
        /// What was written.
        kind: ErrorKind,
        /// Header fields of the response.
        fields: RefusalFields,
        /// Text of the response.
        text: Vec<u8>,
    },
    /// A document as the complete response.
    Document {
        /// Kind of the document.
        body: BodyKind,
        /// The document.
        text: Vec<u8>,
    },
    /// A response without a body.
    Status(Status),
    /// A complete response with its head.
    Complete {
        /// The response.
        response: Vec<u8>,
        /// Why the connection closes after it, if it does for what the client has sent.
        violation: Option<CloseReason>,
    },
    /// The stream ends without a response.
    EndStream {
        /// Whether its client should reconnect: the reconnection time is sent first.
        sends_retry: bool,
    },
    /// One event of a stream; an empty one is a position to resume from.
    Event {
        /// Id of the event.
        id: EventId,
        /// What was written.
        outcome: Outcome,
        /// Data of the event.
        text: Bytes,
        /// Whether its stream can replay it. If not, it is lost with its exchange.
        is_stored: bool,
    },
    /// URI to which a client of 2024-11-05 posts its messages.
    Endpoint(Box<str>),
    /// The stream begins, with a comment, so that intermediaries pass its head on.
    BeginStream,
    /// An error of the check that the request failed.
    CheckFailed(CheckId),
    /// The request names no session, and exceeds this rate limit.
    RateExceeded(Box<Exceeded>),
    /// An event without an id, which cannot be replayed: on the stream of 2024-11-05.
    UnnumberedEvent(Bytes),
    /// Output of a session of the parity dialect.
    Parity(ParityHttpOutput),
}

impl HttpOutput {
    /// Returns the bytes of the chunk of a stream of the dialect in it; 0 without one.
    pub fn chunk_bytes(&self) -> usize {
        match self {
            Self::Parity(ParityHttpOutput::Event { name: CHUNK_EVENT, data, .. }) => data.len(),
            _ => 0,
        }
    }
}

/// Output of a session of the parity dialect for one exchange.
#[derive(Debug)]
pub enum ParityHttpOutput {
    /// The complete response.
    Response {
        status: HttpStatus,
        /// The session, if there is one.
        session: Option<SessionId>,
        /// Header fields of a refusal.
        fields: Option<RefusalFields>,
        /// The body; empty for none.
        text: Vec<u8>,
    },
    /// One event of an event stream.
    Event {
        session: SessionId,
        name: &'static str,
        id: Option<Box<str>>,
        /// Its data, one line.
        data: Vec<u8>,
    },
    /// The event stream ends.
    End,
}

/// The name of the event of a chunk.
pub const CHUNK_EVENT: &str = "stream.chunk";

/// What a client resumes, on a connection of another shard.
#[derive(Debug)]
pub struct RelayedResume {
    pub session: SessionId,
    /// The generation in the token, which the shard of the connection has opened.
    pub generation: u32,
    pub front: FrontAddress,
    /// The capabilities of the client and the server.
    pub capabilities: Capabilities,
    /// The last number received, by stream.
    pub acknowledged: Vec<(Box<str>, u64)>,
    pub transport: Transport,
    pub caller: SessionCaller,
}
