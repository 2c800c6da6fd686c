//! `corelane-load capacity`: requirements of a target load, from results.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::capacity::{Capacity, CapacityTarget, MeasuredPoint, Requirement};
use corelane_load::plan::Plan;
use corelane_load::report::capacity;
use corelane_load::result::RunResult;
use corelane_load::search::SearchOutcome;
use corelane_load::sweep::SweepResult;
use serde::Serialize;

use super::CliError;
use super::files::write_json;
use super::results::StoredResult;

/// Exit status 0: the requirements were computed; 2: the results do not suffice.
#[derive(Args, Debug)]
pub(super) struct CapacityArguments {
    /// Results of sweep, search or run.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// Target rate in requests a second.
    #[arg(long, value_name = "N")]
    target_rate: Option<f64>,
    /// Target number of open connections [default: the most of the results].
    #[arg(long, value_name = "N", requires = "target_rate")]
    target_connections: Option<u64>,
    /// Share of all resources kept free.
    #[arg(long, value_name = "RATIO", default_value_t = 0.3)]
    headroom: f64,
    /// Cores of a machine.
    #[arg(long, value_name = "N")]
    cores_per_machine: Option<u64>,
    /// Memory of a machine in GiB.
    #[arg(long, value_name = "GIB")]
    memory_per_machine: Option<f64>,
    /// Accept sweeps limited by the load generator or without a confirmed rate.
    #[arg(long)]
    even_invalid: bool,
    /// Write the computation as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The JSON output.
#[derive(Serialize)]
struct CapacityFile<'a> {
    measured: &'a Capacity,
    threshold: &'a str,
    target: Option<CapacityTarget>,
    requirement: Option<&'a Requirement>,
    error: Option<String>,
}

/// A point with properties that have to match between points.
struct Point {
    measured: MeasuredPoint,
    threshold: String,
    /// Whether it is a run at one rate, of which only the best for each number of connections
    /// counts.
    is_run: bool,
}

/// Runs the command and returns its exit status.
pub(super) fn capacity(arguments: &CapacityArguments) -> Result<ExitCode, CliError> {
    let mut found = Vec::new();
    for path in &arguments.results {
        found.push(read(path, arguments.even_invalid)?);
    }
    let mut thresholds: Vec<&str> = found.iter().map(|it| it.threshold.as_str()).collect();
    thresholds.dedup();
    if let [one, other, ..] = thresholds[..] {
        return Err(format!(
            "the results have different thresholds ({one} / {other}): measure all with the same"
        )
        .into());
    }
    let threshold = thresholds.concat();
    let measured = Capacity::of(best_runs(found));
    let target = arguments.target(measured.connections_max())?;
    let requirement = target.map(|target| (target, Requirement::of(&measured, &target)));
    let mut text = capacity::measured(&measured, &threshold);
    if let Some((target, requirement)) = &requirement {
        text += &capacity::requirement(&measured, target, requirement);
    }
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        let requirement = requirement.as_ref().map(|(_, requirement)| requirement.as_ref());
        let file = CapacityFile {
            measured: &measured,
            threshold: &threshold,
            target,
            requirement: requirement.and_then(Result::ok),
            error: requirement.and_then(Result::err).map(ToString::to_string),
        };
        write_json(path, &file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns all sweeps, and of the runs with as many connections the one with the highest rate.
fn best_runs(found: Vec<Point>) -> Vec<MeasuredPoint> {
    let mut points: Vec<(bool, MeasuredPoint)> = Vec::new();
    for Point { measured, is_run, .. } in found {
        let same = |(was_run, it): &&mut (bool, MeasuredPoint)| {
            *was_run && is_run && it.connections == measured.connections
        };
        match points.iter_mut().find(same) {
            Some((_, best)) if best.rate >= measured.rate => {}
            Some((_, best)) => *best = measured,
            None => points.push((is_run, measured)),
        }
    }
    points.into_iter().map(|(_, measured)| measured).collect()
}

fn read(path: &Path, even_invalid: bool) -> Result<Point, CliError> {
    let name = path.display().to_string();
    let (mut measured, plan, is_run) = match StoredResult::read(path)? {
        StoredResult::Run(result) => (run_point(&name, &result)?, result.plan, true),
        StoredResult::Sweep(result) => {
            (sweep_point(&name, &result, even_invalid)?, result.plan, false)
        }
    };
    // A remark about the point follows its name.
    measured.name = format!("{name}{}", measured.name);
    measured.connections = plan.connections as u64;
    Ok(Point { measured, threshold: threshold(&plan), is_run })
}

/// Returns the latency thresholds as text.
fn threshold(plan: &Plan) -> String {
    let bounds = &plan.thresholds;
    let named = [("p50", bounds.p50), ("p99", bounds.p99), ("p99.9", bounds.p999)];
    let named = named.into_iter().filter_map(|(name, bound)| Some(format!("{name} ≤ {}", bound?)));
    let all: Vec<String> = named.collect();
    if all.is_empty() { "no latency threshold".into() } else { all.join(", ") }
}

/// Returns the point of a run that passed.
fn run_point(path: &str, result: &RunResult) -> Result<MeasuredPoint, CliError> {
    let verdict = &result.verdict;
    if !verdict.has_passed() {
        let why = verdict.reason_texts().join("; ");
        return Err(format!("{path} has not passed: {why}").into());
    }
    Ok(MeasuredPoint {
        rate: result.totals.rate,
        cores_used: result.server.map(|cost| cost.cores),
        resident_bytes: result.server.and_then(|cost| cost.resident_bytes_max),
        ..MeasuredPoint::default()
    })
}

/// Returns the point of a sweep: its rate, and CPU and memory of its runs.
fn sweep_point(
    path: &str,
    result: &SweepResult,
    even_invalid: bool,
) -> Result<MeasuredPoint, CliError> {
    let search = &result.search;
    let rate = search
        .answer
        .rate()
        .ok_or_else(|| format!("{path} found no rate that the server sustains"))?;
    let is_confirmed = matches!(search.answer, SearchOutcome::Found { .. });
    let limit = search.limiting_probe().filter(|probe| !probe.trial.is_valid);
    let doubt = match (is_confirmed, limit) {
        (_, Some(probe)) => Some(format!(
            "the load generator was the limit: {}",
            probe.trial.failed_checks.join("; ")
        )),
        (false, None) => Some("the rate was not confirmed".into()),
        (true, None) => None,
    };
    if let (Some(doubt), false) = (&doubt, even_invalid) {
        return Err(format!(
            "{path} is only a lower bound, {doubt}; measure again, or add --even-invalid"
        )
        .into());
    }
    let is_ceiling = matches!(search.answer, SearchOutcome::Found { is_ceiling: true, .. });
    let is_least = is_ceiling || doubt.is_some();
    // CPU per response at the highest fraction is closest to that at the full rate.
    let steps = result.steps.iter().rev();
    let mut costs = steps.filter_map(|step| step.spread(|run| run.server?.cpu_us_per_response));
    let runs = result.steps.iter().flat_map(|step| &step.runs);
    let resident = runs.filter_map(|run| run.server?.resident_bytes_max).max();
    Ok(MeasuredPoint {
        name: if is_least { " (at least)".into() } else { String::new() },
        rate,
        cores_used: costs.next().map(|cost| cost.median * rate / 1e6),
        resident_bytes: resident,
        ..MeasuredPoint::default()
    })
}

impl CapacityArguments {
    /// Returns the target; the results have at most this many connections.
    fn target(&self, connections_max: u64) -> Result<Option<CapacityTarget>, CliError> {
        let Some(rate) = self.target_rate else { return Ok(None) };
        let connections = self.target_connections.unwrap_or(connections_max);
        if !(rate > 0.0 && rate.is_finite()) || connections == 0 {
            return Err("a target needs a rate above 0 and at least one connection".into());
        }
        if !(0.0..1.0).contains(&self.headroom) {
            let headroom = self.headroom;
            return Err(format!("headroom = {headroom}: write a ratio below 1, such as 0.3").into());
        }
        let bytes = self.memory_per_machine.map(|gibibytes| gibibytes * f64::from(1 << 30));
        let is_machine = self.cores_per_machine != Some(0);
        if !is_machine || bytes.is_some_and(|bytes| !(bytes > 0.0 && bytes.is_finite())) {
            return Err("a machine needs at least one core, and memory above 0".into());
        }
        Ok(Some(CapacityTarget {
            rate,
            connections,
            headroom: self.headroom,
            machine_cores: self.cores_per_machine,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "above zero, and saturating"
            )]
            machine_bytes: bytes.map(|bytes| bytes as u64),
        }))
    }
}
