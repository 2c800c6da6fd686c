//! The client of the parity dialect, sans-IO: requests of a session that may span several
//! connections.
//!
//! [`ParitySession`] runs the state machine of
//! [`ClientSession`](corelane_parity::client_session::ClientSession), and adds what a
//! caller expects of it: requests that wait, time out, are cancelled and repeated; streams that
//! continue on another connection. Time is an argument; messages leave through a [`ParitySink`].
//!
//! Invariants: a request ends once; nothing is sent before the session is ready; a chunk is
//! reported once, in order; a request that may have run is sent again only if that changes nothing.

mod event;
mod options;

mod call_table;
mod receive;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

pub use self::call_table::ParityCallRequest;
use self::call_table::{Call, CallState, CallTable};
pub use self::event::{
    ParityChunk, ParityContext, ParityMessage, ParityMessageKind, ParityServerInfo,
    ParitySessionEvent, ParitySink,
};
pub use self::options::{ParityConfig, ParityKeepaliveOptions, ParityRetryOptions};
use super::error::{ClientError, ClientErrorKind};
use super::oauth::Secret;
use super::reconnect::Backoff;
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_parity::capabilities::Feature;
use corelane_parity::client_session::ClientSession;
use corelane_parity::envelope::Target;
use corelane_parity::machine::{Event, State};
use corelane_parity::timers::{Timeout, Timers};
use corelane_parity::write;
use corelane_parity::write::RequestParams;
use corelane_protocol::jsonrpc::Id;

/// Time in which the server has to end a cancelled request or stream.
const CANCEL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// The session of one client, and its requests.
#[derive(Debug)]
pub struct ParitySession<T> {
    config: Arc<ParityConfig>,
    protocol: ClientSession,
    calls: CallTable<T>,
    /// Requests in flight that are to be cancelled.
    cancels: VecDeque<u64>,
    connection: ConnectionState,
    /// What the last acknowledgement says, until the session is ready.
    acknowledged: Option<Acknowledged>,
    server: Option<Arc<ParityServerInfo>>,
    /// The last error of the server that belongs to no request.
    server_error: Option<ClientError>,
    /// Why the connection must end.
    failure: Option<ClientError>,
    /// Why there is no connection, since the last one was lost.
    lost: Option<ClientError>,
    auth_token: AuthToken,
    random: Random,
}

/// What the acknowledgement of a handshake says.
#[derive(Debug)]
struct Acknowledged {
    info: ParityServerInfo,
    /// Why the session does not continue.
    reason: Option<Box<str>>,
}

/// What ends with a connection.
#[derive(Debug, Default)]
struct ConnectionState {
    timers: Option<Timers>,
    /// When the server has to be sent something.
    reply_at: Option<Instant>,
    /// Chunks that have overtaken the response that opens their stream.
    early: Vec<Vec<u8>>,
}

/// The token of the caller.
#[derive(Debug)]
struct AuthToken {
    current: Option<Secret>,
    /// The next request carries it.
    is_new: bool,
}

/// Connections.
impl<T: Clone> ParitySession<T> {
    /// Creates a session without a connection. `seed` determines its delays.
    pub fn new(config: Arc<ParityConfig>, seed: u64) -> Self {
        let mut protocol = ClientSession::default();
        if let Some(refinement) = config.refinement {
            protocol.refine(refinement);
        }
        Self {
            protocol,
            calls: CallTable::new(),
            cancels: VecDeque::new(),
            connection: ConnectionState::default(),
            acknowledged: None,
            server: None,
            server_error: None,
            failure: None,
            lost: None,
            auth_token: AuthToken { current: config.auth_token.clone(), is_new: false },
            random: Random::seeded(seed),
            config,
        }
    }

    /// Returns what the server has declared, while the session is ready.
    pub const fn server(&self) -> Option<&Arc<ParityServerInfo>> {
        self.server.as_ref()
    }

    /// Returns why the connection must end, if it must.
    pub const fn failure(&self) -> Option<&ClientError> {
        self.failure.as_ref()
    }

    /// Takes the last error of the server that belongs to no request: it may say why the connection
    /// has ended.
    pub const fn take_server_error(&mut self) -> Option<ClientError> {
        self.server_error.take()
    }

    /// Returns whether no request waits or is in flight.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Begins the handshake on a connection.
    pub fn connect<S: ParitySink>(&mut self, ctx: &mut ParityContext<'_, T, S>) {
        ctx.text.clear();
        let info = &self.config.client_info;
        let token = self.auth_token.current.as_ref().map(Secret::expose);
        let info = (&*info.name, &*info.version);
        if self.protocol.connect(ctx.text, &self.config.offered, info, token).is_err() {
            return;
        }
        self.auth_token.is_new = false;
        let timers = Timers::new(&self.config.timeouts(), ctx.now);
        self.connection = ConnectionState { timers: Some(timers), ..Default::default() };
        ctx.send(ParityMessageKind::Handshake);
    }

    /// The connection is lost because of `error`, and another one follows: streams wait for it, as
    /// well as requests that were not sent or may run twice. The others fail.
    pub fn disconnect(&mut self, error: &ClientError, events: &mut Vec<ParitySessionEvent<T>>) {
        let can_resume = self.protocol.capabilities().has(Feature::Resume);
        self.end_connection();
        for id in self.calls.ids(Call::is_in_flight) {
            let Some(call) = self.calls.get_mut(id) else { continue };
            call.is_canceling = false;
            let is_keyed = call.request.idempotency_key.is_some() && !call.request.streams;
            let next = match &call.state {
                CallState::Streaming(_) if can_resume => continue,
                _ if call.token.is_none() => None,
                CallState::Sent if call.request.is_idempotent() => Some(CallState::NEW),
                CallState::Sent if is_keyed && can_resume => {
                    Some(CallState::Waiting { not_before: None, needs_session: true })
                }
                _ => None,
            };
            match next {
                Some(state) => self.calls.set_state(id, state),
                None => self.complete(id, Err(call_table::closed(error)), events),
            }
        }
        self.lost = Some(error.clone());
    }

    /// The client has no connection, and none follows: every request fails, with `error` if it was
    /// not sent.
    pub fn end(&mut self, error: &ClientError, events: &mut Vec<ParitySessionEvent<T>>) {
        self.end_connection();
        self.protocol.restart();
        for call in self.calls.take_all() {
            let is_sent = call.is_in_flight();
            let error = if is_sent { call_table::closed(error) } else { error.clone() };
            let token = call.token.into_iter();
            events.extend(
                token.map(|token| ParitySessionEvent::Completed {
                    token,
                    result: Err(error.clone()),
                }),
            );
        }
    }

    fn end_connection(&mut self) {
        self.protocol.disconnect();
        self.connection = ConnectionState::default();
        self.cancels.clear();
        (self.server, self.failure, self.acknowledged) = (None, None, None);
    }

    /// Replaces the token of the caller: the next request carries it.
    pub fn set_auth_token(&mut self, token: &str) {
        self.auth_token = AuthToken { current: Some(Secret::new(token)), is_new: true };
    }
}

/// Requests.
impl<T: Clone> ParitySession<T> {
    /// Returns the id of the next request.
    pub const fn next_id(&self) -> u64 {
        self.calls.next_id()
    }

    /// Makes a request. It is sent now, or once the session is ready and fewer are in flight than
    /// the server allows.
    pub fn call<S: ParitySink>(
        &mut self,
        request: Box<ParityCallRequest>,
        token: T,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let waiting_max = self.config.waiting_max;
        if self.calls.waiting_count() >= waiting_max {
            let result = Err(call_table::busy(waiting_max));
            return ctx.events.push(ParitySessionEvent::Completed { token, result });
        }
        let timeout = request.timeout.unwrap_or(self.config.request_timeout);
        let call = Call {
            token: Some(token),
            request,
            state: CallState::NEW,
            timeout,
            deadline: ctx.now.after(timeout),
            backoff: None,
            outcome: None,
            is_canceling: false,
        };
        self.calls.insert(call);
        self.send_waiting(ctx);
    }

    /// Cancels a request: it ends now, for its caller, with
    /// [`Cancelled`](crate::ClientErrorKind::Cancelled). One that has ended is ignored.
    pub fn cancel<S: ParitySink>(&mut self, id: u64, ctx: &mut ParityContext<'_, T, S>) {
        self.abandon(id, call_table::cancelled(), ctx);
        self.send_waiting(ctx);
    }

    /// Ends a request for its caller with `error`. The server is asked to end what it has of it.
    fn abandon<S: ParitySink>(
        &mut self,
        id: u64,
        error: ClientError,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let token = call.token.take().into_iter();
        let result = Err(error);
        ctx.events.extend(
            token.map(|token| ParitySessionEvent::Completed { token, result: result.clone() }),
        );
        let can_cancel = self.protocol.capabilities().has(Feature::Cancellation);
        if !call.is_in_flight() {
            self.calls.remove(id);
        } else if can_cancel {
            call.timeout = CANCEL_TIMEOUT;
            self.calls.restart_timeout(id, ctx.now);
            self.cancels.push_back(id);
        } else {
            // What comes of it is ignored.
            self.calls.restart_timeout(id, ctx.now);
        }
    }

    /// Ends a request.
    fn complete(
        &mut self,
        id: u64,
        result: Result<Vec<u8>, ClientError>,
        events: &mut Vec<ParitySessionEvent<T>>,
    ) {
        let token = self.calls.remove(id).and_then(|call| call.token);
        if let Some(token) = token {
            events.push(ParitySessionEvent::Completed { token, result });
        }
    }

    /// Ends a request that was answered with `error`, or sends it again later.
    fn fail_or_repeat<S>(
        &mut self,
        id: u64,
        error: ClientError,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let delays = self.config.delays();
        let Some(call) = self.calls.get_mut(id) else { return };
        if call.token.is_some() && call.request.may_repeat(&error) {
            let random = &mut self.random;
            let backoff = call.backoff.get_or_insert_with(|| Backoff::new(random.next_u64()));
            let delay = backoff.next_delay(&delays);
            let at = delay.map(|it| ctx.now.after(it + error.retry_after().unwrap_or_default()));
            if let Some(at) = at.filter(|at| *at < call.deadline) {
                let not_before = Some(at);
                let state = CallState::Waiting { not_before, needs_session: false };
                self.calls.set_state(id, state);
                return ctx.events.push(ParitySessionEvent::Retried { error });
            }
        }
        self.complete(id, Err(error), ctx.events);
    }

    /// Fails a request that was sent and for which no response will come: its HTTP exchange has
    /// ended. One that is refused for now is repeated instead.
    pub fn fail_request<S: ParitySink>(
        &mut self,
        id: u64,
        error: ClientError,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        if self.calls.get_mut(id).is_some_and(|call| call.state == CallState::Sent) {
            self.fail_or_repeat(id, error, ctx);
            self.send_waiting(ctx);
        }
    }

    /// Sends a request again that the server has not handled, on the next connection.
    pub fn requeue(&mut self, id: u64) {
        if self.calls.get_mut(id).is_some_and(|call| call.state == CallState::Sent) {
            self.calls.set_state(id, CallState::NEW);
        }
    }

    /// Notes that the server has answered, such as with an empty response.
    pub const fn record_received(&mut self, now: Instant) {
        if let Some(timers) = &mut self.connection.timers {
            timers.record_received(now);
        }
    }

    /// Sends the cancellations and the requests that wait, as far as the session allows.
    pub fn send_waiting<S: ParitySink>(&mut self, ctx: &mut ParityContext<'_, T, S>) {
        let allowed =
            self.protocol.capabilities().max_concurrent.map_or(usize::MAX, |most| most as usize);
        let in_flight_max = self.config.in_flight_max.min(allowed);
        while self.protocol.state() == State::Ready {
            if let Some(id) = self.cancels.pop_front() {
                self.send_cancel(id, ctx);
                continue;
            }
            let has_room = self.calls.in_flight_count() < in_flight_max && !ctx.sink.is_full();
            if !has_room || !self.calls.has_ready() {
                return;
            }
            let Some(id) = self.calls.pop_ready() else { return };
            self.send_request(id, ctx);
        }
    }

    fn send_cancel<S: ParitySink>(&mut self, id: u64, ctx: &mut ParityContext<'_, T, S>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        ctx.text.clear();
        let target = match &call.state {
            CallState::Waiting { .. } => return,
            CallState::Sent => Target::Request(Id::from(id)),
            CallState::Streaming(stream) => Target::Stream(stream),
        };
        if self.protocol.cancel(ctx.text, target).is_ok() {
            call.is_canceling = true;
            self.connection.reply_at = None;
            ctx.send(ParityMessageKind::Other);
        }
    }

    fn send_request<S: ParitySink>(&mut self, id: u64, ctx: &mut ParityContext<'_, T, S>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        ctx.text.clear();
        let request = &call.request;
        let streams = request.streams;
        let new_token = self.auth_token.current.as_ref().filter(|_| self.auth_token.is_new);
        let params = RequestParams {
            id: Id::from(id),
            method: &request.method,
            params: Some(&*request.params).filter(|params| !params.is_empty()),
            streams,
            idempotency_key: request.idempotency_key.as_deref(),
            auth_token: new_token.map(Secret::expose),
        };
        let written = self.protocol.request(ctx.text, &params);
        let bytes_max = self.protocol.capabilities().max_payload_bytes;
        let error = match (written, bytes_max) {
            (Err(error), _) => ClientError::new(ClientErrorKind::Unsupported, error.message),
            (Ok(()), Some(most)) if ctx.text.len() as u64 > most => {
                let text = format!("the request has {} bytes (limit {most})", ctx.text.len());
                ClientError::new(ClientErrorKind::InvalidInput, text)
            }
            (Ok(()), _) => {
                self.auth_token.is_new = false;
                self.connection.reply_at = None;
                self.calls.set_state(id, CallState::Sent);
                return ctx.send(ParityMessageKind::Request { id, streams });
            }
        };
        self.complete(id, Err(error), ctx.events);
    }
}

/// Time.
impl<T: Clone> ParitySession<T> {
    /// Returns when [`ParitySession::expire`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        let timeouts = self.config.timeouts();
        let timers = self.connection.timers.as_ref();
        let timers = timers.and_then(|timers| timers.next_deadline(&timeouts, false));
        let times = [self.calls.deadline(), timers, self.connection.reply_at];
        times.into_iter().flatten().min()
    }

    /// Does what is due by now.
    pub fn expire<S: ParitySink>(&mut self, ctx: &mut ParityContext<'_, T, S>) {
        for id in self.calls.expire(ctx.now) {
            self.expire_call(id, ctx);
        }
        if self.connection.reply_at.is_some_and(|time| time <= ctx.now) {
            self.send_keepalive(ctx);
        }
        let timeouts = self.config.timeouts();
        let due =
            self.connection.timers.as_mut().and_then(|it| it.expire(&timeouts, false, ctx.now));
        match due {
            None => {}
            Some(Timeout::Keepalive) => self.send_keepalive(ctx),
            Some(Timeout::Handshake | Timeout::Capabilities) => {
                self.protocol.close(Event::HandshakeTimeout);
                let time = self.config.handshake_timeout;
                let text = format!("the server did not answer the handshake within {time:?}");
                self.failure = Some(ClientError::new(ClientErrorKind::Timeout, text));
            }
            Some(Timeout::Idle) => {
                self.protocol.close(Event::IdleTimeout);
                let time = timeouts.hint;
                let text = format!("the server sent nothing for {time:?} after a keep-alive");
                self.failure = Some(ClientError::new(ClientErrorKind::Closed, text));
            }
        }
        self.send_waiting(ctx);
    }
}

impl<T: Clone> ParitySession<T> {
    /// Ends a request whose time is over.
    fn expire_call<S: ParitySink>(&mut self, id: u64, ctx: &mut ParityContext<'_, T, S>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if call.token.is_none() {
            if call.is_canceling {
                let text = "the server did not end a cancelled request";
                self.failure = Some(call_table::protocol(text));
            }
            self.calls.remove(id);
            return;
        }
        let error = match &self.lost {
            Some(cause) if !call.is_in_flight() && self.server.is_none() => {
                call_table::unconnected(call.timeout, cause)
            }
            _ => call_table::timeout(call.timeout),
        };
        self.abandon(id, error, ctx);
    }

    fn send_keepalive<S: ParitySink>(&mut self, ctx: &mut ParityContext<'_, T, S>) {
        self.connection.reply_at = None;
        ctx.text.clear();
        write::keepalive(ctx.text, self.config.keepalive.idle_timeout.as_secs().max(1));
        ctx.send(ParityMessageKind::Other);
    }
}
