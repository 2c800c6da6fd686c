//! The turn of a shard: its steps, in the order in which the shard loop runs them.
//!
//! Invariants: a turn never blocks; a rejected connection receives the reason; while draining,
//! nothing is read but what was received whole before, outstanding responses are sent, and after
//! the drain timeout the rest gets errors.
//!
//! Thousands of peers may connect or leave at once. Their connections are opened and closed behind
//! the input of open connections, a limited number in a turn, so that responses leave meanwhile.
//!
//! Invariant: begins and ends are handled in the order in which they came, since the socket of a
//! connection that has ended may be that of a new one.

mod messages;

#[cfg(feature = "tower")]
use std::io;
#[cfg(feature = "tower")]
use std::os::fd::OwnedFd;
use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, Ring, Socket};
#[cfg(feature = "tower")]
use corelane_engine::ring::{Registered, Source};
use corelane_engine::shard_loop::Driver;
use corelane_parity::error::ParityError;
use corelane_protocol::error::Error;

#[cfg(feature = "tower")]
use super::acceptance::ListenerKind;
use super::calls::CancelReason;
use super::connection_state::ConnectionState;
use super::dispatch::DeferredWork;
use super::extension_slot::ExtensionSlot;
use super::input::{end_expired_credentials, end_old_connections, next_age_check};
use super::outbox::Effect;
use super::reply_to::PeerId;
use super::shard::{NextWork, Shard, Transports};
#[cfg(feature = "tower")]
use crate::connection::Codec;
use crate::connection::{CloseReason, Connection, SocketPair};
use crate::guard::auth::certificates::ClientCertificate;
use crate::server::acceptance::ListenerEntry;
#[cfg(feature = "tower")]
use crate::telemetry::label::Transport;

/// Local futures polled in one turn before the ring is serviced again.
const FUTURES_PER_TURN_MAX: usize = 256;

/// Messages of other threads received in one turn, and as many of other shards.
const MESSAGES_PER_TURN_MAX: usize = 256;

impl Shard {
    /// Applies new limits. Connections that exceed one already stay open.
    fn apply_limits(&mut self) {
        let step = self.transports.acceptor.pressure();
        let limits =
            &messages::restrict(&self.limits, step, self.dispatcher.deferred.overload.rules());
        self.phase.set_timeouts(limits.drain);
        self.dispatcher.set_limits(limits);
        self.transports.set_limits(limits);
    }

    /// Begins the drain after its delay, or at once with a `timeout`; until then only readiness
    /// changes.
    fn request_drain<R: Ring>(&mut self, ring: &mut R, timeout: Option<Duration>) {
        if self.phase.request_drain(self.now, timeout) {
            self.transports.http.set_unready();
        }
        self.advance_drain(ring);
    }

    /// Begins the next phases of the drain whose time has come.
    fn advance_drain<R: Ring>(&mut self, ring: &mut R) {
        if self.phase.begin_drain(self.now) {
            self.begin_drain(ring);
        }
        if self.phase.expire_drain(self.now) {
            self.close_connections(ring, |connection| !connection.has_pending_work());
            let DeferredWork { tasks, client_requests, .. } = &mut self.dispatcher.deferred;
            tasks.cancel_all(client_requests, self.now, &mut self.outbox);
        }
        if self.phase.abort(self.now) {
            self.close_connections(ring, |_| true);
        }
    }

    /// Begins to drain: nothing new is accepted or read, outstanding responses are sent.
    fn begin_drain<R: Ring>(&mut self, ring: &mut R) {
        let Self { transports, dispatcher, outbox, now, .. } = self;
        let now = *now;
        transports.acceptor.close(ring);
        // Before the connections close: idle ones close at once.
        dispatcher.deferred.fail_client_requests(None, now, outbox);
        self.end_get_streams();
        self.dispatcher.deferred.tasks.begin_drain(now, &mut self.outbox);
        self.apply_outbox(ring);
        let reason = &ParityError::draining();
        for key in self.connection_keys() {
            self.parity_path().announce_end(key, reason);
            self.end_idle_stream(key, reason);
            self.complete_streams(key);
            let cut = self.fail_waiting(key, &Error::not_started_by_drain());
            self.outbox.counters.requests.cut += cut;
            // One that holds a message closes once that is dispatched.
            self.close_drained(key);
            self.transports.connections.table.pause(ring, key);
        }
    }

    /// Cancels the calls of all peers with an error once the drain timeout has passed, those that
    /// other shards have forwarded since included. A connection closes once its errors are sent.
    fn cut_calls<R: Ring>(&mut self, ring: &mut R) {
        if !self.phase.is_cutting() {
            return;
        }
        let before = self.outbox.counters.requests.cancelled;
        let connections = self.connection_keys().into_iter().map(PeerId::Connection);
        let peers: Vec<_> = connections.chain(self.transports.session_peers()).collect();
        for peer in peers {
            self.fail_calls(peer, &CancelReason::Drain);
        }
        let requests = &mut self.outbox.counters.requests;
        requests.cut += requests.cancelled - before;
        self.apply_outbox(ring);
    }

    /// Closes the connections that `is_over` returns `true` for, because their time is over.
    fn close_connections<R: Ring>(
        &mut self,
        ring: &mut R,
        is_over: impl Fn(&Connection<ConnectionState>) -> bool,
    ) {
        let table = self.transports.connections.table.iter();
        let ended: Vec<Key> =
            table.filter(|(_, connection)| is_over(connection)).map(|(key, _)| key).collect();
        for key in ended {
            self.cancel_calls(key);
            self.transports.connections.close(ring, key, CloseReason::Drain);
        }
    }

    /// Ends the calls that are outstanding the drain timeout after the end of the input (stdio),
    /// with an error. The connection closes once the responses are written.
    fn expire_input(&mut self) {
        if self.phase.expire_input(self.now) {
            let timeout = self.phase.drain_timeout();
            let message =
                format!("the request did not start within {timeout:?} of the end of the input");
            for key in self.connection_keys() {
                self.fail_waiting(key, &Error::internal(message.clone()));
                self.time_out_calls(key, timeout);
            }
        }
    }

    /// Ends all sessions once the server drains and no connection is left. Their handlers have
    /// this turn and the next one to end.
    fn end_sessions(&mut self) {
        let Transports { connections, http, .. } = &self.transports;
        let is_owing = !self.phase.is_aborted() && http.sessions.attached_streams() > 0;
        let ends = !self.phase.is_serving() && !is_owing && connections.table.is_empty();
        self.phase.has_ended_sessions = ends && self.end_all_sessions();
    }

    /// Opens an HTTP connection over the stream socket of another thread. On failure the socket is
    /// closed.
    #[cfg(feature = "tower")]
    fn adopt_stream<R: Ring>(&mut self, ring: &mut R, stream: OwnedFd, extensions: ExtensionSlot) {
        let transport = Transport::Http;
        let error = match ring.register(Source::Stream(stream)) {
            Ok(Registered::Socket(socket)) => {
                // What is left of an earlier socket of this name.
                self.transports.late_completions.retain(|it| it.socket() != Some(socket));
                let kind = ListenerKind::Clients(transport);
                let (peer, codec) = (None, Codec::Http);
                self.open(ring, kind, SocketPair { receive: socket, send: socket, peer, codec });
                let key = self.transports.connections.table.key_of(socket);
                if let Some(key) = key {
                    self.attach_extensions(key, extensions);
                }
                return;
            }
            Ok(Registered::Listener(_)) => io::ErrorKind::InvalidInput.into(),
            Err(error) => error,
        };
        let Self { transports: Transports { acceptor, .. }, outbox, now, .. } = self;
        acceptor.record_failure(transport, &error, *now, outbox);
    }

    /// Lets the handlers of the only connection read the extensions in `slot`.
    pub(super) fn attach_to_only_connection(&mut self, slot: ExtensionSlot) {
        let key = self.transports.connections.table.iter().next().map(|(key, _)| key);
        if let Some(key) = key {
            self.attach_extensions(key, slot);
        }
    }

    /// Does large work that waits, some in each turn.
    #[inline]
    fn continue_large_work<R: Ring>(&mut self, ring: &mut R) {
        if self.transports.large_work.next_deadline().is_none() {
            return;
        }
        if self.transports.large_work.ends_memory(self.now) {
            self.transports.free_kept_memory(&mut self.parser);
        }
        while let Some(work) = self.transports.large_work.next(self.now) {
            match work {
                NextWork::Input(key) => self.try_resume(ring, key),
                NextWork::Result(message) => {
                    self.transports.record_large_work(&mut self.parser, self.now);
                    self.handle_message(ring, message);
                }
            }
            self.apply_outbox(ring);
        }
    }

    fn connection_keys(&self) -> Vec<Key> {
        self.transports.connections.table.iter().map(|(key, _)| key).collect()
    }

    /// Lets handlers read the extensions in `slot`, and makes a principal among them the caller.
    fn attach_extensions(&mut self, key: Key, slot: ExtensionSlot) {
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            self.dispatcher.facts.keep_extensions(&mut connection.state, slot);
            self.dispatcher.auth.distinguish_callers();
        }
    }

    /// Keeps the certificate of a TLS client, as a credential, and because it may be revoked.
    fn keep_certificate(&mut self, socket: Socket, certificate: &[u8]) {
        let Self { transports, dispatcher, .. } = self;
        let table = &mut transports.connections.table;
        let connection = table.key_of(socket).and_then(|key| table.get_mut(key));
        if let Some(connection) = connection
            && let Some(certificate) = ClientCertificate::parse(certificate)
        {
            // Its handshake may have begun before the list was read.
            let is_revoked = dispatcher.auth.revoked.contains(&certificate);
            dispatcher.facts.keep_certificate(&mut connection.state, certificate);
            if is_revoked && let Some(key) = table.key_of(socket) {
                let reason = CloseReason::InvalidCredential;
                self.outbox.push(Effect::Close { key, reason });
            }
        }
    }
}

impl<R: Ring> Driver<R> for Shard {
    #[inline]
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        self.now = now;
        match completion {
            Completion::Received { socket, buffer } => self.handle_received(ring, socket, buffer),
            Completion::Sent { socket, buffer, result } => {
                let key = self.handle_sent(ring, socket, buffer, &result);
                self.send_missed(ring, key);
            }
            rare => handle_rare(self, rare),
        }
        self.apply_outbox(ring);
    }

    #[inline]
    fn handle_late_completions(&mut self, ring: &mut R, now: Instant) -> bool {
        self.now = now;
        !self.transports.late_completions.is_empty() && handle_late(self, ring)
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        self.now = now;
        self.dispatcher.handlers.queue.begin_turn(now);
        self.transports.connections.expire_timers(ring, now);
        self.expire_half_closed();
        self.expire_sessions();
        self.dispatcher.expire(now, &mut self.outbox);
        end_expired_credentials(self);
        end_old_connections(self);
        self.expire_input();
        self.advance_drain(ring);
        self.apply_outbox(ring);
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        self.now = now;
        let mut messages = std::mem::take(&mut self.messages);
        self.inbox.receive(&mut messages, MESSAGES_PER_TURN_MAX);
        let is_full = messages.len() >= MESSAGES_PER_TURN_MAX;
        for message in messages.drain(..) {
            if message.has_large_result() {
                self.transports.large_work.push_result(message);
            } else {
                self.handle_message(ring, message);
            }
        }
        self.messages = messages;
        self.continue_large_work(ring);
        if self.transports.input_pool.is_due(self.now) {
            for key in self.check_input_pool(ring) {
                self.try_resume(ring, key);
                self.apply_outbox(ring);
            }
        }
        self.apply_outbox(ring);
        is_full
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        self.now = now;
        self.dispatcher.handlers.queue.begin_turn(now);
        self.cut_calls(ring);
        self.end_sessions();
        let more = self.dispatcher.handlers.executor.poll_futures(FUTURES_PER_TURN_MAX);
        self.handle_handler_events();
        self.apply_outbox(ring);
        more || self.phase.has_ended_sessions
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        self.now = now;
        self.dispatcher.rate.request_shares(&mut self.outbox);
        self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
        // Results and events are stored without a check of the connections.
        self.relieve_memory(ring);
        self.continue_streams();
        while !self.outbox.is_empty() {
            self.apply_outbox(ring);
            self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
            self.continue_streams();
        }
        self.transports.http.report_gauges(self.dispatcher.subscriptions.len());
        self.transports.connections.flush(ring, now);
        #[cfg(feature = "tokio")]
        self.dispatcher.handlers.tokio.start_queued();
        // Messages of other shards, and those at the end of a stream.
        if self.parser.take_is_large() {
            self.transports.record_large_work(&mut self.parser, now);
        }
        self.transports.end_turn(now);
        debug_assert_eq!(self.transports.large_work.parser_bytes(), self.parser.large_bytes());
        self.inbox.wake_targets(|waker| ring.wake(waker));
        self.dispatcher.deferred.tasks.shards.update_slow(&self.inbox);
        let counters = &mut self.outbox.counters.shard;
        counters.turns += 1;
        self.unsent_messages.report(self.id, counters.messages_not_sent, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        Instant::earliest([
            self.dispatcher.next_deadline(),
            self.transports.next_deadline(),
            self.phase.next_deadline(),
            next_age_check(self),
        ])
    }

    fn prepare_park(&mut self) -> bool {
        self.dispatcher.handlers.queue.end_turn();
        self.inbox.prepare_park()
            && self.dispatcher.handlers.executor.prepare_park()
            && !self.dispatcher.handlers.queue.has_events()
    }

    fn is_finished(&self) -> bool {
        // While draining, running tasks have the time of the drain although no client can ask for
        // them; so have HTTP sessions, which a connection of another shard may use, and handlers
        // that wait for a catalog update. End of input on stdio ends tasks at once.
        let waits = self.phase.is_draining()
            && (self.dispatcher.deferred.tasks.table.usage().running > 0
                || self.dispatcher.handlers.pending_updates.has_awaited());
        let has_sessions = !self.phase.is_aborted() && self.transports.http.sessions.len() > 0;
        let is_left = !self.transports.connections.table.is_empty()
            || !self.transports.large_work.is_empty()
            || !self.transports.late_completions.is_empty()
            || self.inbox.queued() > 0
            || self.transports.parity.owes_responses();
        self.phase.ends() && !waits && !has_sessions && !is_left
    }
}

/// Begins and ends handled in one turn.
const PER_TURN_MAX: usize = 64;

/// Handles a completion of a connection's begin or end, now or late. Apart from the frequent ones,
/// which are inlined into the shard loop without it.
#[inline(never)]
fn handle_rare(shard: &mut Shard, completion: Completion) {
    match completion {
        Completion::Accepted { .. } | Completion::EndOfStream { .. } => {
            shard.transports.late_completions.push_back(completion);
        }
        Completion::AcceptFailed { listener, error } => {
            let Shard { transports: Transports { acceptor, .. }, outbox, now, .. } = shard;
            let transport = acceptor.entry_of(listener).kind.transport();
            acceptor.record_failure(transport, &error, *now, outbox);
        }
        Completion::PeerCertificate { socket, certificate } => {
            shard.keep_certificate(socket, &certificate);
        }
        Completion::Closed { socket } => shard.finish_close(socket),
        // Frequent; and the server opens no outgoing connections.
        Completion::Received { .. } | Completion::Sent { .. } | Completion::Connected { .. } => {}
    }
}

/// Opens and closes connections whose begin or end is handled late. Returns whether more are left.
#[inline(never)]
fn handle_late<R: Ring>(shard: &mut Shard, ring: &mut R) -> bool {
    for _ in 0..PER_TURN_MAX {
        match shard.transports.late_completions.pop_front() {
            Some(Completion::Accepted { listener, socket, peer }) => {
                let ListenerEntry { kind, codec, .. } =
                    shard.transports.acceptor.entry_of(listener);
                shard.open(ring, kind, SocketPair { receive: socket, send: socket, peer, codec });
            }
            Some(Completion::EndOfStream { socket, result }) => {
                shard.handle_end_of_stream(ring, socket, &result);
            }
            Some(other) => Driver::handle_completion(shard, ring, other, shard.now),
            None => break,
        }
        shard.apply_outbox(ring);
    }
    !shard.transports.late_completions.is_empty()
}
