//! Search for the highest sustained rate by runs that each pass or fail.
//!
//! ```text
//!   first ──▶ bracketing ──▶ bisecting ──▶ confirming ──▶ found
//!                │ the lowest rate fails        │ a confirmation fails:
//!                ▼                              └ one step down, confirm again
//!            too slow
//! ```
//!
//! Invariants: a rate that is found passed all its confirmations; the next higher rate that was
//! tried failed, unless the found rate is the highest allowed; the number of runs is limited.
//!
//! The search itself performs no runs: it returns the next rate and is given the outcome.

use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, RATE_MAX, SweepPlan};

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// First rate, in requests a second.
    pub rate_first: f64,
    /// Lowest rate.
    pub rate_min: f64,
    /// Highest rate.
    pub rate_max: f64,
    /// Relative resolution of the found rate, such as 0.02.
    pub resolution: f64,
    /// Consecutive runs that have to pass at the found rate.
    pub confirmations: u32,
    /// Maximum number of runs, after which the best known rate is returned.
    pub runs_max: u32,
}

impl Default for SearchOptions {
    /// Returns the defaults of a sweep: resolution 0.02, 3 confirmations, at most 40 runs, starting
    /// at 1,000 requests a second.
    fn default() -> Self {
        Self::from(&SweepPlan::default())
    }
}

impl From<&SweepPlan> for SearchOptions {
    fn from(plan: &SweepPlan) -> Self {
        let &SweepPlan { rate_first, rate_min, rate_max, resolution, .. } = plan;
        let &SweepPlan { confirmations, runs_max, .. } = plan;
        Self { rate_first, rate_min, rate_max, resolution, confirmations, runs_max }
    }
}

impl SearchOptions {
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
                "resolution = {resolution}: write a ratio, such as 0.02"
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
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SearchOutcome {
    /// This rate passed all confirmations.
    Found {
        /// Requests a second.
        rate: f64,
        /// Number of consecutive passed runs at this rate.
        passes: u32,
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

    /// Returns a lower bound of the probability that another run at the found rate passes: the
    /// lower end of the one-sided exact 95 % interval (Clopper and Pearson, 1934), which for `n`
    /// passes of `n` is the `n`-th root of 0.05. Three passes give 0.37, ten give 0.74.
    pub fn pass_probability_min(&self) -> f64 {
        match *self {
            Self::Found { passes, .. } if passes > 0 => 0.05_f64.powf(1.0 / f64::from(passes)),
            _ => 0.0,
        }
    }
}

/// The state of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchState {
    /// Looks for one rate that passes and one that fails.
    Bracketing,
    /// Halves the gap between the two.
    Bisecting,
    /// The rate passed this often in a row, and the next higher one failed.
    Confirming { passes: u32 },
    /// No further run is needed.
    Done(SearchOutcome),
}

/// A search in progress.
#[derive(Clone, Debug)]
pub struct Search {
    options: SearchOptions,
    state: SearchState,
    /// Highest rate known to pass.
    passed: Option<f64>,
    /// Lowest rate known to fail.
    failed: Option<f64>,
    /// Rate of the next run.
    rate: f64,
    runs: u32,
}

impl Search {
    /// Returns a search without runs.
    pub fn new(options: SearchOptions) -> Self {
        let rate = options.rate_first.min(options.rate_max).max(options.rate_min);
        Self { options, state: SearchState::Bracketing, passed: None, failed: None, rate, runs: 0 }
    }

    /// Returns the rate of the next run, in requests a second, or `None` when the search is over.
    pub const fn next_rate(&self) -> Option<f64> {
        match self.state {
            SearchState::Done(_) => None,
            _ => Some(self.rate),
        }
    }

    /// Returns the outcome, once the search is over.
    pub const fn outcome(&self) -> Option<SearchOutcome> {
        match self.state {
            SearchState::Done(answer) => Some(answer),
            _ => None,
        }
    }

    /// Returns the number of recorded runs.
    pub const fn runs(&self) -> u32 {
        self.runs
    }

    /// Records whether the run at [`Search::next_rate`] passed.
    pub fn record_run(&mut self, has_passed: bool) {
        self.runs += 1;
        self.state = match self.state {
            SearchState::Done(_) => return,
            SearchState::Confirming { passes } => self.confirm(passes, has_passed),
            SearchState::Bracketing | SearchState::Bisecting => self.narrow(has_passed),
        };
        if !matches!(self.state, SearchState::Done(_)) && self.runs >= self.options.runs_max {
            self.state = SearchState::Done(self.unconfirmed_outcome());
        }
    }

    /// Handles a run while bracketing or bisecting.
    fn narrow(&mut self, has_passed: bool) -> SearchState {
        let SearchOptions { rate_min, rate_max, resolution, .. } = self.options;
        let end = if has_passed { &mut self.passed } else { &mut self.failed };
        *end = Some(self.rate);
        match (self.passed, self.failed) {
            (Some(passed), Some(failed)) if failed > passed * (1.0 + resolution) => {
                // Geometric mean: the middle of 1,000 and 100,000 is 10,000.
                self.rate = (passed * failed).sqrt();
                SearchState::Bisecting
            }
            (Some(passed), None) if passed < rate_max => {
                self.rate = (passed * 2.0).min(rate_max);
                SearchState::Bracketing
            }
            (None, Some(failed)) if failed > rate_min => {
                self.rate = (failed / 2.0).max(rate_min);
                SearchState::Bracketing
            }
            (Some(passed), _) => {
                self.rate = passed;
                // The run that found this rate is its first confirmation.
                self.confirm(0, true)
            }
            (None, _) => SearchState::Done(SearchOutcome::TooSlow),
        }
    }

    /// Handles a confirming run.
    fn confirm(&mut self, passes: u32, has_passed: bool) -> SearchState {
        let SearchOptions { rate_min, rate_max, resolution, confirmations, .. } = self.options;
        if has_passed {
            self.passed = Some(self.rate);
            let passes = passes + 1;
            if passes < confirmations {
                return SearchState::Confirming { passes };
            }
            let is_ceiling = self.rate >= rate_max;
            return SearchState::Done(SearchOutcome::Found { rate: self.rate, passes, is_ceiling });
        }
        (self.passed, self.failed) = (None, Some(self.rate));
        if self.rate <= rate_min {
            return SearchState::Done(SearchOutcome::TooSlow);
        }
        self.rate = (self.rate / (1.0 + resolution)).max(rate_min);
        SearchState::Confirming { passes: 0 }
    }

    /// Returns the outcome when the maximum number of runs is reached.
    fn unconfirmed_outcome(&self) -> SearchOutcome {
        match (self.passed, self.state) {
            (Some(rate), SearchState::Confirming { passes }) => {
                SearchOutcome::Unconfirmed { rate, passes }
            }
            (Some(rate), _) => SearchOutcome::Unconfirmed { rate, passes: 1 },
            (None, _) => SearchOutcome::TooSlow,
        }
    }
}

#[cfg(test)]
mod tests {
    use corelane::base::random::Random;

    use super::*;

    /// Searches a server for which `passes_at` decides whether a rate passes.
    fn search(
        bounds: SearchOptions,
        mut passes_at: impl FnMut(f64) -> bool,
    ) -> (SearchOutcome, Vec<f64>) {
        let mut search = Search::new(bounds);
        let mut rates = Vec::new();
        while let Some(rate) = search.next_rate() {
            rates.push(rate);
            search.record_run(passes_at(rate));
        }
        (search.outcome().unwrap(), rates)
    }

    fn bounds() -> SearchOptions {
        SearchOptions { rate_min: 10.0, rate_max: 1e6, ..SearchOptions::default() }
    }

    #[test]
    fn search_finds_capacity_within_resolution() {
        for capacity in [11.0, 370.0, 1_000.0, 43_210.0, 999_000.0] {
            let (answer, rates) = search(bounds(), |rate| rate <= capacity);
            let SearchOutcome::Found { rate, passes, is_ceiling } = answer else {
                panic!("{capacity}: {answer:?}")
            };
            assert!(rate <= capacity && rate * 1.02 >= capacity, "{capacity}: {rate}");
            assert_eq!((passes, is_ceiling), (3, false));
            assert!(rates.len() <= 25, "{capacity}: {rates:?}");
        }
    }

    #[test]
    fn search_reports_ceiling_at_highest_rate() {
        let (answer, rates) = search(bounds(), |_| true);
        assert_eq!(answer, SearchOutcome::Found { rate: 1e6, passes: 3, is_ceiling: true });
        assert!(rates.iter().all(|rate| *rate <= 1e6));
    }

    #[test]
    fn search_reports_too_slow_when_all_fail() {
        let (answer, rates) = search(bounds(), |_| false);
        assert_eq!(answer, SearchOutcome::TooSlow);
        assert_eq!(rates.last(), Some(&10.0));
    }

    #[test]
    fn lucky_pass_is_revoked_by_confirmation() {
        let mut runs = 0;
        let (answer, rates) = search(bounds(), |rate| {
            runs += 1;
            // The first run passes by luck; the capacity is 900.
            runs == 1 || rate <= 900.0
        });
        let SearchOutcome::Found { rate, .. } = answer else {
            panic!("{answer:?} after {rates:?}")
        };
        assert!(rate <= 900.0 && rate * 1.02 * 1.02 >= 900.0, "{rate} after {rates:?}");
    }

    #[test]
    fn search_runs_are_limited_for_random_outcomes() {
        let mut random = Random::seeded(11);
        for _ in 0..1_000 {
            let (answer, rates) = search(bounds(), |_| random.chance(1, 2));
            assert!(rates.len() <= 40);
            if let SearchOutcome::Found { passes, .. } = answer {
                assert!(passes >= 3);
            }
        }
    }

    #[test]
    fn search_at_runs_max_returns_unconfirmed_rate() {
        let bounds = SearchOptions { runs_max: 5, ..bounds() };
        let (answer, _) = search(bounds, |rate| rate <= 9_000.0);
        assert_eq!(answer, SearchOutcome::Unconfirmed { rate: 8_000.0, passes: 1 });
    }

    #[test]
    fn invalid_search_options_error_names_valid_value() {
        assert_eq!(SearchOptions::default().check(), Ok(()));
        let wrong = |bounds: SearchOptions| bounds.check().unwrap_err().to_string();
        assert!(wrong(SearchOptions { rate_min: 0.0, ..bounds() }).contains("above 0"));
        assert!(wrong(SearchOptions { rate_min: 2e6, ..bounds() }).contains("lowest first"));
        assert!(wrong(SearchOptions { rate_first: f64::NAN, ..bounds() }).contains("above 0"));
        assert!(wrong(SearchOptions { resolution: 0.0, ..bounds() }).contains("0.02"));
        assert!(wrong(SearchOptions { confirmations: 0, ..bounds() }).contains("at least one"));
        assert!(wrong(SearchOptions { runs_max: 2, ..bounds() }).contains("a run for each"));
    }

    #[test]
    fn more_passes_raise_confidence() {
        let found = |passes| SearchOutcome::Found { rate: 1.0, passes, is_ceiling: false };
        let probability = |passes| found(passes).pass_probability_min();
        assert!((probability(3) - 0.368).abs() < 0.001);
        assert!((probability(10) - 0.741).abs() < 0.001);
        assert!(SearchOutcome::TooSlow.pass_probability_min() < f64::EPSILON);
    }
}
