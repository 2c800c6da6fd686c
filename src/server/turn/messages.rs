//! Messages to the shard: from other shards, from other threads, and from its own handlers.
//!
//! A report of all shards passes from one to the next: each adds its part, the last one responds.
//!
//! A step of the memory guard decides what the shard takes on while memory is short.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_engine::ring::Ring;
use corelane_parity::error::ParityError;
use corelane_transport::http::response::BodyKind;

use crate::connection::Connection;
use crate::guard::pressure::PressureStep;
use crate::server::auth::AuthTime;
use crate::server::connection_state::{ConnectionState, RETRY_AFTER_SECONDS};
use crate::server::diagnostics::{
    ConnectionPage, ListPosition, PageBuilder, Rows, SLOTS_PER_TURN, write_page,
};
use crate::server::dispatch::notifies_list_changed;
use crate::server::handlers::HandlerEvent;
use crate::server::input::end_revoked;
use crate::server::memory::MemoryLimit;
use crate::server::overload::OverloadRules;
use crate::server::shard::{Broadcaster, Recipients, Shard, held_memory};
use crate::server::shard_message::{
    BroadcastMessage, ExchangeAddress, HttpOutput, ReportMessage, Requester, ShardLimits,
    ShardMessage, TaskEvent, TaskMessage,
};
use crate::server::subscriptions::{CatalogList, SubscriptionRegistry};
use crate::telemetry::metrics::{self, Metrics, OverloadGauges};
use crate::telemetry::open_work::{ConnectionInfo, QueueDepths};

impl Shard {
    pub(in crate::server) fn handle_message<R: Ring>(
        &mut self,
        ring: &mut R,
        message: ShardMessage,
    ) {
        let Self { dispatcher, outbox, now, .. } = self;
        let now = *now;
        match message {
            ShardMessage::Broadcast(message) => self.handle_broadcast(ring, message),
            ShardMessage::ProofVerified(verified) => {
                for key in dispatcher.auth.complete_proof(&verified) {
                    outbox.resume_reading(key);
                }
            }
            ShardMessage::CatalogUpdated { key, result } => {
                dispatcher.handlers.pending_updates.complete(key, result, now, outbox);
            }
            ShardMessage::Parsed(parsed) => self.handle_parsed(ring, parsed),
            ShardMessage::Session(message) => self.handle_session_message(*message),
            ShardMessage::Task(message) => match *message {
                TaskMessage::Changed { task, version, caller, tail } => {
                    self.broadcast(ring, |broadcaster, registry, recipients| {
                        let caller = caller.as_deref();
                        broadcaster
                            .publish_task(task, version, caller, &tail, registry, recipients);
                    });
                }
                message => dispatcher.handle_task_message(message, now, outbox),
            },
            ShardMessage::Rate(message) => dispatcher.rate.handle_message(*message, now, outbox),
            ShardMessage::Report(report) => continue_report(self, *report),
            #[cfg(feature = "tower")]
            ShardMessage::AdoptStream(stream, extensions) => {
                self.adopt_stream(ring, stream, extensions);
            }
            ShardMessage::PublishCounters { request, snapshots } => {
                snapshots.publish(self.id, request, self.counters());
            }
            ShardMessage::Log(message) => {
                dispatcher.handle_handler_event(HandlerEvent::Log(*message), now, outbox);
            }
            ShardMessage::Progress(progress) => {
                dispatcher.handle_handler_event(HandlerEvent::Progress(progress), now, outbox);
            }
            ShardMessage::Partial(part) => {
                dispatcher.handle_handler_event(HandlerEvent::Partial(*part), now, outbox);
            }
            ShardMessage::Finished { requester, result, charge } => {
                let event = match requester {
                    Requester::Call(call_id) => HandlerEvent::Finished { call_id, result },
                    Requester::Task(task) => {
                        HandlerEvent::Task { task, event: TaskEvent::Finished(result) }
                    }
                };
                dispatcher.handle_handler_event(event, now, outbox);
                if charge.is_some() {
                    // Writes the result to the output of its peer, which is accounted there. Such a
                    // message is not an effect: it comes from the inbox.
                    self.apply_outbox(ring);
                }
            }
        }
    }

    fn handle_broadcast<R: Ring>(&mut self, ring: &mut R, message: BroadcastMessage) {
        match message {
            BroadcastMessage::Drain(timeout) => self.request_drain(ring, timeout),
            BroadcastMessage::Catalog { catalog, changes, installed } => {
                let outbox = &mut self.outbox;
                self.dispatcher.install_catalog(catalog, changes, &installed, outbox);
            }
            BroadcastMessage::ListsChanged(changes) => {
                for list in CatalogList::ALL.into_iter().filter(|list| changes.contains(*list)) {
                    let notifies = notifies_list_changed(&self.dispatcher.catalog, list);
                    self.broadcast(ring, |broadcaster, registry, recipients| {
                        broadcaster.publish_list(list, notifies, registry, recipients);
                    });
                }
            }
            BroadcastMessage::ResourceUpdated(uri) => {
                self.broadcast(ring, |broadcaster, registry, recipients| {
                    broadcaster.publish_resource(&uri, registry, recipients);
                });
            }
            BroadcastMessage::Limits(limits, overload) => {
                self.limits = limits;
                self.transports.acceptor.age_check_at = Instant::ORIGIN;
                if !overload.guards_memory() {
                    self.transports.acceptor.set_pressure(PressureStep::None);
                }
                self.dispatcher.deferred.overload.set_rules(overload);
                self.apply_limits();
            }
            BroadcastMessage::Pressure(step) => apply_step(self, ring, step),
            BroadcastMessage::RateRules(rules) => self.dispatcher.rate.install(rules),
            BroadcastMessage::Authenticator(authenticator) => {
                self.dispatcher.auth.install(authenticator);
            }
            BroadcastMessage::RequestStates(states) => {
                self.dispatcher.deferred.request_states.set_shared(*states);
            }
            BroadcastMessage::Revoked(certificates) => {
                end_revoked(self, &certificates);
                self.dispatcher.auth.revoked = certificates;
            }
            BroadcastMessage::Introspected(token) => {
                let time = AuthTime::at(self.now, self.dispatcher.deferred.wall_clock);
                let counters = &mut self.outbox.counters.auth;
                for key in self.dispatcher.auth.complete(&token, time, counters) {
                    self.outbox.resume_reading(key);
                }
            }
        }
    }

    /// Notifies subscribers, and accounts the memory of their connections.
    fn broadcast<R: Ring, T>(
        &mut self,
        ring: &mut R,
        publish: impl FnOnce(&mut Broadcaster, &mut SubscriptionRegistry, &mut Recipients<'_>) -> T,
    ) -> T {
        let Self { broadcaster, transports, dispatcher, outbox, now, .. } = self;
        let now = *now;
        let mut recipients = Recipients { transports, outbox, now };
        let published = publish(broadcaster, &mut dispatcher.subscriptions, &mut recipients);
        while let Some(key) = self.broadcaster.take_notified() {
            self.check_memory(ring, key);
        }
        published
    }

    /// After a send: notifies the streams of a connection whose queue has drained to half of what
    /// they missed. Does nothing before the first skipped notification.
    #[inline]
    pub(super) fn send_missed<R: Ring>(&mut self, ring: &mut R, key: Option<Key>) {
        if self.outbox.counters.subscriptions.notifications_deferred > 0
            && let Some(key) = key
        {
            let missed_tasks = self.broadcast(ring, |broadcaster, registry, recipients| {
                broadcaster.send_missed(key, registry, recipients)
            });
            for task in missed_tasks {
                self.dispatcher.deferred.tasks.watch(&task, &mut self.outbox);
            }
        }
    }

    /// Processes the events of local handlers.
    pub(super) fn handle_handler_events(&mut self) {
        self.dispatcher.report_slow_polls(self.now, &mut self.outbox);
        loop {
            if self.inbox.queued() == 0 {
                self.dispatcher.handlers.publish_resource_updates(&mut self.outbox);
            }
            let mut events = std::mem::take(&mut self.events);
            self.dispatcher.handlers.queue.take_events(&mut events);
            let is_idle = events.is_empty();
            for event in events.drain(..) {
                self.dispatcher.handle_handler_event(event, self.now, &mut self.outbox);
            }
            self.events = events;
            if is_idle {
                self.dispatcher.handlers.queue.end_round();
                return;
            }
        }
    }
}

/// Adds the part of this shard to a report and passes it on.
#[cold]
fn continue_report(shard: &mut Shard, report: ReportMessage) {
    match report {
        ReportMessage::Metrics { exchange, mut counters, rate_keys, mut queues, remaining } => {
            counters.add(&shard.counters());
            queues.push(queue_depths(shard));
            let rate_keys = rate_keys + shard.dispatcher.rate.keys(shard.now);
            if remaining > 1 {
                let remaining = remaining - 1;
                let next = ShardId((shard.id.0 + 1) % shard.dispatcher.shard_count);
                return forward(
                    shard,
                    next,
                    ReportMessage::Metrics { exchange, counters, rate_keys, queues, remaining },
                );
            }
            let shards = shard.dispatcher.shard_count;
            queues.sort_unstable_by_key(|depths| depths.shard);
            let gauges = shard.transports.gauges(shards, rate_keys, overload(shard), queues);
            let mut text = Metrics { counters: &counters, gauges }.to_string();
            if let Some(upstreams) = &shard.transports.http.upstreams {
                text.push_str(&upstreams.write_metrics());
            }
            let body = BodyKind::Text(metrics::CONTENT_TYPE);
            write_document(shard, exchange, body, text.into_bytes());
        }
        ReportMessage::Connections { exchange, page } => continue_list(shard, exchange, page),
    }
}

/// Adds connections of this shard to a page, at most [`SLOTS_PER_TURN`] of them.
fn continue_list(shard: &mut Shard, exchange: Option<ExchangeAddress>, mut page: PageBuilder) {
    let (connections, next_slot) =
        shard.transports.connections.table.part(page.position.slot, SLOTS_PER_TURN);
    for connection in connections.filter(|connection| !connection.is_closed()) {
        page.push(describe(shard, connection));
    }
    page.position = match next_slot {
        Some(slot) => ListPosition { slot, ..page.position },
        None => ListPosition { shard: page.position.shard + 1, slot: 0 },
    };
    let is_last = page.position.shard >= shard.dispatcher.shard_count;
    // A thread asks each shard by itself, since it notices those that have ended.
    let ends_with_shard = next_slot.is_none() && exchange.is_none();
    if is_last || ends_with_shard || page.is_full() {
        let next = (!is_last).then_some(page.position);
        finish_list(shard, exchange, page.rows, next);
    } else if next_slot.is_some() {
        // Goes on in a later turn.
        let report = ReportMessage::Connections { exchange, page };
        shard.transports.large_work.push_result(ShardMessage::Report(Box::new(report)));
    } else {
        forward(shard, page.shard(), ReportMessage::Connections { exchange, page });
    }
}

fn finish_list(
    shard: &mut Shard,
    exchange: Option<ExchangeAddress>,
    rows: Rows,
    next: Option<ListPosition>,
) {
    match (rows, exchange) {
        (Rows::Json(rows), Some(exchange)) => {
            write_document(shard, exchange, BodyKind::Json, write_page(&rows, next));
        }
        // The thread has stopped waiting if this fails.
        (Rows::Values(rows, reply), _) => _ = reply.try_send(ConnectionPage { rows, next }),
        (Rows::Json(_), None) => {}
    }
}

fn describe(shard: &Shard, connection: &Connection<ConnectionState>) -> ConnectionInfo {
    let started_ms = shard.dispatcher.deferred.wall_clock.unix_ms(connection.record.opened_at());
    ConnectionInfo {
        shard: shard.id.0,
        transport: connection.state.transport,
        peer: connection.record.peer(),
        started: SystemTime::UNIX_EPOCH + Duration::from_millis(started_ms),
        traffic: connection.record.traffic,
        requests_pending: connection.pending_work.pending_responses,
        bytes_buffered: connection.held_bytes(),
        pings: connection.pings(),
    }
}

fn forward(shard: &mut Shard, to: ShardId, report: ReportMessage) {
    shard.outbox.forward(to, ShardMessage::Report(Box::new(report)));
}

fn write_document(shard: &mut Shard, exchange: ExchangeAddress, body: BodyKind, text: Vec<u8>) {
    let output = HttpOutput::Document { body, text };
    shard.outbox.write_exchange(exchange, output);
}

/// Returns what waits in the queues of a shard.
fn queue_depths(shard: &Shard) -> QueueDepths {
    let Shard { transports, dispatcher, inbox, outbox, .. } = shard;
    QueueDepths {
        shard: shard.id.0,
        mesh_received: inbox.waiting(),
        mesh_unsent: inbox.queued(),
        outbox: outbox.len(),
        large_work: transports.large_work.len(),
        incomplete_messages: transports.input_pool.waiting(),
        introspection: dispatcher.held.len(),
        calls: dispatcher.deferred.calls.len(),
        client_requests: dispatcher.deferred.client_requests.len(),
    }
}

/// Returns the numbers of overload protection.
fn overload(shard: &Shard) -> OverloadGauges {
    let running = shard.dispatcher.deferred.overload.running();
    OverloadGauges {
        calls_running: running.count(),
        breakers_open: running.open_breakers().count(),
        memory_pressure: shard.transports.acceptor.pressure().number(),
        blocking_waiting: shard.dispatcher.handlers.blocking_pool.waiting(),
    }
}

/// Returns the limits at a step.
pub(super) fn restrict(
    limits: &ShardLimits,
    step: PressureStep,
    rules: &OverloadRules,
) -> ShardLimits {
    let mut limits = *limits;
    if step >= PressureStep::RefuseMessages {
        let bytes_max = rules.short_message_bytes_max();
        for limit in [
            &mut limits.connections.message_bytes_max,
            &mut limits.http_request.body_bytes_max,
            &mut limits.websocket.frame_limits.message_bytes_max,
        ] {
            *limit = bytes_max.min(*limit);
        }
    }
    if step >= PressureStep::EndStreams {
        limits.subscriptions.streams_max = 0;
    }
    limits
}

/// Applies a step, which may be the current one again: then further connections are closed.
#[cold]
fn apply_step<R: Ring>(shard: &mut Shard, ring: &mut R, step: PressureStep) {
    let before = shard.transports.acceptor.pressure();
    if step != before {
        shard.outbox.counters.overload.pressure_steps += 1;
        shard.transports.acceptor.set_pressure(step);
        shard.apply_limits();
    }
    if step > before {
        // Before anything is refused: it may be enough.
        shard.transports.free_kept_memory(&mut shard.parser);
    }
    if step >= PressureStep::EndStreams && before < PressureStep::EndStreams {
        end_streams(shard);
    }
    if step == PressureStep::CloseSlowest {
        close_slowest(shard, ring);
    }
    shard.apply_outbox(ring);
}

/// Ends all notification streams with their results.
fn end_streams(shard: &mut Shard) {
    let before = shard.outbox.counters.subscriptions.closed;
    let message = "the server is overloaded: connect again later";
    let reason = ParityError::rate_limited(message, 1_000 * u64::from(RETRY_AFTER_SECONDS));
    for key in shard.connection_keys() {
        shard.end_idle_stream(key, &reason);
        shard.complete_streams(key);
    }
    let counters = &mut shard.outbox.counters;
    counters.overload.streams_shed += counters.subscriptions.closed - before;
}

/// Closes connections until half of what is held for clients is freed, those for which most is held
/// first; those that hold less than their share stay.
fn close_slowest<R: Ring>(shard: &mut Shard, ring: &mut R) {
    // It is not held for clients.
    shard.transports.free_kept_memory(&mut shard.parser);
    let held_bytes = held_memory(&shard.transports, &shard.dispatcher).total();
    let limit = MemoryLimit::new((held_bytes / 2).max(KEPT_BYTES));
    let memory = Rc::clone(&shard.dispatcher.handlers.memory);
    let usual = memory.limit();
    memory.set_limit(limit);
    shard.free_memory(ring);
    memory.set_limit(usual);
}

/// What a shard holds at least without closing a connection: less would not relieve the machine.
const KEPT_BYTES: usize = 1 << 20;
