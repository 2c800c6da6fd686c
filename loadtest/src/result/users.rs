//! Results of users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::plan::scenario::TakenValue;
use crate::plan::{HumanDuration, Plan};
use crate::target::Era;
use crate::users::{EventStreamCounts, TakeCounts, UserMetrics};

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
    /// Event streams of sessions; absent if no scenario has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_streams: Option<EventStreamsResult>,
    /// Users that left and were replaced by new ones.
    pub left: u64,
    /// Requests that were sent again, because the server asked for it.
    pub retried: u64,
    /// Results that required input, which users gave.
    pub inputs: u64,
    /// Requests that users cancelled. They count as neither answered nor failed.
    pub cancelled: u64,
}

/// Results of the event streams of sessions.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct EventStreamsResult {
    /// Streams that opened, those before the run included.
    pub opened: u64,
    /// Notifications on them.
    pub notifications: u64,
    /// Requests of the server on them.
    pub requests: u64,
    /// Streams that the server or the network ended. They are opened again after 1 s.
    pub lost: u64,
    /// Requests of streams that the server refused. They are sent again after 1 s.
    pub refused: u64,
    /// Whether the server has no such stream: it answered with status 405.
    pub unsupported: bool,
}

impl EventStreamsResult {
    fn of(counts: EventStreamCounts) -> Self {
        let EventStreamCounts { opened, notifications, requests, lost, .. } = counts;
        let EventStreamCounts { refused, unsupported, .. } = counts;
        let unsupported = unsupported > 0;
        Self { opened, notifications, requests, lost, refused, unsupported }
    }
}

/// Returns whether sessions of users have event streams, or would have with an earlier revision.
fn wants_event_streams(plan: &Plan) -> bool {
    plan.scenarios.iter().any(|scenario| scenario.event_stream)
}

/// Returns a note if there are no event streams, or the server refused some.
pub(super) fn event_streams_note(plan: &Plan, metrics: &UserMetrics) -> Option<String> {
    if wants_event_streams(plan) && plan.era.is_none_or(Era::is_modern) {
        let note = "event_stream: 2026-07-28 has no stream of a session, and none was opened: \
                    write era = \"legacy\", or [listen] instead";
        return Some(note.into());
    }
    let EventStreamCounts { opened, refused, status, unsupported, .. } = metrics.streams;
    match (unsupported, refused, status) {
        (1.., ..) => Some("the server has no event stream: it answered GET with status 405".into()),
        (0, 0, _) => {
            let has_none = wants_event_streams(plan) && opened == 0;
            has_none.then(|| "no event stream has opened".into())
        }
        (0, _, 0) => Some(format!("{refused} event streams closed before they opened")),
        (0, ..) => Some(format!("{refused} event streams were refused, one with status {status}")),
    }
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
            event_streams: (wants_event_streams(plan) && !plan.era.is_none_or(Era::is_modern))
                .then(|| EventStreamsResult::of(metrics.streams)),
            left: *left,
            retried: *retried,
            cancelled: *cancelled,
            inputs: *inputs,
        })
    }
}
