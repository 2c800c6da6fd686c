//! One load thread: a ring, its connections, its share of the schedule.
//!
//! A turn parks until a completion arrives or a request is due, processes what was received and
//! submits what is due: one `io_uring_enter` for all connections. Shortly before a request is due
//! the thread spins instead of parking, because a timer costs more than a request and fires late.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, ParkTimeout, Ring};

use super::backlog_sampler::BacklogSampler;
use super::connections::Connections;
use super::context::{RunContext, RunPhase};
use super::period::Period;
use super::processes::Processes;
use super::request_schedule::{RequestSchedule, SEND_BATCH_MAX};
use super::run_config::RunConfig;
use super::subscribers::Subscribers;
use super::users::{UserTimes, Users};
use crate::schedule::Share;
use crate::sign_in::NewToken;

/// Interval between checks of some connections for timeouts.
const SWEEP_INTERVAL: Duration = Duration::from_millis(5);
/// How long a run that is stopped waits for outstanding responses.
const STOPPED_DRAIN_MAX: Duration = Duration::from_secs(1);
/// Longest turn that counts as spinning. A longer one means that the thread was preempted.
const SPIN_TURN_MAX: Duration = Duration::from_micros(50);

/// State of one load thread.
#[derive(Debug)]
pub(super) struct LoadThread<R> {
    ctx: RunContext,
    connections: Connections<R>,
    requests: RequestSchedule,
    backlog: BacklogSampler,
    /// Whether the last turn left requests that could be sent.
    has_more_to_send: bool,
    last_sweep: Instant,
    /// Tokens of users that sign in.
    tokens: Option<Receiver<NewToken>>,
    completions: Vec<Completion>,
}

impl<R: Ring> LoadThread<R> {
    /// Creates a load thread with its share of the connections, none of them open. Without
    /// `processes` the connections go to the addresses of `config`. Users that sign in have the
    /// latest of `tokens`.
    pub(super) fn new(
        mut ring: R,
        config: RunConfig,
        share: Share,
        processes: Option<Processes>,
        tokens: Option<Receiver<NewToken>>,
    ) -> Self {
        let now = ring.park(ParkTimeout::Zero);
        let mut ctx = RunContext::new(config, share, now);
        ctx.take_tokens(tokens.as_ref());
        Self {
            connections: Connections::new(ring, &ctx, processes),
            requests: RequestSchedule::new(&ctx),
            backlog: BacklogSampler::new(&ctx),
            has_more_to_send: false,
            last_sweep: now,
            tokens,
            completions: Vec::with_capacity(1_024),
            ctx,
        }
    }

    /// Opens the connections until all are open or the timeout passes. Returns how many are open,
    /// and the last error if some are not.
    pub(super) fn connect(&mut self) -> (u64, Option<String>) {
        let deadline = self.ctx.now.after(self.ctx.config.limits.connect_timeout);
        while !self.connections.lifecycle.is_settled()
            && self.ctx.now < deadline
            && !self.ctx.config.stop.is_made()
        {
            self.run_turn(deadline);
        }
        let open = self.open_count();
        if open == 0 {
            self.record_handshake_timeout();
        }
        let error = self.ctx.recorder.period.errors.take_last();
        let total = self.connections.lifecycle.required_connections() as u64;
        (open, error.filter(|_| open < total))
    }

    /// Records an error for connections that are stuck in the TLS handshake, if there is no other:
    /// a plaintext server waits for input that it understands.
    #[cold]
    fn record_handshake_timeout(&mut self) {
        let lifecycle = &self.connections.lifecycle;
        let mut indexes = 0..lifecycle.io.connections().len();
        let stuck = indexes.find(|index| lifecycle.io.is_tls_handshaking(*index));
        let timeout = self.ctx.config.limits.connect_timeout;
        let errors = &mut self.ctx.recorder.period.errors;
        if let (None, Some(index)) = (errors.last(), stuck) {
            errors.set_last(lifecycle.timeout_error(index, timeout).message);
        }
    }

    /// Returns the number of open connections.
    const fn open_count(&self) -> u64 {
        self.connections.lifecycle.connector.open_count()
    }

    /// Returns the number of open subscription streams.
    pub(super) fn open_streams(&self) -> u64 {
        let subscribers = self.connections.lifecycle.subscribers.as_ref();
        subscribers.map_or(0, Subscribers::open_streams) as u64
    }

    /// Sends load from `begin` on until every response arrived or timed out. `on_period` receives
    /// the measurements about once a second and returns an empty period.
    pub(super) fn run(
        &mut self,
        begin: Instant,
        mut on_period: impl FnMut(Box<Period>) -> Box<Period>,
    ) {
        const SECOND: Duration = Duration::from_secs(1);
        let mut end = begin.after(self.ctx.config.mode.span());
        self.start(begin, end);
        let mut next = begin.after(SECOND);
        // The measured window ends with the schedule, or without one with the last response.
        let mut window_end = self.requests.is_scheduled().then_some(end);
        let mut is_in_window = true;
        let mut last = end.after(self.ctx.config.limits.drain_duration());
        loop {
            let is_stopped = self.ctx.config.stop.is_made();
            let is_end = is_stopped || self.ctx.now >= end || self.requests.has_ended(&self.ctx);
            if is_end && self.ctx.phase == RunPhase::Sending {
                end = end.min(self.ctx.now);
                last = end.after(self.ctx.config.limits.drain_duration());
                if is_stopped {
                    window_end = window_end.map(|window_end| window_end.min(end));
                    last = last.min(end.after(STOPPED_DRAIN_MAX));
                    self.requests.stop();
                    self.ctx.is_stopped = true;
                }
                self.ctx.phase = RunPhase::Draining;
                self.requests.record_waiting(&mut self.ctx);
                self.ctx.record_unsent_steps();
            }
            // A late thread ends its seconds first, so that all threads have the same periods.
            let is_draining = self.ctx.phase == RunPhase::Draining;
            let is_window_end =
                is_in_window && is_draining && window_end.is_some_and(|end| end <= next);
            let can_end = !is_in_window || is_window_end || window_end.is_none();
            let is_over = is_draining && can_end && (self.is_complete() || self.ctx.now >= last);
            if is_over {
                self.ctx.recorder.period.backlog = self.backlog.finish(&self.ctx);
                self.connections.lifecycle.finish(&mut self.ctx);
                self.requests.finish(&mut self.ctx);
            }
            if self.ctx.now >= next || is_window_end || is_over {
                if self.ctx.now >= next {
                    next = next.after(SECOND);
                }
                self.backlog.end_period(&self.ctx.recorder);
                let mut period = std::mem::take(&mut self.ctx.recorder.period);
                period.open = self.open_count();
                period.active_users = self.ctx.users.as_ref().map_or(0, Users::active);
                period.until = self.ctx.now.since(begin);
                period.is_drain = !is_in_window;
                is_in_window &= !is_window_end;
                self.ctx.recorder.period = on_period(period);
            }
            if is_over {
                return;
            }
            let until = if self.ctx.phase == RunPhase::Sending { end } else { last };
            self.run_turn(until.min(next));
        }
    }

    /// Waits until `begin` and starts the schedules.
    fn start(&mut self, begin: Instant, end: Instant) {
        self.ctx.recorder.measured_from = begin.after(self.ctx.config.warm_up);
        // Another load thread may publish before this one wakes up.
        self.connections.lifecycle.start_publishing(&self.ctx, begin, end);
        // A turn may end after `begin`: what the last one finds belongs to the run.
        let mut lost_before = self.ctx.recorder.period.connects.lost;
        while self.ctx.now < begin {
            lost_before = self.ctx.recorder.period.connects.lost;
            self.run_turn(begin);
        }
        self.ctx.recorder.clear_before_run(lost_before);
        self.ctx.phase = RunPhase::Sending;
        self.connections.start(&self.ctx, begin);
        self.requests.start(&self.ctx, begin);
        if let Some(users) = &mut self.ctx.users {
            let measured_from = self.ctx.recorder.measured_from;
            users.start(UserTimes { begin, end, measured_from });
        }
        self.backlog.start(&self.ctx);
    }

    /// Returns whether no request is scheduled, queued or in flight, no reconnect is pending and
    /// the last publication was delivered.
    fn is_complete(&mut self) -> bool {
        self.requests.is_exhausted() && self.connections.lifecycle.is_complete(self.ctx.now)
    }

    /// Runs one turn, which parks at most until `until`.
    fn run_turn(&mut self, until: Instant) {
        let ctx = &mut self.ctx;
        let lifecycle = &mut self.connections.lifecycle;
        let started = ctx.now;
        let timeout = if self.has_more_to_send {
            ParkTimeout::Zero
        } else {
            let of_users = ctx.users.as_mut().and_then(Users::next_due_at);
            let due_at = self.requests.next_arrival_at().or(of_users);
            let wake = until.min(self.last_sweep.after(SWEEP_INTERVAL));
            lifecycle.park_timeout(wake, due_at, ctx)
        };
        ctx.now = lifecycle.io.park(timeout);
        let encrypted = lifecycle.io.reap(&mut self.completions);
        let is_quiet = self.completions.is_empty();
        for index in encrypted {
            self.connections.begin_mcp_handshake(index, ctx);
        }
        for completion in self.completions.drain(..) {
            self.connections.handle_completion(completion, ctx);
        }
        self.connections.lifecycle.replace_due_connections(ctx);
        self.connections.handle_child_events(ctx);
        self.has_more_to_send = self.send_due_requests();
        let ctx = &mut self.ctx;
        self.connections.lifecycle.publish_due(ctx);
        if is_quiet && self.connections.lifecycle.io.is_flushed() && timeout == ParkTimeout::Zero {
            let spun = ctx.now.since(started);
            if spun <= SPIN_TURN_MAX {
                ctx.recorder.period.spun += spun;
                if ctx.is_in_window() {
                    ctx.recorder.period.window_spun += spun;
                }
            }
        }
        if ctx.now >= self.last_sweep.after(SWEEP_INTERVAL) {
            self.last_sweep = ctx.now;
            ctx.take_tokens(self.tokens.as_ref());
            self.backlog.sample(ctx);
            self.connections.sweep_timeouts(ctx);
            self.connections.drive_slow_readers(&mut self.requests, ctx);
        }
        self.connections.lifecycle.start_connects(ctx);
        self.connections.lifecycle.io.flush_output();
    }

    /// Sends a batch of due requests; returns whether there may be more to do.
    #[inline]
    fn send_due_requests(&mut self) -> bool {
        let Self { ctx, connections, requests, .. } = self;
        if ctx.users.is_some() {
            return connections.drive_users(ctx);
        }
        let is_more_due = requests.queue_due(ctx);
        for _ in 0..SEND_BATCH_MAX {
            let Some(intended) = requests.next_intended(ctx) else { return is_more_due };
            let Some(index) = connections.take_available(ctx.config.depth) else {
                return is_more_due;
            };
            requests.remove_sent(intended, ctx);
            connections.send_request(index, requests.draw_call(), intended, ctx);
        }
        true
    }
}
