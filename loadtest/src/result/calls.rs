//! Results of each kind of request in a mix.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Percentiles, ratio};
use crate::generator::Measurements;
use crate::metrics::calls::CallMetrics;
use crate::plan::Plan;

/// Results of one kind of request.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallResult {
    /// The tool or method, followed by its place in the plan if several have that name.
    pub name: String,
    /// Successful requests.
    pub answered: u64,
    /// Failed requests.
    pub failed: u64,
    /// Successful responses a second that arrived in the measured window; 0 in results of earlier
    /// versions.
    #[serde(default)]
    pub rate: f64,
    /// Response time of successful requests.
    pub response: Percentiles,
}

impl CallResult {
    /// Returns the results of each kind, if the plan has several. `window` is the length of the
    /// measured window.
    pub(super) fn of(plan: &Plan, finding: &Measurements, window: Duration) -> Vec<Self> {
        let names = plan.call_names();
        let answered = |index| finding.window.answered_by_call.get(index).copied();
        let of_call = |(index, metrics): (usize, &CallMetrics)| {
            Some(Self {
                name: names.get(index)?.clone(),
                answered: metrics.answered,
                failed: metrics.failed,
                rate: ratio(answered(index).unwrap_or_default(), window),
                response: Percentiles::from_histogram(&metrics.response),
            })
        };
        finding.total.latencies.calls().iter().filter_map(of_call).collect()
    }
}
