//! One second of a run as it is kept, when what it was measured with is used again.

use serde::{Deserialize, Serialize};

/// One second of a run. Takes about a hundred bytes: a day of them takes nine megabytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SecondResult {
    /// Good answers.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The median response time, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    #[serde(default)]
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Connections open at its end.
    pub open: u64,
    /// Connections that opened in it; the first second has those from before it as well.
    #[serde(default)]
    pub opened: u64,
    /// CPU time of the server as a part of one core, where it was watched.
    pub server_cores: Option<f64>,
    /// Resident memory of the server, in bytes.
    pub server_resident_bytes: Option<u64>,
}
