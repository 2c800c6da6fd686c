//! The highest rate that a server bears: looked for by runs, each of which passes or fails.
//!
//! ```text
//!   first ──▶ bracketing ──▶ halving ──▶ confirming ──▶ found
//!                │ even the lowest fails        │ a confirmation fails:
//!                ▼                              └ one step down, confirmed anew
//!            too slow
//! ```
//!
//! What it keeps true: a rate that is found passed every one of its confirmations; the next higher
//! one that was tried failed, unless it was the highest that was allowed; the number of runs is
//! bounded.
//!
//! What it does not do: run. It says at which rate to run next and is told how that went, so its
//! tests need no server.

use serde::{Deserialize, Serialize};

use crate::plan::{RATE_MAX, SweepPlan, Wrong};

/// What to look for, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The rate that is tried first, in requests a second.
    pub rate_first: f64,
    /// The lowest rate worth knowing about.
    pub rate_min: f64,
    /// The highest rate that is tried.
    pub rate_max: f64,
    /// How close to the truth the answer has to be: 0.02 is two parts in a hundred.
    pub resolution: f64,
    /// How many runs in a row have to pass at the answer.
    pub confirmations: u32,
    /// Runs altogether, after which the best that is known is the answer.
    pub runs_max: u32,
}

impl Default for Bounds {
    /// Those of a sweep of which nothing is said: two parts in a hundred, three confirmations, at
    /// most forty runs, from 1,000 a second.
    fn default() -> Self {
        Self::from(&SweepPlan::default())
    }
}

impl From<&SweepPlan> for Bounds {
    fn from(plan: &SweepPlan) -> Self {
        let &SweepPlan { rate_first, rate_min, rate_max, resolution, .. } = plan;
        let &SweepPlan { confirmations, runs_max, .. } = plan;
        Self { rate_first, rate_min, rate_max, resolution, confirmations, runs_max }
    }
}

impl Bounds {
    /// Whether a search within them makes sense.
    ///
    /// # Errors
    ///
    /// Where it does not: with what to write instead.
    pub fn check(&self) -> Result<(), Wrong> {
        let Self { rate_first, rate_min, rate_max, resolution, confirmations, runs_max } = *self;
        let is_rate = |rate: f64| rate > 0.0 && rate <= RATE_MAX;
        if ![rate_first, rate_min, rate_max].into_iter().all(is_rate) || rate_min > rate_max {
            return Err(Wrong(format!(
                "rates from {rate_min} to {rate_max}, first {rate_first}: write rates above 0, at \
                 most {RATE_MAX} a second, the lowest first"
            )));
        }
        if !(resolution > 0.0 && resolution.is_finite()) {
            return Err(Wrong(format!("resolution = {resolution}: write a part, such as 0.02")));
        }
        if confirmations == 0 || runs_max < confirmations {
            return Err(Wrong(format!(
                "{confirmations} confirmations in at most {runs_max} runs: at least one is needed, \
                 and a run for each"
            )));
        }
        Ok(())
    }
}

/// What came of a search.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Answer {
    /// This rate passed every confirmation.
    Found {
        /// Requests a second.
        rate: f64,
        /// How many runs at this rate passed, one after the other.
        passes: u32,
        /// Whether the highest rate that was allowed passed: the server may bear more.
        is_ceiling: bool,
    },
    /// The runs ran out; this rate passed once, but not every confirmation.
    Unconfirmed {
        /// Requests a second.
        rate: f64,
        /// How many runs at this rate passed.
        passes: u32,
    },
    /// Not even the lowest rate passed.
    TooSlow,
}

impl Answer {
    /// The rate that is the answer, confirmed or not; none where no rate passed.
    pub const fn rate(&self) -> Option<f64> {
        match *self {
            Self::Found { rate, .. } | Self::Unconfirmed { rate, .. } => Some(rate),
            Self::TooSlow => None,
        }
    }

    /// How probable it is, at least, that another run at the answer would pass: the lower end of
    /// the one-sided exact interval of 95 % (Clopper and Pearson, 1934), which for `n` passes of
    /// `n` is the `n`-th root of 0.05. Three passes say 0.37, ten say 0.74.
    pub fn pass_probability_min(&self) -> f64 {
        match *self {
            Self::Found { passes, .. } if passes > 0 => 0.05_f64.powf(1.0 / f64::from(passes)),
            _ => 0.0,
        }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Between a rate that passes and one that fails is yet to be got.
    Bracketing,
    /// The gap between the two is being halved.
    Halving,
    /// The rate has passed this often in a row, and what is above it fails.
    Confirming { passes: u32 },
    /// Nothing more is to be run.
    Over(Answer),
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    stage: Stage,
    /// The highest rate that is known to pass.
    passed: Option<f64>,
    /// The lowest rate that is known to fail.
    failed: Option<f64>,
    /// The rate of the next run.
    rate: f64,
    runs: u32,
}

impl Search {
    /// A search that has not begun.
    pub fn new(bounds: Bounds) -> Self {
        let rate = bounds.rate_first.min(bounds.rate_max).max(bounds.rate_min);
        Self { bounds, stage: Stage::Bracketing, passed: None, failed: None, rate, runs: 0 }
    }

    /// The rate to run at next, in requests a second; none once there is an answer.
    pub const fn next_rate(&self) -> Option<f64> {
        match self.stage {
            Stage::Over(_) => None,
            _ => Some(self.rate),
        }
    }

    /// The answer, once there is one.
    pub const fn answer(&self) -> Option<Answer> {
        match self.stage {
            Stage::Over(answer) => Some(answer),
            _ => None,
        }
    }

    /// Runs that were told.
    pub const fn runs(&self) -> u32 {
        self.runs
    }

    /// Tells how the run at [`Search::next_rate`] went.
    pub fn tell(&mut self, has_passed: bool) {
        self.runs += 1;
        self.stage = match self.stage {
            Stage::Over(_) => return,
            Stage::Confirming { passes } => self.confirm(passes, has_passed),
            Stage::Bracketing | Stage::Halving => self.narrow(has_passed),
        };
        if !matches!(self.stage, Stage::Over(_)) && self.runs >= self.bounds.runs_max {
            self.stage = Stage::Over(self.give_up());
        }
    }

    /// A run below, above or between what is known.
    fn narrow(&mut self, has_passed: bool) -> Stage {
        let Bounds { rate_min, rate_max, resolution, .. } = self.bounds;
        let end = if has_passed { &mut self.passed } else { &mut self.failed };
        *end = Some(self.rate);
        match (self.passed, self.failed) {
            (Some(passed), Some(failed)) if failed > passed * (1.0 + resolution) => {
                // Halved as a ratio: between 1,000 and 100,000 the middle is 10,000.
                self.rate = (passed * failed).sqrt();
                Stage::Halving
            }
            (Some(passed), None) if passed < rate_max => {
                self.rate = (passed * 2.0).min(rate_max);
                Stage::Bracketing
            }
            (None, Some(failed)) if failed > rate_min => {
                self.rate = (failed / 2.0).max(rate_min);
                Stage::Bracketing
            }
            (Some(passed), _) => {
                self.rate = passed;
                // The run that found this rate is the first of those that confirm it.
                self.confirm(0, true)
            }
            (None, _) => Stage::Over(Answer::TooSlow),
        }
    }

    /// A run at the rate that is to be the answer.
    fn confirm(&mut self, passes: u32, has_passed: bool) -> Stage {
        let Bounds { rate_min, rate_max, resolution, confirmations, .. } = self.bounds;
        if has_passed {
            self.passed = Some(self.rate);
            let passes = passes + 1;
            if passes < confirmations {
                return Stage::Confirming { passes };
            }
            let is_ceiling = self.rate >= rate_max;
            return Stage::Over(Answer::Found { rate: self.rate, passes, is_ceiling });
        }
        (self.passed, self.failed) = (None, Some(self.rate));
        if self.rate <= rate_min {
            return Stage::Over(Answer::TooSlow);
        }
        self.rate = (self.rate / (1.0 + resolution)).max(rate_min);
        Stage::Confirming { passes: 0 }
    }

    /// The runs are used up.
    fn give_up(&self) -> Answer {
        match (self.passed, self.stage) {
            (Some(rate), Stage::Confirming { passes }) => Answer::Unconfirmed { rate, passes },
            (Some(rate), _) => Answer::Unconfirmed { rate, passes: 1 },
            (None, _) => Answer::TooSlow,
        }
    }
}

#[cfg(test)]
mod tests {
    use corelane::base::random::Random;

    use super::*;

    /// Searches a server that passes where `bears` says so; the answer and the rates that were run.
    fn search(bounds: Bounds, mut bears: impl FnMut(f64) -> bool) -> (Answer, Vec<f64>) {
        let mut search = Search::new(bounds);
        let mut rates = Vec::new();
        while let Some(rate) = search.next_rate() {
            rates.push(rate);
            search.tell(bears(rate));
        }
        (search.answer().unwrap(), rates)
    }

    fn bounds() -> Bounds {
        Bounds { rate_min: 10.0, rate_max: 1e6, ..Bounds::default() }
    }

    #[test]
    fn the_truth_is_found_within_the_resolution_from_below() {
        for truth in [11.0, 370.0, 1_000.0, 43_210.0, 999_000.0] {
            let (answer, rates) = search(bounds(), |rate| rate <= truth);
            let Answer::Found { rate, passes, is_ceiling } = answer else {
                panic!("{truth}: {answer:?}")
            };
            assert!(rate <= truth && rate * 1.02 >= truth, "{truth}: {rate}");
            assert_eq!((passes, is_ceiling), (3, false));
            assert!(rates.len() <= 25, "{truth}: {rates:?}");
        }
    }

    #[test]
    fn a_server_that_bears_all_that_is_allowed_says_so() {
        let (answer, rates) = search(bounds(), |_| true);
        assert_eq!(answer, Answer::Found { rate: 1e6, passes: 3, is_ceiling: true });
        assert!(rates.iter().all(|rate| *rate <= 1e6));
    }

    #[test]
    fn a_server_that_bears_nothing_is_too_slow() {
        let (answer, rates) = search(bounds(), |_| false);
        assert_eq!(answer, Answer::TooSlow);
        assert_eq!(rates.last(), Some(&10.0));
    }

    #[test]
    fn a_pass_by_chance_is_taken_back_by_its_confirmation() {
        let mut runs = 0;
        let (answer, rates) = search(bounds(), |rate| {
            runs += 1;
            // The first run is lucky; the truth is 900.
            runs == 1 || rate <= 900.0
        });
        let Answer::Found { rate, .. } = answer else { panic!("{answer:?} after {rates:?}") };
        assert!(rate <= 900.0 && rate * 1.02 * 1.02 >= 900.0, "{rate} after {rates:?}");
    }

    #[test]
    fn the_runs_are_bounded_however_the_server_behaves() {
        let mut random = Random::seeded(11);
        for _ in 0..1_000 {
            let (answer, rates) = search(bounds(), |_| random.chance(1, 2));
            assert!(rates.len() <= 40);
            if let Answer::Found { passes, .. } = answer {
                assert!(passes >= 3);
            }
        }
    }

    #[test]
    fn a_search_cut_short_answers_with_what_it_knows() {
        let bounds = Bounds { runs_max: 5, ..bounds() };
        let (answer, _) = search(bounds, |rate| rate <= 9_000.0);
        assert_eq!(answer, Answer::Unconfirmed { rate: 8_000.0, passes: 1 });
    }

    #[test]
    fn bounds_that_make_no_sense_are_told_in_a_line() {
        assert_eq!(Bounds::default().check(), Ok(()));
        let wrong = |bounds: Bounds| bounds.check().unwrap_err().to_string();
        assert!(wrong(Bounds { rate_min: 0.0, ..bounds() }).contains("above 0"));
        assert!(wrong(Bounds { rate_min: 2e6, ..bounds() }).contains("lowest first"));
        assert!(wrong(Bounds { rate_first: f64::NAN, ..bounds() }).contains("above 0"));
        assert!(wrong(Bounds { resolution: 0.0, ..bounds() }).contains("0.02"));
        assert!(wrong(Bounds { confirmations: 0, ..bounds() }).contains("at least one"));
        assert!(wrong(Bounds { runs_max: 2, ..bounds() }).contains("a run for each"));
    }

    #[test]
    fn more_passes_say_more() {
        let found = |passes| Answer::Found { rate: 1.0, passes, is_ceiling: false };
        let probability = |passes| found(passes).pass_probability_min();
        assert!((probability(3) - 0.368).abs() < 0.001);
        assert!((probability(10) - 0.741).abs() < 0.001);
        assert!(Answer::TooSlow.pass_probability_min() < f64::EPSILON);
    }
}
