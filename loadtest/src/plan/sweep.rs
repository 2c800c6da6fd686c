//! What a sweep does: how it looks for the highest rate, and at which parts of it it then runs.

use serde::{Deserialize, Serialize};

use super::Wrong;
use super::span::Span;

/// The section `[sweep]` of a plan. The phases of a plan are left out in a sweep.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SweepPlan {
    /// The parts of the highest rate, each above 0 and at most 1. Default 0.25, 0.5, 0.75, 0.9.
    pub parts: Vec<f64>,
    /// How often each part is run; every other round goes through them backwards. Default 3.
    pub rounds: u32,
    /// How long each of these runs is measured; the warm-up comes on top. Default 10 s.
    pub span: Span,
    /// How long each run of the search is measured; the warm-up comes on top. Default 3 s.
    pub search_span: Span,
    /// The rate that is tried first, in requests a second. Default 1,000.
    pub rate_first: f64,
    /// The lowest rate worth knowing about. Default 1.
    pub rate_min: f64,
    /// The highest rate that is tried. Default 100,000,000.
    pub rate_max: f64,
    /// How close to the truth the highest rate has to be. Default 0.02: two parts in a hundred.
    pub resolution: f64,
    /// How many runs in a row have to pass at the highest rate. Default 3.
    pub confirmations: u32,
    /// Runs of the search altogether, after which the best that is known is taken. Default 40.
    pub runs_max: u32,
}

impl Default for SweepPlan {
    fn default() -> Self {
        Self {
            parts: vec![0.25, 0.5, 0.75, 0.9],
            rounds: 3,
            span: Span::seconds(10),
            search_span: Span::seconds(3),
            rate_first: 1_000.0,
            rate_min: 1.0,
            rate_max: 1e8,
            resolution: 0.02,
            confirmations: 3,
            runs_max: 40,
        }
    }
}

impl SweepPlan {
    /// Whether the runs behind the search make sense; what the search itself needs is its own to
    /// check.
    ///
    /// # Errors
    ///
    /// Where they do not: with what to write instead.
    pub fn check(&self) -> Result<(), Wrong> {
        let is_part = |part: &f64| *part > 0.0 && *part <= 1.0;
        if self.parts.is_empty() || !self.parts.iter().all(is_part) {
            return Err(Wrong(format!(
                "parts = {:?}: write parts of the highest rate, above 0 and at most 1, such as \
                 0.25,0.5,0.75,0.9",
                self.parts
            )));
        }
        if self.rounds == 0 {
            return Err(Wrong::new("rounds = 0: no part would be run; write 1 or more"));
        }
        if self.span.duration().is_zero() || self.search_span.duration().is_zero() {
            return Err(Wrong::new("a run without time: write a span such as 10s"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_without_a_word_has_the_defaults() {
        let read: SweepPlan = toml::from_str("").unwrap();
        assert_eq!(read, SweepPlan::default());
        assert_eq!(read.check(), Ok(()));
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_line() {
        let wrong = |text: &str| {
            toml::from_str::<SweepPlan>(text).unwrap().check().unwrap_err().to_string()
        };
        assert!(wrong("parts = []").contains("0.25,0.5"));
        assert!(wrong("parts = [0.5, 1.5]").contains("at most 1"));
        assert!(wrong("parts = [nan]").contains("above 0"));
        assert!(wrong("rounds = 0").contains("1 or more"));
        assert!(wrong("span = \"0s\"").contains("10s"));
    }
}
