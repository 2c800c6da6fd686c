//! The `[sweep]` section of a plan: the search for the highest rate, and runs at fractions of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanError;
use super::human_duration::HumanDuration;

/// The `[sweep]` section. A search ignores the phases of a plan.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SweepPlan {
    /// Fractions of the highest rate to run at, each above 0 and at most 2. Default none. Above 1
    /// it is expected to fail.
    pub fractions: Vec<f64>,
    /// Runs at each fraction; every other round is in reverse order. Default 3.
    pub rounds: u32,
    /// Measured time of each run at a fraction, in addition to the warm-up. Default 10 s.
    pub duration: HumanDuration,
    /// Measured time of each run of the search, in addition to the warm-up. Default: 20 response
    /// times of one connection, 300 without a latency threshold, from 1 s to 10 s, and then a
    /// warm-up of 500 ms or 5 response times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_duration: Option<HumanDuration>,
    /// First rate of the search, in requests a second. Default: what one connection reaches with
    /// one request at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_first: Option<f64>,
    /// Lowest rate of the search. Default 1, or an eighth of the first rate if that is lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_min: Option<f64>,
    /// Highest rate of the search. Default 100,000,000.
    pub rate_max: f64,
    /// Relative resolution of the highest rate. Default 0.05 (5 %).
    pub resolution: f64,
    /// Runs that have to pass at the highest rate. Default 3.
    pub confirmations: u32,
    /// Maximum runs of the search, after which the best known rate is returned. Default 60.
    pub runs_max: u32,
}

impl Default for SweepPlan {
    fn default() -> Self {
        Self {
            fractions: Vec::new(),
            rounds: 3,
            duration: HumanDuration::from_secs(10),
            search_duration: None,
            rate_first: None,
            rate_min: None,
            rate_max: 1e8,
            resolution: 0.05,
            confirmations: 3,
            runs_max: 60,
        }
    }
}

impl SweepPlan {
    /// Checks the settings of the runs after the search.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the message names a valid value.
    pub fn check(&self) -> Result<(), PlanError> {
        let is_fraction = |fraction: &f64| *fraction > 0.0 && *fraction <= 2.0;
        if !self.fractions.iter().all(is_fraction) {
            return Err(PlanError(format!(
                "fractions = {:?}: write fractions of the highest rate, above 0 and at most 2, \
                 such as 0.25,0.5,0.75,0.9",
                self.fractions
            )));
        }
        if self.rounds == 0 {
            return Err(PlanError::new("rounds = 0: write 1 or more"));
        }
        let durations = [Some(self.duration), self.search_duration];
        if durations.into_iter().flatten().any(|duration| duration.get().is_zero()) {
            return Err(PlanError::new("duration = \"0s\": write a positive duration such as 10s"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_section_has_defaults() {
        let read: SweepPlan = toml::from_str("").unwrap();
        assert_eq!(read, SweepPlan::default());
        assert_eq!(read.check(), Ok(()));
    }

    #[test]
    fn invalid_sweep_plan_error_names_valid_value() {
        let wrong = |text: &str| {
            toml::from_str::<SweepPlan>(text).unwrap().check().unwrap_err().to_string()
        };
        assert!(wrong("fractions = [0.5, 2.5]").contains("at most 2, such as 0.25,0.5"));
        assert!(wrong("fractions = [nan]").contains("above 0"));
        assert!(wrong("rounds = 0").contains("1 or more"));
        assert!(wrong("duration = \"0s\"").contains("10s"));
    }
}
