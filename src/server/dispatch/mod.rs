//! The request path: one parsed message in, its output appended to the peer's buffer.
//!
//! ```text
//! text ─ parse ─▶ document ─ envelope ─▶ raw request ─ era ─▶ request ─ catalog ─▶ output
//! ```
//!
//! A request that a handler serves has its steps in [`Dispatcher::dispatch_call`]: authorization,
//! rate limit, circuit breaker, task, handler. Other requests have the first two in
//! [`Dispatcher::dispatch_request`], and no handler.
//!
//! Nothing here blocks: a handler that needs time is started and answers later by its call id.
//! Messages that arrive together are answered together, because all output goes to one buffer.
//!
//! Invariants: every request gets exactly one response, now or later; a notification gets none;
//! input that is not a message gets one error and affects nothing else. At the limit of requests in
//! flight reading continues: further calls are rejected, while responses to server requests and
//! cancellations are processed.

mod admission;

mod deferred;
mod handlers;
mod tasks;

mod handler_calls;

mod message_token;

mod authorization;

mod catalog_requests;

mod other_messages;

mod spans;

use std::borrow::Cow;
use std::sync::Arc;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::SharedCounter;
use corelane_protocol::eras::{ClientNotification, InitializeRequestParams, Method};
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::RequestKey;
use corelane_protocol::json::{Array, Value};
use corelane_protocol::jsonrpc::{Id, Message};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model;
use corelane_protocol::params::{CancelledNotificationParams, RequestParams};
use corelane_protocol::revision::Revision;

pub(super) use self::admission::RawRequest;
use self::admission::{Request, check_revision, count_request, record_invalid, validate};
pub(super) use self::catalog_requests::notifies_list_changed;
pub(super) use self::deferred::DeferredWork;
pub(super) use self::handlers::Handlers;
use self::handlers::NewHandler;
pub(super) use self::other_messages::ServedDialects;
use super::audit::AuditLog;
use super::auth::Authentication;
use super::blocking_jobs::limit_results;
use super::connection_state::{FactsMemory, PeerState};
use super::handlers::HandlerEvent;
use super::handlers::reports::SlowHandlers;
use super::outbox::Outbox;
use super::rate::RateLimits;
use super::reply_to::{Outcome, PeerId, ReplyTo};
use super::shard_message::{BroadcastMessage, ShardLimits};
use super::subscriptions::{CatalogLists, ConnectionSubscriptions, SubscriptionRegistry};
use super::waiting_requests::{HeldMessages, WaitingRequests};
use crate::server::shard_message::{TaskEvent, TaskMessage};
use crate::service::{Catalog, ClientImplementation};
use crate::telemetry::counters::Counters;
use crate::telemetry::label::Transport;
use crate::telemetry::open_work::OpenWork;

/// Everything that dispatch needs except the state of the peer.
pub(super) struct Dispatcher {
    /// The current catalog version.
    pub(super) catalog: Arc<Catalog>,
    pub(super) subscriptions: SubscriptionRegistry,
    /// What is answered later.
    pub(super) deferred: DeferredWork,
    pub(super) handlers: Handlers,
    pub(super) slow_handlers: SlowHandlers,
    /// Requests over stdio that wait for the response to the one before.
    pub(super) waiting: WaitingRequests,
    /// Messages that wait for the answer about their token.
    pub(super) held: HeldMessages,
    pub(super) dialects: ServedDialects,
    pub(super) facts: FactsMemory,
    pub(super) auth: Authentication,
    pub(super) audit: Arc<AuditLog>,
    pub(super) rate: RateLimits,
    /// The number of shards.
    pub(super) shard_count: u16,
}

/// The context of one message.
#[derive(Clone, Copy)]
pub(super) struct MessageContext {
    /// The peer, and the target of responses.
    pub(super) reply_to: ReplyTo,
    pub(super) now: Instant,
    /// Whether the message is part of a JSON-RPC batch.
    pub(super) in_batch: bool,
    /// The transport has established that the request is modern: then it must be.
    pub(super) is_modern: bool,
}

impl Dispatcher {
    /// Applies new limits.
    pub(super) fn set_limits(&mut self, limits: &ShardLimits) {
        self.deferred.set_limits(limits);
        self.handlers.memory.set_limit(limits.memory);
        self.auth.limit_bytes(limits.memory.tokens());
        let all_shards = limits.memory.of_all(self.shard_count);
        limit_results(&self.handlers.blocking_pool, all_shards);
        self.subscriptions.limits = limits.subscriptions;
        self.waiting.set_limits(limits.into());
    }

    /// Ends what has passed its deadline, and wakes the handlers that waited for this time.
    pub(super) fn expire(&mut self, now: Instant, outbox: &mut Outbox) {
        self.handlers.queue.wake_expired(now);
        self.deferred.expire(now, outbox);
        self.handlers.pending_updates.retry_due(now, outbox);
    }

    /// Returns the next deadline of calls, tasks, client requests and handlers.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        Instant::earliest([
            self.deferred.next_deadline(),
            self.handlers.queue.next_deadline(),
            self.handlers.pending_updates.next_deadline(),
            self.auth.next_check(),
        ])
    }

    /// Counts calls, streams, client requests and tasks.
    pub(super) fn count_open(&self, open: &mut OpenWork) {
        open.calls = self.deferred.calls.len();
        open.streams = self.subscriptions.len();
        open.client_requests = self.deferred.client_requests.len();
        open.tasks = self.deferred.tasks.table.usage().tasks;
    }

    pub(super) fn add_counters(&self, counters: &mut Counters) {
        counters.requests.refused_memory += self.handlers.memory.refused();
        self.deferred.overload.add_counters(&mut counters.overload);
    }

    /// Handles a task message of another shard, or of this one.
    pub(super) fn handle_task_message(
        &mut self,
        message: TaskMessage,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        self.deferred.handle_task_message(message, &self.catalog, now, outbox);
    }

    /// Removes the streams of a peer that is gone or was cancelled, without a response.
    pub(super) fn remove_streams(
        &mut self,
        subscriptions: &mut ConnectionSubscriptions,
        outbox: &mut Outbox,
    ) {
        let closed = &mut outbox.counters.subscriptions.closed;
        self.subscriptions.close_all_streams(subscriptions, |_| *closed += 1);
    }

    /// Completes the streams of a connection with their results, because the server drains.
    ///
    /// Source: 2026-07-28, basic/patterns/subscriptions, "Ending a subscription".
    pub(super) fn complete_streams(
        &mut self,
        connection: Key,
        subscriptions: &mut ConnectionSubscriptions,
        outbox: &mut Outbox,
    ) {
        let suffix = self.catalog.result_suffix(Revision::LATEST);
        self.subscriptions.close_all_streams(subscriptions, |stream| {
            outbox.counters.subscriptions.closed += 1;
            let Some(id) = stream.id() else { return };
            let to = ReplyTo::standalone(PeerId::Connection(connection));
            outbox.end_subscription(to, id.into(), |id, text| {
                model::begin_response(text, id.as_id());
                model::write_subscriptions_listen_result(text, id.as_id(), suffix);
                model::end_response(text);
            });
        });
    }

    /// Dispatches one parsed message of MCP, or a batch where the revision has batches. Immediate
    /// output is appended to the peer's buffer. A message that selects the parity dialect is not
    /// dispatched: the peer has that dialect then.
    #[inline]
    pub(super) fn dispatch(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        root: Value<'_>,
    ) -> Outcome {
        peer.outbox.counters.traffic.messages_in += 1;
        let outcome = match root.as_array() {
            None => self.dispatch_message(ctx, peer, root),
            Some(batch) => self.dispatch_batch(ctx, peer, batch),
        };
        peer.outbox.count_outcome(outcome);
        outcome
    }

    #[inline]
    fn dispatch_message(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        value: Value<'_>,
    ) -> Outcome {
        match Message::read(value) {
            Ok(Message::Request { id, method, params }) => {
                let call_params = &RequestParams::read(params);
                let meta = &call_params.meta();
                self.dispatch_request(
                    ctx,
                    peer,
                    &RawRequest { id, method, params, call_params, meta },
                )
            }
            Ok(Message::Notification { method, params }) => {
                peer.outbox.counters.requests.notifications += 1;
                self.handle_notification(ctx, peer, method, params);
                Outcome::None
            }
            Ok(Message::Response { id, outcome }) => {
                self.handle_response(ctx, peer, id, outcome);
                Outcome::None
            }
            Err(_) if self.selects_parity(ctx, peer, value) => Outcome::None,
            Err(refused) => self.handle_invalid(ctx, peer, &refused),
        }
    }

    /// Dispatches a batch: immediate responses form one array, later ones are sent individually
    /// (2025-03-26, basic/index, "Batching").
    fn dispatch_batch(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        batch: Array<'_>,
    ) -> Outcome {
        peer.outbox.counters.requests.batches += 1;
        let revision = peer.state.lifecycle.revision();
        let messages_max = self.deferred.requests_in_flight_max;
        let refusal = if !revision.is_some_and(|revision| revision.dialect().batches) {
            Some("batches are supported in revision 2025-03-26 only, after initialize".into())
        } else if batch.is_empty() {
            Some(Cow::Borrowed("a batch must contain at least one message"))
        } else if batch.len() > messages_max {
            // The responses leave together: a small unlimited batch could produce gigabytes.
            Some(format!("a batch has {} messages (limit {messages_max})", batch.len()).into())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            record_invalid(ctx, peer);
            return write_error(peer, None, &Error::invalid_request(refusal), revision);
        }
        let start = peer.outgoing.len();
        peer.outgoing.push(b'[');
        let ctx = MessageContext { in_batch: true, ..ctx };
        for value in batch {
            if self.dispatch_message(ctx, peer, value) != Outcome::None {
                peer.outgoing.push(b',');
            }
        }
        if peer.outgoing.len() == start + 1 {
            peer.outgoing.truncate(start);
            return Outcome::None;
        }
        peer.outgoing.pop();
        peer.outgoing.push(b']');
        Outcome::Response
    }

    /// Dispatches a request, in a span if such are exported. One of the parity dialect has its span
    /// already.
    #[inline]
    pub(super) fn dispatch_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let is_traced =
            peer.outbox.tracer.is_on() && !matches!(ctx.reply_to.peer_id, PeerId::Parity(_));
        let outcome = if is_traced {
            self.dispatch_traced(ctx, peer, raw)
        } else {
            self.dispatch_valid(ctx, peer, raw)
        };
        if self.auth.replaced.is_some() {
            self.restore_credential(peer);
        }
        outcome
    }

    /// Validates a request against its protocol era, then dispatches it by method.
    #[inline]
    fn dispatch_valid(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let state = &*peer.state;
        if !state.in_flight.is_empty() && self.must_wait(ctx, peer, raw) {
            return self.queue_request(ctx, peer, raw);
        }
        let request = match validate(ctx, raw, state.lifecycle, &state.in_flight) {
            Ok(request) => request,
            Err(error) => {
                let revision = state.lifecycle.revision();
                count_request(&mut peer.outbox.counters.requests, Method::parse(raw.method));
                return write_error(peer, Some(raw.id), &error, revision);
            }
        };
        count_request(&mut peer.outbox.counters.requests, Some(request.method));
        let checked = check_revision(&request, peer.state.transport, self.dialects.http_revision)
            .and_then(|()| self.catalog.check_method(request.method));
        if let Err(error) = checked {
            return write_request_error(peer, &request, &error);
        }
        if let Method::ToolsCall
        | Method::PromptsGet
        | Method::ResourcesRead
        | Method::CompletionComplete = request.method
        {
            return self.dispatch_call(ctx, peer, &request);
        }
        if self.auth.is_active()
            && let Err(refused) = self.authorize(ctx, peer, &request)
        {
            return refused;
        }
        if self.rate.is_active()
            && let Err(refused) = self.limit_rate(ctx, peer, &request)
        {
            return refused;
        }
        match request.method {
            Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel => self.dispatch_task_request(ctx, peer, &request),
            Method::LoggingSetLevel => catalog_requests::set_log_level(peer, &request),
            Method::Ping => write_result(peer, &request, b"{}"),
            Method::Discover => write_result(peer, &request, self.catalog.discover_result()),
            Method::Initialize => self.initialize(peer, &request),
            Method::SubscriptionsListen => self.listen(ctx, peer, &request),
            Method::ResourcesSubscribe => self.subscribe(ctx, peer, &request),
            Method::ResourcesUnsubscribe => self.unsubscribe(peer, &request),
            Method::SkillsGet | Method::ResourcesDirectoryRead => self.write_skill(peer, &request),
            // A list.
            _ => self.dispatch_list(peer, &request),
        }
    }

    /// Checks a request against the rate limits.
    ///
    /// # Errors
    ///
    /// A limit is exceeded: the error response is written.
    #[inline]
    fn limit_rate(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Outcome> {
        let name = if self.rate.needs_name() { request.target_name() } else { "" };
        let (peer_id, now) = (ctx.reply_to.peer_id, ctx.now);
        let checked = self.rate.check(&self.catalog, peer, peer_id, now, request.method, name);
        checked.map_err(|error| self.refuse_rate(peer, request, &error))
    }

    fn initialize(&mut self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        let pinned =
            self.dialects.http_revision.filter(|_| peer.state.transport == Transport::Http);
        let lifecycle = &mut peer.state.lifecycle;
        let agreed = InitializeRequestParams::read(request.params())
            .and_then(|params| Ok((lifecycle.initialize(&params, pinned)?, params.client_info)));
        match agreed {
            Ok((revision, client_info)) => {
                if let Some(client) = client_info.and_then(ClientImplementation::read) {
                    self.facts.keep_client_info(peer.state, client);
                }
                self.facts.keep_session_slot(peer.state);
                write_result(peer, request, self.catalog.initialize_result(revision))
            }
            Err(error) => write_request_error(peer, request, &error),
        }
    }

    /// Handles a notification. Unknown ones are ignored.
    fn handle_notification(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        method: &str,
        params: Option<Value<'_>>,
    ) {
        let (peer_id, now) = (ctx.reply_to.peer_id, ctx.now);
        if self.rate.is_active()
            && self.rate.drops_notification(&self.catalog, peer, peer_id, now, method)
        {
            return;
        }
        match ClientNotification::parse(method) {
            Some(ClientNotification::Initialized) => {
                if peer.state.lifecycle.complete_handshake() {
                    let client_requests = &mut self.deferred.client_requests;
                    client_requests.send_held(ctx.reply_to.peer_id, ctx.now, peer.outbox);
                }
            }
            Some(ClientNotification::Cancelled) => self.handle_cancelled(peer, params),
            Some(ClientNotification::Progress) => {
                let peer_id = ctx.reply_to.peer_id;
                self.deferred.client_requests.handle_progress(
                    peer_id,
                    params,
                    ctx.now,
                    peer.outbox,
                );
            }
            // Handlers request the roots anew each time, and the server starts no tasks on clients.
            Some(ClientNotification::RootsListChanged | ClientNotification::TaskStatus) | None => {}
        }
    }

    /// Counts and logs the polls of local handlers that took long.
    #[inline]
    pub(super) fn report_slow_polls(&mut self, now: Instant, outbox: &mut Outbox) {
        for poll in self.handlers.queue.take_slow_polls() {
            let is_slow = self.slow_handlers.is_slow_poll(&poll, now);
            outbox.counters.requests.slow_handlers += u64::from(is_slow);
        }
    }

    /// Handles an event of a local handler.
    pub(super) fn handle_handler_event(
        &mut self,
        event: HandlerEvent,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let failures = &mut self.handlers.failures;
        let event = match event {
            HandlerEvent::Finished { call_id, result } => {
                self.deferred.record_failure(call_id, &result, now);
                let request_id = self.deferred.calls.request_id(call_id);
                let result = failures.report_in(result, request_id, now);
                HandlerEvent::Finished { call_id, result }
            }
            HandlerEvent::Task { task, event: TaskEvent::Finished(result) } => {
                let event = TaskEvent::Finished(failures.report_in(result, None, now));
                HandlerEvent::Task { task, event }
            }
            event => event,
        };
        match event {
            HandlerEvent::UpdateCatalog(update) => {
                self.handlers.pending_updates.start(update, now, outbox);
            }
            event => self.deferred.apply_handler_event(event, &self.catalog, now, outbox),
        }
    }

    /// `notifications/cancelled`: cancels the call without a response; in a session all calls with
    /// this id. An unknown id is ignored: the response may have crossed the notification.
    fn handle_cancelled(&mut self, peer: &mut PeerState<'_>, params: Option<Value<'_>>) {
        let Some(cancelled) = CancelledNotificationParams::read(params) else { return };
        while let Some(request) = peer.state.in_flight.remove_any(cancelled.request_id) {
            match request {
                RequestKey::Stream(stream) => self.end_stream(peer, stream),
                RequestKey::Call(call_id) => self.deferred.cancel_call(call_id, peer),
                RequestKey::Waiting => {
                    self.waiting.remove(cancelled.request_id);
                    peer.outbox.counters.requests.cancelled += 1;
                }
            }
        }
    }

    /// Installs the next catalog version. The last shard has all shards notify their clients, who
    /// then find it on every shard.
    pub(super) fn install_catalog(
        &mut self,
        catalog: Arc<Catalog>,
        changes: CatalogLists,
        installed: &SharedCounter,
        outbox: &mut Outbox,
    ) {
        self.catalog = catalog;
        self.deferred.overload.forget_positions();
        if installed.acquire() >= usize::from(self.shard_count) {
            self.handlers.broadcast(&BroadcastMessage::ListsChanged(changes), outbox);
        }
    }
}

/// Writes and counts the error for text that is not a message: not JSON, not UTF-8, too long.
pub(super) fn write_text_error(
    peer: &mut PeerState<'_>,
    head: &MessageHead,
    error: &Error,
) -> Outcome {
    let outcome = if peer.state.dialect.is_parity() {
        other_messages::write_parity_error(peer, head, error)
    } else {
        write_error(peer, head.id(), error, peer.state.lifecycle.revision())
    };
    peer.outbox.count_outcome(outcome);
    outcome
}

/// Writes the error response of a request.
fn write_request_error(peer: &mut PeerState<'_>, request: &Request<'_>, error: &Error) -> Outcome {
    write_error(peer, Some(request.id()), error, Some(request.revision))
}

fn write_error(
    peer: &mut PeerState<'_>,
    id: Option<Id<'_>>,
    error: &Error,
    revision: Option<Revision>,
) -> Outcome {
    peer.outbox.count_error(error);
    match &mut peer.failure {
        Some(failure) => **failure = Some(error.clone()),
        None => model::write_error_response(peer.outgoing, id, error, revision),
    }
    Outcome::Error(error.kind)
}

/// Writes a response with an encoded result.
#[inline]
fn write_result(peer: &mut PeerState<'_>, request: &Request<'_>, body: &[u8]) -> Outcome {
    model::write_response(peer.outgoing, request.id(), body);
    Outcome::Response
}
