//! Access to MCP peers whatever their transport: their state, and messages to them.
//!
//! Invariants: a message is written once, whatever the transport, and framed on output; messages to
//! a peer that is gone are dropped.

use std::time::Duration;

use corelane_base::slab::Key;

use crate::connection::Connection;
use crate::server::calls::CancelReason;
use crate::server::outbox::OutgoingMessage;
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::server::shard::{Shard, Transports};

impl Shard {
    /// Sends a message to a peer, if it is still connected. It leaves at the end of the turn.
    pub(super) fn send_to_peer(&mut self, to: ReplyTo, message: &OutgoingMessage<'_>) {
        let Self { transports, dispatcher, outbox, now, .. } = self;
        match to.peer_id {
            PeerId::Connection(key) => {
                let write = |out: &mut Vec<u8>| message.write(out);
                transports.write_message(key, message.outcome(), outbox, *now, write);
            }
            PeerId::HttpSession(key) => {
                self.send_to_session(key, to.stream, message.outcome(), &message.text());
            }
            PeerId::Parity(key) => {
                let mut path = transports.parity_path(dispatcher, outbox, *now);
                if path.send_message(key, to.stream, message, Duration::ZERO) {
                    let calls = &mut path.dispatcher.deferred.calls;
                    path.parity.pause_stream(key, to.stream, calls);
                }
            }
        }
    }

    /// Returns whether a peer can still send responses.
    pub(super) fn can_respond(&self, peer_id: PeerId) -> bool {
        let Transports { connections, http, .. } = &self.transports;
        match peer_id {
            PeerId::Connection(key) => {
                let is_discarding =
                    connections.table.get(key).is_none_or(Connection::is_discarding);
                !is_discarding && !connections.table.is_input_over(key)
            }
            PeerId::HttpSession(key) => http.can_respond(key),
            // The dialect has no requests of the server.
            PeerId::Parity(_) => false,
        }
    }

    /// Returns whether a best-effort notification may be sent: the output queue of the peer has
    /// space, and the peer has violated no limit.
    pub(super) fn takes_best_effort(&self, peer_id: PeerId) -> bool {
        // What a session has not received is buffered within limits of its own.
        let PeerId::Connection(key) = peer_id else { return true };
        let connections = &self.transports.connections;
        connections.table.get(key).is_some_and(|it| {
            it.queued_bytes() <= it.queue_bytes_max(&connections.shared.options)
                && it.state.violation.is_none()
        })
    }

    /// Cancels every call and stream of a connection; none of them gets a response.
    pub(super) fn cancel_calls(&mut self, key: Key) {
        self.cancel_streams(key);
        let Self { transports, dispatcher, outbox, .. } = self;
        let connection = transports.connections.table.get_mut(key);
        let Some(Connection { state, pending_work, .. }) = connection else { return };
        dispatcher.deferred.cancel_calls(&mut state.in_flight, pending_work, outbox);
        if let Some(session) = state.parity_session() {
            let mut parity = transports.parity_path(dispatcher, outbox, self.now);
            parity.cancel_calls(session);
            // Streams that continue do not keep this connection open.
            if let Some(connection) = parity.connections.table.get_mut(key) {
                connection.pending_work.pending_responses = 0;
            }
        }
    }

    /// Cancels every call of a connection and responds to it that it took longer than `timeout`.
    pub(super) fn time_out_calls(&mut self, key: Key, timeout: Duration) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let Some(connection) = transports.connections.table.get(key) else { return };
        let session = connection.state.parity_session();
        let of_session = session.and_then(|session| transports.parity.in_flight(session));
        for in_flight in [Some(&connection.state.in_flight), of_session].into_iter().flatten() {
            dispatcher.deferred.time_out_calls(in_flight, timeout, outbox);
        }
    }

    /// Cancels every call of a peer and responds to it with `error`.
    pub(super) fn fail_calls(&mut self, peer_id: PeerId, reason: &CancelReason) {
        let Self { transports, dispatcher, outbox, .. } = self;
        if let Some(in_flight) = transports.in_flight(peer_id) {
            dispatcher.deferred.fail_calls(in_flight, reason, outbox);
        }
    }

    /// Removes the streams of a connection without a response.
    pub(super) fn cancel_streams(&mut self, key: Key) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let connection = transports.connections.table.get_mut(key);
        let Some(Connection { state, pending_work, .. }) = connection else { return };
        pending_work.has_open_stream = false;
        dispatcher.remove_streams(&mut std::mem::take(&mut state.subscriptions), outbox);
    }

    /// Completes the streams of a connection with their results, because the server drains.
    pub(super) fn complete_streams(&mut self, key: Key) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let connection = transports.connections.table.get_mut(key);
        let Some(Connection { state, pending_work, .. }) = connection else { return };
        pending_work.has_open_stream = false;
        let mut subscriptions = std::mem::take(&mut state.subscriptions);
        dispatcher.complete_streams(key, &mut subscriptions, outbox);
    }

    /// Fails the open client requests of a peer, because no response will be read.
    pub(super) fn fail_client_requests(&mut self, peer_id: PeerId) {
        let Self { transports, dispatcher, outbox, now, .. } = self;
        let in_flight = transports.in_flight(peer_id);
        dispatcher.deferred.fail_client_requests(Some((peer_id, in_flight)), *now, outbox);
    }
}
