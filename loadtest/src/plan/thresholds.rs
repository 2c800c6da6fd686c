//! The `[thresholds]` section of a plan: limits that a run has to keep to pass.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanError;
use super::human_bytes::HumanBytes;
use super::human_duration::HumanDuration;
use crate::nearest::nearest;

/// Highest failure ratio without the threshold `errors`.
pub const DEFAULT_ERRORS_MAX: f64 = 0.01;

/// Limits of a run; an absent one is not checked. Latencies are response times, counted from the
/// intended send time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Highest mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<HumanDuration>,
    /// Highest median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<HumanDuration>,
    /// Highest 90th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<HumanDuration>,
    /// Highest 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<HumanDuration>,
    /// Highest 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<HumanDuration>,
    /// Highest 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<HumanDuration>,
    /// Highest 99.99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p9999: Option<HumanDuration>,
    /// Highest maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<HumanDuration>,
    /// Longest time until the last stream receives a notification. A missed notification violates
    /// the threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivery: Option<HumanDuration>,
    /// Highest failure ratio of requests, from 0 to 1; also the highest ratio of missed
    /// notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<f64>,
    /// Lowest rate of successful responses a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Highest growth of the server's memory a minute, such as `10 MiB`. Missed only if the whole
    /// 95 % interval of the growth is above. Needs `--pid`, `--server` or a stdio target, and ten
    /// seconds of measured time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_growth: Option<HumanBytes>,
    /// Limits of single calls, by tool or method, such as `[thresholds.call.search]`; with several
    /// calls of a name, `[thresholds.call."search #2"]`. The same keys except `call`,
    /// `last_delivery` and `memory_growth`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub call: BTreeMap<String, Self>,
}

impl Thresholds {
    /// Returns the highest failure ratio that a run may have.
    pub fn errors_max(&self) -> f64 {
        self.errors.unwrap_or(DEFAULT_ERRORS_MAX)
    }

    /// Returns the limits of response times that are set, without those of single calls, each with
    /// its name in tables.
    pub fn latencies(&self) -> Vec<(&'static str, HumanDuration)> {
        let Self { mean, p50, p90, p95, p99, p999, p9999, max, .. } = self;
        let all = [
            ("mean", mean),
            ("p50", p50),
            ("p90", p90),
            ("p95", p95),
            ("p99", p99),
            ("p99.9", p999),
            ("p99.99", p9999),
            ("max", max),
        ];
        all.into_iter().filter_map(|(name, limit)| Some((name, (*limit)?))).collect()
    }

    /// Returns each limit as text, such as `p99 ≤ 1ms`.
    pub fn limits(&self) -> Vec<String> {
        let delivery = self.last_delivery.map(|limit| ("last_delivery", limit));
        let times = self.latencies().into_iter().chain(delivery);
        let times = times.map(|(name, limit)| format!("{name} ≤ {limit}"));
        let errors = self.errors.map(|limit| format!("errors ≤ {limit}"));
        let rate = self.rate.map(|limit| format!("rate ≥ {limit}/s"));
        let growth = self.memory_growth.map(|limit| format!("memory_growth ≤ {limit}/min"));
        let of_call = |(call, limits): (&String, &Self)| {
            limits.limits().into_iter().map(|limit| format!("{call} {limit}")).collect::<Vec<_>>()
        };
        let calls = self.call.iter().flat_map(of_call);
        times.chain(errors).chain(rate).chain(growth).chain(calls).collect()
    }

    /// Returns the longest latency that a threshold allows, or `None` without a latency threshold.
    pub fn latency_max(&self) -> Option<HumanDuration> {
        let of_calls = self.call.values().filter_map(Self::latency_max);
        self.latencies().into_iter().map(|(_, limit)| limit).chain(of_calls).max()
    }

    /// Checks the values, and that the named calls exist unless the calls are not known yet.
    pub(super) fn check(&self, names: &[String]) -> Result<(), PlanError> {
        self.check_values("")?;
        for (name, limits) in &self.call {
            let key = format!("thresholds.call.{name}");
            if !names.is_empty() && !names.contains(name) {
                let meant = match nearest(name, names.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("the calls are {}", names.join(", ")),
                };
                return Err(PlanError(format!("{key}: there is no such call; {meant}")));
            }
            if limits.last_delivery.is_some()
                || limits.memory_growth.is_some()
                || !limits.call.is_empty()
            {
                return Err(PlanError(format!(
                    "{key}: last_delivery, memory_growth and call are limits of the run: move them \
                     to [thresholds]"
                )));
            }
            limits.check_values(&format!("{key}."))?;
        }
        Ok(())
    }

    fn check_values(&self, key: &str) -> Result<(), PlanError> {
        if let Some(errors) = self.errors
            && !(0.0..=1.0).contains(&errors)
        {
            return Err(PlanError(format!(
                "{key}errors = {errors}: the failure ratio is from 0 to 1, such as 0.001"
            )));
        }
        match self.rate {
            Some(rate) if !(rate.is_finite() && rate >= 0.0) => {
                Err(PlanError(format!("{key}rate = {rate}: write responses a second, such as 100")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thresholds(text: &str) -> Thresholds {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn limits_of_calls_are_listed() {
        let set = thresholds("p95 = \"2ms\"\nmax = 1\n[call.search]\np99 = \"9ms\"\nrate = 5");
        assert_eq!(
            set.limits(),
            ["p95 ≤ 2ms", "max ≤ 1s", "search p99 ≤ 9ms", "search rate ≥ 5/s"]
        );
        assert_eq!(set.latency_max(), Some(HumanDuration::from_secs(1)));
    }

    #[test]
    fn misspelled_call_suggests_nearest() {
        let set = thresholds("[call.serach]\np99 = \"9ms\"");
        let calls = ["search", "fetch #2", "fetch #3"].map(String::from);
        let error = |set: &Thresholds| set.check(&calls).unwrap_err().0;
        let expected = "thresholds.call.serach: there is no such call; did you mean search?";
        assert_eq!(error(&set), expected);
        assert_eq!(set.check(&[]), Ok(()));
        assert_eq!(thresholds("[call.\"fetch #3\"]\np99 = 1").check(&calls), Ok(()));
        let unlike = error(&thresholds("[call.x]\np99 = 1"));
        assert!(unlike.ends_with("the calls are search, fetch #2, fetch #3"), "{unlike}");
        let inner = error(&thresholds("[call.search]\nlast_delivery = 1"));
        assert!(inner.contains("move them to [thresholds]"), "{inner}");
        let errors = error(&thresholds("[call.search]\nerrors = 2.0"));
        assert!(errors.starts_with("thresholds.call.search.errors = 2"), "{errors}");
    }
}
