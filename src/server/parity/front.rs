//! Sessions that stand for one of another shard: their client has resumed it on a connection of
//! this shard.
//!
//! Invariants: the connection is not read until the other shard has answered, nor while too many of
//! its messages wait there; its messages arrive there in order.

use super::carrier::{Front, Relay};
use super::output::ParityPath;
use super::resume::Claim;
use super::resume_tokens::TokenContents;
use super::session::ParitySession;
use crate::base::slab::Key;
use crate::engine::mesh::ShardId;
use crate::protocol::json::{PaddedBuffer, Value};
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::write;
use crate::server::shard_message::{FrontAddress, RelayedResume, SessionMessage};

impl ParityPath<'_> {
    /// Has a new session stand for the one of another shard that its client resumes. Its connection
    /// is not read until that shard has answered.
    pub(super) fn begin_front(
        &mut self,
        connection: Key,
        key: Key,
        owner: ShardId,
        shard: ShardId,
        claim: Claim,
    ) {
        let Self { parity, connections, outbox, now, .. } = self;
        let timeout = parity.settings.session.timeouts.handshake;
        let Some(session) = parity.get_mut(key) else { return };
        let TokenContents { session: id, generation } = claim.contents;
        session.relay = Some(Box::new(Relay::Front(Front::new(owner, id))));
        session.protocol.detach();
        session.expires_at = Some(now.after(timeout));
        connections.table.set_suspended(connection, true);
        let peer = connections.table.get(connection);
        let peer_addr = peer.and_then(|it| it.record.peer_address().copied());
        let request = RelayedResume {
            session: id,
            generation,
            front: FrontAddress { shard, key },
            capabilities: claim.capabilities,
            acknowledged: claim.acknowledged,
            transport: session.state.transport,
            caller: session.state.session_caller(peer_addr),
        };
        outbox.forward(owner, SessionMessage::Resume(Box::new(request)));
        parity.set_timer(key);
    }

    /// Forwards a message to the shard of the session that a front stands for.
    #[cold]
    pub(super) fn forward_message(
        &mut self,
        connection: Key,
        address: FrontAddress,
        value: Value<'_>,
        bytes: usize,
    ) {
        let Self { parity, connections, outbox, .. } = self;
        let session = parity.get_mut(address.key);
        let Some(front) = session.and_then(ParitySession::front_mut) else { return };
        if !front.is_open {
            // Only a text of the same WebSocket message comes before the connection is read again.
            let message = "the session is being resumed: send one message in a WebSocket message";
            let error = ParityError::feature_not_available(message);
            let write = |out: &mut Vec<u8>| write::error(out, None, &error);
            return self.write_message(connection, write);
        }
        let mut text = Vec::new();
        value.write(&mut text);
        front.unhandled += 1;
        connections.table.set_suspended(connection, front.is_full());
        if let Some(connection) = connections.table.get_mut(connection) {
            connection.pending_work.pending_responses = front.pending_responses();
        }
        let (session, owner) = (front.session, front.owner);
        let (front, text) = (address, PaddedBuffer::new(text));
        outbox.forward(owner, SessionMessage::Relay { session, front, text, bytes });
    }
}
