//! Applies the effects that concern peers and connections.

use super::connection_path::{ConnectionPath, hold_input, start_waiting};
use crate::connection::first_message;
use crate::engine::ring::Ring;
use crate::server::outbox::{Effect, NotificationKind};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};

impl<R: Ring> ConnectionPath<'_, R> {
    /// Applies an effect whose text is in `texts`.
    pub(in crate::server) fn apply(&mut self, effect: Effect, texts: &[u8]) {
        match effect {
            Effect::Respond { to, id, outcome, text } => {
                let mut peers = self.peers();
                peers.complete_request(to, id.as_id());
                if !peers.has_violation(to.peer_id) {
                    peers.send(to, outcome, &texts[text]);
                }
                if let PeerId::Connection(key) = to.peer_id {
                    self.check_memory(key);
                    start_waiting(self, key);
                    self.schedule_reading(key);
                } else if let PeerId::Parity(session) = to.peer_id
                    && let Some(key) = self.transports.parity.connection_of(session)
                {
                    self.check_memory(key);
                    self.schedule_reading(key);
                }
            }
            Effect::EndSubscription { to, id, text } => {
                let mut peers = self.peers();
                if let Some((state, _)) = peers.get(to.peer_id) {
                    state.in_flight.remove(id.as_id(), to.exchange());
                }
                peers.send(to, Outcome::Response, &texts[text]);
            }
            Effect::Notify { to, kind, text } => self.send_notification(to, kind, &texts[text]),
            Effect::Request { to, number, text } => self.send_request(to, number, &texts[text]),
            Effect::CloseReply(ReplyTo { peer_id, stream }) => match peer_id {
                PeerId::Connection(key) => start_waiting(self, key),
                PeerId::HttpSession(key) => {
                    let http = &mut self.transports.http;
                    http.session_output(self.outbox, self.now).end_stream(key, stream);
                }
                // Its last chunk is written with the cancellation.
                PeerId::Parity(_) => {}
            },
            Effect::HoldInput(key) => hold_input(self, key),
            Effect::CloseStream(ReplyTo { peer_id, stream }) => {
                if let PeerId::HttpSession(key) = peer_id {
                    self.transports.http.close_stream((key, stream), self.outbox, self.now);
                }
            }
            Effect::CancelCalls(key) => {
                let mut peers = self.peers();
                peers.cancel_calls(key);
                peers.fail_client_requests(PeerId::Connection(key));
            }
            Effect::RecordInvalidMessage(key) => {
                if let Some(connection) = self.transports.connections.table.get_mut(key) {
                    first_message::record_invalid(connection);
                }
            }
            Effect::AdvanceExchange(key) => self.advance_exchange(key),
            Effect::Log(event) => self.transports.acceptor.log(&event, self.now),
            Effect::Close { key, reason } => self.close_gracefully(key, reason),
            // Applied by the shard.
            Effect::Forward { .. } | Effect::SendMissedLists(_) | Effect::EndInput => {}
        }
    }

    /// Sends a client request. It fails if the peer cannot respond any more, and waits if the
    /// handshake of the peer is not complete.
    fn send_request(&mut self, to: ReplyTo, number: u64, text: &[u8]) {
        let mut peers = self.peers();
        let awaits_notification =
            peers.get(to.peer_id).is_some_and(|(state, _)| state.lifecycle.awaits_notification());
        if !peers.can_respond(to.peer_id) {
            self.dispatcher.deferred.fail_unsent_request(number, self.now);
        } else if awaits_notification {
            self.dispatcher.deferred.hold_request(number, text, self.now);
            self.check_peer_memory(to.peer_id);
        } else if self.dispatcher.deferred.client_requests.mark_sent(number) {
            self.outbox.counters.client_requests.sent += 1;
            self.peers().send(to, Outcome::Notification, text);
            self.check_peer_memory(to.peer_id);
        }
    }

    /// Sends a notification unless it is dropped.
    fn send_notification(&mut self, to: ReplyTo, kind: NotificationKind, text: &[u8]) {
        let mut peers = self.peers();
        if kind != NotificationKind::Required && !peers.takes_best_effort(to.peer_id) {
            return;
        }
        match kind {
            NotificationKind::Progress => {
                peers.outbox.counters.requests.progress_notifications += 1;
            }
            NotificationKind::Log { level, is_modern } => {
                let peer = peers.get(to.peer_id);
                if peer.is_none_or(|(state, _)| !is_modern && level < state.log_level) {
                    return;
                }
                peers.outbox.counters.requests.log_notifications += 1;
            }
            NotificationKind::Required | NotificationKind::TaskStatus => {}
        }
        peers.send(to, Outcome::Notification, text);
        self.check_peer_memory(to.peer_id);
    }

    fn check_peer_memory(&mut self, peer_id: PeerId) {
        let key = match peer_id {
            PeerId::Connection(key) => Some(key),
            PeerId::Parity(session) => self.transports.parity.connection_of(session),
            PeerId::HttpSession(_) => None,
        };
        if let Some(key) = key {
            self.check_memory(key);
        }
    }
}
