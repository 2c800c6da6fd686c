//! `corelane-load capacity`: what a target needs, from results at several sizes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::forecast::need::{Need, Wanted};
use corelane_load::forecast::{Measured, SizeOf, Survey};
use corelane_load::plan::Plan;
use corelane_load::report::capacity;
use corelane_load::result::{Manifest, RunResult};
use corelane_load::search::Answer;
use corelane_load::sweep::SweepResult;
use corelane_load::target::Era;
use serde::Serialize;

use super::results::Kept;
use super::{Failure, keep};

/// Status 0: the survey was made; 2: there was nothing to make it of.
#[derive(Args, Debug)]
pub(super) struct CapacityArguments {
    /// Results of sweep, or of run, at different sizes; SIZE=FILE says the size.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<String>,
    /// What sizes count: cores, connections or workers. Where a file stands without a size, cores
    /// are those of its machine, and workers the threads of the load.
    #[arg(long, value_name = "WHAT", value_parser = size_of, default_value = "cores")]
    size_of: SizeOf,
    /// Requests a second that are to be served.
    #[arg(long, value_name = "N", requires = "target_connections")]
    target_rate: Option<f64>,
    /// Connections that are to be open at the same time.
    #[arg(long, value_name = "N", requires = "target_rate")]
    target_connections: Option<u64>,
    /// The part of everything that is to stay free.
    #[arg(long, value_name = "PART", default_value_t = 0.3)]
    headroom: f64,
    /// Cores that a machine has.
    #[arg(long, value_name = "N")]
    cores_per_machine: Option<u64>,
    /// Memory that a machine has, in GiB.
    #[arg(long, value_name = "GIB")]
    memory_per_machine: Option<f64>,
    /// Take sweeps too that the generator limited, or whose rate was not confirmed.
    #[arg(long)]
    even_invalid: bool,
    /// Where all of it goes, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is kept of it.
#[derive(Serialize)]
struct Reckoned<'a> {
    survey: &'a Survey,
    threshold: &'a str,
    wanted: Option<Wanted>,
    need: Option<&'a Need>,
    unknown: Option<String>,
}

/// A point, with what is asked of all of them together.
struct Found {
    measured: Measured,
    threshold: String,
    has_sessions: bool,
    /// Of a run at one rate there may be others at the same size, of which the best counts.
    is_run: bool,
}

/// Runs the command; its status.
pub(super) fn capacity(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    let wanted = arguments.wanted()?;
    let mut found = Vec::new();
    for result in &arguments.results {
        found.push(read(result, arguments)?);
    }
    let mut thresholds: Vec<&str> = found.iter().map(|it| it.threshold.as_str()).collect();
    thresholds.dedup();
    if let [one, other, ..] = thresholds[..] {
        return Err(format!(
            "the results keep different thresholds ({one} / {other}): measure all with the same"
        )
        .into());
    }
    let threshold = thresholds.concat();
    let has_sessions = found.iter().all(|it| it.has_sessions);
    let survey = Survey::of(arguments.size_of, best(found));
    let need = wanted.map(|wanted| (wanted, Need::of(&survey, &wanted)));
    let mut text = capacity::survey(&survey, &threshold, has_sessions);
    if let Some((wanted, need)) = &need {
        text += &capacity::need(&survey, wanted, need);
    }
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        let unknown = need.as_ref().and_then(|(_, need)| need.as_ref().err());
        let reckoned = Reckoned {
            survey: &survey,
            threshold: &threshold,
            wanted,
            need: need.as_ref().and_then(|(_, need)| need.as_ref().ok()),
            unknown: unknown.map(ToString::to_string),
        };
        keep(path, &reckoned)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Of the runs at one size the one with the highest rate: the others show less than it bears. A
/// sweep has looked for its rate, so all sweeps count.
fn best(found: Vec<Found>) -> Vec<Measured> {
    let mut points: Vec<(bool, Measured)> = Vec::new();
    for Found { measured, is_run, .. } in found {
        let same = |(was_run, it): &&mut (bool, Measured)| {
            *was_run && is_run && it.size.total_cmp(&measured.size).is_eq()
        };
        match points.iter_mut().find(same) {
            Some((_, best)) if best.rate >= measured.rate => {}
            Some((_, best)) => *best = measured,
            None => points.push((is_run, measured)),
        }
    }
    points.into_iter().map(|(_, measured)| measured).collect()
}

/// Reads `FILE` or `SIZE=FILE`.
fn read(argument: &str, arguments: &CapacityArguments) -> Result<Found, Failure> {
    let &CapacityArguments { size_of, even_invalid, .. } = arguments;
    let sized = argument.split_once('=').and_then(|(size, path)| {
        Some((size.parse::<f64>().ok().filter(|size| size.is_finite() && *size > 0.0)?, path))
    });
    let path = sized.map_or(argument, |(_, path)| path);
    let (mut measured, plan, manifest, is_run) = match Kept::read(Path::new(path))? {
        Kept::Run(result) => (of_run(path, &result)?, result.plan, result.manifest, true),
        Kept::Sweep(result) => {
            (of_sweep(path, &result, even_invalid)?, result.plan, result.manifest, false)
        }
    };
    // What of a point is to be known beside its numbers stands behind its name.
    measured.name = format!("{path}{}", measured.name);
    measured.connections = plan.connections as u64;
    measured.size = sized.map_or_else(|| size(&plan, &manifest, size_of), |(size, _)| size);
    Ok(Found {
        measured,
        threshold: threshold(&plan),
        has_sessions: plan.era == Era::Legacy,
        is_run,
    })
}

#[expect(clippy::cast_precision_loss, reason = "sizes of machines and of plans")]
fn size(plan: &Plan, manifest: &Manifest, size_of: SizeOf) -> f64 {
    match size_of {
        SizeOf::Cores => manifest.cores as f64,
        SizeOf::Connections => plan.connections as f64,
        SizeOf::Workers => f64::from(manifest.workers),
    }
}

/// The latency that the rates keep, in words.
fn threshold(plan: &Plan) -> String {
    let bounds = &plan.thresholds;
    let named = [("p50", bounds.p50), ("p99", bounds.p99), ("p99.9", bounds.p999)];
    let named = named.into_iter().filter_map(|(name, bound)| Some(format!("{name} ≤ {}", bound?)));
    let all: Vec<String> = named.collect();
    if all.is_empty() { "no threshold of latency".into() } else { all.join(", ") }
}

/// A run that passed says what it bore.
fn of_run(path: &str, result: &RunResult) -> Result<Measured, Failure> {
    let verdict = &result.verdict;
    if !verdict.has_passed() {
        let why = [&verdict.invalid[..], &verdict.beyond, &verdict.missed].concat().join("; ");
        return Err(format!("{path} has not passed, so its rate says nothing: {why}").into());
    }
    Ok(Measured {
        rate: result.totals.rate,
        cores_used: result.server.map(|cost| cost.cores),
        resident_bytes: result.server.map(|cost| cost.resident_bytes_max).filter(|it| *it > 0),
        ..Measured::default()
    })
}

/// A sweep says what it found, and what the runs at its parts cost.
fn of_sweep(path: &str, result: &SweepResult, even_invalid: bool) -> Result<Measured, Failure> {
    let search = &result.search;
    let rate = search.answer.rate().ok_or_else(|| {
        format!("{path} has found no rate: a server that bears none has no capacity")
    })?;
    let is_confirmed = matches!(search.answer, Answer::Found { .. });
    let limit = search.limit().filter(|probe| !probe.trial.is_valid);
    let doubt = match (is_confirmed, limit) {
        (_, Some(probe)) => {
            Some(format!("its limit was the generator's: {}", probe.trial.against.join("; ")))
        }
        (false, None) => Some("its rate was not confirmed".into()),
        (true, None) => None,
    };
    if let (Some(doubt), false) = (&doubt, even_invalid) {
        return Err(format!(
            "{path} counts for little, {doubt}; measure again, or write \
                            --even-invalid"
        )
        .into());
    }
    let is_ceiling = matches!(search.answer, Answer::Found { is_ceiling: true, .. });
    let is_least = is_ceiling || doubt.is_some();
    // What an answer costs at the highest part is closest to what it costs at the whole.
    let steps = result.steps.iter().rev();
    let mut costs = steps.filter_map(|step| step.spread(|run| Some(run.server?.cpu_us_per_answer)));
    let runs = result.steps.iter().flat_map(|step| &step.runs);
    let resident = runs.filter_map(|run| Some(run.server?.resident_bytes_max)).max();
    Ok(Measured {
        name: if is_least { " (at least)".into() } else { String::new() },
        rate,
        cores_used: costs.next().map(|cost| cost.median * rate / 1e6),
        resident_bytes: resident.filter(|bytes| *bytes > 0),
        ..Measured::default()
    })
}

impl CapacityArguments {
    fn wanted(&self) -> Result<Option<Wanted>, Failure> {
        let (Some(rate), Some(connections)) = (self.target_rate, self.target_connections) else {
            return Ok(None);
        };
        if !(rate > 0.0 && rate.is_finite()) || connections == 0 {
            return Err("a target has a rate above 0 and at least one connection".into());
        }
        if !(0.0..1.0).contains(&self.headroom) {
            let headroom = self.headroom;
            return Err(format!("headroom = {headroom}: write a part below 1, such as 0.3").into());
        }
        let bytes = self.memory_per_machine.map(|gibibytes| gibibytes * f64::from(1 << 30));
        let is_machine = self.cores_per_machine != Some(0);
        if !is_machine || bytes.is_some_and(|bytes| !(bytes > 0.0 && bytes.is_finite())) {
            return Err("a machine has at least one core, and memory above 0".into());
        }
        Ok(Some(Wanted {
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

fn size_of(text: &str) -> Result<SizeOf, String> {
    match text {
        "cores" => Ok(SizeOf::Cores),
        "connections" => Ok(SizeOf::Connections),
        "workers" => Ok(SizeOf::Workers),
        _ => Err("sizes are cores, connections or workers".into()),
    }
}
