//! The `[thresholds]` section of a plan: limits that a run has to keep to pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;

/// Highest failure ratio without the threshold `errors`.
pub const DEFAULT_ERRORS_MAX: f64 = 0.01;

/// Limits of a run; an absent one is not checked. Latencies are response times, counted from the
/// intended send time.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Highest median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<HumanDuration>,
    /// Highest 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<HumanDuration>,
    /// Highest 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<HumanDuration>,
    /// Longest time until the last stream receives a notification. A missed notification violates
    /// the threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivery: Option<HumanDuration>,
    /// Highest failure ratio of requests, from 0 to 1; also the highest ratio of missed
    /// notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<f64>,
    /// Lowest rate of successful responses a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

impl Thresholds {
    /// Returns the highest failure ratio that a run may have.
    pub fn errors_max(&self) -> f64 {
        self.errors.unwrap_or(DEFAULT_ERRORS_MAX)
    }

    /// Returns each limit as text, such as `p99 ≤ 1ms`.
    pub fn limits(&self) -> Vec<String> {
        let Self { p50, p99, p999, last_delivery, errors, rate } = self;
        let times = [("p50", p50), ("p99", p99), ("p99.9", p999), ("last_delivery", last_delivery)];
        let times =
            times.into_iter().filter_map(|(name, limit)| Some(format!("{name} ≤ {}", (*limit)?)));
        let errors = errors.map(|limit| format!("errors ≤ {limit}"));
        let rate = rate.map(|limit| format!("rate ≥ {limit}/s"));
        times.chain(errors).chain(rate).collect()
    }

    /// Returns the longest latency that a threshold allows, or `None` without a latency threshold.
    pub fn latency_max(&self) -> Option<HumanDuration> {
        [self.p50, self.p99, self.p999].into_iter().flatten().max()
    }
}
