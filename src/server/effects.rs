//! Applies the effects that concern peers and connections.

use crate::connection::first_message;
use crate::engine::ring::Ring;
use crate::server::outbox::{Effect, NotificationKind};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard::Shard;

impl Shard {
    /// Applies an effect whose text is in `texts`.
    pub(super) fn apply<R: Ring>(&mut self, ring: &mut R, effect: Effect, texts: &[u8]) {
        match effect {
            Effect::Respond { to, id, outcome, text } => {
                self.complete_request(to, id.as_id());
                if !self.has_violation(to.peer_id) {
                    self.send(to, outcome, &texts[text]);
                }
                if let PeerId::Connection(key) = to.peer_id {
                    self.check_memory(ring, key);
                    self.start_waiting(ring, key);
                    self.schedule_reading(key);
                } else if let PeerId::Parity(session) = to.peer_id
                    && let Some(key) = self.transports.parity.connection_of(session)
                {
                    self.check_memory(ring, key);
                    self.schedule_reading(key);
                }
            }
            Effect::EndSubscription { to, id, text } => {
                if let Some((state, _)) = self.peer_mut(to.peer_id) {
                    state.in_flight.remove(id.as_id(), to.exchange());
                }
                self.send(to, Outcome::Response, &texts[text]);
            }
            Effect::Notify { to, kind, text } => {
                self.send_notification(ring, to, kind, &texts[text]);
            }
            Effect::Request { to, number, text } => {
                self.send_request(ring, to, number, &texts[text]);
            }
            Effect::CloseReply(ReplyTo { peer_id, stream }) => match peer_id {
                PeerId::Connection(key) => self.start_waiting(ring, key),
                PeerId::HttpSession(key) => {
                    let http = &mut self.transports.http;
                    http.session_output(&mut self.outbox, self.now).end_stream(key, stream);
                }
                // Its last chunk is written with the cancellation.
                PeerId::Parity(_) => {}
            },
            Effect::HoldInput(key) => self.hold_input(ring, key),
            Effect::CloseStream(ReplyTo { peer_id, stream }) => {
                if let PeerId::HttpSession(key) = peer_id {
                    self.transports.http.close_stream(key, stream, &mut self.outbox, self.now);
                }
            }
            Effect::CancelCalls(key) => {
                self.cancel_calls(key);
                self.fail_client_requests(PeerId::Connection(key));
            }
            Effect::RecordInvalidMessage(key) => {
                if let Some(connection) = self.transports.connections.table.get_mut(key) {
                    first_message::record_invalid(connection);
                }
            }
            Effect::AdvanceExchange(key) => self.advance_exchange(ring, key),
            Effect::Log(event) => self.transports.acceptor.log(&event, self.now),
            Effect::Close { key, reason } => self.close_gracefully(ring, key, reason),
            // Applied by the shard.
            Effect::Forward { .. } | Effect::SendMissedLists(_) | Effect::EndInput => {}
        }
    }

    /// Sends a client request. It fails if the peer cannot respond any more, and waits if the
    /// handshake of the peer is not complete.
    fn send_request<R: Ring>(&mut self, ring: &mut R, to: ReplyTo, number: u64, text: &[u8]) {
        let awaits_notification = self
            .peer_mut(to.peer_id)
            .is_some_and(|(state, _)| state.lifecycle.awaits_notification());
        if !self.can_respond(to.peer_id) {
            self.dispatcher.deferred.fail_unsent_request(number, self.now);
        } else if awaits_notification {
            self.dispatcher.deferred.hold_request(number, text, self.now);
            self.check_peer_memory(ring, to.peer_id);
        } else if self.dispatcher.deferred.client_requests.mark_sent(number) {
            self.outbox.counters.client_requests.sent += 1;
            self.send(to, Outcome::Notification, text);
            self.check_peer_memory(ring, to.peer_id);
        }
    }

    /// Sends a notification unless it is dropped.
    fn send_notification<R: Ring>(
        &mut self,
        ring: &mut R,
        to: ReplyTo,
        kind: NotificationKind,
        text: &[u8],
    ) {
        if kind != NotificationKind::Required && !self.takes_best_effort(to.peer_id) {
            return;
        }
        match kind {
            NotificationKind::Progress => {
                self.outbox.counters.requests.progress_notifications += 1;
            }
            NotificationKind::Log { level, is_modern } => {
                let peer = self.peer_mut(to.peer_id);
                if peer.is_none_or(|(state, _)| !is_modern && level < state.log_level) {
                    return;
                }
                self.outbox.counters.requests.log_notifications += 1;
            }
            NotificationKind::Required | NotificationKind::TaskStatus => {}
        }
        self.send(to, Outcome::Notification, text);
        self.check_peer_memory(ring, to.peer_id);
    }

    fn check_peer_memory<R: Ring>(&mut self, ring: &mut R, peer_id: PeerId) {
        let key = match peer_id {
            PeerId::Connection(key) => Some(key),
            PeerId::Parity(session) => self.transports.parity.connection_of(session),
            PeerId::HttpSession(_) => None,
        };
        if let Some(key) = key {
            self.check_memory(ring, key);
        }
    }
}
