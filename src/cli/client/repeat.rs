//! `corelane call --repeat`: what many calls in sequence take, for a quick look.

use std::io;
use std::time::Duration;

use serde_json::json;

use super::output::Output;

/// Calls that were made one after the other.
#[derive(Debug, Default)]
pub(crate) struct RepeatedCalls {
    /// What successful calls took.
    times: Vec<Duration>,
    failed: u32,
    first_failure: Option<String>,
}

/// Percentiles, with the calls that it takes for one call in so many to be above it.
const PERCENTILES: [(&str, f64, usize); 3] =
    [("median", 0.5, 2), ("p95", 0.95, 20), ("p99", 0.99, 100)];

impl RepeatedCalls {
    /// Records a call that took `time`, or why it failed.
    pub(crate) fn record(&mut self, time: Duration, result: Result<(), String>) {
        match result {
            Ok(()) => self.times.push(time),
            Err(why) => {
                self.failed += 1;
                self.first_failure.get_or_insert(why);
            }
        }
    }

    /// Returns why the first call that failed did.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Prints the number of calls and what they took, in all `total`.
    pub(crate) fn write(mut self, total: Duration, output: &mut Output) -> io::Result<()> {
        self.times.sort_unstable();
        if output.is_json() {
            return output.write_line(&self.to_json(total).to_string());
        }
        let calls = self.times.len() + usize::try_from(self.failed).unwrap_or(usize::MAX);
        output.write_line(&format!(
            "{calls} calls, {} failed, in {}: {:.1}/s, one at a time",
            self.failed,
            milliseconds(total),
            self.rate(total)
        ))?;
        let shown: Vec<String> = self
            .values()
            .into_iter()
            .map(|(name, time)| format!("{name} {}", milliseconds(time)))
            .collect();
        if shown.is_empty() { Ok(()) } else { output.write_line(&shown.join(" · ")) }
    }

    fn to_json(&self, total: Duration) -> serde_json::Value {
        let mut document = json!({
            "calls": self.times.len() + usize::try_from(self.failed).unwrap_or(usize::MAX),
            "failed": self.failed,
            "seconds": total.as_secs_f64(),
            "rate": self.rate(total),
        });
        for (name, time) in self.values() {
            document[format!("{name}_ms")] = json!(time.as_secs_f64() * 1e3);
        }
        document
    }

    /// Returns the successful calls a second.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn rate(&self, total: Duration) -> f64 {
        self.times.len() as f64 / total.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the least, the most, and each percentile for which there are calls enough.
    fn values(&self) -> Vec<(&'static str, Duration)> {
        let (Some(least), Some(most)) = (self.times.first(), self.times.last()) else {
            return Vec::new();
        };
        let known = PERCENTILES.into_iter().filter(|(.., calls)| self.times.len() >= *calls);
        let percentiles = known.map(|(name, part, _)| (name, self.percentile(part)));
        [("min", *least)].into_iter().chain(percentiles).chain([("max", *most)]).collect()
    }

    /// Returns the time within which this part of the calls was answered.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank between 1 and the number of calls"
    )]
    fn percentile(&self, part: f64) -> Duration {
        let rank = (self.times.len() as f64 * part).ceil() as usize;
        self.times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Formats a time with three digits.
fn milliseconds(time: Duration) -> String {
    match time.as_secs_f64() * 1e3 {
        small if small < 10.0 => format!("{small:.2} ms"),
        small if small < 100.0 => format!("{small:.1} ms"),
        small if small < 10_000.0 => format!("{small:.0} ms"),
        large => format!("{:.1} s", large / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(times: impl IntoIterator<Item = u64>) -> RepeatedCalls {
        let mut calls = RepeatedCalls::default();
        for time in times {
            calls.record(Duration::from_millis(time), Ok(()));
        }
        calls.times.sort_unstable();
        calls
    }

    #[test]
    fn percentiles_need_enough_calls() {
        let names = |calls: &RepeatedCalls| -> Vec<&str> {
            calls.values().into_iter().map(|(name, _)| name).collect()
        };
        assert!(calls([]).values().is_empty());
        assert_eq!(names(&calls([1])), ["min", "max"]);
        assert_eq!(names(&calls(1..=19)), ["min", "median", "max"]);
        assert_eq!(names(&calls(1..=100)), ["min", "median", "p95", "p99", "max"]);
        let hundred = calls(1..=100);
        let at = |part| hundred.percentile(part).as_millis();
        assert_eq!((at(0.5), at(0.95), at(0.99)), (50, 95, 99));
    }

    #[test]
    fn failed_calls_have_no_time() {
        let mut mixed = calls([4, 2]);
        mixed.record(Duration::from_secs(9), Err("refused".into()));
        mixed.record(Duration::from_secs(9), Err("later".into()));
        assert_eq!(mixed.first_failure(), Some("refused"));
        let document = mixed.to_json(Duration::from_secs(2));
        assert_eq!((&document["calls"], &document["failed"]), (&json!(4), &json!(2)));
        assert_eq!((&document["rate"], &document["max_ms"]), (&json!(1.0), &json!(4.0)));
    }
}
