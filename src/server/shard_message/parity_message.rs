//! Messages of the parity dialect between the shard of an HTTP connection and the shard of its
//! session.
//!
//! Invariants: a message names its exchange, so that a late one is ignored.

use std::sync::Arc;

use super::http_message::{ExchangeAddress, MessageSender};
use crate::base::client_address::ClientAddress;
use crate::base::principal::Principal;
use crate::protocol::json::PaddedBuffer;
use crate::server::owner_id::SessionId;

/// A message about an exchange of the dialect.
#[derive(Debug)]
pub(in crate::server) enum ParityMessage {
    /// A request for a session of the receiver.
    Request {
        /// The session; `None` for a handshake.
        session: Option<SessionId>,
        /// The exchange of the request, which gets the output.
        exchange: ExchangeAddress,
        /// Who sends it.
        caller: ParityCaller,
        /// What is requested.
        op: ParityOp,
    },
    /// An exchange was closed.
    ExchangeClosed {
        /// Its session.
        session: SessionId,
        /// The exchange.
        exchange: ExchangeAddress,
    },
    /// Output for an exchange.
    Output {
        /// The exchange.
        exchange: ExchangeAddress,
        /// The output.
        output: ParityHttpOutput,
    },
    /// Chunks to an exchange are sent.
    Sent {
        /// Their session.
        session: SessionId,
        /// The exchange.
        exchange: ExchangeAddress,
        /// Their bytes.
        bytes: usize,
    },
}

/// Who sends a request.
#[derive(Debug)]
pub(in crate::server) struct ParityCaller {
    /// The authenticated caller.
    pub(in crate::server) principal: Option<Arc<Principal>>,
    /// The address that counts against the shares.
    pub(in crate::server) client: Option<ClientAddress>,
    /// The connection.
    pub(in crate::server) sender: MessageSender,
}

/// What is requested.
#[derive(Debug)]
pub(in crate::server) enum ParityOp {
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

/// The last event that the client of an event stream has received: the value of `Last-Event-ID`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::server) struct LastEvent {
    /// The session that it names.
    pub(in crate::server) session: Option<SessionId>,
    /// Its position; `None` if no server of the dialect has written such an id.
    pub(in crate::server) position: Option<EventPosition>,
}

/// A position in the event stream of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::server) enum EventPosition {
    /// Before the first chunk.
    Start,
    /// After this chunk of a stream.
    Chunk {
        /// The stream.
        stream: Box<str>,
        /// The number of the chunk.
        seq: u64,
    },
}

/// Output for one exchange.
#[derive(Debug)]
pub(in crate::server) enum ParityHttpOutput {
    /// The complete response.
    Response {
        /// Its HTTP status.
        status: u16,
        /// The session, if there is one.
        session: Option<SessionId>,
        /// The body; empty for none.
        text: Vec<u8>,
    },
    /// One event of an event stream.
    Event {
        /// The session.
        session: SessionId,
        /// Its name.
        name: &'static str,
        /// Its id.
        id: Option<Box<str>>,
        /// Its data, one line.
        data: Vec<u8>,
    },
    /// The event stream ends.
    End,
}

/// The name of the event of a chunk.
pub(in crate::server) const CHUNK_EVENT: &str = "stream.chunk";

impl ParityHttpOutput {
    /// Returns the bytes of its chunk; 0 without one.
    pub(in crate::server) fn chunk_bytes(&self) -> usize {
        match self {
            Self::Event { name, data, .. } if *name == CHUNK_EVENT => data.len(),
            Self::Event { .. } | Self::Response { .. } | Self::End => 0,
        }
    }
}
