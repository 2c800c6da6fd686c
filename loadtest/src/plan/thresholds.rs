//! The `[thresholds]` section of a plan: limits that a run has to keep to pass.

use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;

/// Limits of a run; an absent one is not checked. Latencies are response times, counted from the
/// intended send time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
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
    /// Returns the longest latency that a threshold allows, or `None` without a latency threshold.
    pub fn latency_max(&self) -> Option<HumanDuration> {
        [self.p50, self.p99, self.p999].into_iter().flatten().max()
    }
}
