//! One session with a server, sans-IO: handshake, calls, notifications, cancellation.
//!
//! Input: messages, calls, the time. Output: messages to a [`MessageSink`], and [`SessionEvent`]s.
//!
//! Invariants:
//! - Every call ends exactly once: with [`SessionEvent::Completed`], or with
//!   [`Session::cancel`], which returns its token.
//! - No request but those of the handshake is sent before the handshake is complete.
//! - Calls are sent in the order in which they were made.
//! - A message that the protocol does not allow fails the call that it names, if any, and no other.

mod handshake;
mod in_flight;
mod request;

mod followed_task;

mod calls;

mod errors;
mod inputs;

mod event;

mod context;

mod side_requests;

mod restart;

mod subscriptions;
mod tasks;

mod receive;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::calls::{Call, CallTable};
use self::errors::{busy, closed, explain_end, explain_failure, unconnected, unsupported};
use self::handshake::{FailedDiscover, NextStep, handshake_error};
use self::inputs::InputTable;
use self::side_requests::SideRequests;
use self::subscriptions::SubscriptionTable;
use self::tasks::TaskTable;
use crate::error::ClientError;
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::revision::Revision;

pub use self::context::{SessionBuffers, SessionConfig, SessionContext};
pub use self::event::{
    MessageSink, OutgoingKind, OutgoingMessage, Progress, ReceivedMessage, SessionEvent,
};
pub use self::handshake::{EraPreference, ServerInfo, SessionOptions};
pub use self::inputs::{InputKey, InputKind, RequiredInput};
pub use self::request::{CallRequest, EncodedParams, ParameterField, TaskMode};

/// Time after which a subscription ends: its response has no other deadline.
const SUBSCRIPTION_TIME_MAX: Duration = Duration::from_hours(24 * 365);

/// Names a call of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CallId(pub(super) u64);

#[derive(Debug)]
enum Phase {
    /// Nothing was sent.
    New,
    /// `server/discover` or `initialize` is in flight.
    Handshake(HandshakeRequest),
    /// Calls are sent.
    Ready(Arc<ServerInfo>),
    /// The handshake has failed, or the connection is lost.
    Ended(ClientError),
}

/// The request of the handshake that is in flight.
#[derive(Clone, Copy, Debug)]
struct HandshakeRequest {
    id: u64,
    timeout: Duration,
    deadline: Instant,
    /// The revision that `initialize` asks for; `None` for `server/discover`.
    legacy: Option<Revision>,
    /// `server/discover` is sent again if the server refuses the revision that it supports.
    may_repeat: bool,
}

/// One session. `T` identifies a call to its caller.
#[derive(Debug)]
pub struct Session<T> {
    config: Arc<SessionConfig>,
    phase: Phase,
    calls: CallTable<T>,
    inputs: InputTable<T>,
    /// Nothing expires while the user is asked for authorization.
    paused_at: Option<Instant>,
    /// `server/discover`, if the handshake goes on, or has gone on, with `initialize`.
    failed_discover: Option<Box<FailedDiscover>>,
    /// When the handshake must be complete.
    handshake_end: Option<Instant>,
    /// Why there is no connection. Calls wait for the next one, also if its handshake fails.
    suspended: Option<ClientError>,
    /// What the server sent first that is not a message, and belongs to no call.
    invalid_text: Option<Box<str>>,
    tasks: TaskTable<T>,
    subscriptions: SubscriptionTable<T>,
    side_requests: SideRequests,
    /// The last error that belongs to no request: servers send one before they close a connection.
    server_error: Option<ClientError>,
    /// Why the server has refused requests for now, which are sent again, by their ids.
    refusals: BTreeMap<u64, ClientError>,
}

/// Lifecycle.
impl<T: Clone> Session<T> {
    /// Creates a session that has sent nothing.
    pub fn new(config: Arc<SessionConfig>) -> Self {
        let (calls, inputs) = (CallTable::new(), InputTable::new());
        Self {
            config,
            phase: Phase::New,
            calls,
            inputs,
            paused_at: None,
            failed_discover: None,
            handshake_end: None,
            suspended: None,
            invalid_text: None,
            server_error: None,
            tasks: TaskTable::new(),
            subscriptions: SubscriptionTable::new(),
            side_requests: SideRequests::default(),
            refusals: BTreeMap::new(),
        }
    }

    /// Begins the handshake. `is_legacy` skips `server/discover`, for a server that is known to
    /// negotiate with `initialize`.
    pub fn start<S: MessageSink>(&mut self, is_legacy: bool, ctx: &mut SessionContext<'_, T, S>) {
        let era = self.config.options().era;
        self.handshake_end = self.config.options().handshake_timeout.map(|it| ctx.now.after(it));
        if is_legacy || matches!(era, EraPreference::Legacy(_)) {
            self.send_initialize(self.config.options().legacy_revision(), ctx);
            return;
        }
        self.advance_handshake(NextStep::Discover { may_repeat: true }, ctx);
    }

    /// Returns what the server declared, once the handshake is complete.
    pub const fn server(&self) -> Option<&Arc<ServerInfo>> {
        match &self.phase {
            Phase::Ready(server) => Some(server),
            _ => None,
        }
    }

    /// Returns the revision of the session, or of its handshake.
    fn revision(&self) -> Revision {
        self.server().map_or(Revision::LATEST_LEGACY, |server| server.revision)
    }

    /// Returns why the handshake has failed or the connection is lost.
    pub const fn end_reason(&self) -> Option<&ClientError> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether `server/discover` is in flight, so that a connection that ends now may be
    /// that of a server which only knows `initialize`.
    pub fn is_discovering(&self) -> bool {
        let is_discover = |request: &HandshakeRequest| request.legacy.is_none();
        let may_fall_back = self.config.options().era == EraPreference::Auto;
        may_fall_back && matches!(&self.phase, Phase::Handshake(request) if is_discover(request))
    }

    /// Forgets the handshake, whose connection has ended because of `error`, so that
    /// [`Session::start`] begins it again on another one. Calls that wait for it keep their places.
    pub fn reset_handshake(&mut self, error: ClientError) {
        if let Phase::Handshake(_) = self.phase {
            self.phase = Phase::New;
            self.failed_discover = Some(Box::new(FailedDiscover { id: None, error }));
        }
    }

    /// Returns when [`Session::expire`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        if self.paused_at.is_some() {
            return None;
        }
        let handshake = match &self.phase {
            Phase::Handshake(request) => Some(request.deadline),
            Phase::New | Phase::Ready(_) | Phase::Ended(_) => None,
        };
        let (tasks, subscriptions) = (self.tasks.deadline(), self.subscriptions.deadline());
        Instant::earliest([self.calls.deadline(), tasks, subscriptions, handshake])
    }

    /// Ends what has timed out by now.
    pub fn expire<S: MessageSink>(&mut self, ctx: &mut SessionContext<'_, T, S>) {
        if self.paused_at.is_some() {
            return;
        }
        if let Phase::Handshake(request) = self.phase
            && request.deadline <= ctx.now
        {
            let error = self.timeout_error(Some(request.id), request.timeout);
            self.fail_request(request.id, error, ctx);
        }
        for (id, mut call) in self.calls.take_expired(ctx.now) {
            if let Some(id) = id {
                ctx.send_cancellation(self.revision(), id, Some("timeout"));
            }
            let error = match &self.suspended {
                Some(cause) if id.is_none() => unconnected(call.timeout, cause),
                _ => self.timeout_error(id, call.timeout),
            };
            if id.is_some() && call.task.is_none() {
                restart::fail_or_repeat(self, call, error, ctx);
                continue;
            }
            tasks::abandon(self, &mut call, ctx);
            let result = Err(error);
            ctx.events.push(SessionEvent::Completed { token: call.token, result });
        }
        restart::send_due(self, ctx);
        tasks::expire(self, ctx);
        self.send_waiting(ctx);
    }

    /// Ends the session with its connection: every call fails. Calls that were sent may have run;
    /// they fail with [`Closed`](crate::ClientErrorKind::Closed), the others with `error`.
    pub fn disconnect(&mut self, error: ClientError, events: &mut Vec<SessionEvent<T>>) {
        let error = explain_end(self.server_error.take(), error);
        let error = self.explain_handshake(error);
        if let Phase::Handshake(_) | Phase::New = self.phase {
            events.push(SessionEvent::HandshakeFailed(error.clone()));
        }
        let (rounds, keys) = self.inputs.take_all();
        events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
        let calls = self.calls.take_all();
        let others = self.tasks.take_all().into_iter().chain(self.subscriptions.take_all());
        let sent = rounds.into_iter().chain(others).map(|call| (call, true));
        for (call, is_sent) in sent.chain(calls) {
            let error = if is_sent { closed(&error) } else { error.clone() };
            events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
        }
        self.side_requests = SideRequests::default();
        self.phase = Phase::Ended(error);
    }
}

/// Calls.
impl<T: Clone> Session<T> {
    /// Makes a call. It is sent now, or once the handshake is complete and fewer than
    /// [`SessionOptions::in_flight_max`] are in flight. A call that cannot be made is completed
    /// with an error at once.
    pub fn call<S: MessageSink>(
        &mut self,
        request: impl Into<Box<CallRequest>>,
        token: T,
        ctx: &mut SessionContext<'_, T, S>,
    ) -> CallId {
        let request = request.into();
        let is_full = self.calls.in_flight_count() >= self.config.options().in_flight_max;
        let refusal = match &self.phase {
            Phase::Ended(error) => Some(error.clone()),
            Phase::Ready(server) => unsupported(server, &request),
            Phase::New | Phase::Handshake(_) => None,
        };
        let server = self.server().map(|server| server.revision);
        let waits =
            server.is_none() || is_full || self.calls.waiting_count() > 0 || ctx.sink.is_full();
        let refusal = refusal.or_else(|| {
            let waiting_max = self.config.options().waiting_max;
            (waits && self.calls.waiting_count() >= waiting_max).then(|| busy(waiting_max))
        });
        if let Some(error) = refusal {
            ctx.events.push(SessionEvent::Completed { token, result: Err(error) });
            return CallId(self.calls.allocate_id());
        }
        let timeout = match request.method {
            Method::SubscriptionsListen => SUBSCRIPTION_TIME_MAX,
            _ => request.timeout.unwrap_or_else(|| self.config.options().request_timeout),
        };
        let call = self.calls.create(request, token, timeout, ctx.now);
        let id = call.first_id;
        match server.filter(|_| !waits) {
            Some(revision) => self.send_call(call, revision, ctx),
            None => self.calls.push_waiting(call),
        }
        CallId(id)
    }

    /// Cancels a call and returns its token, or `None` if it has ended.
    pub fn cancel<S: MessageSink>(
        &mut self,
        call: CallId,
        reason: Option<&str>,
        ctx: &mut SessionContext<'_, T, S>,
    ) -> Option<T> {
        if let Some((call, keys)) = self.inputs.remove_round(call.0) {
            ctx.events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
            return Some(call.token);
        }
        if let Some(call) = subscriptions::close(self, call.0, ctx) {
            return Some(call.token);
        }
        if let Some(call) = tasks::take(self, call.0, ctx) {
            let keys = self.inputs.remove_inputs(call.first_id);
            ctx.events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
            self.send_waiting(ctx);
            return Some(call.token);
        }
        let (id, call) = self.calls.remove_call(call.0)?;
        if let Some(id) = id {
            ctx.send_cancellation(self.revision(), id, reason);
            self.send_waiting(ctx);
        }
        Some(call.token)
    }

    /// Fails the subscriptions of a legacy session, whose notifications cannot arrive.
    pub fn fail_subscriptions<S: MessageSink>(
        &mut self,
        error: &ClientError,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        subscriptions::fail_all(self, error, ctx);
    }

    /// Returns whether notifications of a legacy session are subscribed to.
    pub fn has_subscriptions(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Fails a request for which no response will come: HTTP refused it, or its exchange ended.
    pub fn fail_request<S: MessageSink>(
        &mut self,
        id: u64,
        error: ClientError,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        if let Phase::Handshake(request) = self.phase
            && request.id == id
        {
            let next = if request.legacy.is_some() {
                NextStep::Fail(handshake_error(Method::Initialize.as_str(), error))
            } else {
                handshake::after_discover_failure(self.config.options(), error)
            };
            self.advance_handshake(next, ctx);
        } else if receive::handle_side_response(self, id, Some(error.clone()), ctx) {
            // No call waits for it.
        } else if let Some(mut call) = self.calls.remove(id) {
            if call.task.is_some() {
                tasks::abandon(self, &mut call, ctx);
                ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
            } else {
                restart::fail_or_repeat(self, call, error, ctx);
            }
            self.send_waiting(ctx);
        }
    }
}

/// Handshake and output.
impl<T: Clone> Session<T> {
    fn advance_handshake<S: MessageSink>(
        &mut self,
        next: NextStep,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        match next {
            NextStep::Discover { may_repeat } => {
                let (id, options) = (self.calls.allocate_id(), self.config.options());
                let timeout = match (options.era, options.handshake_timeout) {
                    (EraPreference::Modern, _) => self.handshake_time(ctx.now),
                    (_, Some(whole)) => options.discover_timeout.min(whole / 2),
                    (_, None) => options.discover_timeout.min(options.request_timeout),
                };
                let deadline = ctx.now.after(timeout);
                let request = HandshakeRequest { id, timeout, deadline, legacy: None, may_repeat };
                self.phase = Phase::Handshake(request);
                let request = CallRequest::new(Method::Discover);
                ctx.send_request(&self.config, id, &request, Revision::LATEST);
            }
            NextStep::Initialize { revision, cause } => {
                let id = match &self.phase {
                    Phase::Handshake(request) => Some(request.id),
                    _ => None,
                };
                self.failed_discover = Some(Box::new(FailedDiscover { id, error: cause }));
                self.send_initialize(revision, ctx);
            }
            NextStep::Fail(error) if self.suspended.is_some() => {
                let error = self.explain_handshake(error);
                ctx.events.push(SessionEvent::HandshakeFailed(error.clone()));
                self.phase = Phase::Ended(error);
            }
            NextStep::Fail(error) => self.disconnect(error, ctx.events),
            NextStep::Ready(mut server) => {
                (self.suspended, self.invalid_text) = (None, None);
                let revision = server.revision;
                let discover = self.failed_discover.take().filter(|_| !revision.is_modern());
                server.discover_error = discover.map(|discover| discover.error.to_string());
                self.phase = Phase::Ready(ctx.buffers.share_server(*server));
                if !revision.is_modern() {
                    let encoded = &mut ctx.buffers.encoded;
                    encoded.clear();
                    request::write_notification(encoded, "notifications/initialized");
                    let kind = OutgoingKind::Notification;
                    ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
                    side_requests::send_log_level(self, ctx);
                    subscriptions::resume(self, ctx);
                }
                ctx.events.push(SessionEvent::Ready);
                self.send_waiting(ctx);
            }
        }
    }

    /// Returns the time of a request of the handshake: that of a request, or what is left of its
    /// own.
    fn handshake_time(&self, now: Instant) -> Duration {
        match self.handshake_end {
            Some(end) => end.since(now),
            None => self.config.options().request_timeout,
        }
    }

    fn send_initialize<S: MessageSink>(
        &mut self,
        revision: Revision,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let id = self.calls.allocate_id();
        let timeout = self.handshake_time(ctx.now);
        let (deadline, legacy) = (ctx.now.after(timeout), Some(revision));
        let request = HandshakeRequest { id, timeout, deadline, legacy, may_repeat: false };
        self.phase = Phase::Handshake(request);
        let encoded = &mut ctx.buffers.encoded;
        encoded.clear();
        self.config.write_initialize(encoded, id, revision);
        let method = Method::Initialize;
        let kind = OutgoingKind::Request {
            id,
            method,
            name: None,
            parameters: &[],
            fields: None,
            is_idempotent: false,
        };
        ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }

    /// Sends the calls that wait, as far as they may be in flight and the sink is not full.
    pub fn send_waiting<S: MessageSink>(&mut self, ctx: &mut SessionContext<'_, T, S>) {
        let Phase::Ready(server) = &self.phase else { return };
        if self.calls.waiting_count() == 0 && self.subscriptions.is_empty() {
            return;
        }
        let server = Arc::clone(server);
        subscriptions::acknowledge(self, ctx);
        while self.calls.in_flight_count() < self.config.options().in_flight_max
            && !ctx.sink.is_full()
            && let Some(call) = self.calls.pop_waiting()
        {
            if let Some(error) = unsupported(&server, &call.request) {
                ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
                continue;
            }
            self.send_call(call, server.revision, ctx);
        }
    }

    /// Returns the id of the next call.
    pub(super) const fn next_call_id(&self) -> CallId {
        CallId(self.calls.next_id())
    }

    /// Adds to the error of a handshake what the server sent before.
    fn explain_handshake(&mut self, error: ClientError) -> ClientError {
        let error = explain_failure(self.invalid_text.take(), error);
        match self.failed_discover.take() {
            Some(discover) => discover.explain(error),
            None => error,
        }
    }

    /// Sends a call for the first time.
    fn send_call<S: MessageSink>(
        &mut self,
        call: Call<T>,
        revision: Revision,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        if call.request.method == Method::SubscriptionsListen && !revision.is_modern() {
            return subscriptions::open(self, call, ctx);
        }
        ctx.send_request(&self.config, call.first_id, &call.request, revision);
        self.calls.insert(call.first_id, call);
    }
}
