//! Connections that come and go while a run goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wrong;
use super::span::Span;
use crate::generator::job::Churn;
use crate::schedule::Storm;

/// Connections a second of which nobody closes and opens more.
const RATE_MAX: f64 = 1e6;

/// What becomes of connections during a run: `[churn]`. A connection that is replaced takes no
/// more requests, its answers in flight are waited for, and then it goes and comes back.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChurnPlan {
    /// Connections a second that are closed and opened again, the oldest first, from the beginning
    /// of the run to its end. Default 0.
    pub rate: f64,
    /// How they go. Default delete.
    pub sessions: Sessions,
    /// Many at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormPlan>,
}

/// How a connection goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sessions {
    /// As one should: a session of HTTP is deleted, a WebSocket closed by a close frame, a
    /// connection of lines by its end.
    #[default]
    Delete,
    /// Without a word, so that the server has to find out. A session of HTTP stays.
    Leave,
}

/// Connections that are closed and opened again at once: `[churn.storm]`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StormPlan {
    /// When, from the end of the warm-up.
    pub at: Span,
    /// How long after it the next comes. Default: it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// How many connections. Default: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
}

impl ChurnPlan {
    /// What the workers are to do with so many connections, in a run of this warm-up and so long a
    /// time that is measured.
    pub(super) fn churn(
        &self,
        connections: usize,
        (warm_up, span): (Duration, Duration),
    ) -> Result<Churn, Wrong> {
        let Self { rate, sessions, storm } = *self;
        if !(0.0..=RATE_MAX).contains(&rate) {
            return Err(Wrong(format!(
                "[churn] rate = {rate}: connections a second are from 0 to {RATE_MAX}"
            )));
        }
        if rate == 0.0 && storm.is_none() {
            return Err(Wrong::new(
                "[churn] replaces no connection: write rate = 100, or a [churn.storm]",
            ));
        }
        let storm = storm.map(|storm| storm.check(connections, span)).transpose()?;
        Ok(Churn {
            rate,
            storm: storm.map(|storm| Storm { at: storm.at + warm_up, ..storm }),
            leaves_sessions: sessions == Sessions::Leave,
        })
    }
}

impl StormPlan {
    fn check(self, connections: usize, span: Duration) -> Result<Storm, Wrong> {
        let Self { at, every, connections: several } = self;
        if at.duration() >= span {
            let span = Span::from(span);
            return Err(Wrong(format!(
                "[churn.storm] at = \"{at}\" is not within the run: it is measured for {span}"
            )));
        }
        if every.is_some_and(|every| every.duration().is_zero()) {
            return Err(Wrong::new(
                "[churn.storm] every = \"0s\" never ends: write every = \"5s\"",
            ));
        }
        let several = several.unwrap_or(connections);
        if several == 0 || several > connections {
            return Err(Wrong(format!(
                "[churn.storm] connections = {several}: write a number from 1 to {connections}, \
                 the connections of the run"
            )));
        }
        Ok(Storm { at: at.duration(), every: every.map(Span::duration), connections: several })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));

    fn churn(text: &str) -> Result<Churn, String> {
        let plan: ChurnPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.churn(64, TIMES).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_storm_is_of_all_connections_and_counts_from_the_end_of_the_warm_up() {
        let churn = churn("[storm]\nat = \"3s\"\n").unwrap();
        let storm = Storm { at: Duration::from_secs(5), every: None, connections: 64 };
        assert_eq!((churn.storm, churn.leaves_sessions), (Some(storm), false));
    }

    #[test]
    fn sessions_may_be_left() {
        assert!(churn("rate = 10\nsessions = \"leave\"\n").unwrap().leaves_sessions);
    }

    #[test]
    fn what_makes_no_sense_says_what_to_write() {
        for (text, part) in [
            ("", "rate = 100"),
            ("rate = -1", "from 0 to"),
            ("rate = nan", "from 0 to"),
            ("[storm]\nat = \"10s\"\n", "measured for 10s"),
            ("[storm]\nat = \"1s\"\nevery = \"0s\"\n", "every = \"5s\""),
            ("[storm]\nat = \"1s\"\nconnections = 65\n", "from 1 to 64"),
            ("rate = 1\nsessions = \"keep\"\n", "delete"),
        ] {
            let wrong = churn(text).unwrap_err();
            assert!(wrong.contains(part), "{wrong}");
        }
    }
}
