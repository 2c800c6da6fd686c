//! Seconds of a run aggregated into the points of plots.
//!
//! A plot has at most [`POINTS_MAX`] points. In a longer run each point aggregates several seconds:
//! rates by their mean, latencies and memory by their maximum. The remainder after the last
//! complete second is omitted.

use crate::metrics::second::{RATE_SPAN_S_MIN, SecondResult};
use crate::result::RunResult;

/// Most points of a plot.
const POINTS_MAX: usize = 240;
/// One or more seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// Begin and end, in seconds.
    pub(super) from: f64,
    pub(super) until: f64,
    /// Requests a second; `None` during the warm-up.
    pub(super) rates: Option<Rates>,
    /// Response times in microseconds; `None` without a response.
    pub(super) latencies: Option<Latencies>,
    /// Lag of the load generator in microseconds; `None` without due requests.
    pub(super) lag_p99: Option<f64>,
    /// Open connections at the end.
    pub(super) open: f64,
    pub(super) server_cores: Option<f64>,
    pub(super) server_bytes: Option<f64>,
    pub(super) generator_cores: Option<f64>,
    pub(super) generator_bytes: Option<f64>,
}

/// Requests a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) due: f64,
    pub(super) answered: f64,
    pub(super) failed: f64,
}

/// Response times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Point {
    pub(super) const fn middle(&self) -> f64 {
        f64::midpoint(self.from, self.until)
    }
}

/// The points of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) points: Vec<Point>,
    /// Seconds in each point.
    pub(super) seconds_each: usize,
}

impl History {
    /// Returns the points of a result.
    pub(super) fn of(result: &RunResult) -> Self {
        let warm_up = result.plan.warm_up.get().as_secs_f64();
        let mut from = 0.0;
        let mut timed = Vec::with_capacity(result.seconds.len());
        for second in &result.seconds {
            // Results of earlier versions lack the time of a second.
            let is_dated = second.at_s > 0.0;
            let until = if is_dated { second.at_s } else { from + 1.0 };
            let measured = until - f64::max(from, warm_up);
            let span = if is_dated { second.span_s } else { measured.clamp(0.0, 1.0) };
            timed.push(Timed { from, until, measured_s: span, second });
            from = until;
        }
        timed.retain(|timed| timed.until - timed.from >= RATE_SPAN_S_MIN);
        let seconds_each = timed.len().div_ceil(POINTS_MAX).max(1);
        Self { points: timed.chunks(seconds_each).map(point).collect(), seconds_each }
    }

    /// Returns the end, in seconds.
    pub(super) fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.until)
    }

    /// Returns the maximum of a value.
    pub(super) fn highest(&self, of: impl Fn(&Point) -> Option<f64>) -> f64 {
        self.points.iter().filter_map(of).fold(0.0, f64::max)
    }
}

/// A second with its begin, end and measured time.
struct Timed<'a> {
    from: f64,
    until: f64,
    measured_s: f64,
    second: &'a SecondResult,
}

#[expect(clippy::cast_precision_loss, reason = "what is drawn")]
fn point(seconds: &[Timed<'_>]) -> Point {
    let [first, ..] = seconds else { return Point::default() };
    let last = &seconds[seconds.len() - 1];
    let span: f64 = seconds.iter().map(|timed| timed.measured_s).sum();
    let all = |count: fn(&SecondResult) -> u64| {
        seconds.iter().map(|timed| count(timed.second)).sum::<u64>() as f64 / span
    };
    let most = |value: fn(&SecondResult) -> Option<f64>| {
        seconds.iter().filter_map(|timed| value(timed.second)).reduce(f64::max)
    };
    let most_bytes = |bytes: fn(&SecondResult) -> Option<u64>| {
        seconds.iter().filter_map(|timed| bytes(timed.second)).max().map(|bytes| bytes as f64)
    };
    let mean = |cores: fn(&SecondResult) -> Option<f64>| {
        let known: Vec<f64> = seconds.iter().filter_map(|timed| cores(timed.second)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let is_measured = span >= RATE_SPAN_S_MIN;
    let latencies = || {
        Some(Latencies {
            p50: most(|second| second.p50_us)?,
            p99: most(|second| second.p99_us)?,
            max: most(|second| second.max_us)?,
        })
    };
    Point {
        from: first.from,
        until: last.until,
        rates: is_measured.then(|| Rates {
            due: all(|second| second.due),
            answered: all(|second| second.answered),
            failed: all(|second| second.failed),
        }),
        latencies: is_measured.then(latencies).flatten(),
        lag_p99: most(|second| second.lag_p99_us).filter(|_| is_measured),
        open: last.second.open as f64,
        server_cores: mean(|second| second.server_cores),
        server_bytes: most_bytes(|second| second.server_resident_bytes),
        generator_cores: mean(|second| second.generator_cores),
        generator_bytes: most_bytes(|second| second.generator_resident_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{HumanDuration, Plan};
    use crate::report::html::sample;

    fn history(warm_up: u64, seconds: Vec<SecondResult>) -> History {
        let plan =
            Plan { warm_up: HumanDuration::from_secs(warm_up), ..Plan::new("tcp://localhost:1") };
        History::of(&RunResult { plan, seconds, ..sample::result() })
    }

    fn second(at_s: f64, span_s: f64, answered: u64) -> SecondResult {
        let us = (answered > 0).then_some(at_s);
        let (p50_us, p99_us, max_us) = (us, us, us);
        let known = SecondResult { p50_us, p99_us, max_us, ..SecondResult::default() };
        SecondResult { at_s, span_s, answered, open: 9, ..known }
    }

    #[test]
    fn warm_up_has_connections_but_no_rates() {
        let history = history(1, vec![second(1.0, 0.0, 0), second(2.0, 1.0, 7)]);
        let [warm_up, measured] = history.points[..] else { panic!("two points") };
        assert!(warm_up.rates.is_none() && warm_up.latencies.is_none());
        assert!((warm_up.open - 9.0).abs() < 1e-9);
        assert_eq!(measured.rates.map(|rates| rates.answered), Some(7.0));
    }

    #[test]
    fn incomplete_last_second_is_omitted() {
        let history = history(0, vec![second(1.0, 1.0, 5), second(1.002, 0.002, 1)]);
        assert_eq!(history.points.len(), 1);
    }

    #[test]
    fn long_run_aggregates_by_maximum() {
        let seconds = (1..=3_600).map(|at| second(f64::from(at), 1.0, 5)).collect();
        let history = history(0, seconds);
        assert_eq!((history.seconds_each, history.points.len()), (15, 240));
        let first = history.points[0];
        assert_eq!(first.latencies.map(|latencies| latencies.p99), Some(15.0));
        assert_eq!(first.rates.map(|rates| rates.answered), Some(5.0));
        assert!((history.end() - 3_600.0).abs() < 1e-9);
    }

    #[test]
    fn seconds_without_time_are_consecutive() {
        let history = history(1, vec![SecondResult::default(), second(0.0, 0.0, 5)]);
        assert_eq!(history.points[1].rates.map(|rates| rates.answered), Some(5.0));
        assert!((history.points[1].until - 2.0).abs() < 1e-9);
    }
}
