//! The `[churn]` section of a plan: connections that are closed and reopened during a run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;
use super::{PlanError, RunTimes};
use crate::generator::run_config::ChurnConfig;
use crate::schedule::ReconnectStorm;

/// Highest accepted number of replaced connections a second.
const RATE_MAX: f64 = 1e6;

/// The `[churn]` section. A connection that is being replaced gets no new requests; its requests in
/// flight are awaited, then it is closed and opened again.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChurnPlan {
    /// Connections replaced a second, the oldest first, during the whole run. Default 0.
    pub rate: f64,
    /// How sessions end when their connection is replaced. Default `delete`.
    pub sessions: SessionEnd,
    /// Replacement of many connections at once. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormPlan>,
}

/// How a session ends when its connection is replaced.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionEnd {
    /// Cleanly: an HTTP session is deleted, a WebSocket closed with a close frame, a line-based
    /// connection closed.
    #[default]
    Delete,
    /// The connection is dropped without closing the session. An HTTP session stays open.
    Leave,
}

/// The `[churn.storm]` section: connections that are closed and reopened at once.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StormPlan {
    /// Time of the first storm, counted from the end of the warm-up.
    pub at: HumanDuration,
    /// Interval between storms. Default: a single storm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<HumanDuration>,
    /// Number of connections replaced. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
}

impl ChurnPlan {
    /// Builds the churn of a run with this many connections.
    pub(super) fn build(
        &self,
        connections: usize,
        times: RunTimes,
    ) -> Result<ChurnConfig, PlanError> {
        let Self { rate, sessions, storm } = *self;
        if !(0.0..=RATE_MAX).contains(&rate) {
            return Err(PlanError(format!(
                "[churn] rate = {rate}: a rate is from 0 to {RATE_MAX} connections a second"
            )));
        }
        if rate == 0.0 && storm.is_none() {
            return Err(PlanError::new(
                "[churn] replaces no connection: write rate = 100, or add a [churn.storm]",
            ));
        }
        let storm = storm.map(|storm| storm.build(connections, times.measured())).transpose()?;
        Ok(ChurnConfig {
            rate,
            storm: storm.map(|storm| ReconnectStorm { at: storm.at + times.warm_up, ..storm }),
            leaves_sessions: sessions == SessionEnd::Leave,
        })
    }
}

impl StormPlan {
    fn build(self, connections: usize, span: Duration) -> Result<ReconnectStorm, PlanError> {
        let Self { at, every, connections: count } = self;
        if at.get() >= span {
            let span = HumanDuration::from(span);
            return Err(PlanError(format!(
                "[churn.storm] at = \"{at}\" is after the end of the run, which is measured for \
                 {span}"
            )));
        }
        if every.is_some_and(|every| every.get().is_zero()) {
            return Err(PlanError::new(
                "[churn.storm] every = \"0s\": the interval has to be positive, such as every = \
                 \"5s\"",
            ));
        }
        let count = count.unwrap_or(connections);
        if count == 0 || count > connections {
            return Err(PlanError(format!(
                "[churn.storm] connections = {count}: write a number from 1 to {connections}, the \
                 number of connections of the run"
            )));
        }
        Ok(ReconnectStorm {
            at: at.get(),
            interval: every.map(HumanDuration::get),
            connections: count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: RunTimes =
        RunTimes { warm_up: Duration::from_secs(2), total: Duration::from_secs(12) };

    fn churn(text: &str) -> Result<ChurnConfig, String> {
        let plan: ChurnPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.build(64, TIMES).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn storm_replaces_all_connections_after_warm_up() {
        let churn = churn("[storm]\nat = \"3s\"\n").unwrap();
        let storm = ReconnectStorm { at: Duration::from_secs(5), interval: None, connections: 64 };
        assert_eq!((churn.storm, churn.leaves_sessions), (Some(storm), false));
    }

    #[test]
    fn sessions_leave_keeps_sessions_open() {
        assert!(churn("rate = 10\nsessions = \"leave\"\n").unwrap().leaves_sessions);
    }

    #[test]
    fn invalid_churn_plan_error_names_valid_value() {
        for (text, part) in [
            ("", "rate = 100"),
            ("rate = -1", "from 0 to"),
            ("rate = nan", "from 0 to"),
            ("[storm]\nat = \"10s\"\n", "measured for 10s"),
            ("[storm]\nat = \"1s\"\nevery = \"0s\"\n", "every = \"5s\""),
            ("[storm]\nat = \"1s\"\nconnections = 65\n", "from 1 to 64"),
            ("rate = 1\nsessions = \"keep\"\n", "delete"),
        ] {
            let error = churn(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
