//! Pauses of users, as written in plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanError;
use super::human_duration::HumanDuration;
use crate::users::ThinkTime;

/// A pause: a time, or a distribution.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(
    untagged,
    expecting = "a time, or { uniform = [MIN, MAX] }, or { lognormal = [MEDIAN, P95] }"
)]
pub enum ThinkPlan {
    /// Always the same.
    Fixed(HumanDuration),
    /// Drawn from a distribution.
    Drawn(ThinkDistribution),
}

/// Distribution of a pause.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkDistribution {
    /// Evenly between the shortest and the longest.
    Uniform([HumanDuration; 2]),
    /// Log-normal, by its median and its 95th percentile.
    Lognormal([HumanDuration; 2]),
}

impl ThinkPlan {
    /// Returns the distribution.
    ///
    /// # Errors
    ///
    /// If its second time is shorter than the first, or the median is zero.
    pub(super) fn build(self) -> Result<ThinkTime, PlanError> {
        match self {
            Self::Fixed(time) => Ok(ThinkTime::Fixed(time.get())),
            Self::Drawn(ThinkDistribution::Uniform([min, max])) if min <= max => {
                Ok(ThinkTime::Uniform { min: min.get(), max: max.get() })
            }
            Self::Drawn(ThinkDistribution::Lognormal([median, p95]))
                if median <= p95 && !median.get().is_zero() =>
            {
                Ok(ThinkTime::Lognormal { median: median.get(), p95: p95.get() })
            }
            Self::Drawn(ThinkDistribution::Uniform([min, max])) => Err(PlanError(format!(
                "think: uniform = [\"{min}\", \"{max}\"]: the shortest time comes first"
            ))),
            Self::Drawn(ThinkDistribution::Lognormal([median, p95])) => Err(PlanError(format!(
                "think: lognormal = [\"{median}\", \"{p95}\"]: write a median above zero and a \
                 longer 95th percentile"
            ))),
        }
    }
}
