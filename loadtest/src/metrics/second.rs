//! Stored result of one second of a run.
//!
//! Invariants: a second within the warm-up has connections and costs but no requests. Counts cover
//! the measured part of the second ([`SecondResult::span_s`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shortest time for which a rate is shown, in seconds. A load thread ends a second when it next
/// checks the clock, so a few milliseconds remain at the end of the warm-up and of the run.
pub const RATE_SPAN_S_MIN: f64 = 0.25;

/// One second of a run. The last one covers the drain and is shorter. Takes about 250 bytes, so a
/// day takes 22 MB.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct SecondResult {
    /// End, in seconds from the beginning of the run, warm-up included.
    pub at_s: f64,
    /// Measured part of it, in seconds; 0 within the warm-up.
    pub span_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Successful responses.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Responses to requests that had timed out.
    pub late: u64,
    /// Median response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p50_us: Option<f64>,
    /// 90th percentile of the response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p90_us: Option<f64>,
    /// 95th percentile of the response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p95_us: Option<f64>,
    /// 99th percentile of the response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p99_us: Option<f64>,
    /// 99.9th percentile of the response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p999_us: Option<f64>,
    /// 99.99th percentile of the response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub p9999_us: Option<f64>,
    /// Longest response time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub max_us: Option<f64>,
    /// 99th percentile of the service time, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub service_p99_us: Option<f64>,
    /// 99th percentile of the generator's lateness, in microseconds.
    #[serde(deserialize_with = "super::unmeasured::measured")]
    pub lag_p99_us: Option<f64>,
    /// Connections open at its end.
    pub open: u64,
    /// Users at its end that have come and not left; absent without users.
    #[serde(skip_serializing_if = "is_zero")]
    pub users: u64,
    /// Connections that opened; the first second includes those from before the run.
    pub opened: u64,
    /// Connections that ended unexpectedly.
    pub lost: u64,
    /// CPU time of the server as a fraction of one core, if it is observed.
    pub server_cores: Option<f64>,
    /// Resident memory of the server, in bytes.
    pub server_resident_bytes: Option<u64>,
    /// CPU time of the generator as a fraction of one core, without spinning; `None` if the system
    /// does not provide it.
    pub generator_cores: Option<f64>,
    /// Resident memory of the generator, in bytes.
    pub generator_resident_bytes: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl SecondResult {
    /// Returns `count` per second of the measured part, or `None` if that was too short.
    #[expect(clippy::cast_precision_loss, reason = "displayed figure")]
    pub fn rate(&self, count: u64) -> Option<f64> {
        (self.span_s >= RATE_SPAN_S_MIN).then(|| count as f64 / self.span_s)
    }
}
