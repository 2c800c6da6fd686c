//! The connections of a load thread: handshakes, received data, requests, timeouts.

use std::collections::VecDeque;
use std::io;

use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, ReceiveBuffer, Ring, Socket, Source};
use corelane_tls::TlsFilter;

use super::connection::{ConnectionState, Ending};
use super::context::{ReceiveActions, RunContext, RunPhase};
use super::lifecycle::Lifecycle;
use super::processes::Processes;
use super::request_schedule::{RequestSchedule, SEND_BATCH_MAX};
use super::run_config::{CONNECT_HINT, LoadMode};
use super::slow_readers::SlowReaders;
use super::subscribers::{HandshakeResult, SubscriberActions};
use super::users::{DueStep, DueUser};
use crate::children::ChildEvent;
use crate::mcp::{ConnectError, Handshake, HandshakeProgress, RequestLog};
use crate::metrics::outcome::Failure;
use crate::target::Transport;
use crate::users::{StepOutcome, UserMetrics};

/// Number of sweeps in which every connection is checked once.
const SWEEP_ROUNDS: usize = 200;
/// Minimum number of connections checked by a sweep.
const SWEEP_CONNECTIONS_MIN: usize = 16;

/// All connections of a load thread.
#[derive(Debug)]
pub(super) struct Connections<R> {
    pub(super) lifecycle: Lifecycle<R>,
    /// Connections that may have capacity, longest waiting first.
    available: VecDeque<u32>,
    slow_readers: SlowReaders,
    /// Next connection to sweep.
    next_sweep_index: usize,
}

impl<R: Ring> Connections<R> {
    /// Creates a load thread's share of the connections, none of them open.
    pub(super) fn new(ring: R, ctx: &RunContext, processes: Option<Processes>) -> Self {
        Self {
            lifecycle: Lifecycle::new(ring, ctx, processes),
            available: VecDeque::with_capacity(ctx.share.part(ctx.config.connections)),
            slow_readers: SlowReaders::new(ctx),
            next_sweep_index: 0,
        }
    }

    /// Starts slow reading and planned replacements at the beginning of the run.
    pub(super) fn start(&mut self, ctx: &RunContext, begin: Instant) {
        self.lifecycle.start(ctx, begin);
        self.slow_readers.start(begin);
    }

    /// Processes a completion of the ring.
    #[inline]
    pub(super) fn handle_completion(&mut self, completion: Completion, ctx: &mut RunContext) {
        match completion {
            Completion::Received { socket, buffer } => self.handle_received(socket, buffer, ctx),
            Completion::Sent { socket, buffer, result } => {
                if let Some(index) = self.lifecycle.io.handle_sent(socket, buffer, &result) {
                    self.handle_end(index, result.err().map(|error| ("send", error)), ctx);
                }
            }
            Completion::Connected { token, result } => self.handle_connected(token, result, ctx),
            Completion::EndOfStream { socket, result } => {
                if let Some(index) = self.lifecycle.io.connection_of(socket) {
                    self.handle_end(index, result.err().map(|error| ("receive", error)), ctx);
                }
            }
            Completion::Closed { socket } => self.lifecycle.handle_closed(socket, ctx),
            _ => {}
        }
    }

    /// Handles the end of a connection, in order or by an error of this operation.
    #[cold]
    fn handle_end(&mut self, index: usize, error: Option<(&str, io::Error)>, ctx: &mut RunContext) {
        let mut is_orderly = true;
        if let Some((operation, error)) = error {
            if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref()) {
                return self.lifecycle.fail_tls(index, error, ctx);
            }
            // Sending after the end of the stream is a broken pipe.
            is_orderly = error.kind() == io::ErrorKind::BrokenPipe;
            // TLS without its own end may be cut off, which is no error of the system.
            if error.kind() != io::ErrorKind::UnexpectedEof {
                let part = self.lifecycle.io[index].closed_inside_message();
                let part = part.map_or_else(String::new, |part| format!("{part}: "));
                let text = format!("{part}{operation} failed: {error}");
                ctx.record_example(Failure::Closed, &text);
            }
        }
        if !is_orderly {
            return self.lifecycle.end_connection(index, Failure::Closed, ctx);
        }
        let conn = &mut self.lifecycle.io[index];
        let is_response = match &mut conn.state {
            ConnectionState::Open(log) => log.end(),
            ConnectionState::Handshake(handshake) => handshake.end(),
            _ => false,
        };
        if is_response {
            self.receive_bytes(index, &[], ctx);
        }
        self.lifecycle.end_orderly(index, ctx);
    }

    /// Handles the completion of a connect.
    fn handle_connected(&mut self, token: u64, result: io::Result<Socket>, ctx: &mut RunContext) {
        let Ok(index) = usize::try_from(token) else { return };
        match result {
            Ok(socket) => self.begin_handshake(index, socket, socket, ctx),
            Err(error) => {
                let message = format!("{error}; {CONNECT_HINT}");
                ctx.record_connect_error(ConnectError { failure: Failure::Connect, message });
                self.lifecycle.retry_failed(index, ctx);
            }
        }
    }

    /// Processes the events of child processes.
    #[inline]
    pub(super) fn handle_child_events(&mut self, ctx: &mut RunContext) {
        while let Some(event) = self.lifecycle.connector.next_child_event() {
            match event {
                ChildEvent::Started { connection, stdin, stdout } => {
                    let index = connection as usize;
                    let ends = [Source::Pipe(stdout), Source::Pipe(stdin)];
                    match self.lifecycle.io.register_pipes(ends) {
                        Ok((read, write)) => self.begin_handshake(index, read, write, ctx),
                        Err(errors) => self.lifecycle.fail_pipes(index, errors, ctx),
                    }
                }
                ChildEvent::Failed { connection, message } => {
                    ctx.recorder.period.connects.record_failure(Failure::Connect);
                    ctx.recorder.period.errors.set_last(message);
                    self.lifecycle.retry_failed(connection as usize, ctx);
                }
                ChildEvent::Exited { connection, message } => {
                    if self.lifecycle.io[connection as usize].ending == Ending::Lost {
                        let examples = &mut ctx.recorder.period.errors;
                        examples.add_first(Some(Failure::Closed), message.clone());
                        examples.set_last(message);
                    }
                    self.lifecycle.reconnect(connection as usize, ctx);
                }
            }
        }
    }

    /// Attaches the sockets for reading and writing, and begins the handshake: of TLS if there is
    /// any, then of MCP.
    fn begin_handshake(&mut self, index: usize, read: Socket, write: Socket, ctx: &mut RunContext) {
        self.lifecycle.io.attach_sockets(index, read, write);
        let conn = &mut self.lifecycle.io[index];
        (conn.is_draining, conn.ending) = (false, Ending::Planned);
        let handshake = Handshake::new(&ctx.settings_of(index));
        conn.state = ConnectionState::Handshake(Box::new(handshake));
        match ctx.config.tls.as_ref().map(|tls| TlsFilter::new(tls.client())) {
            None => self.begin_mcp_handshake(index, ctx),
            Some(Ok(filter)) => self.lifecycle.io.begin_tls(read, filter),
            Some(Err(error)) => self.lifecycle.fail_tls(index, &error, ctx),
        }
    }

    /// Begins the handshake of MCP, once that of TLS is complete if there is any.
    pub(super) fn begin_mcp_handshake(&mut self, index: usize, ctx: &mut RunContext) {
        if !matches!(self.lifecycle.io[index].state, ConnectionState::Handshake(_)) {
            return;
        }
        if self.lifecycle.begin_event_stream(index, ctx) || self.lifecycle.begin_answers(index) {
            return;
        }
        if self.lifecycle.resume_session(index) {
            self.lifecycle.send_repeats(index, ctx);
            return self.queue_available(index, ctx.config.depth);
        }
        if let ConnectionState::Handshake(handshake) = &mut self.lifecycle.io[index].state {
            let progress = handshake.begin(&ctx.settings_of(index));
            self.advance_handshake(index, progress, ctx);
        }
    }

    /// Processes bytes received during the handshake, and what follows it.
    #[cold]
    fn receive_handshake(&mut self, index: usize, bytes: &[u8], ctx: &mut RunContext) {
        let mut received = bytes;
        while let ConnectionState::Handshake(handshake) = &mut self.lifecycle.io[index].state {
            match handshake.receive(&ctx.settings_of(index), std::mem::take(&mut received)) {
                Ok(HandshakeProgress::Wait) => return,
                Ok(progress) => self.advance_handshake(index, progress, ctx),
                Err(error) => return self.lifecycle.fail_handshake(index, error, ctx),
            }
        }
        self.receive_bytes(index, &[], ctx);
    }

    fn advance_handshake(
        &mut self,
        index: usize,
        progress: HandshakeProgress,
        ctx: &mut RunContext,
    ) {
        match progress {
            HandshakeProgress::Wait => return,
            HandshakeProgress::Send(bytes) => self.lifecycle.io.buffer_output(index, &bytes),
            HandshakeProgress::Open(bytes) => {
                self.lifecycle.io.buffer_output(index, &bytes);
                let conn = &mut self.lifecycle.io[index];
                let disconnected = ConnectionState::Disconnected { retry_at: ctx.now };
                if let ConnectionState::Handshake(handshake) =
                    std::mem::replace(&mut conn.state, disconnected)
                {
                    self.open_connection(index, handshake.finish(), ctx);
                }
            }
        }
        self.lifecycle.io.queue_flush(index);
    }

    /// Uses a connection whose handshake is complete: for subscriptions, slow reading or requests.
    fn open_connection(&mut self, index: usize, opened: HandshakeResult, ctx: &mut RunContext) {
        if let Some(subscribers) = &mut self.lifecycle.subscribers
            && subscribers.is_subscriber(index)
        {
            let conn = self.lifecycle.io.prepared(index);
            let (subscriber, actions) =
                subscribers.subscribe(index, opened, &mut conn.send_buffer, ctx);
            conn.state = ConnectionState::Subscribed(subscriber);
            self.lifecycle.io.queue_flush(index);
            return self.apply_subscriber_actions(index, actions, ctx);
        }
        let (reader, unread, session) = opened;
        let log = RequestLog::new(reader, unread, session);
        self.lifecycle.io[index].state = if index < self.slow_readers.reader_count() {
            ConnectionState::SlowReader(self.slow_readers.reader(log))
        } else {
            ConnectionState::Open(log)
        };
        self.lifecycle.send_repeats(index, ctx);
        self.queue_available(index, ctx.config.depth);
        self.lifecycle.record_opened(index, ctx);
        self.lifecycle.open_event_stream(index, ctx);
    }

    #[inline]
    fn handle_received(&mut self, socket: Socket, buffer: ReceiveBuffer, ctx: &mut RunContext) {
        if let Some((index, conn, bytes)) = self.lifecycle.io.received(socket, &buffer) {
            if let ConnectionState::Open(log) = &mut conn.state {
                let actions = ctx.receive_responses(index, log, bytes);
                self.apply_receive_actions(index, actions, ctx);
            } else if let ConnectionState::Subscribed(subscriber) = &mut conn.state {
                if let Some(subscribers) = &mut self.lifecycle.subscribers {
                    let actions = subscribers.receive(index, subscriber, bytes, ctx);
                    self.apply_subscriber_actions(index, actions, ctx);
                }
            } else {
                let bytes = bytes.to_vec();
                self.receive_bytes(index, &bytes, ctx);
            }
        }
        self.lifecycle.io.release(buffer);
    }

    /// Processes received data that is not in a ring buffer.
    fn receive_bytes(&mut self, index: usize, bytes: &[u8], ctx: &mut RunContext) {
        match &mut self.lifecycle.io[index].state {
            ConnectionState::Open(log) => {
                let actions = ctx.receive_responses(index, log, bytes);
                self.apply_receive_actions(index, actions, ctx);
            }
            ConnectionState::Subscribed(subscriber) => {
                if let Some(subscribers) = &mut self.lifecycle.subscribers {
                    let actions = subscribers.receive(index, subscriber, bytes, ctx);
                    self.apply_subscriber_actions(index, actions, ctx);
                }
            }
            ConnectionState::Handshake(_) => self.receive_handshake(index, bytes, ctx),
            ConnectionState::SlowReader(_) => {
                let io = &mut self.lifecycle.io;
                if let Some(failure) = self.slow_readers.receive(io, index, bytes, ctx) {
                    self.lifecycle.end_connection(index, failure, ctx);
                }
            }
            ConnectionState::EventStream(_) => {
                self.lifecycle.receive_event_stream(index, bytes, ctx);
            }
            ConnectionState::GracefulClose(closing) => {
                if let Some(is_confirmed) = closing.receive(bytes) {
                    self.lifecycle.finish_closing(index, is_confirmed, ctx);
                }
            }
            _ => {}
        }
    }

    /// Executes the actions required by data received on a connection for requests.
    #[inline]
    fn apply_receive_actions(
        &mut self,
        index: usize,
        actions: ReceiveActions,
        ctx: &mut RunContext,
    ) {
        let ReceiveActions { server_requests, output, is_closing, is_broken } = actions;
        if is_broken {
            return self.lifecycle.end_connection(index, Failure::Garbage, ctx);
        }
        if !output.is_empty() || !server_requests.is_empty() {
            self.lifecycle.io.buffer_output(index, &output);
            for (id, method) in server_requests {
                let settings = ctx.settings_of(index);
                let text = settings.answers().response(&id, &method);
                let is_answered = settings.answers().has_result(&method);
                let session = self.lifecycle.io[index].session();
                let framed = settings.frame_in_session(text.as_bytes(), session);
                let is_measured = ctx.now >= ctx.recorder.measured_from;
                let is_http = settings.transport == Transport::Http;
                ctx.recorder.period.users.inputs += u64::from(is_answered && is_measured);
                if !is_http {
                    self.lifecycle.io.buffer_output(index, &framed);
                } else if let Some(framed) = self.lifecycle.post_answer(framed, ctx) {
                    self.lifecycle.io.buffer_output(index, &framed);
                }
            }
            self.lifecycle.io.queue_flush(index);
        }
        let conn = &mut self.lifecycle.io[index];
        if is_closing {
            conn.is_draining = true;
        }
        if conn.is_draining {
            return self.lifecycle.close_if_idle(index, ctx);
        }
        self.queue_available(index, ctx.config.depth);
    }

    /// Executes the actions required by data received on a subscriber connection.
    #[inline]
    fn apply_subscriber_actions(
        &mut self,
        index: usize,
        actions: SubscriberActions,
        ctx: &mut RunContext,
    ) {
        let SubscriberActions { output, is_closing, error } = actions;
        if let Some(error) = error {
            return self.lifecycle.fail_subscription(index, error, ctx);
        }
        let conn = &mut self.lifecycle.io[index];
        if let ConnectionState::Subscribed(subscriber) = &mut conn.state
            && subscriber.is_newly_complete()
        {
            self.lifecycle.record_opened(index, ctx);
        }
        self.lifecycle.io[index].is_draining |= is_closing;
        if !output.is_empty() {
            self.lifecycle.io.buffer_output(index, &output);
            self.lifecycle.io.queue_flush(index);
        }
    }

    /// Sends requests and resumes reads of all slow readers.
    #[cold]
    pub(super) fn drive_slow_readers(
        &mut self,
        requests: &mut RequestSchedule,
        ctx: &mut RunContext,
    ) {
        self.slow_readers.drive(&mut self.lifecycle.io, requests, ctx);
    }

    /// Returns the available connection that has waited longest.
    #[inline]
    pub(super) fn take_available(&mut self, depth: usize) -> Option<usize> {
        while let Some(index) = self.available.pop_front() {
            let index = index as usize;
            let conn = &mut self.lifecycle.io[index];
            conn.is_queued = false;
            if conn.has_capacity(depth) {
                return Some(index);
            }
        }
        None
    }

    /// Adds a connection to the available ones if it has capacity.
    #[inline]
    fn queue_available(&mut self, index: usize, depth: usize) {
        let conn = &mut self.lifecycle.io[index];
        if !conn.is_queued && conn.has_capacity(depth) {
            conn.is_queued = true;
            self.available.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Writes a request to the send buffer of an available connection.
    #[inline]
    pub(super) fn send_request(
        &mut self,
        index: usize,
        call: u16,
        intended: Instant,
        ctx: &mut RunContext,
    ) {
        let conn = self.lifecycle.io.prepared(index);
        let ConnectionState::Open(log) = &mut conn.state else { return };
        let templates = &ctx.templates;
        let output = &mut conn.send_buffer;
        match ctx.users.as_ref().and_then(|users| users.values(index)) {
            None => log.write_request(templates, call, intended, ctx.now, output),
            Some(user) => log.write_step(templates, call, user, intended, ctx.now, output),
        }
        let is_measured = intended >= ctx.recorder.measured_from;
        ctx.recorder.period.sent += u64::from(is_measured);
        if !matches!(ctx.config.mode, LoadMode::Open { .. }) {
            ctx.recorder.period.due += u64::from(is_measured);
        }
        self.lifecycle.io.queue_flush(index);
        self.queue_available(index, ctx.config.depth);
    }

    /// Lets users go on whose requests ended, and sends the steps that are due, a batch of both.
    /// Returns whether there may be more to do.
    pub(super) fn drive_users(&mut self, ctx: &mut RunContext) -> bool {
        let is_sending = ctx.phase == RunPhase::Sending;
        for _ in 0..SEND_BATCH_MAX {
            if is_sending && let Some(index) = self.take_available(1) {
                self.advance_user(index, ctx);
                continue;
            }
            let Some(users) = &mut ctx.users else { return false };
            match users.take_due(ctx.now) {
                None => return false,
                Some(DueUser::Cancellation { index }) => self.cancel_request(index, ctx),
                Some(_) if !is_sending => {}
                Some(DueUser::Step { index, since }) => {
                    if since >= ctx.recorder.measured_from {
                        ctx.recorder.record_lag(since, ctx.now);
                    }
                    self.begin_step(index, ctx);
                }
                Some(DueUser::Arrival { index, since }) => {
                    if since >= ctx.recorder.measured_from {
                        ctx.recorder.record_lag(since, ctx.now);
                        ctx.recorder.period.users.arrived += 1;
                        ctx.recorder.period.users.waited += u64::from(index.is_none());
                    }
                    if let Some(index) = index {
                        self.begin_step(index, ctx);
                    }
                }
                Some(DueUser::End { index }) => self.end_user(index, ctx),
            }
        }
        true
    }

    /// Sends the step that is due for a user, or opens its connection first.
    fn begin_step(&mut self, index: usize, ctx: &mut RunContext) {
        if self.lifecycle.io[index].has_capacity(1) {
            self.send_step(index, ctx);
        } else {
            self.lifecycle.bring_back(index, ctx);
        }
    }

    /// Lets a user leave that has no request in flight.
    fn end_user(&mut self, index: usize, ctx: &mut RunContext) {
        let Some(users) = &mut ctx.users else { return };
        if self.lifecycle.io[index].has_capacity(1) {
            let is_measured = ctx.now >= ctx.recorder.measured_from;
            let mut of_warm_up = UserMetrics::default();
            let metrics =
                if is_measured { &mut ctx.recorder.period.users } else { &mut of_warm_up };
            users.leave(index, metrics);
            self.lifecycle.leave(index, ctx);
        }
    }

    /// Lets the user of a connection without a request go on.
    fn advance_user(&mut self, index: usize, ctx: &mut RunContext) {
        let Some(users) = &mut ctx.users else { return };
        let is_measured = ctx.now >= ctx.recorder.measured_from;
        let mut of_warm_up = UserMetrics::default();
        let metrics = if is_measured { &mut ctx.recorder.period.users } else { &mut of_warm_up };
        if users.advance(index, ctx.now, metrics) {
            return self.lifecycle.leave(index, ctx);
        }
        self.send_step(index, ctx);
    }

    /// Sends the step that is due for the user of an open connection, if one is.
    fn send_step(&mut self, index: usize, ctx: &mut RunContext) {
        let Some(users) = &mut ctx.users else { return };
        if let Some(DueStep { call, since, is_sent_again }) = users.send_step(index, ctx.now) {
            self.send_request(index, call, since, ctx);
            if is_sent_again && since >= ctx.recorder.measured_from {
                // It was due once.
                ctx.recorder.period.due -= 1;
            }
        }
    }

    /// Cancels the request of a user: by a notification, or over HTTP by closing its connection.
    fn cancel_request(&mut self, index: usize, ctx: &mut RunContext) {
        let conn = &mut self.lifecycle.io[index];
        let ConnectionState::Open(log) = &mut conn.state else { return };
        if !log.cancel(&ctx.settings_of(index), &mut conn.send_buffer) {
            return;
        }
        let is_measured = ctx.now >= ctx.recorder.measured_from;
        ctx.recorder.period.users.cancelled += u64::from(is_measured);
        if let Some((user, _)) = ctx.users.as_mut().and_then(|users| users.user_mut(index)) {
            user.set_outcome(StepOutcome::Cancelled);
        }
        self.use_free_places(index, true, ctx);
    }

    /// Checks some connections for timeouts and idle replacements. A small number at a time: due
    /// requests wait meanwhile, and most connections are in no CPU cache.
    pub(super) fn sweep_timeouts(&mut self, ctx: &mut RunContext) {
        // The clock starts at zero: before the first timeout nothing can be late.
        let past = ctx.now.since(Instant::ORIGIN);
        let past = past.saturating_sub(ctx.config.limits.response_timeout);
        let before = Instant::ORIGIN.after(past);
        let total = self.lifecycle.io.connections().len();
        let count = (total / SWEEP_ROUNDS).max(SWEEP_CONNECTIONS_MIN).min(total);
        let handshake_timeout = self.lifecycle.handshake_timeout(ctx);
        self.lifecycle.reopen_event_streams(ctx);
        for _ in 0..count {
            let index = self.next_sweep_index;
            self.next_sweep_index = (index + 1) % total;
            let conn = &mut self.lifecycle.io[index];
            let is_late =
                conn.replacement.as_ref().is_some_and(|leaving| leaving.closing_since < before);
            match &mut conn.state {
                ConnectionState::Open(log) => {
                    let has_timed_out = ctx.fail_late_requests(log, before, &mut conn.send_buffer);
                    let is_idle = log.in_flight() == 0;
                    if is_idle {
                        log.shrink();
                    }
                    if conn.is_draining && (is_late || is_idle) {
                        self.lifecycle.end_connection(index, Failure::Closed, ctx);
                    } else {
                        self.use_free_places(index, has_timed_out, ctx);
                    }
                }
                ConnectionState::Subscribed(_) => self.sweep_subscriber(index, ctx),
                ConnectionState::Handshake(_)
                    if ctx.now.since(conn.connect_started) > handshake_timeout =>
                {
                    let error = self.lifecycle.timeout_error(index, handshake_timeout);
                    self.lifecycle.fail_handshake(index, error, ctx);
                }
                ConnectionState::GracefulClose(_) if is_late => {
                    self.lifecycle.finish_closing(index, false, ctx);
                }
                _ => {}
            }
        }
    }

    /// Uses the places of requests that timed out: after their cancellations, or over HTTP on a new
    /// connection, since responses arrive in the order of the requests. A peer that does not read
    /// gets no further requests.
    fn use_free_places(&mut self, index: usize, has_timed_out: bool, ctx: &RunContext) {
        let conn = &self.lifecycle.io[index];
        let (is_draining, is_sending) = (conn.is_draining, !conn.sending.is_idle());
        if has_timed_out && ctx.config.request_settings.transport != Transport::Http {
            self.lifecycle.io.queue_flush(index);
        } else if has_timed_out && !is_draining {
            return self.lifecycle.reopen(index);
        }
        if !is_sending {
            self.queue_available(index, ctx.config.depth);
        }
    }

    /// Checks a subscriber for timeouts and reopens streams that ended.
    fn sweep_subscriber(&mut self, index: usize, ctx: &mut RunContext) {
        let timeout = self.lifecycle.handshake_timeout(ctx);
        let Some(subscribers) = &self.lifecycle.subscribers else { return };
        let conn = &mut self.lifecycle.io[index];
        if conn.is_draining {
            return self.lifecycle.end_connection(index, Failure::Closed, ctx);
        }
        let ConnectionState::Subscribed(subscriber) = &mut conn.state else { return };
        if !subscriber.has_opened() && ctx.now.since(conn.connect_started) > timeout {
            let message = format!("the subscription was not acknowledged within {timeout:?}");
            let error = ConnectError { failure: Failure::Timeout, message };
            return self.lifecycle.fail_subscription(index, error, ctx);
        }
        if subscribers.reopen_streams(subscriber, &mut conn.send_buffer) {
            self.lifecycle.io.queue_flush(index);
        }
    }
}
