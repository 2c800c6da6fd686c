//! Search for the highest sustained rate by runs that each pass or fail.
//!
//! ```text
//!   first ──▶ doubling ──▶ bisecting ──▶ confirming ──▶ re-testing ──▶ found
//!                │ the lowest rate fails      │ it fails      │ the rate above passes
//!                ▼                            └─▶ bisecting   └─▶ bisecting, above
//!            too slow
//! ```
//!
//! A disturbance of the machine lets a run fail that would pass, never the reverse. So a pass
//! counts at once, while a rate has failed only after three failures more than its passes explain.
//! The first failed rate has to fail four times, the lowest one at the end six times.
//!
//! Invariants: a rate that is found passed its confirmations; the lowest failed rate above it
//! failed six times or more, unless the found rate is the highest allowed; the number of runs is
//! limited; the next rate depends only on the outcomes so far.
//!
//! The search itself performs no runs: it returns the next rate and is given the outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, RATE_MAX, SweepPlan};

/// Failures after which a rate without passes has failed; each pass raises it by as many.
const FAILURES_MIN: u32 = 3;
/// Failures of the first failed rate.
const FAILURES_FIRST: u32 = 4;
/// Failures of the lowest failed rate that end a search.
const FAILURES_FINAL: u32 = 6;
/// Part of the resolution between the found and the lowest failed rate; the rest is for the error
/// of a run.
const BRACKET: f64 = 0.3;
/// Default lowest rate as a part of the first rate, where that is below 1.
const RATE_MIN_PART: f64 = 0.125;

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// First rate, in requests a second.
    pub rate_first: f64,
    /// Lowest rate.
    pub rate_min: f64,
    /// Highest rate.
    pub rate_max: f64,
    /// Relative resolution of the found rate, such as 0.05.
    pub resolution: f64,
    /// Runs that have to pass at the found rate.
    pub confirmations: u32,
    /// Maximum number of runs, after which the best known rate is returned.
    pub runs_max: u32,
}

impl Default for SearchOptions {
    /// Returns the defaults of a sweep whose connections answer one request a second.
    fn default() -> Self {
        Self::new(&SweepPlan::default(), 1.0)
    }
}

impl SearchOptions {
    /// Returns the settings of a plan. `scale` is the rate of one connection in a closed loop; the
    /// search starts there if the plan names no first rate.
    pub fn new(plan: &SweepPlan, scale: f64) -> Self {
        let &SweepPlan { rate_max, resolution, confirmations, runs_max, .. } = plan;
        let rate_first = plan.rate_first.unwrap_or(scale);
        let rate_min = plan.rate_min.unwrap_or_else(|| (rate_first * RATE_MIN_PART).min(1.0));
        Self { rate_first, rate_min, rate_max, resolution, confirmations, runs_max }
    }

    /// Validates the settings.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the message names valid values.
    pub fn check(&self) -> Result<(), PlanError> {
        let Self { rate_first, rate_min, rate_max, resolution, confirmations, runs_max } = *self;
        let is_rate = |rate: f64| rate > 0.0 && rate <= RATE_MAX;
        if ![rate_first, rate_min, rate_max].into_iter().all(is_rate) || rate_min > rate_max {
            return Err(PlanError(format!(
                "rates from {rate_min} to {rate_max}, first {rate_first}: write rates above 0 and \
                 at most {RATE_MAX} a second, lowest first"
            )));
        }
        if !(resolution > 0.0 && resolution.is_finite()) {
            return Err(PlanError(format!(
                "resolution = {resolution}: write a ratio, such as 0.05"
            )));
        }
        if confirmations == 0 || runs_max < confirmations {
            return Err(PlanError(format!(
                "{confirmations} confirmations in at most {runs_max} runs: write at least one \
                 confirmation, and a run for each"
            )));
        }
        Ok(())
    }
}

/// The outcome of a search.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SearchOutcome {
    /// This rate passed all confirmations.
    Found {
        /// Requests a second.
        rate: f64,
        /// Number of passed runs at this rate.
        passes: u32,
        /// Number of other runs at this rate.
        #[serde(default)]
        failures: u32,
        /// Whether the rate is the highest allowed, so that the capacity may be higher.
        is_ceiling: bool,
    },
    /// The maximum number of runs was reached; this rate passed, but not all confirmations.
    Unconfirmed {
        /// Requests a second.
        rate: f64,
        /// Number of passed runs at this rate.
        passes: u32,
    },
    /// The lowest rate failed.
    TooSlow,
}

impl SearchOutcome {
    /// Returns the found rate, confirmed or not, or `None` if no rate passed.
    pub const fn rate(&self) -> Option<f64> {
        match *self {
            Self::Found { rate, .. } | Self::Unconfirmed { rate, .. } => Some(rate),
            Self::TooSlow => None,
        }
    }
}

/// The runs at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RateRecord {
    rate: f64,
    passes: u32,
    failures: u32,
}

impl RateRecord {
    /// Returns whether the failures are too many for disturbances.
    const fn has_failed(&self) -> bool {
        self.failures >= FAILURES_MIN * (self.passes + 1)
    }

    /// Returns whether a run passed, and failures do not outweigh it.
    const fn has_passed(&self) -> bool {
        self.passes > 0 && !self.has_failed()
    }
}

/// What a search does next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchStep {
    /// A run at this rate.
    Run(f64),
    /// No further run is needed.
    Done(SearchOutcome),
}

/// A search in progress.
#[derive(Clone, Debug)]
pub struct Search {
    options: SearchOptions,
    /// The tried rates, in ascending order.
    records: Vec<RateRecord>,
    step: SearchStep,
    runs: u32,
}

impl Search {
    /// Returns a search without runs.
    pub fn new(options: SearchOptions) -> Self {
        let rate = options.rate_first.min(options.rate_max).max(options.rate_min);
        Self { options, records: Vec::new(), step: SearchStep::Run(rate), runs: 0 }
    }

    /// Returns the rate of the next run, in requests a second, or `None` when the search is over.
    pub const fn next_rate(&self) -> Option<f64> {
        match self.step {
            SearchStep::Run(rate) => Some(rate),
            SearchStep::Done(_) => None,
        }
    }

    /// Returns the outcome, once the search is over.
    pub const fn outcome(&self) -> Option<SearchOutcome> {
        match self.step {
            SearchStep::Run(_) => None,
            SearchStep::Done(outcome) => Some(outcome),
        }
    }

    /// Returns the number of recorded runs.
    pub const fn runs(&self) -> u32 {
        self.runs
    }

    /// Records whether the run at [`Search::next_rate`] passed.
    pub fn record_run(&mut self, has_passed: bool) {
        let SearchStep::Run(rate) = self.step else { return };
        self.runs += 1;
        let found = self.records.binary_search_by(|record| record.rate.total_cmp(&rate));
        let place = found.unwrap_or_else(|place| {
            self.records.insert(place, RateRecord { rate, passes: 0, failures: 0 });
            place
        });
        let record = &mut self.records[place];
        *(if has_passed { &mut record.passes } else { &mut record.failures }) += 1;
        self.step = match self.next_step(rate) {
            SearchStep::Run(_) if self.runs >= self.options.runs_max => {
                SearchStep::Done(self.unconfirmed_outcome())
            }
            step => step,
        };
    }

    /// Returns whether the rate of a record failed. The first failed rate bounds all that follow,
    /// so it has to fail once more.
    fn has_failed(&self, record: &RateRecord) -> bool {
        let is_bounded = self
            .records
            .iter()
            .any(|other| other.rate > record.rate && other.failures >= FAILURES_FIRST);
        record.has_failed() && (is_bounded || record.failures >= FAILURES_FIRST)
    }

    /// Ends the search with the best known rate.
    pub fn stop(&mut self) {
        if self.next_rate().is_some() {
            self.step = SearchStep::Done(self.unconfirmed_outcome());
        }
    }

    /// Returns the lowest failed rate.
    fn lowest_failed(&self) -> Option<&RateRecord> {
        self.records.iter().find(|record| self.has_failed(record))
    }

    /// Returns the highest passed rate below all failed ones.
    fn highest_passed(&self) -> Option<&RateRecord> {
        let below = self.records.iter().take_while(|record| !self.has_failed(record));
        below.filter(|record| record.has_passed()).last()
    }

    /// Returns what follows the runs so far, the last of them at `last`.
    fn next_step(&self, last: f64) -> SearchStep {
        let SearchOptions { rate_min, rate_max, resolution, .. } = self.options;
        let (passed, failed) = (self.highest_passed(), self.lowest_failed());
        let is_open = |record: &RateRecord| record.passes == 0 && !self.has_failed(record);
        if self.records.iter().any(is_open) {
            // Only the last rate can be undecided.
            return SearchStep::Run(last);
        }
        match (passed, failed) {
            (Some(passed), Some(failed))
                if failed.rate > passed.rate * resolution.mul_add(BRACKET, 1.0) =>
            {
                // Geometric mean: the middle of 1,000 and 100,000 is 10,000.
                SearchStep::Run((passed.rate * failed.rate).sqrt())
            }
            (Some(passed), None) if passed.rate < rate_max => {
                SearchStep::Run((passed.rate * 2.0).min(rate_max))
            }
            (Some(passed), failed) => self.confirm(passed, failed),
            (None, Some(failed)) if failed.rate > rate_min => {
                SearchStep::Run((failed.rate / 2.0).max(rate_min))
            }
            (None, _) => SearchStep::Done(SearchOutcome::TooSlow),
        }
    }

    /// Returns the next run at the highest passed rate or, if that is confirmed, at the lowest
    /// failed one.
    fn confirm(&self, passed: &RateRecord, failed: Option<&RateRecord>) -> SearchStep {
        let RateRecord { rate, passes, failures } = *passed;
        if passes < self.options.confirmations {
            return SearchStep::Run(rate);
        }
        match failed {
            Some(failed) if failed.failures < FAILURES_FINAL => SearchStep::Run(failed.rate),
            _ => {
                let is_ceiling = rate >= self.options.rate_max;
                SearchStep::Done(SearchOutcome::Found { rate, passes, failures, is_ceiling })
            }
        }
    }

    /// Returns the outcome when the maximum number of runs is reached.
    fn unconfirmed_outcome(&self) -> SearchOutcome {
        self.highest_passed()
            .map_or(SearchOutcome::TooSlow, |&RateRecord { rate, passes, .. }| {
                SearchOutcome::Unconfirmed { rate, passes }
            })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
