//! One session with a server, sans-IO: handshake, calls, notifications, cancellation.
//!
//! Input: messages, calls, the time. Output: messages to a [`MessageSink`], and [`SessionEvent`]s.
//!
//! Invariants:
//!
//! - Every call ends exactly once: with [`SessionEvent::Completed`], or with
//!   [`Session::cancel`], which returns its token.
//! - No request but those of the handshake is sent before the handshake is complete.
//! - Calls are sent in the order in which they were made.
//! - A message that the protocol does not allow fails the call that it names, if any, and no other.

mod event;
mod options;
mod request;
mod server_info;

mod calls;
mod context;
mod negotiation;
mod refusal;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use self::calls::{CallTable, WaitingCall};
use self::negotiation::{NextStep, handshake_error};
use self::refusal::{busy, check_result_type, timeout_error, unsupported};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::protocol::eras::Method;
use crate::protocol::error::Error;
use crate::protocol::json::{PaddedText, Parser, Value};
use crate::protocol::jsonrpc::{Id, InvalidMessage, Message};
use crate::protocol::model::{begin_response, end_response, write_cancelled, write_error_response};
use crate::protocol::revision::Revision;

pub use self::context::{SessionBuffers, SessionConfig, SessionContext};
pub use self::event::{
    MessageSink, OutgoingKind, OutgoingMessage, Progress, ReceivedMessage, SessionEvent,
};
pub use self::options::{EraPreference, SessionOptions};
pub use self::request::CallRequest;
pub use self::server_info::ServerInfo;

/// Names a call of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CallId(pub(in crate::client) u64);

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
}

/// One session. `T` identifies a call to its caller.
#[derive(Debug)]
pub struct Session<T> {
    config: Arc<SessionConfig>,
    phase: Phase,
    calls: CallTable<T>,
}

/// Lifecycle.
impl<T: Clone> Session<T> {
    /// Creates a session that has sent nothing.
    pub fn new(config: Arc<SessionConfig>) -> Self {
        Self { config, phase: Phase::New, calls: CallTable::new() }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Begins the handshake. `is_legacy` skips `server/discover`, for a server that is known to
    /// negotiate with `initialize`.
    pub fn start<S: MessageSink>(&mut self, is_legacy: bool, ctx: &mut SessionContext<'_, T, S>) {
        let era = self.config.options().era;
        if is_legacy || matches!(era, EraPreference::Legacy(_)) {
            self.send_initialize(self.config.options().legacy_revision(), ctx);
            return;
        }
        let (id, options) = (self.calls.allocate_id(), self.config.options());
        let timeout = match era {
            EraPreference::Modern => options.request_timeout,
            _ => options.discover_timeout,
        };
        let deadline = ctx.now.after(timeout);
        self.phase = Phase::Handshake(HandshakeRequest { id, timeout, deadline, legacy: None });
        self.send_request(id, &CallRequest::new(Method::Discover), Revision::LATEST, ctx);
    }

    /// Returns what the server declared, once the handshake is complete.
    pub const fn server(&self) -> Option<&Arc<ServerInfo>> {
        match &self.phase {
            Phase::Ready(server) => Some(server),
            _ => None,
        }
    }

    /// Returns whether the handshake has failed or the connection is lost.
    pub const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Returns whether `server/discover` is in flight, so that a connection that ends now may be
    /// that of a server which only knows `initialize`.
    pub fn is_discovering(&self) -> bool {
        let is_discover = |request: &HandshakeRequest| request.legacy.is_none();
        let may_fall_back = self.config.options().era == EraPreference::Auto;
        may_fall_back && matches!(&self.phase, Phase::Handshake(request) if is_discover(request))
    }

    /// Forgets the handshake, so that [`Session::start`] begins it again on another connection.
    /// Calls that wait for it keep their places.
    pub fn reset_handshake(&mut self) {
        if let Phase::Handshake(_) = self.phase {
            self.phase = Phase::New;
        }
    }

    /// Returns when [`Session::expire`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        let calls = self.calls.deadline();
        let Phase::Handshake(request) = &self.phase else { return calls };
        Some(calls.map_or(request.deadline, |deadline| deadline.min(request.deadline)))
    }

    /// Ends what has timed out by now.
    pub fn expire<S: MessageSink>(&mut self, ctx: &mut SessionContext<'_, T, S>) {
        if let Phase::Handshake(request) = self.phase
            && request.deadline <= ctx.now
        {
            self.fail_handshake_request(request, timeout_error(request.timeout), ctx);
        }
        for (id, call, is_sent) in self.calls.take_expired(ctx.now) {
            if is_sent {
                self.send_cancellation(id, Some("timeout"), ctx);
            }
            let result = Err(timeout_error(call.timeout));
            ctx.events.push(SessionEvent::Completed { token: call.token, result });
        }
        self.send_waiting(ctx);
    }

    /// Ends the session with its connection: every call fails. Calls that were sent may have run;
    /// they fail with [`ClientErrorKind::Closed`], the others with `error`.
    pub fn disconnect(&mut self, error: ClientError, events: &mut Vec<SessionEvent<T>>) {
        if let Phase::Handshake(_) | Phase::New = self.phase {
            events.push(SessionEvent::HandshakeFailed(error.clone()));
        }
        for (call, is_sent) in self.calls.take_all() {
            let error = if is_sent {
                let text = format!("the connection ended before the response: {error}");
                ClientError::with_source(ClientErrorKind::Closed, text, error.clone())
            } else {
                error.clone()
            };
            events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
        }
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
        request: CallRequest,
        token: T,
        ctx: &mut SessionContext<'_, T, S>,
    ) -> CallId {
        let id = self.calls.allocate_id();
        let is_full = self.calls.in_flight() >= self.config.options().in_flight_max;
        let refusal = match &self.phase {
            Phase::Ended(error) => Some(error.clone()),
            Phase::Ready(server) => unsupported(server, request.method),
            Phase::New | Phase::Handshake(_) => None,
        };
        let server = self.server().map(|server| server.revision);
        let waits = server.is_none() || is_full || self.calls.waiting() > 0 || ctx.sink.is_full();
        let refusal = refusal.or_else(|| {
            let waiting_max = self.config.options().waiting_max;
            (waits && self.calls.waiting() >= waiting_max).then(|| busy(waiting_max))
        });
        if let Some(error) = refusal {
            ctx.events.push(SessionEvent::Completed { token, result: Err(error) });
            return CallId(id);
        }
        let timeout = request.timeout.unwrap_or_else(|| self.config.options().request_timeout);
        let call = self.calls.create(token, timeout, ctx.now);
        match server.filter(|_| !waits) {
            Some(revision) => {
                self.calls.insert(id, call);
                self.send_request(id, &request, revision, ctx);
            }
            None => self.calls.push_waiting(WaitingCall { id, request, call }),
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
        if let Some(removed) = self.calls.remove(call.0) {
            self.send_cancellation(call.0, reason, ctx);
            self.send_waiting(ctx);
            return Some(removed.token);
        }
        Some(self.calls.remove_waiting(call.0)?.token)
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
            return self.fail_handshake_request(request, error, ctx);
        }
        if let Some(call) = self.calls.remove(id) {
            ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
            self.send_waiting(ctx);
        }
    }
}

/// Messages of the server.
impl<T: Clone> Session<T> {
    /// Handles one message of the server.
    pub fn receive<S: MessageSink>(
        &mut self,
        text: PaddedText<'_>,
        parser: &mut Parser,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        ctx.buffers.received.clear();
        ctx.buffers.received.extend_from_slice(text.as_bytes());
        let Ok(document) = parser.parse(text) else {
            ctx.events.push(SessionEvent::Violation("a message that is not valid JSON"));
            return;
        };
        let root = document.root();
        let Some(batch) = root.as_array() else { return self.handle_message(root, ctx) };
        if self.server().is_none_or(|server| !server.revision.dialect().batches) {
            let text = "a batch of messages, which only MCP 2025-03-26 has";
            ctx.events.push(SessionEvent::Violation(text));
            return;
        }
        for item in batch {
            ctx.buffers.received.clear();
            item.write(&mut ctx.buffers.received);
            self.handle_message(item, ctx);
        }
    }

    fn handle_message<S: MessageSink>(
        &mut self,
        message: Value<'_>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        match Message::read(message) {
            Ok(Message::Response { id: Some(id), outcome }) => {
                self.handle_response(id, outcome, ctx);
            }
            Ok(Message::Response { id: None, .. }) => {
                let text = "an error response without an id";
                ctx.events.push(SessionEvent::Violation(text));
            }
            Ok(Message::Notification { method: "notifications/progress", params }) => {
                self.handle_progress(params, ctx.events);
            }
            Ok(Message::Notification { .. }) => {
                let message = ReceivedMessage(std::mem::take(&mut ctx.buffers.received));
                ctx.events.push(SessionEvent::Notification(message));
            }
            Ok(Message::Request { id, method, .. }) => self.handle_request(id, method, ctx),
            Err(InvalidMessage { id, error }) => {
                ctx.events.push(SessionEvent::Violation("an invalid JSON-RPC message"));
                if let Some(id) = id.and_then(own_id) {
                    let text = format!("the response is invalid: {}", error.message);
                    self.fail_request(id, ClientError::new(ClientErrorKind::Protocol, text), ctx);
                }
            }
        }
    }

    fn handle_response<S: MessageSink>(
        &mut self,
        id: Id<'_>,
        outcome: Result<Value<'_>, Value<'_>>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let Some(id) = own_id(id).filter(|id| self.calls.was_allocated(*id)) else {
            let text = "a response to a request that was not sent";
            ctx.events.push(SessionEvent::Violation(text));
            return;
        };
        if let Phase::Handshake(request) = self.phase
            && request.id == id
        {
            let next = if request.legacy.is_some() {
                negotiation::after_initialize(outcome)
            } else {
                negotiation::after_discover(outcome, self.config.options())
            };
            return self.advance_handshake(next, ctx);
        }
        // The response to a call that was cancelled or has ended is ignored.
        let Some(call) = self.calls.remove(id) else { return };
        let is_modern = self.server().is_some_and(|server| server.revision.is_modern());
        let result = match outcome {
            Ok(result) if is_modern => check_result_type(result),
            Ok(_) => Ok(()),
            Err(error) => Err(ClientError::from_response(error)),
        };
        let result = result.map(|()| ReceivedMessage(std::mem::take(&mut ctx.buffers.received)));
        ctx.events.push(SessionEvent::Completed { token: call.token, result });
        self.send_waiting(ctx);
    }

    fn handle_progress(&self, params: Option<Value<'_>>, events: &mut Vec<SessionEvent<T>>) {
        let Some((token, progress)) = params.and_then(Progress::read) else {
            events.push(SessionEvent::Violation("an invalid progress notification"));
            return;
        };
        // Progress of a call that has ended is ignored.
        if let Some(call) = own_id(token).and_then(|id| self.calls.get(id)) {
            events.push(SessionEvent::Progress { token: call.token.clone(), progress });
        }
    }

    /// Answers a request of the server.
    fn handle_request<S: MessageSink>(
        &self,
        id: Id<'_>,
        method: &str,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let revision = self.server().map_or(Revision::LATEST_LEGACY, |server| server.revision);
        if revision.is_modern() {
            let text = "a request of the server, which MCP 2026-07-28 does not have";
            ctx.events.push(SessionEvent::Violation(text));
        }
        let encoded = &mut ctx.buffers.encoded;
        encoded.clear();
        if method == Method::Ping.as_str() {
            begin_response(encoded, id);
            encoded.extend_from_slice(b"{}");
            end_response(encoded);
        } else {
            let error = Error::method_not_found(method);
            write_error_response(encoded, Some(id), &error, Some(revision));
        }
        ctx.sink.send(OutgoingMessage { kind: OutgoingKind::Response, revision, text: encoded });
    }
}

/// Handshake and output.
impl<T: Clone> Session<T> {
    fn fail_handshake_request<S: MessageSink>(
        &mut self,
        request: HandshakeRequest,
        error: ClientError,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let next = if request.legacy.is_some() {
            NextStep::Fail(handshake_error(Method::Initialize.as_str(), error))
        } else {
            negotiation::after_discover_failure(self.config.options(), error)
        };
        self.advance_handshake(next, ctx);
    }

    fn advance_handshake<S: MessageSink>(
        &mut self,
        next: NextStep,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        match next {
            NextStep::Initialize(revision) => self.send_initialize(revision, ctx),
            NextStep::Fail(error) => self.disconnect(error, ctx.events),
            NextStep::Ready(server) => {
                let revision = server.revision;
                self.phase = Phase::Ready(Arc::new(server));
                if !revision.is_modern() {
                    let encoded = &mut ctx.buffers.encoded;
                    encoded.clear();
                    request::write_notification(encoded, "notifications/initialized");
                    let kind = OutgoingKind::Notification;
                    ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
                }
                ctx.events.push(SessionEvent::Ready);
                self.send_waiting(ctx);
            }
        }
    }

    fn send_initialize<S: MessageSink>(
        &mut self,
        revision: Revision,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let (options, id) = (self.config.options(), self.calls.allocate_id());
        let timeout = options.request_timeout;
        let (deadline, legacy) = (ctx.now.after(timeout), Some(revision));
        self.phase = Phase::Handshake(HandshakeRequest { id, timeout, deadline, legacy });
        let encoded = &mut ctx.buffers.encoded;
        encoded.clear();
        self.config.write_initialize(encoded, id, revision);
        let kind = OutgoingKind::Request { id, method: Method::Initialize, name: None };
        ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }

    /// Sends the calls that wait, as far as they may be in flight and the sink is not full.
    pub fn send_waiting<S: MessageSink>(&mut self, ctx: &mut SessionContext<'_, T, S>) {
        let Phase::Ready(server) = &self.phase else { return };
        let server = Arc::clone(server);
        while self.calls.in_flight() < self.config.options().in_flight_max
            && !ctx.sink.is_full()
            && let Some(WaitingCall { id, request, call }) = self.calls.pop_waiting()
        {
            if let Some(error) = unsupported(&server, request.method) {
                ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error) });
                continue;
            }
            self.calls.insert(id, call);
            self.send_request(id, &request, server.revision, ctx);
        }
    }

    fn send_request<S: MessageSink>(
        &self,
        id: u64,
        request: &CallRequest,
        revision: Revision,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let meta = revision.is_modern().then_some(self.config.modern_meta());
        let encoded = &mut ctx.buffers.encoded;
        encoded.clear();
        request.write(encoded, id, meta);
        let name = request.name.as_deref();
        let kind = OutgoingKind::Request { id, method: request.method, name };
        ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }

    fn send_cancellation<S: MessageSink>(
        &self,
        id: u64,
        reason: Option<&str>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let revision = self.server().map_or(Revision::LATEST, |server| server.revision);
        let encoded = &mut ctx.buffers.encoded;
        encoded.clear();
        write_cancelled(encoded, Id::from(id), reason);
        let kind = OutgoingKind::Cancellation { id };
        ctx.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }
}

/// Returns the id of a request of this client, which are positive integers.
fn own_id(id: Id<'_>) -> Option<u64> {
    match id {
        Id::Signed(number) => u64::try_from(number).ok(),
        Id::Unsigned(_) | Id::Text(_) => None,
    }
}
