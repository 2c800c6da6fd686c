//! What has to hold for a run to pass.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// Bounds of a run, each of them only where it is set. Latencies are response times: from the
/// moment at which a request was meant to be sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// The longest median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<Span>,
    /// The longest 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<Span>,
    /// The longest 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<Span>,
    /// The longest time until the last stream that listens has heard of a publication. A
    /// publication that a stream has missed keeps no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Span>,
    /// The largest part of requests that may fail, from zero to one, and the largest part of what
    /// streams that listen were to hear that they may miss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<f64>,
    /// The fewest answers a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

impl Thresholds {
    /// The longest latency that any of them allows; none where none bounds a latency.
    pub fn latency_max(&self) -> Option<Span> {
        [self.p50, self.p99, self.p999].into_iter().flatten().max()
    }
}
