//! Backlog of an open loop: requests that were due and are not completed. Whether it grew over the
//! measured window decides whether the server was saturated.
//!
//! Each load thread counts at a fixed interval, from the end of the warm-up to the end of the
//! drain, how many requests became due and how many completed, with an answer or by a failure. The
//! *delay* of the n-th request is the time from when n requests had become due until n had
//! completed. The requests of the window are divided into ten parts of the same number, and the
//! delay of the middle request of each is compared with that of the part before. The server is
//! **saturated** if the delay grew
//!
//! 1. steadily: the mean of the nine differences is more than 2.5 of its standard errors, so that
//!    a stall, a slow start, a burst or a random queue does not count;
//! 2. by 1 % of the window or more, in addition to twice the share of requests that timed out;
//! 3. by three requests or more; with Poisson arrivals by three times the square root of their
//!    number.
//!
//! A constant delay does not count, however long, so that neither a rising rate nor the first
//! answers of a slow server do.

use std::time::Duration;

/// Parts of the requests whose delays are compared.
const PARTS: u32 = 10;
/// Standard errors by which the delay has to grow.
const STANDARD_ERRORS_MIN: f64 = 2.5;
/// Growth of the delay in a window of 1 s, in seconds.
const GROWTH_MIN: f64 = 0.01;
/// Growth that each request that timed out explains, in requests.
const TIMEOUTS_COUNTED: f64 = 2.0;
/// Highest ratio of timeouts that explains growth; more are its consequence.
const TIMEOUTS_MAX: f64 = 0.05;
/// Growth in requests.
const REQUESTS_MIN: f64 = 3.0;
/// Samples of a window.
const SAMPLES: u32 = 250;
/// Shortest interval of samples.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// Most samples of a run, its drain included.
const SAMPLES_MAX: usize = 8_192;

/// Requests of a part of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestCounts {
    /// Requests that became due.
    pub due: u64,
    /// Requests that completed.
    pub completed: u64,
}

/// Requests that became due and completed up to each time of a fixed interval.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BacklogSamples(Vec<RequestCounts>);

/// Growth of the backlog over the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BacklogGrowth {
    /// By how many requests the backlog grew, a second.
    pub requests_per_second: f64,
    /// By how much the delay of requests grew, in seconds a second.
    pub delay: f64,
    /// Whether the growth is that of a saturated server.
    pub is_saturation: bool,
}

/// What the growth is judged by besides the samples.
#[derive(Clone, Copy, Debug)]
pub struct BacklogWindow {
    /// Length of the window.
    pub span: Duration,
    /// Ratio of requests that timed out, from 0 to 1.
    pub timeout_ratio: f64,
    /// Whether the arrivals are a Poisson process.
    pub is_poisson: bool,
}

impl BacklogSamples {
    /// Returns the interval of the samples of a window.
    pub fn interval(span: Duration) -> Duration {
        (span / SAMPLES).max(INTERVAL_MIN)
    }

    /// Returns whether there is no sample.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a sample, the first at the end of the warm-up.
    pub fn push(&mut self, counts: RequestCounts) {
        if self.0.len() < SAMPLES_MAX {
            self.0.push(counts);
        }
    }

    /// Adds those of another load thread, or of another part of the same run, which has none. A
    /// thread whose run ended earlier keeps its last counts.
    pub fn add(&mut self, other: &Self) {
        let len = self.0.len().max(other.0.len());
        let last = |samples: &[RequestCounts]| samples.last().copied().unwrap_or_default();
        let rest = last(&other.0);
        self.0.resize(len, last(&self.0));
        let others = other.0.iter().copied().chain(std::iter::repeat(rest));
        for (all, some) in self.0.iter_mut().zip(others) {
            all.due += some.due;
            all.completed += some.completed;
        }
    }

    /// Removes all samples.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the growth over the window, or `None` without requests that completed.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    pub fn growth(&self, window: BacklogWindow) -> Option<BacklogGrowth> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let (open, due) = (first.due as f64, (last.due - first.due) as f64);
        if due <= 0.0 || last.completed == 0 {
            return None;
        }
        let step = Self::interval(window.span).as_secs_f64();
        let delay = |part: u32| {
            let number = (f64::from(part) + 0.5).mul_add(due / f64::from(PARTS), open);
            let became_due = self.time_of(number, |counts| counts.due, step);
            self.time_of(number, |counts| counts.completed, step) - became_due
        };
        let delays: Vec<f64> = (0..PARTS).map(delay).collect();
        let differences: Vec<f64> = delays.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = f64::from(PARTS - 1);
        let mean = differences.iter().sum::<f64>() / count;
        let squares: f64 = differences.iter().map(|it| (it - mean).powi(2)).sum();
        let standard_error = (squares / (count - 1.0) / count).sqrt();
        let span = window.span.as_secs_f64();
        // The middles of the first and the last part are nine tenths of the window apart.
        let growth = mean * f64::from(PARTS) / span;
        let requests_min = if window.is_poisson { REQUESTS_MIN * due.sqrt() } else { REQUESTS_MIN };
        let is_saturation = mean > STANDARD_ERRORS_MIN * standard_error
            && growth
                >= TIMEOUTS_COUNTED.mul_add(window.timeout_ratio.min(TIMEOUTS_MAX), GROWTH_MIN)
            && growth * due >= requests_min;
        Some(BacklogGrowth {
            requests_per_second: self.added(span, step) / span,
            delay: growth,
            is_saturation,
        })
    }

    /// Returns by how many requests the backlog grew in a window of `span`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a place of a sample, and counts of requests"
    )]
    fn added(&self, span: f64, step: f64) -> f64 {
        let open = |counts: &RequestCounts| counts.due as f64 - counts.completed as f64;
        let at_end = self.0.get((span / step).round() as usize).or_else(|| self.0.last());
        at_end.zip(self.0.first()).map_or(0.0, |(end, begin)| open(end) - open(begin))
    }

    /// Returns when a count reaches `number`, in seconds from the first sample. After the last
    /// sample it grows by its mean rate.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    fn time_of(&self, number: f64, count: fn(&RequestCounts) -> u64, step: f64) -> f64 {
        let counts = &self.0;
        let at = |place: usize| counts.get(place).map_or(0.0, |counts| count(counts) as f64);
        let place = counts.partition_point(|counts| (count(counts) as f64) < number);
        let Some(before) = place.checked_sub(1) else { return 0.0 };
        let last = counts.len() - 1;
        let (from, per_step) = match place {
            place if place > last => (at(last), at(last) / (last as f64).max(1.0)),
            _ => (at(before), at(place) - at(before)),
        };
        (before as f64 + (number - from) / per_step) * step
    }
}

#[cfg(test)]
mod tests;
