//! Applies effects; among them the messages that are written outside of dispatch: later responses,
//! notifications and requests to peers.
//!
//! Invariants: a message is written once, whatever the transport, and framed on output.

use super::{Shard, ShardPhase};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{Codec, Connection, PendingWork};
use crate::engine::ring::Ring;
use crate::protocol::jsonrpc::Id;
use crate::server::connection_state::{ConnectionState, HttpSession};
use crate::server::outbox::{Effect, NotificationKind};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::transport::ndjson;
use crate::transport::websocket::writer;

impl Shard {
    /// Applies the effects of all components, in order.
    #[inline]
    pub(super) fn apply_outbox<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while !self.outbox.is_empty() {
            self.apply_effects(ring, now);
        }
    }

    fn apply_effects<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let mut effects = self.outbox.take();
        for effect in effects.list.drain(..) {
            self.apply_effect(ring, effect, &effects.texts, now);
        }
        self.outbox.recycle(effects);
    }

    fn apply_effect<R: Ring>(&mut self, ring: &mut R, effect: Effect, texts: &[u8], now: Instant) {
        match effect {
            Effect::Respond { to, id, outcome, text } => {
                self.complete_request(to.peer_id, id.as_id(), now);
                if !self.has_violated_limit(to.peer_id) {
                    self.send_message(to, outcome, &texts[text]);
                }
                self.after_response(ring, to, now);
            }
            Effect::EndSubscription { to, id, text } => {
                if let Some((state, _)) = self.peer(to.peer_id) {
                    state.in_flight.remove(id.as_id());
                }
                self.send_message(to, Outcome::Response, &texts[text]);
            }
            Effect::Notify { to, kind, text } => {
                self.send_notification(ring, (to, kind), &texts[text], now);
            }
            Effect::Request { to, number, text } => {
                if !self.can_respond(to.peer_id) {
                    self.dispatcher.deferred.fail_unsent_request(number, now);
                } else if self.dispatcher.deferred.client_requests.mark_sent(number) {
                    self.outbox.counters.client_requests.sent += 1;
                    self.send_message(to, Outcome::Notification, &texts[text]);
                    self.check_peer_memory(ring, to.peer_id, now);
                }
            }
            Effect::Forward { shard, message } if shard == self.id => {
                self.handle_message(ring, message, now);
            }
            Effect::Forward { shard, message } => self.inbox.send(shard, message),
            Effect::CloseReply(reply_to) => {
                if let PeerId::HttpSession(key) = reply_to.peer_id {
                    self.http.sessions.end_request(key, self.http.now());
                    self.end_stream_without_response(key, reply_to.stream);
                }
            }
            Effect::CloseStream(reply_to) => self.close_stream(reply_to),
            Effect::CancelCalls(key) => {
                self.cancel_connection_calls(key);
                self.fail_client_requests(PeerId::Connection(key), now);
            }
            Effect::Close { key, reason } => {
                self.connections.close_gracefully(ring, key, reason, now);
            }
        }
    }

    /// Sends a notification unless it is dropped.
    fn send_notification<R: Ring>(
        &mut self,
        ring: &mut R,
        (to, kind): (ReplyTo, NotificationKind),
        text: &[u8],
        now: Instant,
    ) {
        let is_required = kind == NotificationKind::Required;
        let is_dropped =
            || !self.has_queue_space(to.peer_id) || self.has_violated_limit(to.peer_id);
        if !is_required && is_dropped() {
            return;
        }
        let requests = &mut self.outbox.counters.requests;
        match kind {
            NotificationKind::Progress => requests.progress_notifications += 1,
            NotificationKind::Log { level, is_modern } => {
                let session = self.peer(to.peer_id);
                if session.is_none_or(|(state, _)| !is_modern && level < state.log_level) {
                    return;
                }
                self.outbox.counters.requests.log_notifications += 1;
            }
            NotificationKind::Required | NotificationKind::TaskStatus => {}
        }
        self.send_message(to, Outcome::Notification, text);
        self.check_peer_memory(ring, to.peer_id, now);
    }

    /// Sends a message to a peer, if it is still connected. It leaves at the end of the turn.
    pub(super) fn send_message(&mut self, reply_to: ReplyTo, outcome: Outcome, text: &[u8]) {
        match reply_to.peer_id {
            PeerId::Connection(key) if self.connections.codec(key) == Codec::Http => {
                self.write_to_exchange(key, (outcome, None), |out| out.extend_from_slice(text));
            }
            PeerId::Connection(key) => {
                if let Some(connection) = self.connections.table.get(key)
                    && let compression = connection.state.compression
                    && let framing = self.connections.codec(key)
                    && let Some(out) = self.connections.outgoing(key)
                {
                    if framing == Codec::WebSocket {
                        let mark = writer::begin_message(out);
                        out.extend_from_slice(text);
                        self.websockets.end_frame(out, mark, compression);
                    } else {
                        out.extend_from_slice(text);
                        ndjson::end_line(out);
                    }
                    self.outbox.count_outcome(outcome);
                }
            }
            PeerId::HttpSession(key) => self.send_on_session(key, reply_to.stream, outcome, text),
        }
    }

    /// Returns the state and pending work of a peer, or `None` if it is gone.
    pub(super) fn peer(
        &mut self,
        peer_id: PeerId,
    ) -> Option<(&mut ConnectionState, &mut PendingWork)> {
        match peer_id {
            PeerId::Connection(key) => {
                let Connection { state, pending_work, .. } = self.connections.table.get_mut(key)?;
                Some((state, pending_work))
            }
            PeerId::HttpSession(key) => {
                let HttpSession { state, pending_work, .. } = self.http.sessions.get_mut(key)?;
                Some((state, pending_work))
            }
        }
    }

    /// Returns whether a peer can still send responses.
    pub(super) fn can_respond(&self, peer_id: PeerId) -> bool {
        match peer_id {
            PeerId::Connection(key) => {
                self.connections.table.get(key).is_some_and(|it| !it.is_discarding())
            }
            PeerId::HttpSession(key) => {
                self.phase == ShardPhase::Serving && self.http.sessions.contains(key)
            }
        }
    }

    /// Returns whether the output queue of a peer has space for best-effort notifications.
    pub(super) fn has_queue_space(&self, peer_id: PeerId) -> bool {
        // What a session has not received is buffered within limits of its own.
        let PeerId::Connection(key) = peer_id else { return true };
        let (connection, options) = (self.connections.table.get(key), &self.connections.options);
        connection.is_some_and(|it| it.queued_bytes() <= it.queue_bytes_max(options))
    }

    /// Returns whether a peer has violated a limit: the error is the last message to it.
    fn has_violated_limit(&self, peer_id: PeerId) -> bool {
        let PeerId::Connection(key) = peer_id else { return false };
        self.connections.table.get(key).is_some_and(|it| it.state.violated_limit)
    }

    /// Accounts the memory of a peer after output, and closes it if it violated a limit.
    pub(super) fn check_peer_memory<R: Ring>(
        &mut self,
        ring: &mut R,
        peer_id: PeerId,
        now: Instant,
    ) {
        if let PeerId::Connection(key) = peer_id {
            self.check_memory_or_close(ring, key, now);
        }
    }

    /// Completes a request in flight: its peer waits for one response less.
    pub(super) fn complete_request(&mut self, peer_id: PeerId, id: Id<'_>, now: Instant) {
        match peer_id {
            PeerId::Connection(key) => {
                if let Some(connection) = self.connections.table.get_mut(key) {
                    connection.state.in_flight.remove(id);
                    connection.complete_request(now);
                }
            }
            PeerId::HttpSession(key) => {
                if let Some(http_session) = self.http.sessions.get_mut(key) {
                    http_session.state.in_flight.remove(id);
                    http_session.pending_work.complete_request();
                    self.http.sessions.end_request(key, now);
                }
            }
        }
    }

    /// Cancels every call of a connection; none of them gets a response.
    pub(super) fn cancel_connection_calls(&mut self, key: Key) {
        self.cancel_streams(key);
        let Some(Connection { state, pending_work, .. }) = self.connections.table.get_mut(key)
        else {
            return;
        };
        self.dispatcher.deferred.cancel_calls(&mut state.in_flight, pending_work, &mut self.outbox);
    }

    /// Fails the open client requests of a peer, because no response will be read.
    pub(super) fn fail_client_requests(&mut self, peer_id: PeerId, now: Instant) {
        let in_flight = match peer_id {
            PeerId::Connection(key) => {
                self.connections.table.get(key).map(|it| &it.state.in_flight)
            }
            PeerId::HttpSession(key) => {
                self.http.sessions.get_mut(key).map(|it| &it.state.in_flight)
            }
        };
        let peer = Some((peer_id, in_flight));
        self.dispatcher.deferred.fail_client_requests(peer, now, &mut self.outbox);
    }

    /// After a response: resumes reading from, or closes, a connection that waited for it.
    pub(super) fn after_response<R: Ring>(
        &mut self,
        ring: &mut R,
        reply_to: ReplyTo,
        now: Instant,
    ) {
        let PeerId::Connection(key) = reply_to.peer_id else { return };
        self.check_memory_or_close(ring, key, now);
        let next = self.connections.try_resume(key);
        self.handle_connection_event(ring, next, now);
    }
}
