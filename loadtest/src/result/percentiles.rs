//! Percentiles of a latency.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::microseconds;
use crate::metrics::unmeasured::measured;

/// Percentiles of a latency, in microseconds; `None` without values.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// The mean.
    #[serde(deserialize_with = "measured")]
    pub mean_us: Option<f64>,
    /// The median.
    #[serde(deserialize_with = "measured")]
    pub p50_us: Option<f64>,
    /// The 90th percentile.
    #[serde(deserialize_with = "measured")]
    pub p90_us: Option<f64>,
    /// The 95th percentile; `None` in results of earlier versions.
    #[serde(default, deserialize_with = "measured")]
    pub p95_us: Option<f64>,
    /// The 99th percentile.
    #[serde(deserialize_with = "measured")]
    pub p99_us: Option<f64>,
    /// The 99.9th percentile.
    #[serde(deserialize_with = "measured")]
    pub p999_us: Option<f64>,
    /// The 99.99th percentile.
    #[serde(deserialize_with = "measured")]
    pub p9999_us: Option<f64>,
    /// The maximum.
    #[serde(deserialize_with = "measured")]
    pub max_us: Option<f64>,
}

impl Percentiles {
    /// Returns the percentiles of a histogram of nanoseconds.
    pub fn from_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |percentile| Some(microseconds(histogram.value_at_percentile(percentile)));
        Self {
            count: histogram.len(),
            mean_us: Some(histogram.mean() / 1e3),
            p50_us: at(50.0),
            p90_us: at(90.0),
            p95_us: at(95.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            p9999_us: at(99.99),
            max_us: Some(microseconds(histogram.max())),
        }
    }

    /// Returns the percentiles of a histogram, if there is one.
    pub(super) fn of(histogram: Option<&Histogram<u64>>) -> Option<Self> {
        histogram.map(Self::from_histogram)
    }

    /// Returns mean, percentiles and maximum in microseconds, each with its name in tables.
    pub const fn statistics(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("mean", self.mean_us),
            ("p50", self.p50_us),
            ("p90", self.p90_us),
            ("p95", self.p95_us),
            ("p99", self.p99_us),
            ("p99.9", self.p999_us),
            ("p99.99", self.p9999_us),
            ("max", self.max_us),
        ]
    }
}
