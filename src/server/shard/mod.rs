//! The shard: composes the components and runs their turn.
//!
//! Invariants: a turn never blocks; a rejected connection receives the reason; while draining,
//! nothing new is read, outstanding responses are sent, and after the drain timeout the rest gets
//! errors.

mod lifecycle;
mod reports;
mod unsent_messages;

mod expired_credentials;
mod pressure;

mod completions;
mod messages;

#[cfg(feature = "internals")]
mod memory_report;

use std::fmt;
#[cfg(feature = "tower")]
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "tower")]
use std::os::fd::OwnedFd;

pub(super) use self::lifecycle::Lifecycle;
pub(super) use self::unsent_messages::UnsentMessages;
use super::acceptance::ListenerKind;
use super::calls::CancelReason;
use super::connection_state::ConnectionState;
use super::connections::{Broadcaster, ConnectionPath, NextWork, Transports, fail_waiting};
use super::deferred::DeferredWork;
use super::dispatch::Dispatcher;
use super::extension_slot::ExtensionSlot;
use super::handlers::HandlerEvent;
use super::outbox::{Effect, Outbox};
use super::reply_to::PeerId;
use super::shard_message::{ShardLimits, ShardMessage};
use std::sync::Arc;
use std::time::Duration;

use crate::base::slab::Key;
use crate::base::time::{Instant, WallClock};
use crate::connection::{CloseReason, Connection};
use crate::engine::mesh::{Inbox, ShardId};
use crate::engine::ring::{Completion, Ring, Socket};
#[cfg(feature = "tower")]
use crate::engine::ring::{Registered, Source};
use crate::engine::shard_loop::Driver;
use crate::guard::auth::certificates::ClientCertificate;
use crate::protocol::error::Error;
use crate::protocol::json::Parser;
use crate::telemetry::counters::Counters;
#[cfg(feature = "tower")]
use crate::telemetry::label::Transport;
use crate::telemetry::open_work::OpenWork;

/// Local futures polled in one turn before the ring is serviced again.
const FUTURES_PER_TURN_MAX: usize = 256;

/// Messages from other threads processed in one turn.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// One shard of a server, built by [`super::ShardBuilder::build`] and run by its shard loop.
pub struct Shard {
    pub(super) id: ShardId,
    pub(super) transports: Transports,
    pub(super) parser: Parser,
    pub(super) dispatcher: Dispatcher,
    pub(super) broadcaster: Broadcaster,
    pub(super) lifecycle: Lifecycle,
    pub(super) inbox: Inbox<ShardMessage>,
    pub(super) outbox: Outbox,
    pub(super) unsent_messages: UnsentMessages,
    /// Buffers for reuse.
    pub(super) messages: Vec<ShardMessage>,
    pub(super) events: Vec<HandlerEvent>,
    /// The limits while memory is not short.
    pub(super) limits: Arc<ShardLimits>,
}

impl Shard {
    /// Sets the clock of timestamps.
    pub(super) const fn set_wall_clock(&mut self, wall_clock: WallClock) {
        self.transports.http.set_wall_clock(wall_clock);
        self.dispatcher.deferred.wall_clock = wall_clock;
        self.dispatcher.deferred.tasks.wall_clock = wall_clock;
    }

    /// Returns the number of objects held on behalf of clients.
    pub fn open_work(&self) -> OpenWork {
        let mut open_work = OpenWork::default();
        self.transports.count_open(&mut open_work);
        self.dispatcher.count_open(&mut open_work);
        open_work
    }

    /// Returns the counters of this shard.
    pub fn counters(&self) -> Counters {
        let mut counters = self.outbox.counters.clone();
        self.transports.add_counters(&mut counters);
        self.dispatcher.add_counters(&mut counters);
        let (messages, shard) = (self.inbox.counts(), &mut counters.shard);
        (shard.messages_received, shard.messages_sent) = (messages.received, messages.sent);
        shard.messages_refused = messages.channel_full + messages.inbox_full;
        counters
    }

    /// Returns the connections with the ring that drives them.
    #[inline]
    const fn path<'a, R>(&'a mut self, ring: &'a mut R, now: Instant) -> ConnectionPath<'a, R> {
        let Self { transports, parser, dispatcher, outbox, .. } = self;
        ConnectionPath { ring, transports, parser, dispatcher, outbox, now }
    }

    /// Applies new limits. Connections that exceed one already stay open.
    fn apply_limits(&mut self) {
        let step = self.transports.acceptor.pressure();
        let limits =
            &pressure::restrict(&self.limits, step, self.dispatcher.deferred.overload.rules());
        self.lifecycle.set_timeouts(limits.drain);
        self.dispatcher.set_limits(limits);
        self.transports.set_limits(limits);
    }

    /// Begins the drain after its delay, or at once with a `timeout`; until then only readiness
    /// changes.
    fn request_drain<R: Ring>(&mut self, ring: &mut R, timeout: Option<Duration>, now: Instant) {
        if self.lifecycle.request_drain(now, timeout) {
            self.transports.http.set_unready();
        }
        self.advance_drain(ring, now);
    }

    /// Begins the next phases of the drain whose time has come.
    fn advance_drain<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if self.lifecycle.begin_drain(now) {
            self.begin_drain(ring, now);
        }
        if self.lifecycle.expire_drain(now) {
            self.close_connections(ring, now, |connection| !connection.has_pending_work());
            let DeferredWork { tasks, client_requests, .. } = &mut self.dispatcher.deferred;
            tasks.cancel_all(client_requests, now, &mut self.outbox);
        }
        if self.lifecycle.abort(now) {
            self.close_connections(ring, now, |_| true);
        }
    }

    /// Begins to drain: nothing new is accepted or read, outstanding responses are sent.
    fn begin_drain<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let Self { transports, dispatcher, outbox, .. } = self;
        transports.acceptor.close(ring);
        // Before the connections close: idle ones close at once.
        dispatcher.deferred.fail_client_requests(None, now, outbox);
        transports.http.begin_drain(outbox, now);
        dispatcher.deferred.tasks.begin_drain(now, outbox);
        self.apply_outbox(ring, now);
        for key in self.connection_keys() {
            let mut path = self.path(ring, now);
            path.requests().http().end_idle_stream(key);
            path.peers().complete_streams(key);
            let cut = fail_waiting(&mut path, key, &Error::not_started_by_drain());
            path.outbox.counters.requests.cut += cut;
            self.outbox.push(Effect::Close { key, reason: CloseReason::Drain });
        }
    }

    /// Cancels the calls of all peers with an error once the drain timeout has passed, those that
    /// other shards have forwarded since included. A connection closes once its errors are sent.
    fn cut_calls<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if !self.lifecycle.is_cutting() {
            return;
        }
        let before = self.outbox.counters.requests.cancelled;
        let connections = self.connection_keys().into_iter().map(PeerId::Connection);
        let peers: Vec<_> = connections.chain(self.transports.session_peers()).collect();
        for peer in peers {
            self.path(ring, now).peers().fail_calls(peer, &CancelReason::Drain);
        }
        let requests = &mut self.outbox.counters.requests;
        requests.cut += requests.cancelled - before;
        self.apply_outbox(ring, now);
    }

    /// Closes the connections that `is_over` returns `true` for, because their time is over.
    fn close_connections<R: Ring>(
        &mut self,
        ring: &mut R,
        now: Instant,
        is_over: impl Fn(&Connection<ConnectionState>) -> bool,
    ) {
        let table = self.transports.connections.table.iter();
        let ended: Vec<Key> =
            table.filter(|(_, connection)| is_over(connection)).map(|(key, _)| key).collect();
        for key in ended {
            self.path(ring, now).peers().cancel_calls(key);
            self.transports.connections.close(ring, key, CloseReason::Drain);
        }
    }

    /// Ends the calls that are outstanding the drain timeout after the end of the input (stdio),
    /// with an error. The connection closes once the responses are written.
    fn expire_input<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if self.lifecycle.expire_input(now) {
            let timeout = self.lifecycle.drain_timeout();
            let message =
                format!("the request did not start within {timeout:?} of the end of the input");
            for key in self.connection_keys() {
                let mut path = self.path(ring, now);
                fail_waiting(&mut path, key, &Error::internal(message.clone()));
                path.peers().time_out_calls(key, timeout);
            }
        }
    }

    /// Ends all sessions once the server drains and no connection is left. Their handlers have
    /// this turn and the next one to end.
    fn end_sessions<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let Transports { connections, http, .. } = &self.transports;
        let is_owing = !self.lifecycle.is_aborted() && http.sessions.attached_streams() > 0;
        let ends = !self.lifecycle.is_serving() && !is_owing && connections.table.is_empty();
        self.lifecycle.has_ended_sessions = ends && self.path(ring, now).requests().end_sessions();
    }

    /// Serves a new connection, or sends an error and closes it.
    fn open_connection<R: Ring>(
        &mut self,
        ring: &mut R,
        (kind, socket, peer): (ListenerKind, Socket, Option<SocketAddr>),
        now: Instant,
    ) {
        self.path(ring, now).open(kind, socket, peer);
        if self.lifecycle.is_aborted() {
            // The time of the drain is over, also for the error response.
            let connections = &mut self.transports.connections;
            if let Some(key) = connections.table.key_of(socket) {
                connections.close(ring, key, CloseReason::Drain);
            }
        }
    }

    /// Opens an HTTP connection over the stream socket of another thread. On failure the socket is
    /// closed.
    #[cfg(feature = "tower")]
    fn adopt_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        (stream, extensions): (OwnedFd, ExtensionSlot),
        now: Instant,
    ) {
        let transport = Transport::Http;
        let error = match ring.register(Source::Stream(stream)) {
            Ok(Registered::Socket(socket)) => {
                let kind = ListenerKind::Clients(transport);
                self.open_connection(ring, (kind, socket, None), now);
                let key = self.transports.connections.table.key_of(socket);
                if let Some(key) = key {
                    attach_extensions(self, key, extensions);
                }
                return;
            }
            Ok(Registered::Listener(_)) => io::ErrorKind::InvalidInput.into(),
            Err(error) => error,
        };
        let Self { transports: Transports { acceptor, .. }, outbox, .. } = self;
        acceptor.record_failure(transport, &error, now, outbox);
    }

    /// Lets the handlers of the only connection read the extensions in `slot`.
    pub(in crate::server) fn attach_to_only_connection(&mut self, slot: ExtensionSlot) {
        let key = self.transports.connections.table.iter().next().map(|(key, _)| key);
        if let Some(key) = key {
            attach_extensions(self, key, slot);
        }
    }

    /// Does large work that waits, some in each turn.
    #[inline]
    fn continue_large_work<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if self.transports.large_work.next_deadline().is_none() {
            return;
        }
        while let Some(work) = self.transports.large_work.next(now) {
            match work {
                NextWork::Input(key) => self.path(ring, now).try_resume(key),
                NextWork::Result(message) => {
                    self.transports.large_work.record(now);
                    self.handle_message(ring, message, now);
                }
            }
            self.apply_outbox(ring, now);
        }
    }

    fn connection_keys(&self) -> Vec<Key> {
        self.transports.connections.table.iter().map(|(key, _)| key).collect()
    }

    /// Applies the effects of all components, in order, and then reads the connections that waited
    /// for them.
    #[inline]
    fn apply_outbox<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while !self.outbox.is_empty() {
            match self.outbox.next_resumed() {
                Some(key) => self.path(ring, now).try_resume(key),
                None => self.apply_effects(ring, now),
            }
        }
    }

    fn apply_effects<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let mut effects = self.outbox.take();
        for effect in effects.list.drain(..) {
            match effect {
                Effect::Forward { shard, message } if shard == self.id => {
                    self.handle_message(ring, message, now);
                }
                Effect::Forward { shard, message } => self.inbox.send(shard, message),
                Effect::SendMissedLists(key) => {
                    if let Some(session) = self.transports.http.sessions.get_mut(key) {
                        let subscriptions = &mut session.state.subscriptions;
                        self.broadcaster.send_missed_lists(key, subscriptions, &mut self.outbox);
                    }
                }
                Effect::EndInput => self.lifecycle.end_input(now),
                effect => self.path(ring, now).apply(effect, &effects.texts),
            }
        }
        self.outbox.recycle(effects);
    }
}

/// Lets handlers read the extensions in `slot`, and makes a principal among them the caller.
fn attach_extensions(shard: &mut Shard, key: Key, slot: ExtensionSlot) {
    if let Some(connection) = shard.transports.connections.table.get_mut(key) {
        shard.dispatcher.facts.keep_extensions(&mut connection.state, slot);
        shard.dispatcher.auth.distinguish_callers();
    }
}

/// Keeps the certificate of a TLS client, if clients are authenticated.
fn keep_certificate(shard: &mut Shard, socket: Socket, certificate: &[u8]) {
    let Shard { transports, dispatcher, .. } = shard;
    let table = &mut transports.connections.table;
    let connection = table.key_of(socket).and_then(|key| table.get_mut(key));
    if dispatcher.auth.verifies_tokens()
        && let Some(connection) = connection
        && let Some(certificate) = ClientCertificate::parse(certificate)
    {
        dispatcher.facts.keep_certificate(&mut connection.state, certificate);
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open_work = self.open_work();
        write!(formatter, "Shard {{ id: {:?}, open_work: {open_work:?}, .. }}", self.id)
    }
}

impl<R: Ring> Driver<R> for Shard {
    #[inline]
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        match completion {
            Completion::Received { socket, buffer } => self.path(ring, now).receive(socket, buffer),
            Completion::Sent { socket, buffer, result } => {
                let key = self.path(ring, now).handle_sent(socket, buffer, &result);
                self.send_missed(ring, key, now);
            }
            rare => completions::handle_rare(self, ring, rare, now),
        }
        self.apply_outbox(ring, now);
    }

    #[inline]
    fn handle_deferred(&mut self, ring: &mut R, now: Instant) -> bool {
        !self.transports.deferred.is_empty() && completions::handle_deferred(self, ring, now)
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        self.dispatcher.handlers.queue.begin_turn(now);
        self.transports.connections.expire_timers(ring, now);
        self.path(ring, now).expire_half_closed();
        self.path(ring, now).requests().expire();
        self.dispatcher.expire(now, &mut self.outbox);
        expired_credentials::end_expired(self, ring, now);
        self.expire_input(ring, now);
        self.advance_drain(ring, now);
        self.apply_outbox(ring, now);
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        let mut messages = std::mem::take(&mut self.messages);
        self.inbox.receive(&mut messages, MESSAGES_PER_TURN_MAX);
        let is_full = messages.len() >= MESSAGES_PER_TURN_MAX;
        for message in messages.drain(..) {
            if message.has_large_result() {
                self.transports.large_work.push_result(message);
            } else {
                self.handle_message(ring, message, now);
            }
        }
        self.messages = messages;
        self.continue_large_work(ring, now);
        self.apply_outbox(ring, now);
        is_full
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        self.dispatcher.handlers.queue.begin_turn(now);
        self.cut_calls(ring, now);
        self.end_sessions(ring, now);
        let more = self.dispatcher.handlers.executor.poll_futures(FUTURES_PER_TURN_MAX);
        self.handle_events(now);
        self.apply_outbox(ring, now);
        more || self.lifecycle.has_ended_sessions
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        self.dispatcher.rate.request_shares(&mut self.outbox);
        self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
        // Results and events are stored without a check of the connections.
        self.path(ring, now).relieve_memory();
        self.path(ring, now).requests().continue_streams();
        while !self.outbox.is_empty() {
            self.apply_outbox(ring, now);
            self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
            self.path(ring, now).requests().continue_streams();
        }
        self.transports.http.report_gauges(self.dispatcher.subscriptions.len());
        self.transports.connections.flush(ring, now);
        #[cfg(feature = "tokio")]
        self.dispatcher.handlers.tokio.start_queued();
        self.transports.end_turn(now);
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
            self.lifecycle.next_deadline(),
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
        let waits = self.lifecycle.is_draining()
            && (self.dispatcher.deferred.tasks.table.usage().running > 0
                || self.dispatcher.handlers.pending_updates.has_awaited());
        let has_sessions = !self.lifecycle.is_aborted() && self.transports.http.sessions.len() > 0;
        let is_left = !self.transports.connections.table.is_empty()
            || !self.transports.large_work.is_empty()
            || !self.transports.deferred.is_empty()
            || self.inbox.queued() > 0
            || self.transports.parity.owes_responses();
        self.lifecycle.ends() && !waits && !has_sessions && !is_left
    }
}
