//! Sweeps: the highest sustained rate, and runs at fractions of it.
//!
//! ```text
//!   search ──▶ highest rate ──▶ round 1: 25 % 50 % 75 % 90 %
//!                               round 2: 90 % 75 % 50 % 25 %
//!                               round 3: 25 % …              ──▶ medians with their ranges
//! ```
//!
//! Invariants: every fraction has the same number of runs, in alternating order, so that drift of
//! the machine favours none of them; every median is reported with its minimum and maximum.
//!
//! The caller supplies the function that performs a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generator::StopRequest;
use crate::plan::{Plan, SweepPlan};
use crate::probe::SearchResult;
use crate::result::{Manifest, Percentiles, ProcessCost, RunResult, Totals, Verdict};
use crate::search::SearchOutcome;

/// The result of a sweep.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SweepResult {
    /// The plan; the rates are in `search` and `steps`.
    pub plan: Plan,
    /// The environment of the sweep.
    pub manifest: Manifest,
    /// The search for the highest rate, with all its runs.
    pub search: SearchResult,
    /// The fractions of the highest rate, in the order of the plan; empty if no rate was found.
    pub steps: Vec<SweepStep>,
}

/// One fraction of the highest rate.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SweepStep {
    /// The fraction, from 0 to 1.
    pub fraction: f64,
    /// Intended requests a second.
    pub rate: f64,
    /// The runs at this fraction, in the order of the rounds.
    pub runs: Vec<SweepRun>,
}

/// One run at a fraction: a [`RunResult`] without the parts shared by all runs and without seconds.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SweepRun {
    /// Whether the run is valid and kept its thresholds.
    pub verdict: Verdict,
    /// Totals of requests and connections.
    pub totals: Totals,
    /// Response time: from the intended send time to the complete response.
    pub response: Percentiles,
    /// Service time: from the actual send time to the complete response.
    pub service: Percentiles,
    /// Lag of the load generator.
    pub lag: Percentiles,
    /// CPU and memory of the load generator.
    pub generator: ProcessCost,
    /// CPU and memory of the server, if its process was watched.
    pub server: Option<ProcessCost>,
}

/// Runs at a rate that contradict the found one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contradiction {
    /// Requests a second.
    pub rate: f64,
    /// The found rate.
    pub found: f64,
    /// Number of passed runs.
    pub passes: usize,
    /// Number of all runs.
    pub runs: usize,
}

/// Median and range of a figure over the runs at a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRange {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub low: f64,
    /// The maximum.
    pub high: f64,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FigureUnit {
    /// A number a second.
    Rate,
    /// A time in microseconds.
    Microseconds,
    /// A part from 0 to 1.
    Ratio,
    /// Memory in MiB.
    Mebibytes,
}

/// A figure of a run that is reported for each fraction.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: FigureUnit,
    /// Returns the value, or `None` if it was not measured.
    pub of: fn(&SweepRun) -> Option<f64>,
}

use FigureUnit::{Mebibytes, Microseconds, Rate, Ratio};

/// The figures of a fraction, in the order of the tables.
pub const FIGURES: [Figure; 13] = [
    Figure { name: "responses", unit: Rate, of: |run| Some(run.totals.rate) },
    Figure { name: "p50", unit: Microseconds, of: |run| run.response()?.p50_us },
    Figure { name: "p90", unit: Microseconds, of: |run| run.response()?.p90_us },
    Figure { name: "p95", unit: Microseconds, of: |run| run.response()?.p95_us },
    Figure { name: "p99", unit: Microseconds, of: |run| run.response()?.p99_us },
    Figure { name: "p99.9", unit: Microseconds, of: |run| run.response()?.p999_us },
    Figure { name: "p99.99", unit: Microseconds, of: |run| run.response()?.p9999_us },
    Figure { name: "max", unit: Microseconds, of: |run| run.response()?.max_us },
    Figure { name: "server CPU", unit: Microseconds, of: |run| run.server?.cpu_us_per_response },
    Figure { name: "load CPU", unit: Microseconds, of: |run| run.generator.cpu_us_per_response },
    Figure { name: "lag p99", unit: Microseconds, of: |run| run.lag.p99_us },
    Figure { name: "steal", unit: Ratio, of: |run| run.totals.steal_ratio },
    Figure { name: "server RSS", unit: Mebibytes, of: |run| resident_mebibytes(run.server?) },
];

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn resident_mebibytes(cost: ProcessCost) -> Option<f64> {
    Some(cost.resident_bytes_max? as f64 / f64::from(1 << 20))
}

impl From<RunResult> for SweepRun {
    fn from(result: RunResult) -> Self {
        let RunResult { verdict, totals, response, service, lag, generator, server, .. } = result;
        Self { verdict, totals, response, service, lag, generator, server }
    }
}

impl SweepRun {
    /// Returns the response times, or `None` without a response.
    pub fn response(&self) -> Option<&Percentiles> {
        (self.response.count > 0).then_some(&self.response)
    }
}

impl SweepResult {
    /// Returns whether a rate was found and confirmed, and more than half of the runs at every
    /// fraction up to 1 passed.
    pub fn has_passed(&self) -> bool {
        let is_found = matches!(self.search.answer, SearchOutcome::Found { .. });
        is_found && !self.search.is_stopped && self.expected_steps().all(SweepStep::has_passed)
    }

    /// Returns the fractions that are not above the found rate.
    fn expected_steps(&self) -> impl Iterator<Item = &SweepStep> {
        self.steps.iter().filter(|step| step.fraction <= 1.0)
    }

    /// Returns what contradicts the found rate, one sentence each: fractions below it that failed,
    /// and rates above it, by more than the resolution, that passed.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let Some(found) = self.search.answer.rate() else { return Vec::new() };
        let resolution = self.plan.sweep.clone().unwrap_or_default().resolution;
        let above = found * (1.0 + resolution);
        let failed = self.expected_steps().filter(|step| !step.has_passed());
        let passed = self.steps.iter().filter(|step| step.rate > above && step.has_passed());
        let mut all: Vec<Contradiction> =
            failed.chain(passed).map(|step| Contradiction::of_step(step, found)).collect();
        let mut tried: Vec<f64> = self.search.probes.iter().map(|probe| probe.rate).collect();
        tried.sort_by(f64::total_cmp);
        tried.dedup();
        for rate in tried.into_iter().filter(|rate| *rate > above) {
            let runs =
                self.search.probes.iter().filter(|probe| probe.rate.total_cmp(&rate).is_eq());
            let passes = runs.clone().filter(|probe| probe.trial.has_passed()).count();
            if passes > 0 {
                all.push(Contradiction { rate, found, passes, runs: runs.count() });
            }
        }
        all
    }

    /// Returns whether the sweep was stopped, or failed because of the load generator.
    pub fn is_invalid(&self) -> bool {
        if self.search.is_stopped {
            return true;
        }
        if !matches!(self.search.answer, SearchOutcome::Found { .. }) {
            let is_spoiled = self.search.is_spoiled();
            let limit = self.search.limiting_probe();
            return limit.is_some_and(|probe| is_spoiled || !probe.trial.is_valid);
        }
        let is_spoiled = |run: &SweepRun| run.verdict.is_generator_limited();
        let mut failed = self.expected_steps().filter(|step| !step.has_passed());
        failed.any(|step| step.runs.iter().any(is_spoiled))
    }
}

impl Contradiction {
    fn of_step(step: &SweepStep, found: f64) -> Self {
        Self { rate: step.rate, found, passes: step.passes(), runs: step.runs.len() }
    }

    /// Returns whether runs above the found rate passed; otherwise runs below it failed.
    pub fn is_above(&self) -> bool {
        self.rate > self.found
    }
}

impl SweepStep {
    /// Returns a figure over all runs, or `None` if a run lacks it.
    pub fn spread(&self, of: fn(&SweepRun) -> Option<f64>) -> Option<MedianRange> {
        MedianRange::of(self.runs.iter().map(of).collect::<Option<Vec<f64>>>()?)
    }

    /// Returns the number of valid runs that kept all thresholds.
    pub fn passes(&self) -> usize {
        self.runs.iter().filter(|run| run.verdict.has_passed()).count()
    }

    /// Returns whether more than half of the runs passed.
    pub fn has_passed(&self) -> bool {
        self.passes() * 2 > self.runs.len()
    }

    /// Returns the reasons why runs did not pass, each with the number of the run, from one.
    pub fn failure_reasons(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..)
            .zip(&self.runs)
            .flat_map(|(number, run)| run.verdict.reasons().map(move |(_, why)| (number, why)))
    }
}

impl MedianRange {
    /// Returns the median and range, or `None` without values.
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

/// Returns the order of the runs: the round, from zero, and the index of the fraction.
pub fn run_order(parts: usize, rounds: u32) -> impl Iterator<Item = (u32, usize)> {
    (0..rounds).flat_map(move |round| {
        let is_forth = round.is_multiple_of(2);
        (0..parts).map(move |place| (round, if is_forth { place } else { parts - 1 - place }))
    })
}

/// Runs the fractions of `rate`. `run` performs a run at a rate in requests a second; `report` is
/// called after each run with the round, from one, the fraction and the result. If a stop is
/// requested, the runs until then are returned, without the last.
///
/// # Errors
///
/// The first error of `run`.
pub fn run_steps<E>(
    plan: &SweepPlan,
    rate: f64,
    stop: &StopRequest,
    mut run: impl FnMut(f64) -> Result<RunResult, E>,
    mut report: impl FnMut(u32, f64, &RunResult),
) -> Result<Vec<SweepStep>, E> {
    let empty = |part: &f64| SweepStep { fraction: *part, rate: rate * part, runs: Vec::new() };
    let mut steps: Vec<SweepStep> = plan.fractions.iter().map(empty).collect();
    for (round, place) in run_order(steps.len(), plan.rounds) {
        let step = &mut steps[place];
        let result = run(step.rate);
        if stop.is_made() {
            break;
        }
        let result = result?;
        report(round + 1, step.fraction, &result);
        step.runs.push(result.into());
    }
    steps.retain(|step| !step.runs.is_empty());
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Probe, Trial};

    #[test]
    fn every_other_round_runs_in_reverse_order() {
        let order: Vec<_> = run_order(3, 3).collect();
        let expected = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
        assert_eq!(order, expected);
    }

    #[test]
    fn median_is_reported_with_its_range() {
        let spread = MedianRange::of(vec![5.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, MedianRange { median: 2.0, low: 1.0, high: 5.0 });
        assert_eq!(
            MedianRange::of(vec![4.0, 1.0]).unwrap(),
            MedianRange { median: 2.5, low: 1.0, high: 4.0 }
        );
        assert_eq!(MedianRange::of(Vec::new()), None);
    }

    #[test]
    fn failed_run_ends_the_sweep() {
        let mut rates = Vec::new();
        let ended = run_steps(
            &SweepPlan { fractions: vec![0.25, 0.5], ..SweepPlan::default() },
            1_000.0,
            &StopRequest::default(),
            |rate| {
                rates.push(rate);
                Err::<RunResult, _>("gone")
            },
            |_, _, _| {},
        );
        assert_eq!((ended.unwrap_err(), rates), ("gone", vec![250.0]));
    }

    fn passed_run() -> SweepRun {
        SweepRun {
            verdict: Verdict::default(),
            totals: Totals { rate: 10.0, ..Totals::default() },
            response: Percentiles::default(),
            service: Percentiles::default(),
            lag: Percentiles::default(),
            generator: ProcessCost::default(),
            server: None,
        }
    }

    #[test]
    fn sweep_names_parts_that_contradict_its_rate() {
        let mut failed = passed_run();
        failed.verdict.missed_thresholds.push("p99 9 us".into());
        let step = |fraction: f64, run: &SweepRun| SweepStep {
            fraction,
            rate: fraction * 100.0,
            runs: vec![run.clone(); 3],
        };
        let probe = |rate, failed_checks: &[&str]| Probe {
            number: 1,
            rate,
            trial: Trial {
                is_valid: true,
                failed_checks: failed_checks.iter().map(ToString::to_string).collect(),
                ..Trial::default()
            },
        };
        let answer =
            SearchOutcome::Found { rate: 100.0, passes: 3, failures: 0, is_ceiling: false };
        let probes = vec![probe(100.0, &[]), probe(102.0, &[]), probe(110.0, &["late"])];
        let mut sweep = SweepResult {
            plan: Plan::new("tcp://localhost:1"),
            manifest: Manifest::default(),
            search: SearchResult { answer, probes, is_stopped: false },
            steps: vec![step(0.5, &passed_run()), step(1.0, &passed_run()), step(1.5, &failed)],
        };
        assert!(sweep.has_passed() && sweep.contradictions().is_empty());
        sweep.search.probes.push(probe(110.0, &[]));
        sweep.steps = vec![step(0.5, &failed), step(1.2, &passed_run())];
        let found: Vec<_> = sweep.contradictions();
        let found: Vec<_> =
            found.iter().map(|it| (it.rate.round(), it.passes, it.runs, it.is_above())).collect();
        assert_eq!(found, [(50.0, 0, 3, false), (120.0, 3, 3, true), (110.0, 1, 2, true)]);
        assert!(!sweep.has_passed());
    }

    #[test]
    fn figure_missing_in_a_run_is_omitted() {
        let run = passed_run();
        let mut late = run.clone();
        late.verdict.missed_thresholds.push("p99 9 us".into());
        let step = SweepStep { fraction: 0.5, rate: 10.0, runs: vec![run.clone(), late, run] };
        let shown: Vec<_> = FIGURES.iter().map(|figure| step.spread(figure.of)).collect();
        assert!(shown[0].is_some() && shown[2].is_none() && shown[8].is_none());
        assert!(step.has_passed() && step.passes() == 2);
        assert_eq!(step.failure_reasons().collect::<Vec<_>>(), [(2, "p99 9 us")]);
    }
}
