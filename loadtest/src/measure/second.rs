//! One second of a run as it is kept, when what it was measured with is used again.
//!
//! What it keeps true: a second that the warm-up fills has connections and costs, and no requests;
//! counts are of the part that was measured, which [`SecondResult::span_s`] says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The shortest time that has a rate worth showing, in seconds. A second ends when its worker next
/// looks at the clock, so that a few milliseconds of the warm-up's end or of the run's are left.
pub const RATE_SPAN_S_MIN: f64 = 0.25;

/// One second of a run. The last one is shorter: what was still to come after the last request.
/// Takes about 250 bytes: a day of them takes 22 megabytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SecondResult {
    /// When it ended, in seconds from the beginning of the run, warm-up included.
    pub at_s: f64,
    /// How much of it was measured, in seconds: none of it within the warm-up.
    pub span_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Good answers.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by how.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// The median response time, in microseconds.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The 99th percentile of the service time, in microseconds.
    pub service_p99_us: f64,
    /// How late the generator was, at the 99th percentile, in microseconds.
    pub lag_p99_us: f64,
    /// Connections open at its end.
    pub open: u64,
    /// Connections that opened in it; the first second has those from before it as well.
    pub opened: u64,
    /// Connections that ended without our doing.
    pub lost: u64,
    /// CPU time of the server as a part of one core, where it was watched.
    pub server_cores: Option<f64>,
    /// Resident memory of the server, in bytes.
    pub server_resident_bytes: Option<u64>,
    /// CPU time of the generator as a part of one core, without what it was awake for nothing;
    /// where the system tells.
    pub generator_cores: Option<f64>,
    /// Resident memory of the generator, in bytes.
    pub generator_resident_bytes: Option<u64>,
}

impl SecondResult {
    /// So many a second, of the part that was measured; none where that was too short.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn rate(&self, count: u64) -> Option<f64> {
        (self.span_s >= RATE_SPAN_S_MIN).then(|| count as f64 / self.span_s)
    }
}
