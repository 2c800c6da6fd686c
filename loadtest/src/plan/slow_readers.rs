//! The `[slow_readers]` section of a plan: connections that read slowly or not at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;
use super::{PlanError, RunTimes};
use crate::generator::run_config::SlowReaderConfig;
use crate::mcp::{RequestSettings, RequestTemplate};

/// The `[slow_readers]` section.
///
/// Slow readers are some of the connections of the run. From `at` on each runs a small closed loop,
/// so that it always has unread responses. Their requests are excluded from the results of the
/// other connections, which show how much slow readers affect them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlowReadersPlan {
    /// Number of slow connections.
    pub connections: usize,
    /// Average read rate of each; data is read in chunks. 0: not before the end of the run. Default
    /// 1,000.
    #[serde(default = "bytes_per_second")]
    pub bytes_per_second: u64,
    /// Requests in flight on each. Default 64.
    #[serde(default = "depth")]
    pub depth: usize,
    /// Calls the tool `echo` with this many bytes. Default: the calls of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// When they begin to read slowly, counted from the end of the warm-up; until then they are
    /// idle. If positive, the result compares the latencies of the others before and after. Default
    /// 0 s.
    #[serde(default = "at")]
    pub at: HumanDuration,
}

const fn bytes_per_second() -> u64 {
    1_000
}

const fn depth() -> usize {
    64
}

const fn at() -> HumanDuration {
    HumanDuration::from_secs(0)
}

impl SlowReadersPlan {
    /// Builds the slow readers, and their request if it differs from those of the plan, for a run
    /// with this many connections.
    pub(super) fn build(
        &self,
        connections: usize,
        settings: &RequestSettings,
        times: RunTimes,
    ) -> Result<(SlowReaderConfig, Option<RequestTemplate>), PlanError> {
        let Self { connections: slow, bytes_per_second, depth, bytes, at } = *self;
        if slow == 0 || slow >= connections {
            return Err(PlanError(format!(
                "[slow_readers] connections = {slow}: write at least 1, and fewer than the \
                 {connections} connections of the run, so that others can be measured"
            )));
        }
        if depth == 0 {
            return Err(PlanError::new("[slow_readers] depth = 0: write 1 or more"));
        }
        let measured = times.measured();
        if at.get() >= measured {
            let span = HumanDuration::from(measured);
            return Err(PlanError(format!(
                "[slow_readers] at = \"{at}\" is after the end of the run, which is measured for \
                 {span}"
            )));
        }
        let readers = SlowReaderConfig {
            connections: slow,
            bytes_per_second,
            depth,
            start_after: times.warm_up + at.get(),
            call: None,
        };
        Ok((readers, bytes.map(|bytes| RequestTemplate::echo(settings, bytes))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::target::{Era, Transport};

    fn readers(text: &str) -> Result<(SlowReaderConfig, Option<RequestTemplate>), String> {
        let plan: SlowReadersPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        let (transport, era) = (Transport::Tcp, Era::Modern);
        let settings = RequestSettings::new(transport, era, "localhost:1", "", Vec::new()).unwrap();
        let times = RunTimes { warm_up: Duration::from_secs(2), total: Duration::from_secs(12) };
        plan.build(64, &settings, times).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn slow_readers_begin_after_warm_up() {
        let (readers, call) = readers("connections = 3\nat = \"4s\"\nbytes = 9\n").unwrap();
        assert_eq!((readers.connections, readers.start_after), (3, Duration::from_secs(6)));
        assert_eq!((readers.bytes_per_second, readers.depth), (1_000, 64));
        assert_eq!(call.unwrap().expected_text(), Some("abcdefghi"));
    }

    #[test]
    fn invalid_slow_readers_error_names_valid_value() {
        for (text, part) in [
            ("connections = 0", "at least 1"),
            ("connections = 64", "fewer than the 64"),
            ("connections = 1\ndepth = 0", "1 or more"),
            ("connections = 1\nat = \"10s\"", "measured for 10s"),
        ] {
            let error = readers(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
