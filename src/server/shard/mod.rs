//! The shard: ring completions, messages and time, and the components that process them.
//!
//! Invariants: a turn never blocks; a rejected connection receives the reason; while draining,
//! nothing new is read, outstanding responses are sent, and the drain timeout ends the rest.

mod connection_events;
mod http;
mod notifications;
mod responses;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::acceptor::Acceptor;
use super::broadcaster::Broadcaster;
use super::connection_state::{ConnectionState, HttpSession};
use super::deferred::DeferredWork;
use super::dispatch::Dispatcher;
use super::handlers::HandlerEvent;
use super::http::{Gauges, HttpFrontend};
use super::outbox::{Effect, Outbox};
use super::shard_message::{BroadcastMessage, ShardLimits, ShardMessage};
use super::tasks::TaskMessage;
use super::websocket::WebSocketFrontend;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{CloseReason, ConnectionStatistics, Connections};
use crate::engine::mesh::{Inbox, ShardId};
use crate::engine::ring::{Completion, Ring};
use crate::engine::shard_loop::Driver;
use crate::protocol::json::Parser;
use crate::protocol::model::ChangeNotification;
use crate::telemetry::counters::Counters;

/// Local futures polled in one turn before the ring is serviced again.
const FUTURES_PER_TURN_MAX: usize = 256;

/// Messages from other threads processed in one turn.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// One shard of a server, built by [`super::ShardBuilder::build`] and run by its shard loop.
pub struct Shard {
    pub(super) id: ShardId,
    pub(super) connections: Connections<ConnectionState>,
    pub(super) parser: Parser,
    pub(super) dispatcher: Dispatcher,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox<ShardMessage>,
    pub(super) acceptor: Acceptor,
    drain_timeout: Duration,
    /// State of the HTTP transport.
    pub(super) http: HttpFrontend<HttpSession>,
    /// State of the WebSocket transport.
    pub(super) websockets: WebSocketFrontend,
    /// Number of HTTP sessions and streams of all shards.
    pub(super) gauges: Gauges,
    pub(super) phase: ShardPhase,
    /// The shard ends with its only connection (stdio).
    pub(super) ends_with_input: bool,
    /// HTTP sessions were ended in this turn because the server drains.
    sessions_ended: bool,
    messages: Vec<ShardMessage>,
    events: Vec<HandlerEvent>,
    pub(super) broadcaster: Broadcaster,
}

/// The phase of the shard's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ShardPhase {
    Serving,
    /// Completing what is in flight, until this time at the latest.
    Draining(Instant),
    /// The drain timeout has passed: everything is closed.
    Aborted,
}

/// What a shard is made of.
pub(super) struct ShardParts {
    pub(super) connections: Connections<ConnectionState>,
    pub(super) parser: Parser,
    pub(super) dispatcher: Dispatcher,
    pub(super) inbox: Inbox<ShardMessage>,
    pub(super) acceptor: Acceptor,
    pub(super) gauges: Gauges,
    pub(super) http: HttpFrontend<HttpSession>,
    pub(super) websockets: WebSocketFrontend,
    pub(super) limits: ShardLimits,
}

impl Shard {
    pub(super) fn new(parts: ShardParts) -> Self {
        let ShardParts { connections, parser, dispatcher, inbox, limits, .. } = parts;
        let ShardParts { acceptor, gauges, http, websockets, .. } = parts;
        Self {
            id: dispatcher.handlers.shard,
            connections,
            parser,
            dispatcher,
            outbox: Outbox::default(),
            inbox,
            acceptor,
            http,
            websockets,
            gauges,
            drain_timeout: limits.drain_timeout,
            phase: ShardPhase::Serving,
            ends_with_input: false,
            sessions_ended: false,
            messages: Vec::with_capacity(MESSAGES_PER_TURN_MAX),
            events: Vec::new(),
            broadcaster: Broadcaster::default(),
        }
    }

    /// Returns the counters of this shard.
    pub fn counters(&self) -> Counters {
        let mut counters = self.outbox.counters.clone();
        let ConnectionStatistics {
            read_pauses: paused,
            sends,
            bytes_in,
            bytes_out,
            websocket: frames,
        } = self.connections.statistics;
        let traffic = &mut counters.traffic;
        (traffic.bytes_in, traffic.bytes_out) = (bytes_in, bytes_out);
        (traffic.sends, traffic.read_pauses) = (sends, paused);
        counters.websockets = self.websockets.all_counters(&frames);
        let messages = self.inbox.counts();
        let shard = &mut counters.shard;
        (shard.messages_received, shard.messages_sent) = (messages.received, messages.sent);
        shard.messages_refused = messages.channel_full + messages.inbox_full;
        let refused = self.dispatcher.deferred.tasks.table.rejected;
        let requests = &mut counters.requests;
        (requests.tasks_refused_limit, requests.tasks_refused_per_connection) =
            (refused.by_shard, refused.by_connection);
        shard.events_suppressed = self.acceptor.events_suppressed();
        counters
    }

    /// Number of open connections, those being rejected or closed included.
    pub const fn connections_open(&self) -> usize {
        self.connections.table.len()
    }

    /// Number of running handlers, those of cancelled calls included.
    pub const fn calls_open(&self) -> usize {
        self.dispatcher.deferred.calls.len()
    }

    /// Number of notification streams, those of legacy sessions included.
    pub const fn streams_open(&self) -> usize {
        self.dispatcher.subscriptions.len()
    }

    /// Number of requests to clients without a response, those of tasks included.
    pub fn client_requests_open(&self) -> usize {
        self.dispatcher.deferred.client_requests.len()
    }

    /// Number of HTTP requests whose response is incomplete, streams included.
    pub const fn exchanges_open(&self) -> usize {
        self.http.open_exchanges
    }

    /// Number of legacy HTTP sessions, with or without a connected client.
    pub const fn sessions_open(&self) -> usize {
        self.http.sessions.len()
    }

    /// Number of tasks in the table, running or ended.
    pub const fn tasks_kept(&self) -> usize {
        self.dispatcher.deferred.tasks.table.len()
    }

    /// Applies new limits. Connections that exceed one already stay open.
    fn apply_limits(&mut self, limits: &ShardLimits) {
        self.drain_timeout = limits.drain_timeout;
        self.acceptor.set_limits(limits);
        self.connections.options = limits.connections;
        self.dispatcher.deferred.request_timeout = limits.request_timeout;
        self.dispatcher.deferred.tasks.table.limits = limits.tasks;
        self.dispatcher.deferred.requests_in_flight_max = limits.requests_in_flight_max;
        self.dispatcher.deferred.request_states.ttl = limits.request_state_ttl;
        self.dispatcher.deferred.client_requests.timeout = limits.client_request_timeout;
        self.dispatcher.subscriptions.limits = limits.subscriptions;
        self.http.sessions.limits = limits.sessions;
        self.http.limits = limits.http_request;
        self.http.timeouts = limits.http_timeouts;
        self.websockets.rules = limits.websocket;
    }

    /// Begins to drain: nothing new is accepted or read, outstanding responses are sent.
    pub(super) fn drain<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if self.phase != ShardPhase::Serving {
            return;
        }
        self.phase = ShardPhase::Draining(now.after(self.drain_timeout));
        self.acceptor.close(ring);
        // Before the connections close: idle ones close at once.
        self.dispatcher.deferred.fail_client_requests(None, now, &mut self.outbox);
        self.drain_sessions();
        self.dispatcher.deferred.tasks.begin_drain(now, &mut self.outbox);
        self.apply_outbox(ring, now);
        for key in self.connection_keys() {
            self.end_idle_stream(key);
            self.complete_streams(key);
            self.outbox.push(Effect::Close { key, reason: CloseReason::Drain });
        }
    }

    /// Ends the drain: closes everything that is still open.
    fn abort<R: Ring>(&mut self, ring: &mut R) {
        self.phase = ShardPhase::Aborted;
        for key in self.connection_keys() {
            self.cancel_connection_calls(key);
            self.connections.close(ring, key, CloseReason::Drain);
        }
    }

    fn connection_keys(&self) -> Vec<Key> {
        self.connections.table.iter().map(|(key, _)| key).collect()
    }

    fn handle_message<R: Ring>(&mut self, ring: &mut R, message: ShardMessage, now: Instant) {
        match message {
            ShardMessage::Broadcast(BroadcastMessage::Drain) => self.drain(ring, now),
            ShardMessage::Broadcast(BroadcastMessage::Catalog { catalog, changes, installed }) => {
                let installed = (changes, &*installed);
                self.dispatcher.install_catalog(catalog, installed, &mut self.outbox);
            }
            ShardMessage::Broadcast(BroadcastMessage::ListsChanged(changes)) => {
                self.notify_lists_changed(ring, changes, now);
            }
            ShardMessage::Broadcast(BroadcastMessage::ResourceUpdated(uri)) => {
                self.publish(ring, &ChangeNotification::ResourceUpdated { uri: &uri }, now);
            }
            ShardMessage::Broadcast(BroadcastMessage::Limits(limits)) => self.apply_limits(&limits),
            ShardMessage::CatalogUpdated { key, result } => {
                self.dispatcher.handlers.pending_updates.complete(key, result);
            }
            ShardMessage::Http(message) => self.handle_http_message(*message, now),
            ShardMessage::Task(message) => match *message {
                TaskMessage::Changed { task, version, tail } => {
                    self.publish_task(ring, (task, version), &tail, now);
                }
                message => {
                    let Dispatcher { deferred, catalog, .. } = &mut self.dispatcher;
                    deferred.handle_task_message(message, catalog, now, &mut self.outbox);
                }
            },
            ShardMessage::Log(message) => {
                self.dispatcher.handle_event(HandlerEvent::Log(*message), now, &mut self.outbox);
            }
            ShardMessage::Progress(progress) => {
                let event = HandlerEvent::Progress(progress);
                self.dispatcher.handle_event(event, now, &mut self.outbox);
            }
            ShardMessage::Finished { call_id, result } => {
                let event = HandlerEvent::Finished { call_id, result };
                self.dispatcher.handle_event(event, now, &mut self.outbox);
            }
        }
    }

    /// Processes the events of local handlers.
    fn handle_events(&mut self, now: Instant) {
        let queue = Rc::clone(&self.dispatcher.handlers.queue);
        loop {
            if self.inbox.queued() == 0 {
                self.dispatcher.handlers.publish_resource_updates(&mut self.outbox);
            }
            let mut events = std::mem::take(&mut self.events);
            queue.take_events(&mut events);
            if events.is_empty() {
                self.events = events;
                return;
            }
            for event in events.drain(..) {
                self.dispatcher.handle_event(event, now, &mut self.outbox);
            }
            self.events = events;
        }
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shard")
            .field("id", &self.id)
            .field("connections_open", &self.connections_open())
            .field("calls_open", &self.calls_open())
            .field("streams_open", &self.streams_open())
            .field("client_requests_open", &self.client_requests_open())
            .field("exchanges_open", &self.exchanges_open())
            .field("sessions_open", &self.sessions_open())
            .field("tasks_kept", &self.tasks_kept())
            .finish_non_exhaustive()
    }
}

impl<R: Ring> Driver<R> for Shard {
    #[inline]
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        match completion {
            Completion::Received { socket, buffer } => self.receive(ring, socket, buffer, now),
            Completion::Sent { socket, buffer, result } => {
                let key = self.connections.key_of(socket);
                let next = self.connections.handle_sent(ring, socket, buffer, &result, now);
                if let Some(key) = key {
                    self.close_sent_exchange(key);
                }
                self.handle_connection_event(ring, next, now);
                self.send_missed(ring, socket, now);
            }
            Completion::Accepted { listener, socket, peer } => {
                self.accept_connection(ring, listener, socket, peer, now);
            }
            Completion::AcceptFailed { listener, error } => {
                self.acceptor.record_failure(listener, &error, now, &mut self.outbox);
            }
            Completion::EndOfStream { socket, result } => {
                let next = self.connections.handle_end_of_stream(ring, socket, &result);
                self.handle_connection_event(ring, next, now);
            }
            Completion::Closed { socket } => self.finish_close(socket, now),
            // The server opens no outgoing connections.
            Completion::Connected { .. } => {}
        }
        self.apply_outbox(ring, now);
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        self.dispatcher.handlers.queue.begin_turn(now);
        self.http.begin_turn_if_active(self.dispatcher.deferred.wall_clock, now);
        self.connections.expire_timers(ring, now);
        self.expire_exchanges(now);
        self.expire_sessions(now);
        self.dispatcher.handlers.queue.wake_expired(now);
        self.dispatcher.deferred.expire(now, &mut self.outbox);
        self.dispatcher.handlers.pending_updates.retry_due(now);
        if let ShardPhase::Draining(deadline) = self.phase
            && deadline <= now
        {
            let DeferredWork { tasks, client_requests, .. } = &mut self.dispatcher.deferred;
            tasks.cancel_all(client_requests, now, &mut self.outbox);
            self.abort(ring);
        }
        self.apply_outbox(ring, now);
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        let mut messages = std::mem::take(&mut self.messages);
        self.http.begin_turn_if_active(self.dispatcher.deferred.wall_clock, now);
        self.inbox.receive(&mut messages, MESSAGES_PER_TURN_MAX);
        let full = messages.len() >= MESSAGES_PER_TURN_MAX;
        for message in messages.drain(..) {
            self.handle_message(ring, message, now);
        }
        self.messages = messages;
        self.apply_outbox(ring, now);
        full
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        self.dispatcher.handlers.queue.begin_turn(now);
        self.http.begin_turn_if_active(self.dispatcher.deferred.wall_clock, now);
        // Their handlers have this turn and the next one to end.
        self.sessions_ended = self.end_all_sessions(now);
        let more = self.dispatcher.handlers.executor.poll_futures(FUTURES_PER_TURN_MAX);
        self.handle_events(now);
        self.apply_outbox(ring, now);
        more || self.sessions_ended
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
        loop {
            self.apply_outbox(ring, now);
            self.finish_exchanges(ring, now);
            self.dispatcher.deferred.tasks.publish_changes(&mut self.outbox);
            if self.outbox.is_empty() {
                break;
            }
        }
        self.publish_gauges();
        self.connections.flush(ring, now);
        self.inbox.wake_targets(|waker| ring.wake(waker));
        self.dispatcher.deferred.tasks.shards.update_slow(&self.inbox);
        self.outbox.counters.shard.turns += 1;
    }

    fn next_deadline(&self) -> Option<Instant> {
        let drain = match self.phase {
            ShardPhase::Serving | ShardPhase::Aborted => None,
            ShardPhase::Draining(deadline) => Some(deadline),
        };
        let Dispatcher { deferred, handlers, .. } = &self.dispatcher;
        let deadlines = [
            deferred.next_deadline(),
            handlers.queue.next_deadline(),
            handlers.pending_updates.next_deadline(),
            self.connections.deadline(),
            self.http.next_deadline(),
            drain,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn prepare_park(&mut self) -> bool {
        self.dispatcher.handlers.queue.end_turn();
        self.inbox.prepare_park()
            && self.dispatcher.handlers.executor.prepare_park()
            && !self.dispatcher.handlers.queue.has_events()
    }

    fn is_finished(&self) -> bool {
        let ends = self.phase != ShardPhase::Serving || self.ends_with_input;
        // While draining, running tasks have the time of the drain although no client can ask for
        // them; so have HTTP sessions, which a connection of another shard may use, and handlers
        // that wait for a catalog update. End of input on stdio ends tasks at once.
        let waits = matches!(self.phase, ShardPhase::Draining(_))
            && (self.dispatcher.deferred.tasks.table.running() > 0
                || self.http.sessions.len() > 0
                || self.dispatcher.handlers.pending_updates.has_awaited());
        let is_left = !self.connections.table.is_empty() || self.inbox.queued() > 0;
        ends && !waits && !self.sessions_ended && !is_left
    }
}
