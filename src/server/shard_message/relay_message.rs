//! Messages of the parity dialect between the shard of a connection and the shard of the session
//! that its client has resumed, if they differ.
//!
//! ```text
//!   connection ── Resume, Message, Sent, Closed ──▶ session
//!              ◀── Resumed | NotResumed, Output, Close ──
//! ```
//!
//! Invariants: a message names the front, the session that stands for the other one on the shard of
//! the connection, so that a late message is ignored.

use super::parity_message::ParityCaller;
use crate::base::slab::Key;
use crate::engine::mesh::ShardId;
use crate::protocol::json::PaddedBuffer;
use crate::protocol::parity::capabilities::Capabilities;
use crate::server::owner_id::SessionId;
use crate::telemetry::label::Transport;

/// Address of a front.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct FrontAddress {
    /// Shard of the connection.
    pub(in crate::server) shard: ShardId,
    /// Key of the front among the sessions of that shard.
    pub(in crate::server) key: Key,
}

/// A message about a connection of one shard and a session of another.
#[derive(Debug)]
pub(in crate::server) enum RelayMessage {
    /// To the session: a client resumes it.
    Resume(Box<RelayedResume>),
    /// To the session: a message of its client.
    Message {
        session: SessionId,
        front: FrontAddress,
        text: PaddedBuffer,
        /// The length of the message as it came.
        bytes: usize,
    },
    /// To the session: so many bytes of its output are sent.
    Sent { session: SessionId, front: FrontAddress, bytes: usize },
    /// To the session: its connection is gone.
    Closed { session: SessionId, front: FrontAddress },
    /// To the connection: it carries the session from now on.
    Resumed(FrontAddress),
    /// To the connection: its client has to start again, for this reason.
    NotResumed(FrontAddress, &'static str),
    /// To the connection: messages for the client.
    Output {
        front: FrontAddress,
        texts: Vec<Vec<u8>>,
        /// Whether a message of the client is handled with that.
        is_handled: bool,
        /// Responses that the session owes.
        pending: u32,
    },
    /// To the connection: the session does not need it any more.
    Close {
        front: FrontAddress,
        /// Close code of a WebSocket.
        code: u16,
        reason: &'static str,
    },
}

/// What a client resumes, on a connection of another shard.
#[derive(Debug)]
pub(in crate::server) struct RelayedResume {
    pub(in crate::server) session: SessionId,
    /// The generation in the token, which the shard of the connection has opened.
    pub(in crate::server) generation: u32,
    pub(in crate::server) front: FrontAddress,
    /// The capabilities of the client and the server.
    pub(in crate::server) capabilities: Capabilities,
    /// The last number received, by stream.
    pub(in crate::server) acknowledged: Vec<(Box<str>, u64)>,
    pub(in crate::server) transport: Transport,
    pub(in crate::server) caller: ParityCaller,
}
