//! Results of users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::plan::scenario::TakenValue;
use crate::plan::{HumanDuration, Plan};
use crate::users::{TakeCounts, UserMetrics};

/// Results of users.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct UsersResult {
    /// Users at a time; the most, if their number changes or they arrive at a rate.
    pub users: u64,
    /// Users that arrived at a rate.
    #[serde(default)]
    pub arrived: u64,
    /// Users among them that found no free connection, and waited for one.
    #[serde(default)]
    pub waited: u64,
    /// Complete iterations.
    pub iterations: u64,
    /// Iterations that a failed step ended.
    pub failed_iterations: u64,
    /// Duration of complete iterations, pauses included.
    pub iteration: Percentiles,
    /// Users that left and were replaced by new ones.
    pub left: u64,
    /// Requests that were sent again, because the server asked for it.
    pub retried: u64,
    /// Results that required input, which users gave.
    pub inputs: u64,
    /// Requests that users cancelled. They count as neither answered nor failed.
    pub cancelled: u64,
}

/// Returns a note for each value that no result had.
pub(super) fn untaken_notes(plan: &Plan, metrics: &UserMetrics) -> Vec<String> {
    let takes = metrics.takes.iter().zip(plan.taken_values());
    let untaken = takes.filter(|(counts, _)| counts.found == 0 && counts.missing > 0);
    let note = |(counts, value): (&TakeCounts, TakenValue<'_>)| {
        let TakenValue { step, name, pointer } = value;
        format!(
            "none of {} results of {step} had a value at {pointer}: {{{{value {name}}}}} was left \
             out",
            counts.missing
        )
    };
    untaken.map(note).collect()
}

/// Returns a note if the run ends before the stages of a scenario.
pub(super) fn unreached_stages(plan: &Plan) -> Option<String> {
    let stages = plan.scenarios.iter().map(|scenario| scenario.level_keys().stages_span()).max()?;
    let run = plan.profile().span();
    (stages > run).then(|| {
        let [stages, run] = [stages, run].map(HumanDuration::from);
        format!("the stages of a scenario take {stages}, and the run {run}: it ended before them")
    })
}

impl UsersResult {
    /// Returns the counts of what users did besides their steps, each with its name.
    pub const fn actions(&self) -> [(&'static str, u64); 6] {
        [
            ("arrived", self.arrived),
            ("waited", self.waited),
            ("left", self.left),
            ("retried", self.retried),
            ("cancelled", self.cancelled),
            ("inputs", self.inputs),
        ]
    }

    /// Returns the results of the users, if the plan has any.
    pub(super) fn of(plan: &Plan, metrics: &UserMetrics) -> Option<Self> {
        let UserMetrics { iterations, failed, left, retried, cancelled, inputs, .. } = metrics;
        let iteration = iterations.as_deref().map(Percentiles::from_histogram);
        (!plan.scenarios.is_empty()).then(|| Self {
            users: plan.connections as u64,
            arrived: metrics.arrived,
            waited: metrics.waited,
            iterations: iterations.as_ref().map_or(0, |iterations| iterations.len()),
            failed_iterations: *failed,
            iteration: iteration.unwrap_or_default(),
            left: *left,
            retried: *retried,
            cancelled: *cancelled,
            inputs: *inputs,
        })
    }
}
