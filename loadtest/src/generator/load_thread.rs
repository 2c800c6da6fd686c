//! One load thread: a ring, its connections, its share of the schedule.
//!
//! A turn parks until a completion arrives or a request is due, processes what was received and
//! submits what is due: one `io_uring_enter` for all connections. Shortly before a request is due
//! the thread spins instead of parking, because a timer costs more than a request and fires late.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Instant;
use corelane::engine::ring::{Completion, ParkTimeout, ReceiveBuffer, Ring, Socket};

use super::churn::ChurnState;
use super::connect_rate::ConnectRate;
use super::connection::{Connection, ConnectionState};
use super::period::{Period, PeriodRecorder};
use super::processes::Processes;
use super::run_config::{LoadMode, Route, RunConfig};
use super::subscribers::Subscribers;
use crate::mcp::{ReceiveEvent, RequestLog, RequestTemplates, message_kind};
use crate::metrics::outcome::Failure;
use crate::schedule::{Arrivals, Share};
use crate::wire::tls::TlsScratch;

/// Interval between checks of some connections for timeouts.
const SWEEP_INTERVAL: Duration = Duration::from_millis(5);
/// Longest turn that counts as spinning. A longer one means that the thread was preempted.
const SPIN_TURN_MAX: Duration = Duration::from_micros(50);

/// State of one load thread.
#[derive(Debug)]
pub(super) struct LoadThread<R> {
    pub(super) ring: R,
    pub(super) config: RunConfig,
    pub(super) share: Share,
    pub(super) calls: RequestTemplates,
    /// Cumulative weights of the request templates.
    pub(super) cumulative_weights: Vec<u64>,
    pub(super) random: Random,
    pub(super) connections: Vec<Connection>,
    /// Connection index by socket; `u32::MAX` for none.
    pub(super) connection_by_socket: Vec<u32>,
    /// Connections that may have capacity, longest waiting first.
    pub(super) available: VecDeque<u32>,
    /// Connections with data to send.
    pub(super) flush_queue: Vec<u32>,
    /// Buffers that no send uses.
    pub(super) spare_buffers: Vec<Vec<u8>>,
    /// Connections that wait to be connected.
    pub(super) disconnected: VecDeque<u32>,
    pub(super) connecting: usize,
    /// Pairs of local and server addresses.
    pub(super) routes: Vec<Route>,
    pub(super) connect_rate: ConnectRate,
    pub(super) open: u64,
    /// Intended send times of due requests that wait for a connection.
    pub(super) queued: VecDeque<Instant>,
    /// Whether the last turn left requests that could be sent.
    has_more_to_send: bool,
    /// Planned replacement of connections.
    pub(super) churn_state: Option<Box<ChurnState>>,
    /// Number of slow readers, which are the first connections.
    pub(super) slow_reader_count: usize,
    /// Start of slow reading.
    pub(super) slow_from: Instant,
    pub(super) arrivals: Option<std::iter::Peekable<Arrivals>>,
    pub(super) now: Instant,
    pub(super) phase: RunPhase,
    last_sweep: Instant,
    /// Next connection to sweep.
    pub(super) next_sweep_index: usize,
    pub(super) recorder: PeriodRecorder,
    /// Subscribers and the publisher.
    pub(super) subscribers: Option<Subscribers>,
    /// Child processes, if connections are over stdio.
    pub(super) processes: Option<Processes>,
    completions: Vec<Completion>,
    /// Number of failed TLS handshakes.
    pub(super) tls_failures: usize,
    /// Buffers shared by the TLS filters.
    tls_scratch: TlsScratch,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunPhase {
    /// Connections are opened; no requests are sent.
    Connecting,
    /// Requests are sent.
    Sending,
    /// No more requests are sent; outstanding responses are awaited.
    Draining,
}

impl<R: Ring> LoadThread<R> {
    /// Creates a load thread with its share of the connections, none of them open.
    pub(super) fn new(mut ring: R, mut config: RunConfig, share: Share) -> Self {
        config.tls = config.tls.map(|tls| tls.with_own_sessions());
        let connections = share.part(config.connections);
        let subscribers = Subscribers::new(&config, share, connections);
        let total = connections + subscribers.as_ref().map_or(0, Subscribers::total_connections);
        let calls = config.calls.iter().map(|(call, _)| call);
        let publish = config.subscribers.as_ref().map(|listen| &listen.publish_request);
        let calls = RequestTemplates::new(calls.chain(publish).cloned().collect());
        let publishing = publish.and_then(|_| u16::try_from(config.calls.len()).ok());
        let weights = config.calls.iter().scan(0, |sum, (_, weight)| {
            *sum += u64::from(*weight);
            Some(*sum)
        });
        let now = ring.park(ParkTimeout::Zero);
        Self {
            ring,
            share,
            calls,
            cumulative_weights: weights.collect(),
            random: Random::seeded(config.seed ^ u64::from(share.thread).wrapping_mul(0x9E37_79B9)),
            connections: new_connections(
                total,
                subscribers.as_ref().and_then(|subscribers| subscribers.publisher),
            ),
            connection_by_socket: Vec::new(),
            available: VecDeque::with_capacity(connections),
            flush_queue: Vec::new(),
            spare_buffers: Vec::new(),
            disconnected: (0..).take(total).collect(),
            connecting: 0,
            routes: config.routes(),
            connect_rate: ConnectRate::new(config.connect.rate, share, now),
            open: 0,
            queued: VecDeque::new(),
            has_more_to_send: false,
            churn_state: config.churn.map(|_| Box::new(ChurnState::new())),
            slow_reader_count: config
                .slow_readers
                .map_or(0, |readers| share.part(readers.connections)),
            slow_from: Instant::ORIGIN,
            arrivals: None,
            now,
            phase: RunPhase::Connecting,
            last_sweep: now,
            next_sweep_index: 0,
            recorder: PeriodRecorder {
                period: Box::default(),
                measured_from: Instant::ORIGIN,
                publish_call: publishing,
            },
            subscribers,
            processes: None,
            completions: Vec::with_capacity(1_024),
            tls_failures: 0,
            tls_scratch: TlsScratch::default(),
            config,
        }
    }

    /// Opens the connections until all are open or the timeout passes. Returns how many are open,
    /// and the last error if some are not.
    pub(super) fn connect(&mut self) -> (u64, Option<String>) {
        let deadline = self.now.after(self.config.limits.connect_timeout);
        let total = self.connections.len() as u64;
        while self.open + self.abandoned_count() < total
            && self.now < deadline
            && !self.is_unreachable()
        {
            self.run_turn(deadline);
        }
        if self.open == 0 {
            self.record_handshake_timeout();
        }
        let refused = self.recorder.period.last_error.take();
        (self.open, refused.filter(|_| self.open < total))
    }

    /// Returns the number of open subscription streams.
    pub(super) fn open_streams(&self) -> u64 {
        self.subscribers.as_ref().map_or(0, |subscribers| subscribers.open_streams as u64)
    }

    /// Sends load from `begin` on until every response arrived or timed out. `on_period` receives
    /// the measurements about once a second and returns an empty period.
    pub(super) fn run(
        &mut self,
        begin: Instant,
        mut on_period: impl FnMut(Box<Period>) -> Box<Period>,
    ) {
        const SECOND: Duration = Duration::from_secs(1);
        let end = begin.after(self.config.mode.span());
        self.recorder.measured_from = begin.after(self.config.warm_up);
        // Another load thread may publish before this one wakes up.
        self.start_publishing(begin, end);
        while self.now < begin {
            self.run_turn(begin);
        }
        // Connect times and notifications from before the run belong to its first second.
        let connects = std::mem::take(&mut self.recorder.period.connects);
        let fanout = std::mem::take(&mut self.recorder.period.fanout);
        self.recorder.period.clear();
        (self.recorder.period.connects, self.recorder.period.fanout) = (connects, fanout);
        self.phase = RunPhase::Sending;
        self.retry_abandoned();
        if let Some(churn) = &mut self.churn_state {
            churn.start(&self.config, self.share, begin);
        }
        if let Some(readers) = &self.config.slow_readers {
            self.slow_from = begin.after(readers.start_after);
        }
        if let LoadMode::Open { profile, pattern: pace } = &self.config.mode {
            let arrivals =
                Arrivals::new(profile.clone(), *pace, self.share, self.config.seed, begin);
            self.arrivals = Some(arrivals.peekable());
        }
        let mut next = begin.after(SECOND);
        let last = end.after(self.config.limits.drain_duration());
        loop {
            if self.now >= end && self.phase == RunPhase::Sending {
                self.phase = RunPhase::Draining;
            }
            let is_over = self.phase == RunPhase::Draining
                && (self.is_complete() && self.is_delivery_complete() || self.now >= last);
            if is_over {
                self.complete_unfinished();
            }
            if self.now >= next || is_over {
                next = next.after(SECOND);
                self.recorder.period.open = self.open;
                self.recorder.period.until = self.now.since(begin);
                self.recorder.period = on_period(std::mem::take(&mut self.recorder.period));
            }
            if is_over {
                return;
            }
            let until = if self.phase == RunPhase::Sending { end } else { last };
            self.run_turn(until.min(next));
        }
    }

    /// Completes the measurements at the end of the run: queued requests count as unsent,
    /// outstanding responses as timeouts.
    fn complete_unfinished(&mut self) {
        self.finish_churn();
        self.finish_subscribers();
        let (from, period) = (self.recorder.measured_from, &mut self.recorder.period);
        for _ in self.queued.drain(..).filter(|intended| *intended >= from) {
            period.outcomes.record_failure(Failure::Unsent);
        }
        let unseen = self.arrivals.iter_mut().flatten();
        for intended in unseen.filter(|intended| *intended >= from) {
            // The generator itself never processed it.
            let lag = self.now.since(intended).as_nanos();
            period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
            period.due += 1;
            period.outcomes.record_failure(Failure::Unsent);
        }
        let (recorder, now) = (&mut self.recorder, self.now);
        for conn in &mut self.connections {
            if let ConnectionState::Open(log) = &mut conn.state {
                log.fail_all(Failure::Timeout, |event| {
                    if let ReceiveEvent::Completed(concluded) = event {
                        recorder.record_completed(concluded, now);
                    }
                });
            }
        }
    }

    /// Returns whether no request is scheduled, queued or in flight, and no reconnect is pending.
    fn is_complete(&mut self) -> bool {
        let owes = |conn: &Connection| match &conn.state {
            ConnectionState::Open(log) => log.in_flight() > 0,
            ConnectionState::SlowReader(reading) => reading.log.in_flight() > 0,
            _ => false,
        };
        let has_next = self.arrivals.as_mut().is_some_and(|next| next.peek().is_some());
        let is_settled = self.churn_state.as_mut().is_none_or(|churn| churn.is_idle());
        is_settled && !has_next && self.queued.is_empty() && !self.connections.iter().any(owes)
    }

    /// Runs one turn, which parks at most until `until`.
    fn run_turn(&mut self, until: Instant) {
        let begun = self.now;
        let patience = self.park_timeout(until);
        self.now = self.ring.park(patience);
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.reap(&mut completions);
        let is_quiet = completions.is_empty();
        for completion in completions.drain(..) {
            self.handle_completion(completion);
        }
        self.completions = completions;
        if self.churn_state.is_some() {
            self.replace_due_connections();
        }
        if self.processes.is_some() {
            self.handle_child_events();
        }
        self.has_more_to_send = self.send_due_requests();
        self.publish_due_notifications();
        if is_quiet && self.flush_queue.is_empty() && patience == ParkTimeout::Zero {
            let looked = self.now.since(begun);
            if looked <= SPIN_TURN_MAX {
                self.recorder.period.spun += looked;
            }
        }
        if self.now >= self.last_sweep.after(SWEEP_INTERVAL) {
            self.last_sweep = self.now;
            self.sweep_timeouts();
            self.drive_slow_readers();
        }
        self.start_connects();
        self.flush_output();
    }

    /// Returns how long the ring may park: until something may become due, less the spin time.
    fn park_timeout(&mut self, until: Instant) -> ParkTimeout {
        if self.has_more_to_send {
            return ParkTimeout::Zero;
        }
        let mut wake = until.min(self.last_sweep.after(SWEEP_INTERVAL));
        let replaced = self.churn_state.as_mut().and_then(|churn| churn.next_at());
        for at in self.next_connect_at().into_iter().chain(replaced) {
            wake = wake.min(at);
        }
        let rest = wake.since(self.now);
        let arrival = self.arrivals.as_mut().and_then(|arrivals| arrivals.peek()).copied();
        let due = [arrival, self.next_publish_at()].into_iter().flatten().min();
        let free = due.map_or(rest, |due| {
            due.since(self.now).saturating_sub(self.config.limits.spin_before).min(rest)
        });
        match free {
            Duration::ZERO => ParkTimeout::Zero,
            span => ParkTimeout::After(span),
        }
    }

    fn handle_completion(&mut self, completion: Completion) {
        match completion {
            Completion::Received { socket, buffer: lease } => self.handle_received(socket, lease),
            Completion::Sent { socket, buffer, result } => {
                self.handle_sent(socket, buffer, result);
            }
            Completion::Connected { token, result } => self.handle_connected(token, result),
            Completion::EndOfStream { socket, .. } => {
                if let Some(index) = self.connection_of(socket) {
                    self.end_connection(index, Failure::Closed);
                }
            }
            Completion::Closed { socket } => self.handle_closed(socket),
            Completion::Accepted { .. } | Completion::AcceptFailed { .. } => {}
        }
    }

    #[inline]
    pub(super) fn connection_of(&self, socket: Socket) -> Option<usize> {
        let place = *self.connection_by_socket.get(socket.index())?;
        (place != u32::MAX).then_some(place as usize)
    }

    #[inline]
    fn handle_received(&mut self, socket: Socket, lease: ReceiveBuffer) {
        if let Some(index) = self.connection_of(socket) {
            let bytes = &self.ring.bytes(&lease)[..lease.len as usize];
            let conn = &mut self.connections[index];
            if let Some(filter) = &mut conn.tls {
                let was_opening = filter.is_handshaking();
                let mut scratch = std::mem::take(&mut self.tls_scratch);
                let heard = filter.receive(bytes, &mut scratch);
                self.receive_plaintext(index, (was_opening, heard), &scratch.plaintext);
                scratch.plaintext.clear();
                self.tls_scratch = scratch;
            } else if let ConnectionState::Open(log) = &mut conn.state {
                let actions =
                    receive_responses(log, (&mut self.calls, &mut self.recorder), self.now, bytes);
                self.apply_receive_actions(index, actions);
            } else if let ConnectionState::Subscribed(listening) = &mut conn.state {
                if let Some(subscribers) = &mut self.subscribers {
                    let told = (&mut self.recorder, self.now);
                    let actions = subscribers.receive((index, listening), bytes, told);
                    self.apply_subscriber_actions(index, actions);
                }
            } else {
                let bytes = bytes.to_vec();
                self.receive_bytes(index, &bytes);
            }
        }
        self.ring.release(lease);
    }

    /// Processes received data that is not in a ring buffer.
    pub(super) fn receive_bytes(&mut self, index: usize, bytes: &[u8]) {
        match &mut self.connections[index].state {
            ConnectionState::Open(log) => {
                let actions =
                    receive_responses(log, (&mut self.calls, &mut self.recorder), self.now, bytes);
                self.apply_receive_actions(index, actions);
            }
            ConnectionState::Subscribed(listening) => {
                if let Some(subscribers) = &mut self.subscribers {
                    let told = (&mut self.recorder, self.now);
                    let actions = subscribers.receive((index, listening), bytes, told);
                    self.apply_subscriber_actions(index, actions);
                }
            }
            ConnectionState::Handshake(_) => self.receive_handshake(index, bytes),
            ConnectionState::SlowReader(_) => self.receive_slowly(index, bytes),
            ConnectionState::GracefulClose(closing) => {
                if let Some(is_agreed) = closing.receive(bytes) {
                    self.finish_closing(index, is_agreed);
                }
            }
            _ => {}
        }
    }

    /// Executes the actions required by received data.
    #[inline]
    fn apply_receive_actions(&mut self, index: usize, actions: ReceiveActions) {
        let ReceiveActions { server_requests: requests, output, is_closing, is_broken } = actions;
        if is_broken {
            return self.end_connection(index, Failure::Garbage);
        }
        if !output.is_empty() || !requests.is_empty() {
            self.buffer_output(index, &output);
            for (id, is_ping) in requests {
                let text = message_kind::response_text(&id, is_ping);
                let framed = self.config.request_settings.frame(&text);
                self.buffer_output(index, &framed);
            }
            self.queue_flush(index);
        }
        if is_closing {
            self.connections[index].is_draining = true;
        }
        if self.connections[index].is_draining {
            return self.close_if_idle(index);
        }
        self.queue_available(index);
    }
}

/// Processes data received on an open connection and records its results.
#[inline]
fn receive_responses(
    log: &mut RequestLog,
    (calls, recorder): (&mut RequestTemplates, &mut PeriodRecorder),
    now: Instant,
    bytes: &[u8],
) -> ReceiveActions {
    let mut actions = ReceiveActions::default();
    let heard = log.receive(calls, bytes, |event| match event {
        ReceiveEvent::Completed(concluded) => recorder.record_completed(concluded, now),
        ReceiveEvent::Unsolicited => recorder.period.outcomes.unsolicited += 1,
        ReceiveEvent::Notification => recorder.period.outcomes.notifications += 1,
        ReceiveEvent::Streamed => recorder.period.outcomes.streamed += 1,
        ReceiveEvent::ServerRequest { id, is_ping } => actions.server_requests.push((id, is_ping)),
        ReceiveEvent::Send(bytes) => actions.output.extend_from_slice(&bytes),
        ReceiveEvent::Closing => actions.is_closing = true,
    });
    actions.is_broken = heard.is_err();
    actions
}

/// Creates `count` unconnected connections. The publisher is marked as queued, so that it never
/// enters the queue of available connections.
fn new_connections(count: usize, publisher: Option<usize>) -> Vec<Connection> {
    let mut connections: Vec<Connection> =
        std::iter::repeat_with(Connection::new).take(count).collect();
    if let Some(conn) = publisher.and_then(|publisher| connections.get_mut(publisher)) {
        conn.is_queued = true;
    }
    connections
}

/// Actions required by received data.
#[derive(Debug, Default)]
struct ReceiveActions {
    server_requests: Vec<(String, bool)>,
    output: Vec<u8>,
    is_closing: bool,
    is_broken: bool,
}
