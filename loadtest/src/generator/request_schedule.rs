//! Requests of a load thread: when each is due, and which one it is.
//!
//! Invariants: every measured request is queued or counted as unsent when it is due; its lateness
//! up to here is recorded as lag. Requests of the warm-up that are unsent at its end are dropped,
//! so that their backlog does not delay measured requests.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;

use super::context::{RunContext, RunPhase};
use super::run_config::LoadMode;
use crate::metrics::outcome::Failure;
use crate::schedule::Arrivals;

/// Requests queued or sent in one turn. Small, so that the reused buffers stay in the L1 cache and
/// the server receives the first requests before the last are written.
pub(super) const SEND_BATCH_MAX: usize = 64;

/// Time in which every connection is checked for timeouts.
const SWEEP_DURATION: Duration = Duration::from_secs(1);

/// The requests after which a closed loop ends.
#[derive(Debug)]
struct RequestLimit {
    /// Measured requests that were not sent yet.
    left: u64,
    /// When the last request was sent, or the run began.
    sent_at: Instant,
}

/// Due and planned requests.
#[derive(Debug)]
pub(super) struct RequestSchedule {
    arrivals: Option<Peekable<Arrivals>>,
    /// Intended send times of due requests that wait for a connection.
    queued: VecDeque<Instant>,
    limit: Option<RequestLimit>,
    /// Whether the warm-up is over.
    is_warm: bool,
    /// Cumulative weights of the request templates.
    cumulative_weights: Vec<u64>,
    random: Random,
}

impl RequestSchedule {
    /// Creates a schedule that has not started.
    pub(super) fn new(ctx: &RunContext) -> Self {
        let weights = ctx.config.calls.iter().scan(0, |sum, (_, weight)| {
            *sum += u64::from(*weight);
            Some(*sum)
        });
        let seed = ctx.config.seed ^ u64::from(ctx.share.thread).wrapping_mul(0x9E37_79B9);
        Self {
            arrivals: None,
            queued: VecDeque::new(),
            limit: None,
            is_warm: false,
            cumulative_weights: weights.collect(),
            random: Random::seeded(seed),
        }
    }

    /// Starts the schedule at the beginning of the run.
    pub(super) fn start(&mut self, ctx: &RunContext, begin: Instant) {
        match &ctx.config.mode {
            LoadMode::Open { profile, pattern } => {
                let arrivals =
                    Arrivals::new(profile.clone(), *pattern, ctx.share, ctx.config.seed, begin);
                self.arrivals = Some(arrivals.peekable());
            }
            LoadMode::Closed { requests: Some(requests), .. } => {
                let all = usize::try_from(*requests).unwrap_or(usize::MAX);
                let left = ctx.share.part(all) as u64;
                self.limit = Some(RequestLimit { left, sent_at: begin });
            }
            LoadMode::Closed { .. } | LoadMode::Users { .. } | LoadMode::Hold { .. } => {}
        }
    }

    /// Moves a batch of due requests to the queue; returns whether there may be more.
    #[inline]
    pub(super) fn queue_due(&mut self, ctx: &mut RunContext) -> bool {
        let Some(arrivals) = &mut self.arrivals else { return false };
        let is_warm = ctx.now >= ctx.recorder.measured_from;
        if is_warm && !std::mem::replace(&mut self.is_warm, true) {
            ctx.recorder.earlier_open -= self.queued.len() as u64;
            self.queued.clear();
        }
        for _ in 0..SEND_BATCH_MAX {
            let Some(intended) = arrivals.next_if(|intended| *intended <= ctx.now) else {
                return false;
            };
            let is_measured = intended >= ctx.recorder.measured_from;
            if is_warm && !is_measured {
                continue;
            }
            if is_measured {
                ctx.recorder.period.due += 1;
                ctx.recorder.record_lag(intended, ctx.now);
            } else {
                ctx.recorder.earlier_open += 1;
            }
            if self.queued.len() < ctx.config.limits.queued_max {
                self.queued.push_back(intended);
            } else if is_measured {
                ctx.recorder.period.outcomes.record_failure(Failure::Unsent);
            } else {
                ctx.recorder.earlier_open -= 1;
            }
        }
        true
    }

    /// Returns the intended send time of the next request to send now.
    #[inline]
    pub(super) fn next_intended(&self, ctx: &RunContext) -> Option<Instant> {
        match ctx.config.mode {
            LoadMode::Open { .. } => self.queued.front().copied(),
            LoadMode::Closed { .. } => {
                let is_open = self.limit.as_ref().is_none_or(|limit| limit.left > 0);
                (is_open && ctx.phase == RunPhase::Sending).then_some(ctx.now)
            }
            LoadMode::Users { .. } | LoadMode::Hold { .. } => None,
        }
    }

    /// Removes the request that was due at `intended` and is sent.
    #[inline]
    pub(super) fn remove_sent(&mut self, intended: Instant, ctx: &RunContext) {
        self.queued.pop_front();
        if let Some(limit) = &mut self.limit {
            limit.left -= u64::from(intended >= ctx.recorder.measured_from);
            limit.sent_at = ctx.now;
        }
    }

    /// Returns whether a closed loop ends before its time: all of its requests were sent, or no
    /// connection could take one for longer than an answer or a connect may take.
    pub(super) fn has_ended(&self, ctx: &RunContext) -> bool {
        let limits = &ctx.config.limits;
        let longest = limits.response_timeout.max(limits.connect_timeout) + SWEEP_DURATION;
        self.limit
            .as_ref()
            .is_some_and(|limit| limit.left == 0 || ctx.now.since(limit.sent_at) > longest)
    }

    /// Returns whether the requests have a schedule, or a closed loop has a time, which ends.
    pub(super) const fn is_scheduled(&self) -> bool {
        self.limit.is_none()
    }

    /// Draws a request template by weight.
    #[inline]
    pub(super) fn draw_call(&mut self) -> u16 {
        let [.., all] = self.cumulative_weights[..] else { return 0 };
        if self.cumulative_weights.len() == 1 {
            return 0;
        }
        let drawn = self.random.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
        let place = self.cumulative_weights.partition_point(|sum| *sum <= drawn);
        u16::try_from(place).unwrap_or_default()
    }

    /// Returns when the next request is due.
    #[inline]
    pub(super) fn next_arrival_at(&mut self) -> Option<Instant> {
        self.arrivals.as_mut()?.peek().copied()
    }

    /// Returns whether no request is planned or queued.
    pub(super) fn is_exhausted(&mut self) -> bool {
        self.queued.is_empty() && self.next_arrival_at().is_none()
    }

    /// Ends the schedule: no further request becomes due.
    pub(super) fn stop(&mut self) {
        (self.arrivals, self.limit) = (None, None);
    }

    /// Counts the requests that wait for a connection when no more become due.
    pub(super) fn record_waiting(&self, ctx: &mut RunContext) {
        let from = ctx.recorder.measured_from;
        let waiting = self.queued.iter().filter(|intended| **intended >= from);
        ctx.recorder.period.outcomes.waiting += waiting.count() as u64;
    }

    /// Counts the requests that are not sent at the end of the run.
    pub(super) fn finish(&mut self, ctx: &mut RunContext) {
        let from = ctx.recorder.measured_from;
        let unsent = self.queued.drain(..).filter(|intended| *intended >= from).count() as u64;
        if ctx.is_stopped {
            ctx.recorder.period.outcomes.abandoned += unsent;
        } else {
            ctx.recorder.period.outcomes.record_failures(Failure::Unsent, unsent);
        }
        if let Some(RequestLimit { left, .. }) = self.limit.take() {
            ctx.recorder.period.due += left;
            ctx.recorder.period.outcomes.record_failures(Failure::Unsent, left);
        }
        let unseen = self.arrivals.iter_mut().flatten();
        for intended in unseen.filter(|intended| *intended >= from) {
            // The generator itself never processed it.
            ctx.recorder.record_lag(intended, ctx.now);
            ctx.recorder.period.due += 1;
            ctx.recorder.period.outcomes.record_failure(Failure::Unsent);
        }
    }
}
