//! Results of each kind of request in a mix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::metrics::calls::{CallMetrics, CallsMetrics};
use crate::plan::{CallPlan, Plan};

/// Results of one kind of request.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallResult {
    /// The tool or method, followed by its place in the plan if several have that name.
    pub name: String,
    /// Successful requests.
    pub answered: u64,
    /// Failed requests.
    pub failed: u64,
    /// Response time of successful requests.
    pub response: Percentiles,
}

impl CallResult {
    /// Returns the results of each kind, if the plan has several.
    pub fn of(plan: &Plan, calls: &CallsMetrics) -> Vec<Self> {
        let names = CallPlan::names(&plan.calls);
        let of_call = |(index, metrics): (usize, &CallMetrics)| {
            Some(Self {
                name: names.get(index)?.clone(),
                answered: metrics.answered,
                failed: metrics.failed,
                response: Percentiles::from_histogram(&metrics.response),
            })
        };
        calls.iter().filter_map(of_call).collect()
    }
}
