//! Drift: latency and memory at the end of a run compared with its beginning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::second::SecondResult;

/// Fewest measured seconds for which tenths are compared.
const SECONDS_MIN: usize = 10;

/// The first and the last tenth of the measured seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Drift {
    /// The first tenth.
    pub first: Tenth,
    /// The last tenth.
    pub last: Tenth,
}

/// Medians over the seconds of a tenth, so that a single outlier has no effect.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Tenth {
    /// The 99th percentile of the response time, in microseconds; `None` without a response.
    pub p99_us: Option<f64>,
    /// Resident memory of the server, in bytes, if its process was watched.
    pub server_resident_bytes: Option<u64>,
}

impl Drift {
    /// Returns the drift over the measured seconds, or `None` if there are fewer than ten.
    pub fn of(measured: &[SecondResult]) -> Option<Self> {
        if measured.len() < SECONDS_MIN {
            return None;
        }
        let length = measured.len() / 10;
        Some(Self {
            first: Tenth::of(&measured[..length]),
            last: Tenth::of(&measured[measured.len() - length..]),
        })
    }
}

impl Tenth {
    fn of(seconds: &[SecondResult]) -> Self {
        Self {
            p99_us: median(seconds.iter().filter_map(|second| second.p99_us).collect()),
            server_resident_bytes: median(
                seconds.iter().filter_map(|second| second.server_resident_bytes).collect(),
            ),
        }
    }
}

/// Returns the median; of an even number of values the upper one.
fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> Option<T> {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(p99_us: f64, resident: u64) -> SecondResult {
        let server_resident_bytes = Some(resident);
        SecondResult { p99_us: Some(p99_us), server_resident_bytes, ..SecondResult::default() }
    }

    #[test]
    fn drift_reports_growth_and_slowdown() {
        let seconds: Vec<SecondResult> =
            (0..100_u32).map(|at| second(f64::from(at), 1_000 + u64::from(at))).collect();
        let drift = Drift::of(&seconds).unwrap();
        assert_eq!(
            (drift.first.server_resident_bytes, drift.last.server_resident_bytes),
            (Some(1_005), Some(1_095))
        );
        assert_eq!((drift.first.p99_us, drift.last.p99_us), (Some(5.0), Some(95.0)));
    }

    #[test]
    fn single_slow_second_is_no_drift() {
        let mut seconds = vec![second(10.0, 1); 30];
        seconds[28].p99_us = Some(1e6);
        let drift = Drift::of(&seconds).unwrap();
        assert_eq!(drift.last.p99_us, Some(10.0));
        assert!(Drift::of(&seconds[..9]).is_none());
    }

    #[test]
    fn tenth_without_responses_has_no_percentile() {
        let seconds = vec![SecondResult::default(); 20];
        assert_eq!(Drift::of(&seconds), Some(Drift::default()));
    }
}
