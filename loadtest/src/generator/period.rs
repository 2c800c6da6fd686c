//! Measurements of one load thread over about one second.

use std::time::Duration;

use corelane_base::time::Instant;
use hdrhistogram::Histogram;

use crate::mcp::CompletedRequest;
use crate::metrics::backlog::{BacklogSamples, RequestCounts};
use crate::metrics::connects::ConnectMetrics;
use crate::metrics::failure_examples::ErrorTexts;
use crate::metrics::fanout::FanoutMetrics;
use crate::metrics::histogram::histogram;
use crate::metrics::latency::{Latencies, RequestTimes};
use crate::metrics::outcome::{Failure, Outcomes, SlowReaderOutcomes};
use crate::users::UserMetrics;

/// Measurements of a part of a run. Takes about 800 KiB, independent of the number of requests,
/// plus the histograms of connect times, of failed requests, of first events and of the kinds of
/// requests in a mix.
#[derive(Clone, Debug)]
pub struct Period {
    /// Latencies of successful requests, and apart from them of failed ones.
    pub latencies: Latencies,
    /// Results of requests.
    pub outcomes: Outcomes,
    /// Lateness of the generator in nanoseconds: from the time a request was due to the time the
    /// generator processed it. Excludes waiting for an available connection.
    pub lag: Histogram<u64>,
    /// First answer or error of each kind of failure, and the last error of a connection.
    pub errors: ErrorTexts,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Time the generator spun while waiting for the next due request.
    pub spun: Duration,
    /// The part of `spun` within the measured window.
    pub window_spun: Duration,
    /// Whether the period follows the measured window.
    pub is_drain: bool,
    /// Samples of the backlog of the whole run, in its last period.
    pub backlog: BacklogSamples,
    /// Connections open at the end of the period.
    pub open: u64,
    /// Users at the end of the period that have come and not left.
    pub active_users: u64,
    /// Connect times; connects before the first request count to the first second.
    pub connects: ConnectMetrics,
    /// Results of the slow readers.
    pub slow_readers: SlowReaderOutcomes,
    /// End of the period, from the beginning of the run, warm-up included.
    pub until: Duration,
    /// Delivery of notifications to subscribers.
    pub fanout: FanoutMetrics,
    /// Iterations of users.
    pub users: UserMetrics,
}

impl Period {
    /// Creates an empty period.
    pub fn new() -> Self {
        Self {
            latencies: Latencies::new(),
            outcomes: Outcomes::default(),
            lag: histogram(),
            errors: ErrorTexts::default(),
            due: 0,
            sent: 0,
            spun: Duration::ZERO,
            window_spun: Duration::ZERO,
            is_drain: false,
            backlog: BacklogSamples::default(),
            open: 0,
            active_users: 0,
            connects: ConnectMetrics::new(),
            slow_readers: SlowReaderOutcomes::default(),
            until: Duration::ZERO,
            fanout: FanoutMetrics::default(),
            users: UserMetrics::default(),
        }
    }

    /// Adds another load thread's measurements of the same time.
    pub fn add(&mut self, other: &Self) {
        self.open += other.open;
        self.active_users += other.active_users;
        self.merge(other);
    }

    /// Adds the measurements of a later period. Connections and users are those of the later one.
    pub fn append_later(&mut self, later: &Self) {
        self.open = later.open;
        self.active_users = later.active_users;
        self.merge(later);
    }

    fn merge(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.outcomes.add(&other.outcomes);
        if self.lag.add(&other.lag).is_err() {
            debug_assert!(false, "two histograms of the same bounds");
        }
        self.errors.add(&other.errors);
        self.due += other.due;
        self.sent += other.sent;
        self.spun += other.spun;
        self.window_spun += other.window_spun;
        self.is_drain |= other.is_drain;
        self.backlog.add(&other.backlog);
        self.until = self.until.max(other.until);
        self.connects.add(&other.connects);
        self.slow_readers.add(&other.slow_readers);
        self.fanout.add(&other.fanout);
        self.users.add(&other.users);
    }

    /// Resets all measurements without freeing memory.
    pub fn clear(&mut self) {
        self.latencies.clear();
        self.lag.reset();
        self.errors.clear();
        self.outcomes = Outcomes::default();
        (self.due, self.sent, self.open, self.active_users) = (0, 0, 0, 0);
        (self.spun, self.window_spun, self.is_drain) = (Duration::ZERO, Duration::ZERO, false);
        self.backlog.clear();
        self.connects.clear();
        self.slow_readers = SlowReaderOutcomes::default();
        self.until = Duration::ZERO;
        self.fanout.clear();
        self.users.clear();
    }
}

/// Recorder of the current period.
#[derive(Debug)]
pub(super) struct PeriodRecorder {
    pub(super) period: Box<Period>,
    /// Requests with an earlier intended send time are not measured.
    pub(super) measured_from: Instant,
    /// Requests of the warm-up of an open loop that are queued or in flight.
    pub(super) earlier_open: u64,
    /// Whether kinds of requests are measured apart, too.
    pub(super) has_mix: bool,
    /// Index of the publish request, which is counted separately.
    pub(super) publish_call: Option<u16>,
}

impl PeriodRecorder {
    /// Records the lateness of a request that was due at `intended` and processed at `now`.
    #[inline]
    pub(super) fn record_lag(&mut self, intended: Instant, now: Instant) {
        let lag = now.since(intended).as_nanos();
        self.period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
    }

    /// Discards the measurements from before the run, except connect times, notifications and event
    /// streams, which belong to its first second, and connections that were lost after the first
    /// `lost_before`.
    pub(super) fn clear_before_run(&mut self, lost_before: u64) {
        let mut connects = std::mem::take(&mut self.period.connects);
        connects.lost -= lost_before;
        let fanout = std::mem::take(&mut self.period.fanout);
        let streams = self.period.users.streams;
        self.period.clear();
        (self.period.connects, self.period.fanout) = (connects, fanout);
        self.period.users.streams = streams;
    }

    /// Records a completed request.
    #[inline]
    pub(super) fn record_completed(&mut self, completed: CompletedRequest, answered: Instant) {
        let CompletedRequest { call, intended, sent, failure } = completed;
        if intended < self.measured_from {
            return self.record_earlier(completed, answered);
        }
        if self.publish_call == Some(call) {
            return self.period.fanout.record_publish(failure);
        }
        if self.has_mix {
            let response = failure.is_none().then(|| answered.since(intended));
            self.period.latencies.record_call(call, response);
        }
        match failure {
            None => {
                self.period.outcomes.answered += 1;
                self.period.latencies.record(RequestTimes { intended, sent, answered });
            }
            Some(failure) => {
                self.period.outcomes.record_failure(failure);
                self.period.latencies.record_failed(answered.since(intended));
            }
        }
    }
}

impl PeriodRecorder {
    /// Records a completed request of the warm-up. Its response counts if it arrives after that.
    #[cold]
    fn record_earlier(&mut self, completed: CompletedRequest, answered: Instant) {
        if self.publish_call == Some(completed.call) {
            return;
        }
        self.earlier_open = self.earlier_open.saturating_sub(1);
        if completed.failure.is_none() && answered >= self.measured_from {
            self.period.outcomes.earlier_answered += 1;
            if self.has_mix {
                self.period.latencies.record_earlier_call(completed.call);
            }
        }
    }

    /// Records the first event of the stream of a request.
    #[cold]
    pub(super) fn record_first_event(&mut self, call: u16, intended: Instant, at: Instant) {
        if intended >= self.measured_from && self.publish_call != Some(call) {
            self.period.latencies.record_first_event(at.since(intended));
        }
    }

    /// Records the first progress of a request.
    #[cold]
    pub(super) fn record_first_progress(&mut self, call: u16, intended: Instant, at: Instant) {
        if intended >= self.measured_from && self.publish_call != Some(call) {
            self.period.latencies.record_first_progress(at.since(intended));
        }
    }

    /// Returns the requests of the current period.
    pub(super) fn counts(&self) -> RequestCounts {
        let Period { due, outcomes, .. } = &*self.period;
        // A request that was not sent never completes.
        let completed = outcomes.requests() - outcomes.failed(Failure::Unsent);
        RequestCounts { due: *due, completed }
    }
}

impl Default for Period {
    fn default() -> Self {
        Self::new()
    }
}
