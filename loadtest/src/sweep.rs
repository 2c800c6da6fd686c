//! A sweep: the highest rate that a server bears, and how it does at parts of it.
//!
//! ```text
//!   search ──▶ highest rate ──▶ round 1: 25 % 50 % 75 % 90 %
//!                               round 2: 90 % 75 % 50 % 25 %
//!                               round 3: 25 % …              ──▶ medians with their ranges
//! ```
//!
//! What it keeps true: every part is run as often as every other, and in turn, so that a machine
//! that grows warm or gets a neighbour does not favour one of them; a median stands with the lowest
//! and the highest of its runs.
//!
//! What it does not do: drive a server. Who sweeps hands in what does.

use serde::{Deserialize, Serialize};

use crate::plan::{Plan, SweepPlan};
use crate::probe::Found;
use crate::result::{Cost, Fault, Manifest, Percentiles, RunResult, Totals, Verdict};
use crate::search::Answer;

/// What came of a sweep.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SweepResult {
    /// What was to be done; the rates are in the search and the steps.
    pub plan: Plan,
    /// Where and with what it was done.
    pub manifest: Manifest,
    /// The search for the highest rate, with all of its runs.
    pub search: Found,
    /// The parts of the highest rate, in the order of the plan; empty where no rate was found.
    pub steps: Vec<Step>,
}

/// One part of the highest rate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Step {
    /// The part, from zero to one.
    pub part: f64,
    /// Requests a second that were due.
    pub rate: f64,
    /// Its runs, in the order of the rounds.
    pub runs: Vec<StepRun>,
}

/// One run at a part: its result without what all runs of the sweep share, and without its seconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StepRun {
    /// Whether it counts, and whether it passed.
    pub verdict: Verdict,
    /// Counts of requests and connections.
    pub totals: Totals,
    /// From the intended send to the whole answer.
    pub response: Percentiles,
    /// From the real send to the whole answer.
    pub service: Percentiles,
    /// How late the generator was.
    pub lag: Percentiles,
    /// What the generator cost.
    pub generator: Cost,
    /// What the server cost, where its process was watched.
    pub server: Option<Cost>,
}

/// One figure over the runs of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// A figure of a run that is shown for each part.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, with the unit.
    pub name: &'static str,
    /// Its value; none where it was not measured.
    pub of: fn(&StepRun) -> Option<f64>,
}

/// The figures of a part, in the order of the tables.
pub const FIGURES: [Figure; 10] = [
    Figure { name: "answers/s", of: |run| Some(run.totals.rate) },
    Figure { name: "p50 us", of: |run| Some(run.response()?.p50_us) },
    Figure { name: "p99 us", of: |run| Some(run.response()?.p99_us) },
    Figure { name: "p99.9 us", of: |run| Some(run.response()?.p999_us) },
    Figure { name: "max us", of: |run| Some(run.response()?.max_us) },
    Figure { name: "server CPU us", of: |run| Some(run.server?.cpu_us_per_answer) },
    Figure { name: "load CPU us", of: |run| Some(run.generator.cpu_us_per_answer) },
    Figure { name: "lag p99 us", of: |run| Some(run.lag.p99_us) },
    Figure { name: "stolen %", of: |run| Some(run.totals.stolen_ratio? * 100.0) },
    Figure { name: "RSS MiB", of: |run| resident_mebibytes(run.server?) },
];

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn resident_mebibytes(cost: Cost) -> Option<f64> {
    let bytes = cost.resident_bytes_max;
    (bytes > 0).then(|| bytes as f64 / f64::from(1 << 20))
}

impl From<RunResult> for StepRun {
    fn from(result: RunResult) -> Self {
        let RunResult { verdict, totals, response, service, lag, generator, server, .. } = result;
        Self { verdict, totals, response, service, lag, generator, server }
    }
}

impl StepRun {
    /// The response times; none without an answer.
    pub fn response(&self) -> Option<&Percentiles> {
        (self.response.count > 0).then_some(&self.response)
    }
}

impl SweepResult {
    /// Whether a rate was found and confirmed, and every part passed in more than half of its runs.
    pub fn has_passed(&self) -> bool {
        let is_found = matches!(self.search.answer, Answer::Found { .. });
        is_found && self.steps.iter().all(Step::has_passed)
    }

    /// Whether it did not pass for what the generator did: nobody knows how it would have gone.
    pub fn is_spoiled(&self) -> bool {
        if self.search.answer == Answer::TooSlow {
            return self.search.limit().is_some_and(|probe| !probe.trial.is_valid);
        }
        let is_spoiled = |run: &StepRun| run.verdict.fault() == Some(Fault::Generator);
        let mut failed = self.steps.iter().filter(|step| !step.has_passed());
        failed.any(|step| step.runs.iter().any(is_spoiled))
    }
}

impl Step {
    /// A figure over all runs; none where not every run has it.
    pub fn spread(&self, of: fn(&StepRun) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().map(of).collect::<Option<Vec<f64>>>()?)
    }

    /// How many of the runs count and kept every threshold.
    pub fn passes(&self) -> usize {
        self.runs.iter().filter(|run| run.verdict.has_passed()).count()
    }

    /// Whether more than half of its runs passed.
    pub fn has_passed(&self) -> bool {
        self.passes() * 2 > self.runs.len()
    }

    /// Why runs of it did not pass, each reason with the run that has it, counted from one.
    pub fn against(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(&self.runs).flat_map(|(number, run)| {
            let Verdict { invalid, beyond, missed } = &run.verdict;
            [invalid, beyond, missed].into_iter().flatten().map(move |why| (number, why.as_str()))
        })
    }
}

impl Spread {
    /// Of these values; none where there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, low, high })
    }
}

/// The runs of a sweep one after the other: which round, counted from zero, and which part.
pub fn order(parts: usize, rounds: u32) -> impl Iterator<Item = (u32, usize)> {
    (0..rounds).flat_map(move |round| {
        let is_forth = round.is_multiple_of(2);
        (0..parts).map(move |place| (round, if is_forth { place } else { parts - 1 - place }))
    })
}

/// Runs at the parts of `rate` with what `run` does at the rates it is handed, in requests a
/// second;
/// `tell` hears of each run when it is over: the round, counted from one, the part, and the result.
///
/// # Errors
///
/// The first that `run` has.
pub fn steps<E>(
    plan: &SweepPlan,
    rate: f64,
    mut run: impl FnMut(f64) -> Result<RunResult, E>,
    mut tell: impl FnMut(u32, f64, &RunResult),
) -> Result<Vec<Step>, E> {
    let empty = |part: &f64| Step { part: *part, rate: rate * part, runs: Vec::new() };
    let mut steps: Vec<Step> = plan.parts.iter().map(empty).collect();
    for (round, place) in order(steps.len(), plan.rounds) {
        let step = &mut steps[place];
        let result = run(step.rate)?;
        tell(round + 1, step.part, &result);
        step.runs.push(result.into());
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_round_goes_backwards() {
        let order: Vec<_> = order(3, 3).collect();
        let expected = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_median_stands_between_the_lowest_and_the_highest() {
        let spread = Spread::of(vec![5.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, low: 1.0, high: 5.0 });
        assert_eq!(
            Spread::of(vec![4.0, 1.0]).unwrap(),
            Spread { median: 2.5, low: 1.0, high: 4.0 }
        );
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn a_run_that_fails_ends_the_sweep() {
        let mut rates = Vec::new();
        let ended = steps(
            &SweepPlan::default(),
            1_000.0,
            |rate| {
                rates.push(rate);
                Err::<RunResult, _>("gone")
            },
            |_, _, _| {},
        );
        assert_eq!((ended.unwrap_err(), rates), ("gone", vec![250.0]));
    }

    #[test]
    fn a_figure_that_a_run_lacks_is_not_shown() {
        let run = StepRun {
            verdict: Verdict::default(),
            totals: Totals { rate: 10.0, ..Totals::default() },
            response: Percentiles::default(),
            service: Percentiles::default(),
            lag: Percentiles::default(),
            generator: Cost::default(),
            server: None,
        };
        let mut late = run.clone();
        late.verdict.missed.push("p99 9 us".into());
        let step = Step { part: 0.5, rate: 10.0, runs: vec![run.clone(), late, run] };
        let shown: Vec<_> = FIGURES.iter().map(|figure| step.spread(figure.of)).collect();
        assert!(shown[0].is_some() && shown[2].is_none() && shown[5].is_none());
        assert!(step.has_passed() && step.passes() == 2);
        assert_eq!(step.against().collect::<Vec<_>>(), [(2, "p99 9 us")]);
    }
}
