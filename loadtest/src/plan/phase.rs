//! A part of a run with a rate of its own, or with a change of rate.

use serde::{Deserialize, Serialize};

use super::span::Span;
use crate::schedule::{Profile, Segment};

/// A part of a run.
///
/// With `rate` alone the rate is constant; with `to_rate` it changes evenly, or by `steps`. A spike
/// is three phases.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PhasePlan {
    /// Requests a second at its beginning.
    pub rate: f64,
    /// Requests a second at its end, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_rate: Option<f64>,
    /// In how many steps the rate changes; evenly without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// How long it lasts.
    pub span: Span,
}

impl PhasePlan {
    /// A phase of one rate.
    pub const fn constant(rate: f64, span: Span) -> Self {
        Self { rate, to_rate: None, steps: None, span }
    }

    /// Its segments.
    pub fn segments(&self) -> Vec<Segment> {
        let Self { rate, to_rate, steps, span } = *self;
        let to_rate = to_rate.unwrap_or(rate);
        let profile = match steps {
            Some(steps) => Profile::steps(rate, to_rate, steps, span.duration()),
            None => Profile::ramp(rate, to_rate, span.duration()),
        };
        profile.segments().to_vec()
    }
}
