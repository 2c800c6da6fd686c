//! Where a message came from, and where its answer goes.

use crate::base::slab::Key;
use crate::connection::PeerAddress;
use crate::engine::mesh::ShardId;
use crate::server::outbox::Outbox;
use crate::server::owner_id::SessionId;
use crate::server::shard_message::{
    CarrierAddress, ExchangeAddress, FrontAddress, SessionCaller, SessionMessage,
};

/// What a message came with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier<'a> {
    /// A connection of this shard that carries the session.
    Connection(Key),
    /// An HTTP request, on any shard.
    Exchange {
        address: ExchangeAddress,
        caller: &'a SessionCaller,
        /// What the response is.
        response: ResponseKind,
        /// Why the client does not continue where it was, if it has asked for that.
        restart: Option<&'static str>,
    },
    /// The connection of another shard that carries the session.
    Remote,
}

impl Carrier<'_> {
    /// Returns why the client does not continue where it was, if it has asked for that without a
    /// token.
    pub(super) const fn restart(self) -> Option<&'static str> {
        match self {
            Carrier::Exchange { restart, .. } => restart,
            Carrier::Connection(_) | Carrier::Remote => None,
        }
    }
}

/// What the response to an HTTP request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResponseKind {
    /// One message.
    Message,
    /// One message, or the chunks of a stream.
    Chunks,
    /// The event stream of the session.
    Events {
        /// Whether the ids of its events name the session: its client does not send that.
        names_session: bool,
    },
}

/// The part of a session in a relay: its client has resumed a session on a connection of another
/// shard.
#[derive(Debug)]
pub(super) enum Relay {
    /// It stands for the resumed session, on the shard of the connection.
    Front(Front),
    /// It is the resumed session.
    Remote(RemoteConnection),
}

/// A session that stands for one of another shard, and carries its messages.
#[derive(Debug)]
pub(super) struct Front {
    /// The shard of the other session.
    pub(super) owner: ShardId,
    /// The other session.
    pub(super) session: SessionId,
    /// Whether the other session has been resumed. Until then its connection is not read.
    pub(super) is_open: bool,
    /// Messages of the client that the other session has not handled.
    pub(super) unhandled: u32,
    /// Responses that the other session owes, beside those to unhandled messages.
    pub(super) pending: u32,
    /// Bytes of output that the other session does not know to be sent.
    pub(super) unreported_bytes: usize,
}

/// Messages of a client that may wait for the shard of its session; at this number its connection
/// is not read until half of them are handled.
const UNHANDLED_MAX: u32 = 64;

impl Front {
    pub(super) const fn new(owner: ShardId, session: SessionId) -> Self {
        let (is_open, unhandled, pending, unreported_bytes) = (false, 0, 0, 0);
        Self { owner, session, is_open, unhandled, pending, unreported_bytes }
    }

    /// Returns whether its connection must not be read.
    pub(super) const fn is_full(&self) -> bool {
        self.unhandled >= UNHANDLED_MAX
    }

    /// Returns whether its connection may be read again.
    pub(super) const fn has_room(&self) -> bool {
        self.is_open && self.unhandled <= UNHANDLED_MAX / 2
    }

    /// Returns the responses that its connection waits for.
    pub(super) const fn pending_responses(&self) -> u32 {
        self.pending + self.unhandled
    }

    /// Tells the other session that the connection of this front is gone.
    pub(super) fn report_closed(&self, front: FrontAddress, outbox: &mut Outbox) {
        let (session, carrier, is_sent) = (self.session, CarrierAddress::Front(front), false);
        outbox.forward(self.owner, SessionMessage::Closed { session, carrier, is_sent });
    }
}

/// A connection of another shard that carries a session.
#[derive(Debug)]
pub(super) struct RemoteConnection {
    /// The front of the session on the shard of the connection.
    pub(super) front: FrontAddress,
    /// The address of its peer, if known.
    pub(super) peer_address: Option<PeerAddress>,
    /// Bytes of output that are not known to be sent.
    pub(super) unsent_bytes: usize,
}

impl RemoteConnection {
    /// Sends texts to the client. `is_handled`: a message of the client is handled with that;
    /// `pending`: the responses that the session owes.
    pub(super) fn send(
        &mut self,
        texts: Vec<Vec<u8>>,
        is_handled: bool,
        pending: u32,
        outbox: &mut Outbox,
    ) {
        self.unsent_bytes += texts.iter().map(Vec::len).sum::<usize>();
        let front = self.front;
        let message = SessionMessage::RelayOutput { front, texts, is_handled, pending };
        outbox.forward(front.shard, message);
    }

    /// Closes the connection; a WebSocket with this code.
    pub(super) fn close(&self, code: u16, reason: &'static str, outbox: &mut Outbox) {
        let front = self.front;
        outbox.forward(front.shard, SessionMessage::CloseFront { front, code, reason });
    }
}
