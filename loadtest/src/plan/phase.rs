//! The `[[phase]]` section of a plan: a rate, constant or changing, for some time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;
use crate::schedule::{RateProfile, Segment};

/// A phase of a run.
///
/// With `rate` alone the rate is constant; with `to_rate` it changes linearly, or in `steps`. A
/// spike is written as three phases.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PhasePlan {
    /// Requests a second at the beginning of the phase; ignored with users and in a closed loop.
    #[serde(default = "missing_rate")]
    #[schemars(!default)]
    pub rate: f64,
    /// Requests a second at its end. Default `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_rate: Option<f64>,
    /// Number of equal steps in which the rate changes. Default: linearly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// How long the phase lasts.
    pub duration: HumanDuration,
}

/// Stands for a rate that is not written.
const fn missing_rate() -> f64 {
    f64::NAN
}

impl PhasePlan {
    /// Sets a rate that is not written to zero.
    pub(super) const fn default_rate(&mut self) {
        if self.rate.is_nan() {
            self.rate = 0.0;
        }
    }

    /// Returns a phase with a constant rate.
    pub const fn constant(rate: f64, duration: HumanDuration) -> Self {
        Self { rate, to_rate: None, steps: None, duration }
    }

    /// Returns the segments of the arrival schedule.
    pub fn segments(&self) -> Vec<Segment> {
        let Self { rate, to_rate, steps, duration: span } = *self;
        let to_rate = to_rate.unwrap_or(rate);
        let profile = match steps {
            Some(steps) => RateProfile::steps(rate, to_rate, steps, span.get()),
            None => RateProfile::ramp(rate, to_rate, span.get()),
        };
        profile.segments().to_vec()
    }
}
