//! Life cycle of connections: connect, open, end, reconnect.
//!
//! ```text
//!  Disconnected ─▶ Connecting ─▶ Handshake ─▶ Open, Subscribed or SlowReader ─▶ Closing
//!    ▲                                  │        └─▶ GracefulClose ─▶──────────────┘ │ ▲
//!    │                                  └─▶ EventStream ─▶───────────────────────────┼─┘
//!    └───────────────────────────────────────────────────────────────────────────────┘
//! ```

mod answers;
mod event_streams;

use std::collections::BTreeMap;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::{ParkTimeout, Ring, Socket};
use corelane_tls::TlsError;

use self::event_streams::EventStreams;
use super::answer_connection::AnswerConnection;
use super::churn::Churn;
use super::connection::{Connection, ConnectionState, Ending, Replacement};
use super::connection_io::ConnectionIo;
use super::connector::Connector;
use super::context::{RunContext, RunPhase};
use super::processes::Processes;
use super::run_config::RunConfig;
use super::subscribers::Subscribers;
use crate::mcp::{
    CloseAction, Closing, CompletedRequest, ConnectError, RequestLog, UnansweredRequest,
};
use crate::metrics::outcome::Failure;
use crate::schedule::ReconnectReason;
use crate::target::Transport;
use crate::wire::tls::describe_tls_error;

/// Error of requests on an HTTP connection that the server closed.
const KEEP_ALIVE_HINT: &str = "the server closed the connection before it answered; if this is \
    rare, its keep-alive timeout may be as short as the time between two requests of a connection: \
    use fewer --connections";

/// The connections of a load thread with everything that opens and ends them.
#[derive(Debug)]
pub(super) struct Lifecycle<R> {
    pub(super) io: ConnectionIo<R>,
    pub(super) connector: Connector,
    /// Requests that are sent again once their connection is open again.
    repeats: BTreeMap<usize, Vec<UnansweredRequest>>,
    /// HTTP connections that are being opened again in the same session, after a timeout or because
    /// the server closed them between two requests.
    reopening: BTreeMap<usize, RequestLog>,
    /// Subscribers and the publisher.
    pub(super) subscribers: Option<Subscribers>,
    /// Planned replacement of connections.
    churn: Option<Box<Churn>>,
    /// The connection for answers to requests of servers.
    answers: Option<AnswerConnection>,
    /// Event streams of the sessions of users.
    event_streams: Option<EventStreams>,
    /// The publisher, while its connection is opened again that the server closed in between.
    returning: Option<usize>,
}

impl<R: Ring> Lifecycle<R> {
    /// Creates a load thread's share of the connections, none of them open.
    pub(super) fn new(ring: R, ctx: &RunContext, processes: Option<Processes>) -> Self {
        let requesting = ctx.share.part(ctx.config.connections);
        let subscribers = Subscribers::new(&ctx.config, ctx.share, requesting);
        let others = subscribers.as_ref().map_or(0, Subscribers::total_connections);
        let answers = AnswerConnection::new(&ctx.config, requesting + others);
        let event_streams = requesting + others + usize::from(answers.is_some());
        let event_streams = EventStreams::new(&ctx.config, ctx.share, event_streams);
        let total = requesting
            + others
            + usize::from(answers.is_some())
            + event_streams.as_ref().map_or(0, EventStreams::connections);
        let mut io = ConnectionIo::new(ring, total);
        if let Some(publisher) = subscribers.as_ref().and_then(Subscribers::publisher) {
            // Marked as queued, so that it never enters the queue of available connections.
            io[publisher].is_queued = true;
        }
        Self {
            connector: Connector::new(ctx, requesting + others, processes),
            repeats: BTreeMap::new(),
            reopening: BTreeMap::new(),
            io,
            subscribers,
            answers,
            event_streams,
            returning: None,
            churn: ctx.config.roles.churn.map(|_| Box::default()),
        }
    }

    /// Starts the planned replacements and the publications of a run.
    pub(super) fn start(&mut self, ctx: &RunContext, begin: Instant) {
        self.connector.retry_abandoned();
        if let Some(churn) = &mut self.churn {
            churn.start(ctx, begin);
        }
    }

    /// Starts the publish schedule.
    pub(super) fn start_publishing(&mut self, ctx: &RunContext, begin: Instant, end: Instant) {
        if let Some(subscribers) = &mut self.subscribers {
            subscribers.start(ctx, begin, end);
        }
    }

    /// Returns whether no further connection can open before the run begins.
    pub(super) fn is_settled(&self) -> bool {
        self.connector.is_settled(self.required_connections())
    }

    /// Returns the number of connections that open before the run.
    pub(super) fn required_connections(&self) -> usize {
        let streams = self.event_streams.as_ref().map_or(0, EventStreams::connections);
        self.io.connections().len() - usize::from(self.answers.is_some()) - streams
    }

    /// Starts connects whose time has come, within the limits of rate and concurrency.
    pub(super) fn start_connects(&mut self, ctx: &RunContext) {
        // Reconnects after a storm have no limit: they must come at once.
        while let Some(index) = self.churn.as_mut().and_then(|churn| churn.take_reconnect()) {
            self.begin_connect(index, ctx);
        }
        while let Some(index) =
            self.connector.take_due(self.io.connections(), &ctx.config.limits, ctx.now)
        {
            self.begin_connect(index, ctx);
        }
    }

    fn begin_connect(&mut self, index: u32, ctx: &RunContext) {
        let conn = &mut self.io[index as usize];
        conn.state = ConnectionState::Connecting;
        conn.connect_started = ctx.now;
        if let Some(route) = self.connector.begin(index, ctx.share) {
            self.io.submit_connect(index, route);
        }
    }

    /// Returns the time that the server has for a handshake. The start of a program takes longer
    /// than an answer.
    pub(super) fn handshake_timeout(&self, ctx: &RunContext) -> Duration {
        let limits = &ctx.config.limits;
        if self.connector.has_processes() {
            limits.connect_timeout
        } else {
            limits.connect_timeout.min(limits.response_timeout)
        }
    }

    /// Returns how long the ring may park: until `wake`, a connect, a replacement, a request that
    /// is due at `due_at`, or a publication; less the spin time before the latter two.
    #[inline]
    pub(super) fn park_timeout(
        &mut self,
        wake: Instant,
        due_at: Option<Instant>,
        ctx: &RunContext,
    ) -> ParkTimeout {
        let RunConfig { limits, .. } = &ctx.config;
        let connect = self.connector.next_connect_at(self.io.connections(), limits);
        let replacement = self.churn.as_mut().and_then(|churn| churn.next_at());
        let wake = connect.into_iter().chain(replacement).fold(wake, Instant::min);
        let rest = wake.since(ctx.now);
        let publish = self.subscribers.as_ref().and_then(Subscribers::next_publish_at);
        let due = [due_at, publish].into_iter().flatten().min();
        let free =
            due.map_or(rest, |due| due.since(ctx.now).saturating_sub(limits.spin_before).min(rest));
        match free {
            Duration::ZERO => ParkTimeout::Zero,
            span => ParkTimeout::After(span),
        }
    }

    /// Counts a connection as open and records its connect or reconnect time.
    #[cold]
    pub(super) fn record_opened(&mut self, index: usize, ctx: &mut RunContext) {
        self.connector.count_opened();
        let conn = &mut self.io[index];
        let connects = &mut ctx.recorder.period.connects;
        match conn.replacement.take() {
            None => connects.record_connect(ctx.now.since(conn.connect_started)),
            Some(replacement) => {
                let Replacement { intended, reason, .. } = *replacement;
                if intended >= ctx.recorder.measured_from {
                    connects.record_reconnect(reason, ctx.now.since(intended));
                }
                if let Some(churn) = &mut self.churn {
                    churn.complete_replacement();
                }
            }
        }
        self.add_replaceable(index);
    }

    /// Adds a connection that opened to those that may be replaced.
    fn add_replaceable(&mut self, index: usize) {
        let is_beside =
            self.subscribers.as_ref().is_some_and(|subscribers| subscribers.includes(index));
        if let Some(churn) = &mut self.churn
            && !is_beside
        {
            churn.add_opened(index, self.io.connections());
        }
    }

    /// Closes an HTTP connection with a request that timed out, and opens it again in the same
    /// session. It neither counts as lost nor as opened. Requests that wait behind that one are
    /// sent again.
    #[cold]
    pub(super) fn reopen(&mut self, index: usize) {
        let conn = &mut self.io[index];
        let ConnectionState::Open(mut log) =
            std::mem::replace(&mut conn.state, ConnectionState::Closing)
        else {
            return;
        };
        conn.ending = Ending::Planned;
        let requests = log.restart();
        if !requests.is_empty() {
            self.repeats.insert(index, requests);
        }
        self.reopening.insert(index, log);
        self.io.close_sockets(index);
    }

    /// Continues the session of a connection that was opened again; returns whether it is one.
    #[cold]
    pub(super) fn resume_session(&mut self, index: usize) -> bool {
        let Some(log) = self.reopening.remove(&index) else { return false };
        self.connector.count_reopened();
        self.io[index].state = ConnectionState::Open(log);
        self.add_replaceable(index);
        true
    }

    /// Counts a connection as lost that could not be opened again.
    fn give_up_reopening(&mut self, index: usize, ctx: &mut RunContext) {
        if self.reopening.remove(&index).is_some() {
            self.connector.count_closed();
            ctx.recorder.period.connects.lost += 1;
        }
    }

    /// Closes the connection of a user that leaves; it is opened again at once for the next user.
    pub(super) fn leave(&mut self, index: usize, ctx: &mut RunContext) {
        self.close_event_stream(index);
        let conn = &mut self.io[index];
        conn.is_draining = true;
        let (intended, closing_since) = (ctx.now, ctx.now);
        let reason = ReconnectReason::Leave;
        conn.replacement = Some(Box::new(Replacement { intended, reason, closing_since }));
        self.close_if_idle(index, ctx);
    }

    /// Opens a connection that was closed when its user left, for the next one.
    pub(super) fn bring_back(&mut self, index: usize, ctx: &RunContext) {
        let conn = &mut self.io[index];
        if conn.ending == Ending::Left
            && let ConnectionState::Disconnected { retry_at } = &mut conn.state
        {
            *retry_at = ctx.now;
            conn.ending = Ending::Planned;
            if let Some(replacement) = &mut conn.replacement {
                replacement.intended = ctx.now;
            }
            self.connector.queue_retry(index, ctx.phase);
        }
    }

    /// Sends the requests of a connection that are to be sent again.
    pub(super) fn send_repeats(&mut self, index: usize, ctx: &mut RunContext) {
        let Some(requests) = self.repeats.remove(&index) else { return };
        let conn = self.io.prepared(index);
        let ConnectionState::Open(log) = &mut conn.state else { return };
        for UnansweredRequest { call, intended } in requests {
            let output = &mut conn.send_buffer;
            match ctx.users.as_ref().and_then(|users| users.values(index)) {
                None => log.write_request(&ctx.templates, call, intended, ctx.now, output),
                Some(user) => {
                    log.write_step(&ctx.templates, call, user, intended, ctx.now, output);
                }
            }
        }
        self.io.queue_flush(index);
    }

    /// Requests the publications that are due.
    #[inline]
    pub(super) fn publish_due(&mut self, ctx: &mut RunContext) {
        let Some(subscribers) = &mut self.subscribers else { return };
        if let Some(publisher) = subscribers.publisher() {
            let conn = &self.io[publisher];
            let is_open = matches!(conn.state, ConnectionState::Open(_)) && !conn.is_draining;
            let is_returning = self.returning == Some(publisher) || conn.ending == Ending::Expired;
            if !is_open && (is_returning || self.reopening.contains_key(&publisher)) {
                // They are due as soon as its connection is open.
                return;
            }
        }
        subscribers.publish_due(&mut self.io, ctx);
    }

    /// Begins the replacements that are due.
    #[inline]
    pub(super) fn replace_due_connections(&mut self, ctx: &mut RunContext) {
        while let Some(churn) = &mut self.churn
            && let Some((index, replacement)) = churn.next_replacement(self.io.connections(), ctx)
        {
            let conn = &mut self.io[index];
            conn.is_draining = true;
            conn.replacement = Some(Box::new(replacement));
            self.close_if_idle(index, ctx);
        }
    }

    /// Closes a connection that is being replaced or that the server closes, once it has no request
    /// in flight.
    #[cold]
    pub(super) fn close_if_idle(&mut self, index: usize, ctx: &mut RunContext) {
        let conn = &mut self.io[index];
        let is_idle = matches!(&conn.state, ConnectionState::Open(log) if log.in_flight() == 0);
        if is_idle && conn.replacement.is_none() && is_http(ctx) {
            // The server announced the close.
            return self.end_connection(index, Failure::Closed, ctx);
        }
        let Some(replacement) = conn.replacement.as_mut().filter(|_| is_idle) else { return };
        replacement.closing_since = ctx.now;
        if ctx.config.roles.churn.is_some_and(|churn| churn.leaves_sessions) {
            return self.end_connection(index, Failure::Closed, ctx);
        }
        let ConnectionState::Open(log) =
            std::mem::replace(&mut conn.state, ConnectionState::Closing)
        else {
            return;
        };
        let (closing, action) = Closing::new(&ctx.settings_of(index), log.into_drained());
        conn.state = ConnectionState::GracefulClose(Box::new(closing));
        match action {
            CloseAction::Send(bytes) => {
                self.io.buffer_output(index, &bytes);
                self.io.queue_flush(index);
            }
            CloseAction::ShutdownWrite if self.io.shut_down_write(index) => {}
            CloseAction::ShutdownWrite | CloseAction::CloseNow => {
                self.end_connection(index, Failure::Closed, ctx);
            }
        }
    }

    /// Ends a closing connection: the server confirmed the close, or the timeout passed.
    #[cold]
    pub(super) fn finish_closing(
        &mut self,
        index: usize,
        is_confirmed: bool,
        ctx: &mut RunContext,
    ) {
        if !is_confirmed && ctx.config.request_settings.transport == Transport::Http {
            ctx.recorder.period.connects.sessions_not_deleted += 1;
        }
        self.end_connection(index, Failure::Closed, ctx);
    }

    /// Ends a connection: its requests in flight fail, and its sockets are closed.
    #[cold]
    pub(super) fn end_connection(&mut self, index: usize, failure: Failure, ctx: &mut RunContext) {
        let conn = &mut self.io[index];
        // A server may close an HTTP connection between requests, and does so after a number of
        // them or some idle time.
        let is_idle = matches!(&conn.state, ConnectionState::Open(log) if log.in_flight() == 0);
        let is_kept_alive = failure == Failure::Closed && is_idle && is_http(ctx);
        if !matches!(conn.state, ConnectionState::Closing) {
            let has_sent = matches!(&conn.state, ConnectionState::Open(log) if log.has_sent());
            conn.ending = match failure {
                Failure::Closed if is_kept_alive && has_sent => Ending::Expired,
                Failure::Closed if !conn.is_draining && !is_kept_alive => Ending::Lost,
                _ if conn.is_left() => Ending::Left,
                _ => Ending::Planned,
            };
        }
        let has_session = matches!(&conn.state, ConnectionState::Open(log) if log.has_session());
        let goes_on = conn.ending == Ending::Expired && conn.replacement.is_none() && has_session;
        let partial = conn.closed_inside_message().filter(|_| failure == Failure::Closed);
        match std::mem::replace(&mut conn.state, ConnectionState::Closing) {
            ConnectionState::Open(mut log) if goes_on => {
                // The session of HTTP goes on over the next connection.
                log.restart();
                self.reopening.insert(index, log);
            }
            ConnectionState::Open(mut log) => {
                self.connector.count_closed();
                ctx.recorder.period.connects.lost += u64::from(!conn.is_draining && !is_kept_alive);
                if log.in_flight() > 0 {
                    let is_closed_http = failure == Failure::Closed && is_http(ctx);
                    let why = if is_closed_http { KEEP_ALIVE_HINT } else { failure.description() };
                    ctx.record_example(failure, partial.as_deref().unwrap_or(why));
                }
                ctx.fail_requests(&mut log, failure);
            }
            subscribed @ ConnectionState::Subscribed(_) => {
                conn.state = subscribed;
                let message = "the server closed the connection".into();
                let error = ConnectError { failure: Failure::Closed, message };
                return self.fail_subscription(index, error, ctx);
            }
            ConnectionState::SlowReader(_) => {
                self.connector.count_closed();
                ctx.recorder.period.slow_readers.closed += u64::from(!conn.is_draining);
            }
            ConnectionState::EventStream(stream) => {
                conn.ending = Ending::Lost;
                let counts = &mut ctx.recorder.period.users.streams;
                let is_open = stream.is_open();
                counts.refused += u64::from(!is_open && !stream.is_answered());
                counts.lost += u64::from(is_open && ctx.phase == RunPhase::Sending);
            }
            ConnectionState::GracefulClose(_) => self.connector.count_closed(),
            handshake @ ConnectionState::Handshake(_) => {
                conn.state = handshake;
                let error = self.closed_error(index);
                return self.fail_handshake(index, error, ctx);
            }
            // There is no socket to close.
            other @ (ConnectionState::Disconnected { .. } | ConnectionState::Connecting) => {
                conn.state = other;
                return;
            }
            ConnectionState::Closing => return,
        }
        self.io.close_sockets(index);
    }

    /// Ends a connection that the server closed in order. If it has answered requests over it and
    /// nothing of the next answer arrived, it closed an idle connection before it read the request,
    /// which is sent again over a new one (RFC 9112 section 9.3.1).
    #[cold]
    pub(super) fn end_orderly(&mut self, index: usize, ctx: &mut RunContext) {
        let conn = &mut self.io[index];
        let is_beside = self.subscribers.as_ref().is_some_and(|others| others.includes(index));
        if let ConnectionState::Open(log) = &mut conn.state
            && !conn.is_draining
            && !is_beside
            && is_http(ctx)
            && let Some(request) = log.take_unread()
        {
            let is_measured = request.intended >= ctx.recorder.measured_from;
            ctx.recorder.period.connects.repeated += u64::from(is_measured);
            self.repeats.insert(index, vec![request]);
        }
        self.end_connection(index, Failure::Closed, ctx);
    }

    /// Fails the requests that were to be sent again over a connection.
    fn fail_repeats(&mut self, index: usize, ctx: &mut RunContext) {
        let Some(requests) = self.repeats.remove(&index) else { return };
        ctx.record_example(Failure::Closed, KEEP_ALIVE_HINT);
        for UnansweredRequest { call, intended } in requests {
            let failure = Some(Failure::Closed);
            let completed = CompletedRequest { call, intended, sent: ctx.now, failure };
            ctx.recorder.record_completed(completed, ctx.now);
        }
    }

    /// Ends a subscriber; `error` is recorded if its streams had not opened.
    #[cold]
    pub(super) fn fail_subscription(
        &mut self,
        index: usize,
        error: ConnectError,
        ctx: &mut RunContext,
    ) {
        let conn = &mut self.io[index];
        let is_lost = !conn.is_draining;
        let state = std::mem::replace(&mut conn.state, ConnectionState::Closing);
        if let ConnectionState::Subscribed(subscriber) = state {
            if let Some(subscribers) = &mut self.subscribers {
                subscribers.remove(&subscriber);
            }
            if !subscriber.has_opened() {
                return self.fail_handshake(index, error, ctx);
            }
            self.connector.count_closed();
            ctx.recorder.period.connects.lost += u64::from(is_lost);
            ctx.recorder.period.fanout.lost += subscriber.open_streams() as u64;
        }
        self.io.close_sockets(index);
    }

    /// Ends a connection whose TLS handshake or decryption failed.
    #[cold]
    pub(super) fn fail_tls(&mut self, index: usize, error: &TlsError, ctx: &mut RunContext) {
        let message = describe_tls_error(error);
        let failure = match &self.io[index].state {
            ConnectionState::Handshake(_) => {
                self.connector.count_tls_failed();
                let error = ConnectError { failure: Failure::Connect, message };
                return self.fail_handshake(index, error, ctx);
            }
            ConnectionState::Disconnected { .. }
            | ConnectionState::Connecting
            | ConnectionState::Closing => return,
            _ if error.is_alert() => Failure::Closed,
            _ => Failure::Garbage,
        };
        ctx.record_error(ConnectError { failure, message });
        self.end_connection(index, failure, ctx);
    }

    /// Returns the error of a handshake that the server ended by closing the connection.
    fn closed_error(&self, index: usize) -> ConnectError {
        let (failure, message) = if self.io.is_tls_handshaking(index) {
            (Failure::Connect, describe_tls_error(&TlsError::closed()))
        } else {
            (Failure::Closed, "the server closed the connection".into())
        };
        ConnectError { failure, message }
    }

    /// Returns the error of a handshake that timed out.
    pub(super) fn timeout_error(&self, index: usize, timeout: Duration) -> ConnectError {
        let message = if self.io.is_tls_handshaking(index) {
            describe_tls_error(&TlsError::timeout())
        } else {
            format!("no answer to the handshake within {timeout:?}")
        };
        ConnectError { failure: Failure::Timeout, message }
    }

    /// Ends a connection whose handshake failed.
    #[cold]
    pub(super) fn fail_handshake(
        &mut self,
        index: usize,
        error: ConnectError,
        ctx: &mut RunContext,
    ) {
        if self.connector.has_processes() && self.io[index].ending == Ending::Lost {
            // The exit status and last lines of the child, which follow, are more specific.
            ctx.recorder.period.connects.record_failure(error.failure);
        } else {
            ctx.record_connect_error(error);
        }
        self.connector.count_failed();
        self.give_up_reopening(index, ctx);
        self.io[index].state = ConnectionState::Closing;
        self.io.close_sockets(index);
    }

    /// Ends a connection for whose pipes the ring has no room.
    #[cold]
    pub(super) fn fail_pipes(
        &mut self,
        index: usize,
        errors: Vec<std::io::Error>,
        ctx: &mut RunContext,
    ) {
        self.connector.count_failed();
        let conn = &mut self.io[index];
        (conn.state, conn.ending) = (ConnectionState::Closing, Ending::Planned);
        for error in errors {
            let message = error.to_string();
            ctx.record_connect_error(ConnectError { failure: Failure::Connect, message });
        }
        self.connector.stop_process(index);
    }

    /// Queues a connection whose connect failed to be connected again.
    pub(super) fn retry_failed(&mut self, index: usize, ctx: &mut RunContext) {
        self.connector.count_failed();
        self.give_up_reopening(index, ctx);
        self.schedule_retry(index, ctx);
    }

    /// Handles the completion of a close.
    pub(super) fn handle_closed(&mut self, socket: Socket, ctx: &mut RunContext) {
        let Some(index) = self.io.detach_socket(socket) else { return };
        // Its process must exit before it is started again.
        if !self.connector.stop_process(index) {
            self.reconnect(index, ctx);
        }
    }

    /// Reconnects a closed connection, at once if it is being replaced or a request timed out, else
    /// after the retry delay.
    pub(super) fn reconnect(&mut self, index: usize, ctx: &mut RunContext) {
        let is_expired = self.io[index].ending == Ending::Expired;
        if self.reopening.contains_key(&index) && !is_expired {
            return self.begin_connect(u32::try_from(index).unwrap_or(u32::MAX), ctx);
        }
        let conn = &self.io[index];
        if !self.churn.as_mut().is_some_and(|churn| churn.queue_reconnect(index, conn)) {
            self.schedule_retry(index, ctx);
        }
    }

    /// Notes whether the connection of the publisher is opened again at once.
    fn note_publisher(&mut self, index: usize, ending: Ending) {
        if self.subscribers.as_ref().and_then(Subscribers::publisher) == Some(index) {
            self.returning = Some(index).filter(|_| ending == Ending::Expired);
        }
    }

    fn schedule_retry(&mut self, index: usize, ctx: &mut RunContext) {
        let ending = std::mem::replace(&mut self.io[index].ending, Ending::Planned);
        if self.user_of_stream(index).is_some() {
            return self.retry_event_stream(index, ending, ctx);
        }
        self.note_publisher(index, ending);
        if ending == Ending::Left && ctx.users.as_mut().is_some_and(|users| users.replace(index)) {
            // It is opened again when the next user comes.
            let conn = &mut self.io[index];
            conn.ending = Ending::Left;
            conn.state = ConnectionState::Disconnected { retry_at: ctx.now };
            return;
        }
        let delay = match ending {
            Ending::Expired | Ending::Left => Duration::ZERO,
            Ending::Planned | Ending::Lost => {
                self.fail_repeats(index, ctx);
                ctx.config.limits.retry_after
            }
        };
        let retry_at = ctx.now.after(delay);
        self.io[index].state = ConnectionState::Disconnected { retry_at };
        self.connector.queue_retry(index, ctx.phase);
    }

    /// Returns whether no request is in flight, no reconnect is pending, and the last publication
    /// was delivered or timed out.
    pub(super) fn is_complete(&mut self, now: Instant) -> bool {
        self.subscribers.as_ref().is_none_or(|subscribers| subscribers.is_delivery_complete(now))
            && self.repeats.is_empty()
            && self.churn.as_mut().is_none_or(|churn| churn.is_idle())
            && !self.io.connections().iter().any(Connection::has_in_flight)
    }

    /// Completes the measurements at the end of the run: outstanding responses count as timeouts.
    pub(super) fn finish(&mut self, ctx: &mut RunContext) {
        if let Some(churn) = &mut self.churn
            && !ctx.is_stopped
        {
            let from = ctx.recorder.measured_from;
            ctx.recorder.period.connects.not_reopened +=
                churn.count_unfinished(self.io.connections(), from);
        }
        if let Some(subscribers) = &mut self.subscribers {
            subscribers.finish(ctx);
        }
        for conn in self.io.connections_mut() {
            if let ConnectionState::Open(log) = &mut conn.state {
                if ctx.is_stopped {
                    ctx.abandon_requests(log);
                    continue;
                }
                if log.in_flight() > 0 {
                    ctx.record_example(Failure::Timeout, Failure::Timeout.description());
                }
                ctx.fail_requests(log, Failure::Timeout);
            }
        }
        while let Some(&index) = self.repeats.keys().next() {
            self.fail_repeats(index, ctx);
        }
        if ctx.recorder.period.connects.lost > 0 {
            // A program may end too late to report how.
            let text = Failure::Closed.description().to_owned();
            ctx.recorder.period.errors.add_first(Some(Failure::Closed), text);
        }
    }
}

fn is_http(ctx: &RunContext) -> bool {
    ctx.config.request_settings.transport == Transport::Http
}
