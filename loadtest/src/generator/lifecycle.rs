//! Life cycle of a connection: connect, handshake, end, retry; timeouts.

use std::io;

use corelane::base::time::Instant;
use corelane::engine::ring::{Operation, Ring, Socket};

use super::connection::ConnectionState;
use super::load_thread::{LoadThread, RunPhase};
use super::run_config::Route;
use super::thread_pool::CONNECT_HINT;
use crate::mcp::{ConnectError, Handshake, HandshakeProgress, ReceiveEvent, RequestLog};
use crate::metrics::outcome::Failure;
use crate::schedule::Share;

/// Number of sweeps in which every connection is checked once.
const SWEEP_ROUNDS: usize = 200;
/// Minimum number of connections checked by a sweep.
const SWEEP_CONNECTIONS_MIN: usize = 16;

impl<R: Ring> LoadThread<R> {
    /// Starts connects whose time has come, within the limits of rate and concurrency.
    pub(super) fn start_connects(&mut self) {
        // Reconnects after a storm have no limit: they must come at once.
        while let Some(index) = self.next_reconnect() {
            self.begin_connect(index);
        }
        while self.connecting < self.config.limits.connecting_max
            && let Some(&index) = self.disconnected.front()
        {
            let conn = &self.connections[index as usize];
            if matches!(conn.state, ConnectionState::Disconnected { retry_at } if retry_at > self.now)
                || !self.connect_rate.try_start(self.now)
            {
                return;
            }
            self.disconnected.pop_front();
            self.begin_connect(index);
        }
    }

    fn begin_connect(&mut self, index: u32) {
        let conn = &mut self.connections[index as usize];
        conn.state = ConnectionState::Connecting;
        conn.connect_started = self.now;
        self.connecting += 1;
        if let Some(processes) = &self.processes {
            return processes.start(index);
        }
        let Route { address, from } = self.route_of(index);
        self.ring.submit(Operation::Connect {
            address,
            local_address: from,
            token: u64::from(index),
        });
    }

    /// Returns the route of a connection. All connections of all load threads share the routes
    /// round-robin.
    fn route_of(&self, index: u32) -> Route {
        let Share { thread: worker, threads: workers } = self.share;
        let number = index as usize * workers.max(1) as usize + worker as usize;
        self.routes[number % self.routes.len()]
    }

    /// Returns when the next connect may start, or `None` if it does not wait for a time.
    #[inline]
    pub(super) fn next_connect_at(&self) -> Option<Instant> {
        let &index = self.disconnected.front()?;
        if self.connecting >= self.config.limits.connecting_max {
            return None;
        }
        let ConnectionState::Disconnected { retry_at: until } =
            self.connections[index as usize].state
        else {
            return None;
        };
        Some(self.connect_rate.next_at().map_or(until, |next| next.max(until)))
    }

    /// Handles the completion of a connect.
    pub(super) fn handle_connected(&mut self, token: u64, result: io::Result<Socket>) {
        let Ok(index) = usize::try_from(token) else { return };
        match result {
            Ok(socket) => self.attach_sockets(index, (socket, socket)),
            Err(error) => {
                self.connecting -= 1;
                let message = format!("{error}; {CONNECT_HINT}");
                self.fail_connect(index, ConnectError { failure: Failure::Connect, message });
            }
        }
    }

    /// Attaches the sockets for reading and writing, and begins the handshake.
    pub(super) fn attach_sockets(&mut self, index: usize, (read, write): (Socket, Socket)) {
        for socket in [read, write] {
            if self.connection_by_socket.len() <= socket.index() {
                self.connection_by_socket.resize(socket.index() + 1, u32::MAX);
            }
            self.connection_by_socket[socket.index()] = u32::try_from(index).unwrap_or(u32::MAX);
        }
        self.ring.submit(Operation::Receive(read));
        let conn = &mut self.connections[index];
        (conn.read_socket, conn.write_socket) = (Some(read), Some(write));
        (conn.is_draining, conn.is_lost) = (false, false);
        conn.state =
            ConnectionState::Handshake(Box::new(Handshake::new(&self.config.request_settings)));
        if self.config.tls.is_some() {
            return self.begin_tls_handshake(index);
        }
        self.begin_mcp_handshake(index);
    }

    /// Begins the MCP handshake, after TLS if there is any.
    pub(super) fn begin_mcp_handshake(&mut self, index: usize) {
        if let ConnectionState::Handshake(handshake) = &self.connections[index].state {
            let progress = handshake.begin(&self.config.request_settings);
            self.advance_handshake(index, progress);
        }
    }

    /// Processes bytes received during the handshake.
    #[cold]
    pub(super) fn receive_handshake(&mut self, index: usize, bytes: &[u8]) {
        let mut arrived = bytes;
        while let ConnectionState::Handshake(handshake) = &mut self.connections[index].state {
            match handshake.receive(&self.config.request_settings, std::mem::take(&mut arrived)) {
                Ok(HandshakeProgress::Wait) => return,
                Ok(progress) => self.advance_handshake(index, progress),
                Err(refused) => return self.fail_handshake(index, refused),
            }
        }
    }

    fn advance_handshake(&mut self, index: usize, progress: HandshakeProgress) {
        match progress {
            HandshakeProgress::Wait => return,
            HandshakeProgress::Send(bytes) => self.buffer_output(index, &bytes),
            HandshakeProgress::Open(bytes) => {
                self.buffer_output(index, &bytes);
                let is_subscriber = self.is_subscriber(index);
                let conn = &mut self.connections[index];
                let away = ConnectionState::Disconnected { retry_at: self.now };
                if let ConnectionState::Handshake(handshake) =
                    std::mem::replace(&mut conn.state, away)
                {
                    let (reader, begun, session) = handshake.finish();
                    if is_subscriber {
                        return self.begin_subscribing(index, (reader, begun, session));
                    }
                    let log = RequestLog::new(reader, begun, session);
                    self.connecting -= 1;
                    self.open += 1;
                    if index < self.slow_reader_count {
                        self.begin_slow_reading(index, log);
                    } else {
                        conn.state = ConnectionState::Open(log);
                        self.queue_available(index);
                    }
                    self.record_opened(index);
                }
            }
        }
        self.queue_flush(index);
    }

    /// Ends a connection: its requests in flight fail, and its sockets are closed.
    #[cold]
    pub(super) fn end_connection(&mut self, index: usize, failure: Failure) {
        let conn = &mut self.connections[index];
        if !matches!(conn.state, ConnectionState::Closing) {
            conn.is_lost = failure == Failure::Closed && !conn.is_draining;
        }
        match std::mem::replace(&mut conn.state, ConnectionState::Closing) {
            ConnectionState::Open(mut log) => {
                self.open -= 1;
                self.recorder.period.lost += u64::from(!conn.is_draining);
                let (recorder, now) = (&mut self.recorder, self.now);
                log.fail_all(failure, |event| {
                    if let ReceiveEvent::Completed(concluded) = event {
                        recorder.record_completed(concluded, now);
                    }
                });
            }
            ConnectionState::Subscribed(listening) => {
                let is_lost = !conn.is_draining;
                if !self.remove_subscriber(&listening, is_lost) {
                    let message = "the server closed the connection".into();
                    return self
                        .fail_handshake(index, ConnectError { failure: Failure::Closed, message });
                }
            }
            ConnectionState::SlowReader(_) => {
                self.open -= 1;
                self.recorder.period.slow_readers.closed += 1;
            }
            ConnectionState::GracefulClose(_) => self.open -= 1,
            handshake @ ConnectionState::Handshake(_) => {
                conn.state = handshake;
                let refused = conn.closed_error();
                return self.fail_handshake(index, refused);
            }
            // There is no socket to close.
            other @ (ConnectionState::Disconnected { .. } | ConnectionState::Connecting) => {
                conn.state = other;
                return;
            }
            ConnectionState::Closing => return,
        }
        self.close_sockets(index);
    }

    /// Ends a connection whose handshake failed.
    #[cold]
    pub(super) fn fail_handshake(&mut self, index: usize, refused: ConnectError) {
        if self.processes.is_some() && self.connections[index].is_lost {
            // The exit status and last lines of the child, which follow, are more specific.
            self.recorder.period.connects.record_failure(refused.failure);
        } else {
            self.record_connect_error(refused);
        }
        self.connecting -= 1;
        self.connections[index].state = ConnectionState::Closing;
        self.close_sockets(index);
    }

    pub(super) fn close_sockets(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        conn.send_buffer = Vec::new();
        if let Some(read) = conn.read_socket {
            self.send_close_notify(index, read);
            self.ring.submit(Operation::Close(read));
        }
        let conn = &self.connections[index];
        if let Some(write) = conn.write_socket.filter(|write| conn.read_socket != Some(*write)) {
            self.ring.submit(Operation::Close(write));
        }
    }

    /// Handles the completion of a close.
    pub(super) fn handle_closed(&mut self, socket: Socket) {
        let Some(index) = self.connection_of(socket) else { return };
        self.connection_by_socket[socket.index()] = u32::MAX;
        let conn = &mut self.connections[index];
        conn.read_socket = conn.read_socket.filter(|read| *read != socket);
        conn.write_socket = conn.write_socket.filter(|write| *write != socket);
        if conn.read_socket.is_some() || conn.write_socket.is_some() {
            return;
        }
        conn.is_sending = false;
        // Its process must exit before it is started again.
        match &self.processes {
            Some(processes) => processes.stop(index),
            None => self.reconnect(index),
        }
    }

    /// Reconnects a closed connection, at once if it is being replaced, else after the retry delay.
    pub(super) fn reconnect(&mut self, index: usize) {
        if !self.queue_reconnect(index) {
            self.schedule_retry(index);
        }
    }

    pub(super) fn schedule_retry(&mut self, index: usize) {
        let until = self.now.after(self.config.limits.retry_after);
        self.connections[index].state = ConnectionState::Disconnected { retry_at: until };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        match &mut self.processes {
            Some(processes) if self.phase == RunPhase::Connecting => processes.abandon(index),
            _ => self.disconnected.push_back(index),
        }
    }

    fn fail_connect(&mut self, index: usize, refused: ConnectError) {
        self.record_connect_error(refused);
        self.schedule_retry(index);
    }

    pub(super) fn record_connect_error(&mut self, refused: ConnectError) {
        self.recorder.period.connects.record_failure(refused.failure);
        self.record_error(refused);
    }

    /// Stores the last error of a connection, without secrets.
    pub(super) fn record_error(&mut self, refused: ConnectError) {
        let ConnectError { failure, message } = refused;
        let fields = &self.config.request_settings.fields;
        let message = fields.iter().fold(message, |message, field| field.redact(message));
        self.recorder.period.last_error = Some(format!("{failure}: {message}"));
    }

    /// Checks some connections for timeouts and idle replacements. A small number at a time: due
    /// requests wait meanwhile, and most connections are in no CPU cache.
    pub(super) fn sweep_timeouts(&mut self) {
        let answer_max = self.config.limits.response_timeout;
        // The clock starts at zero: before the first timeout nothing can be late.
        let past = self.now.since(Instant::ORIGIN).saturating_sub(answer_max);
        let before = Instant::ORIGIN.after(past);
        let count = (self.connections.len() / SWEEP_ROUNDS)
            .max(SWEEP_CONNECTIONS_MIN)
            .min(self.connections.len());
        for _ in 0..count {
            let index = self.next_sweep_index;
            self.next_sweep_index = (index + 1) % self.connections.len();
            let (recorder, now) = (&mut self.recorder, self.now);
            let conn = &mut self.connections[index];
            // A request that timed out may stay in flight forever.
            let is_late =
                conn.replacement.as_ref().is_some_and(|leaving| leaving.closing_since < before);
            match &mut conn.state {
                ConnectionState::Open(log) => {
                    log.time_out(before, |event| {
                        if let ReceiveEvent::Completed(concluded) = event {
                            recorder.record_completed(concluded, now);
                        }
                    });
                    let is_idle = log.in_flight() == 0;
                    if is_idle {
                        log.shrink();
                    }
                    if conn.is_draining && (is_late || is_idle) {
                        self.end_connection(index, Failure::Closed);
                    }
                }
                ConnectionState::Subscribed(_) => self.sweep_subscriber(index),
                ConnectionState::Handshake(_)
                    if now.since(conn.connect_started) > self.config.limits.connect_timeout =>
                {
                    let refused = conn.timeout_error();
                    self.fail_handshake(index, refused);
                }
                ConnectionState::GracefulClose(_) if is_late => self.finish_closing(index, false),
                _ => {}
            }
        }
    }
}
