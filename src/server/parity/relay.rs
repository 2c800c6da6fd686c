//! Messages between the shard of a connection and the shard of the session that its client has
//! resumed.
//!
//! Invariants: a message of a front that does not carry the session any more is ignored, and so is
//! one for a front that is gone; each message of a client is handled once, in order.

use corelane_protocol::json::{PaddedBuffer, Parser};
use corelane_transport::websocket::limits::CloseCode;

use super::carrier::{Carrier, RemoteConnection, SessionCarrier};
use super::output::ParityPath;
use super::resume::{self, Claim};
use super::resume_tokens::TokenContents;
use crate::connection::CloseReason;
use crate::server::outbox::Effect;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::ParityKey;
use crate::server::shard_message::{CarrierAddress, FrontAddress, RelayedResume, SessionMessage};

impl ParityPath<'_> {
    /// Closes the connection of a front: its session does not need it any more.
    pub fn close_front(&mut self, front: FrontAddress, code: u16, reason: &'static str) {
        let session = self.parity.get_mut(front.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return };
        // The session handles and answers nothing more.
        (front.unhandled, front.pending) = (0, 0);
        let key = front.connection;
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.pending_work.pending_responses = 0;
        }
        self.close_connection(key, code, reason);
    }

    /// What has carried a session is gone.
    pub fn close_carrier(&mut self, session: SessionId, carrier: CarrierAddress) {
        match carrier {
            CarrierAddress::Exchange(exchange) => self.close_exchange(session, exchange),
            CarrierAddress::Front(front) => {
                if let Some(key) = self.find_remote(session, front) {
                    self.detach(key);
                }
            }
        }
    }

    /// Returns the session that a front carries.
    fn find_remote(&self, id: SessionId, front: FrontAddress) -> Option<ParityKey> {
        let key = self.parity.find(id)?;
        let remote = self.parity.get(key)?.carrier.remote()?;
        (remote.front == front).then_some(key)
    }

    /// Resumes a session for a client on a connection of another shard, which has authenticated it
    /// and opened its token.
    pub fn resume_relayed(&mut self, request: RelayedResume) {
        let RelayedResume { session: id, generation, front, capabilities, .. } = request;
        let contents = TokenContents { session: id, generation };
        let claim = Claim { contents, acknowledged: request.acknowledged, capabilities };
        let now = self.now;
        let resumed = match resume::resume(self.parity, &claim, now) {
            Ok(resumed) => resumed,
            Err(reason) => {
                let message = SessionMessage::Resumed(front, Err(reason));
                return self.outbox.forward(front.shard, message);
            }
        };
        let key = resumed.key;
        self.release_carrier(key);
        let caller = request.caller;
        let remote = RemoteConnection { front, peer_address: caller.peer_addr, unsent_bytes: 0 };
        let carrier = SessionCarrier::Remote(Box::new(remote));
        self.attach_caller(key, &caller, carrier, request.transport);
        if let (Some(session), Some(extensions)) = (self.parity.get_mut(key), caller.extensions) {
            self.dispatcher.facts.keep_extensions(&mut session.state, extensions);
        }
        self.outbox.forward(front.shard, SessionMessage::Resumed(front, Ok(())));
        self.continue_session(Carrier::Remote, resumed);
    }

    /// Handles a message of the client of a session.
    pub fn receive_relayed(
        &mut self,
        parser: &mut Parser,
        session: SessionId,
        front: FrontAddress,
        mut text: PaddedBuffer,
        bytes: usize,
    ) {
        let Some(key) = self.find_remote(session, front) else { return };
        self.receive_text(parser, Carrier::Remote, key, &mut text, bytes);
        let Self { parity, outbox, .. } = self;
        parity.send_remote(key, Vec::new(), true, outbox);
        let session = parity.get(key).filter(|session| session.state.violation.is_some());
        if let Some(remote) = session.and_then(|session| session.carrier.remote()) {
            remote.close(CloseCode::POLICY.as_u16(), "a limit was exceeded", outbox);
        }
    }

    /// The session that a front stands for was resumed, or its client has to start again.
    pub fn handle_resumed(&mut self, address: FrontAddress, resumed: Result<(), &'static str>) {
        if let Err(reason) = resumed {
            return self.restart_front(address.key, reason);
        }
        let Self { parity, connections, outbox, .. } = self;
        let Some(session) = parity.get_mut(address.key) else { return };
        // Otherwise its client was advised to start again, and the other session is notified.
        let Some(front) = session.carrier.front_mut() else { return };
        front.is_open = true;
        session.expires_at = None;
        connections.table.set_suspended(front.connection, false);
        outbox.resume_reading(front.connection);
    }

    /// Writes the output of a session to the connection of its front.
    pub fn write_front_output(
        &mut self,
        address: FrontAddress,
        texts: &[Vec<u8>],
        is_handled: bool,
        pending: u32,
    ) {
        let session = self.parity.get(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front()) else { return };
        let key = front.connection;
        for text in texts {
            self.write_message(key, |out| out.extend_from_slice(text));
        }
        let Self { parity, connections, outbox, now, .. } = self;
        let session = parity.get_mut(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return };
        front.unhandled = front.unhandled.saturating_sub(is_handled.into());
        front.pending = pending;
        front.unreported_bytes += texts.iter().map(Vec::len).sum::<usize>();
        let unreported_bytes = front.unreported_bytes;
        if front.has_room() {
            connections.table.set_suspended(key, false);
            outbox.resume_reading(key);
        }
        let pending_responses = front.pending_responses();
        parity.flow.add_front(address, unreported_bytes);
        let Some(connection) = connections.table.get_mut(key) else { return };
        connection.count_response(*now);
        connection.pending_work.pending_responses = pending_responses;
        if connection.is_discarding() {
            // It may have waited for that.
            outbox.push(Effect::Close { key, reason: CloseReason::PeerClosed });
        }
    }
}
