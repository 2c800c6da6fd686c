//! Applies the effects of all components: the only place that tells what each one does.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;
use corelane_protocol::jsonrpc::Id;

use crate::connection::{Codec, LARGE_OUTPUT_BYTES};
use crate::server::outbox::{Effect, NotificationKind, OutgoingMessage};
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::server::shard::{Shard, Transports};

impl Shard {
    /// Applies the effects of all components, in order, and then reads the connections that waited
    /// for them.
    #[inline]
    pub(super) fn apply_outbox<R: Ring>(&mut self, ring: &mut R) {
        while !self.outbox.is_empty() {
            match self.outbox.next_resumed() {
                Some(key) => self.try_resume(ring, key),
                None => self.apply_effects(ring),
            }
        }
    }

    fn apply_effects<R: Ring>(&mut self, ring: &mut R) {
        let mut effects = self.outbox.take();
        for effect in effects.list.drain(..) {
            self.apply(ring, effect, &effects.texts);
        }
        self.outbox.recycle(effects);
    }

    /// Applies an effect whose text is in `texts`.
    fn apply<R: Ring>(&mut self, ring: &mut R, effect: Effect, texts: &[u8]) {
        match effect {
            Effect::Respond { to, id, response } => {
                let id = id.as_id();
                let message = OutgoingMessage::response(id, &response, texts);
                self.complete_request(ring, to, id, &message);
            }
            Effect::EndSubscription { to, id, text } => {
                if let Some((state, _)) = self.transports.peer_mut(to.peer_id) {
                    state.in_flight.remove(id.as_id(), to.exchange());
                }
                self.send_to_peer(to, &OutgoingMessage::response(id.as_id(), &Ok(text), texts));
            }
            Effect::Notify { to, kind, text, data } => {
                let (text, data) = (&texts[text], &texts[data]);
                let message = OutgoingMessage::Notification { kind, text, data };
                self.send_notification(ring, to, kind, &message);
            }
            Effect::Request { to, number, text } => {
                self.send_request(ring, to, number, &texts[text]);
            }
            Effect::Forward { shard, message } if shard == self.id => {
                self.handle_message(ring, message);
            }
            Effect::Forward { shard, message } => self.inbox.send(shard, message),
            Effect::CloseReply(ReplyTo { peer_id, stream }) => match peer_id {
                PeerId::Connection(key) => self.start_waiting(ring, key),
                PeerId::HttpSession(key) => {
                    self.end_session_stream(key, stream);
                }
                // Its last chunk is written with the cancellation.
                PeerId::Parity(_) => {}
            },
            Effect::CloseStream(ReplyTo { peer_id, stream }) => {
                if let PeerId::HttpSession(key) = peer_id {
                    self.close_session_stream(key, stream);
                }
            }
            Effect::CancelCalls(key) => {
                self.cancel_calls(key);
                self.fail_client_requests(PeerId::Connection(key));
            }
            Effect::RecordInvalidMessage(key) => {
                if let Some(connection) = self.transports.connections.table.get_mut(key) {
                    connection.record_invalid_message();
                }
            }
            Effect::HoldInput(key) => self.hold_input(ring, key),
            Effect::AdvanceExchange(key) => self.advance_exchange(ring, key),
            Effect::SendMissedLists(key) => {
                if let Some(session) = self.transports.http.sessions.get_mut(key) {
                    let subscriptions = &mut session.state.subscriptions;
                    self.broadcaster.send_missed_lists(key, subscriptions, &mut self.outbox);
                }
            }
            Effect::Log(event) => self.transports.acceptor.log(&event, self.now),
            Effect::Close { key, reason } => self.close_gracefully(ring, key, reason),
            Effect::Cut { key, reason } => self.transports.connections.close(ring, key, reason),
            Effect::EndInput => self.phase.end_input(self.now),
        }
    }

    /// Completes a request in flight with its response. Its connection is read again if it waited
    /// for that.
    fn complete_request<R: Ring>(
        &mut self,
        ring: &mut R,
        to: ReplyTo,
        id: Id<'_>,
        message: &OutgoingMessage<'_>,
    ) {
        if message.result_bytes() >= LARGE_OUTPUT_BYTES
            && let Some(key) = self.transports.connection_of(to.peer_id)
        {
            self.transports.enlarge_output(key, message.result_bytes());
        }
        match to.peer_id {
            PeerId::Connection(key) => {
                self.respond_on_connection(key, id, message);
                self.check_memory(ring, key);
                self.start_waiting(ring, key);
                self.schedule_reading(key);
            }
            PeerId::HttpSession(key) => {
                let sessions = &mut self.transports.http.sessions;
                if let Some(session) = sessions.get_mut(key) {
                    session.state.in_flight.remove(id, to.exchange());
                    session.pending_work.count_response();
                    sessions.end_request(key, self.now);
                }
                self.send_to_peer(to, message);
            }
            PeerId::Parity(session) => {
                self.parity_path().remove_in_flight(session, id);
                self.send_to_peer(to, message);
                if let Some(key) = self.transports.connection_of(to.peer_id) {
                    self.check_memory(ring, key);
                    self.schedule_reading(key);
                }
            }
        }
    }

    /// Completes a request of a connection: it waits for one response less. The error of a
    /// violation is the last message, and nothing follows it.
    fn respond_on_connection(&mut self, key: Key, id: Id<'_>, message: &OutgoingMessage<'_>) {
        let Self { transports, outbox, now, .. } = self;
        let Transports { connections, http, .. } = transports;
        let Some(entry) = connections.entry(key) else { return };
        entry.connection.state.in_flight.remove(id, ReplyTo::STANDALONE);
        entry.connection.count_response(*now);
        if entry.connection.state.violation.is_some() {
            return;
        }
        let outcome = message.outcome();
        if entry.connection.codec() == Codec::Http {
            let mut exchanges = http.exchange_path(connections, outbox, *now);
            exchanges.write_message(key, outcome, None, |out| message.write(out));
        } else if let Some(begun) = entry.begin_message() {
            begun.write(|out| message.write(out));
            outbox.count_outcome(outcome);
        }
    }

    /// Sends a client request. It fails if the peer cannot respond any more, and waits if the
    /// handshake of the peer is not complete.
    fn send_request<R: Ring>(&mut self, ring: &mut R, to: ReplyTo, number: u64, text: &[u8]) {
        let peer = self.transports.peer_mut(to.peer_id);
        let awaits_notification =
            peer.is_some_and(|(state, _)| state.lifecycle.awaits_notification());
        if !self.can_respond(to.peer_id) {
            self.dispatcher.deferred.fail_unsent_request(number, self.now);
        } else if awaits_notification {
            self.dispatcher.deferred.hold_client_request(number, text, self.now);
            self.check_peer_memory(ring, to.peer_id);
        } else if self.dispatcher.deferred.client_requests.mark_sent(number) {
            self.outbox.counters.client_requests.sent += 1;
            self.send_to_peer(to, &OutgoingMessage::Request(text));
            self.check_peer_memory(ring, to.peer_id);
        }
    }

    /// Sends a notification unless it is dropped.
    fn send_notification<R: Ring>(
        &mut self,
        ring: &mut R,
        to: ReplyTo,
        kind: NotificationKind,
        message: &OutgoingMessage<'_>,
    ) {
        if kind != NotificationKind::Required && !self.takes_best_effort(to.peer_id) {
            return;
        }
        match kind {
            NotificationKind::Progress | NotificationKind::Partial => {
                self.outbox.counters.requests.progress_notifications += 1;
            }
            NotificationKind::Log { level, is_modern } => {
                let peer = self.transports.peer_mut(to.peer_id);
                if peer.is_none_or(|(state, _)| !is_modern && level < state.log_level) {
                    return;
                }
                self.outbox.counters.requests.log_notifications += 1;
            }
            NotificationKind::Required | NotificationKind::TaskStatus => {}
        }
        self.send_to_peer(to, message);
        self.check_peer_memory(ring, to.peer_id);
    }

    fn check_peer_memory<R: Ring>(&mut self, ring: &mut R, peer_id: PeerId) {
        if let Some(key) = self.transports.connection_of(peer_id) {
            self.check_memory(ring, key);
        }
    }
}
