//! Messages between the shard of a connection and the shard of its session, if they differ.
//!
//! ```text
//!   connection ── SessionRequest ──▶ session
//!              ◀── Output ─────────
//!              ── ExchangeClosed ──▶
//! ```
//!
//! Invariants: a message names its exchange, so that a late one is ignored.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::principal::Principal;
use crate::base::slab::Key;
use crate::connection::{CloseReason, PeerAddress};
use crate::engine::mesh::ShardId;
use crate::protocol::error::ErrorKind;
use crate::protocol::json::PaddedBuffer;
use crate::server::extension_slot::ExtensionSlot;
use crate::server::owner_id::SessionId;
use crate::server::refusal_fields::RefusalFields;
use crate::server::reply_to::Outcome;
use crate::transport::http::checks::CheckId;
use crate::transport::http::request_id::RequestIdBuf;
use crate::transport::http::response::BodyKind;
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

/// Address of an exchange: a request and its response on a connection of any shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct ExchangeAddress {
    /// Shard of the connection.
    pub(in crate::server) shard: ShardId,
    /// Key of the connection.
    pub(in crate::server) connection: Key,
    /// Serial number of the exchange on its connection.
    pub(in crate::server) serial: u32,
}

/// A message about an exchange.
#[derive(Debug)]
pub(in crate::server) enum HttpMessage {
    /// A request for a session of the receiver.
    SessionRequest {
        /// Id of the session.
        session: SessionId,
        /// Exchange of the request, which gets the output.
        exchange: ExchangeAddress,
        /// The authenticated caller.
        principal: Option<Arc<Principal>>,
        /// The requested operation.
        op: SessionOp,
    },
    /// A request for a session of the receiver that the shard of its connection has refused. The
    /// response names the session if that is open to the caller.
    RequestRefused {
        /// Id of the session.
        session: SessionId,
        /// Exchange of the request, which gets the response.
        exchange: ExchangeAddress,
        /// The authenticated caller.
        principal: Option<Arc<Principal>>,
        /// The response.
        refused: Box<RefusedRequest>,
    },
    /// The exchange was closed.
    ExchangeClosed {
        /// Session of the exchange.
        session: SessionId,
        /// The closed exchange.
        exchange: ExchangeAddress,
        /// Whether all output was sent.
        is_sent: bool,
    },
    /// The response of the exchange is delayed: its stream begins if its request is running.
    ResponseDelayed {
        /// Session of the exchange.
        session: SessionId,
        /// The exchange.
        exchange: ExchangeAddress,
    },
    /// Output for an exchange.
    Output {
        /// The exchange that gets the output.
        exchange: ExchangeAddress,
        /// The output.
        output: HttpOutput,
    },
}

/// The connection of a message on another shard.
#[derive(Debug)]
pub(in crate::server) struct MessageSender {
    /// Address of the peer, if known.
    pub(in crate::server) peer_addr: Option<PeerAddress>,
    /// Head of the HTTP request.
    pub(in crate::server) http_head: Box<[u8]>,
    /// The id of the HTTP request.
    pub(in crate::server) request_id: Option<RequestIdBuf>,
    /// The slot of the extensions of the connection.
    pub(in crate::server) extensions: Option<ExtensionSlot>,
}

/// An operation on a session.
#[derive(Debug)]
pub(in crate::server) enum SessionOp {
    /// Handles a JSON-RPC message.
    HandleMessage {
        /// Text of the message.
        text: PaddedBuffer,
        /// The connection that it came with.
        sender: Box<MessageSender>,
        /// Whether it was posted to the endpoint of 2024-11-05.
        is_legacy_sse: bool,
    },
    /// Ends the session (DELETE).
    End,
    /// Opens the listening stream (GET), or resumes a stream after this event.
    OpenStream(Option<EventId>),
}

/// The response to a request that the shard of its connection has refused.
#[derive(Debug)]
pub(in crate::server) struct RefusedRequest {
    /// The complete response, with `Mcp-Session-Id`.
    pub(in crate::server) named: Vec<u8>,
    /// The complete response, without `Mcp-Session-Id`.
    pub(in crate::server) unnamed: Vec<u8>,
    /// Why the connection closes after the response, if it does for what the client has sent.
    pub(in crate::server) violation: Option<CloseReason>,
}

/// Output of a session for one exchange.
#[derive(Debug)]
pub(in crate::server) enum HttpOutput {
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
    /// An event without an id, which cannot be replayed: on the stream of 2024-11-05.
    UnnumberedEvent(Bytes),
}
