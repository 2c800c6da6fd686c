//! Plots of a sweep over the rate: response time, CPU, and the runs of the search.
//!
//! Values are medians of the runs at a fraction, with minimum and maximum; of the search every run
//! is a dot, including invalid ones.

use super::axis::Axis;
use super::latencies::{Extent, duration_axis, scale_remark, threshold_lines};
use super::plot::{HoverRegion, Plot, PlotLine, Table};
use crate::figure;
use crate::plan::Thresholds;
use crate::probe::{Probe, Trial};
use crate::result::RunStatus;
use crate::sweep::{MedianRange, SweepResult, SweepRun, SweepStep};

/// Name, CSS classes and value (in microseconds) of a line over the rate.
type Column = (&'static str, &'static str, fn(&SweepRun) -> Option<f64>);

const LATENCIES: [Column; 3] = [
    ("median", "one", |run| run.response()?.p50_us),
    ("99th percentile", "two dashed", |run| run.response()?.p99_us),
    ("99.9th percentile", "four dotted", |run| run.response()?.p999_us),
];
const CPU: [Column; 2] = [
    ("server", "one", |run| run.server?.cpu_us_per_response),
    ("generator", "two dashed", |run| run.generator.cpu_us_per_response),
];
/// Status of the runs of a search, and CSS classes of their dots.
const TRIALS: [(RunStatus, &str); 3] = [
    (RunStatus::Passed, "dots one"),
    (RunStatus::Missed, "dots two"),
    (RunStatus::Invalid, "dots three"),
];

/// Returns the plot of response times.
pub(super) fn latencies(result: &SweepResult) -> Option<Plot> {
    let range = value_range(result, &LATENCIES)?;
    let bounds = threshold_lines(&result.plan.thresholds, range);
    let range = range.extended_by(&bounds);
    let mut known = by_rate(result).into_iter().rev();
    let (part, p99) =
        known.find_map(|step| Some((step.fraction, step.spread(LATENCIES[1].2)?.median)))?;
    Some(Plot {
        id: "rates",
        title: "Response time by rate",
        caption: format!(
            "Time from the intended send time of a request to its response, at fractions of the \
             highest rate: medians of the runs{}.",
            scale_remark(range)
        ),
        description: format!(
            "At {} the 99th percentile was {}.",
            figure::percent(part),
            figure::duration(p99)
        ),
        thresholds: bounds,
        ..over_rate(result, &LATENCIES, duration_axis(range))
    })
}

/// Returns the plot of CPU time per response.
pub(super) fn cpu(result: &SweepResult) -> Option<Plot> {
    let most = value_range(result, &CPU)?.most;
    Some(Plot {
        id: "cpu",
        title: "CPU per response by rate",
        caption: "CPU time of both processes per successful response: medians of the runs.".into(),
        description: "CPU time per response at each fraction of the highest rate.".into(),
        ..over_rate(result, &CPU, Axis::linear(most, figure::round_duration))
    })
}

/// Returns the plot of the 99th percentile of all runs of the search.
pub(super) fn search(result: &SweepResult) -> Option<Plot> {
    let probes = &result.search.probes;
    let range = Extent::of(probes.iter().filter_map(|probe| probe.trial.p99_us))?;
    let set = Thresholds { p99: result.plan.thresholds.p99, ..Thresholds::default() };
    let bounds = threshold_lines(&set, range);
    let range = range.extended_by(&bounds);
    let fastest = probes.iter().map(|probe| probe.rate).fold(0.0, f64::max);
    let lines = TRIALS.map(|(word, stroke)| {
        let those = probes.iter().filter(|probe| trial_status(&probe.trial) == word);
        let those = those.filter(|probe| probe.trial.p99_us.is_some());
        // A gap after each point makes it a dot.
        PlotLine::new(
            word.text(),
            stroke,
            those.flat_map(|probe| [(probe.rate, probe.trial.p99_us), (probe.rate, None)]),
        )
    });
    Some(Plot {
        id: "search",
        title: "The search for the highest rate",
        caption: format!(
            "The 99th percentile of each of its {} runs, by the tried rate{}. Invalid runs measure \
             the load generator, not the server.",
            probes.len(),
            scale_remark(range)
        ),
        description: format!("Rates up to {} a second were tried.", figure::rate(fastest)),
        x: Axis::linear(fastest, figure::rate),
        y: duration_axis(range),
        warm_up: None,
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
        thresholds: bounds,
        hover_regions: trial_regions(probes),
        table: table_of(probes),
    })
}

/// Returns the status of a run of a search.
const fn trial_status(trial: &Trial) -> RunStatus {
    RunStatus::new(trial.is_valid, trial.has_passed())
}

/// Returns a hover region for each tried rate.
fn trial_regions(probes: &[Probe]) -> Vec<HoverRegion> {
    let mut sorted: Vec<&Probe> = probes.iter().collect();
    sorted.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let groups: Vec<&[&Probe]> =
        sorted.chunk_by(|one, other| one.rate.total_cmp(&other.rate).is_eq()).collect();
    let rates: Vec<f64> = groups.iter().map(|group| group[0].rate).collect();
    let texts = groups.iter().map(|group| {
        let runs = group.iter().map(|Probe { number, trial, .. }| {
            format!(
                "run {number} {}, {}",
                trial_status(trial).text(),
                figure::latency(trial.p99_us)
            )
        });
        let runs: Vec<String> = runs.collect();
        format!("{} a second: {}", figure::rate(group[0].rate), runs.join(" · "))
    });
    hover_regions(&rates, texts)
}

/// Returns the table of the runs of a search.
fn table_of(probes: &[Probe]) -> Table {
    let head = ["run", "due/s", "status", "responses/s", "p99", "failed", "reason"];
    let row = |Probe { number, rate, trial }: &Probe| {
        vec![
            number.to_string(),
            figure::rate(*rate),
            trial_status(trial).text().into(),
            figure::rate(trial.answered),
            figure::latency(trial.p99_us),
            figure::percent_or_dash(trial.failure_ratio),
            trial.failed_checks.join("; "),
        ]
    };
    Table { head: head.map(Into::into).to_vec(), rows: probes.iter().map(row).collect() }
}

/// Returns a plot over the rate without id, title, caption and description.
fn over_rate(result: &SweepResult, columns: &[Column], y: Axis) -> Plot {
    let steps = by_rate(result);
    let spreads = |of| steps.iter().map(move |step| (step.rate, step.spread(of)));
    let mut lines: Vec<PlotLine> = columns
        .iter()
        .map(|&(name, stroke, of)| {
            let medians = spreads(of).map(|(rate, spread)| (rate, spread.map(|it| it.median)));
            PlotLine::new(name, stroke, medians)
        })
        .filter(|line| line.points.iter().any(|point| point.1.is_some()))
        .collect();
    let ranges = columns.iter().flat_map(|column| spreads(column.2));
    let ranges = ranges.filter_map(|(rate, spread)| Some((rate, spread?)));
    let ranges = ranges.filter(|(_, spread)| spread.low < spread.high);
    let range = |(rate, MedianRange { low, high, .. })| {
        [(rate, Some(low)), (rate, Some(high)), (rate, None)]
    };
    let ranges = PlotLine::new("lowest to highest run", "three", ranges.flat_map(range));
    lines.extend((!ranges.points.is_empty()).then_some(ranges));
    let rates: Vec<f64> = steps.iter().map(|step| step.rate).collect();
    let texts = steps.iter().map(|step| {
        let values = columns.iter().map(|column| format!("{} {}", column.0, shown(step, column)));
        let values: Vec<String> = values.collect();
        format!(
            "{} of it, {}/s: {}",
            figure::percent(step.fraction),
            figure::rate(step.rate),
            values.join(" · ")
        )
    });
    let names = columns.iter().map(|column| column.0.to_owned());
    let rows = steps.iter().map(|step| {
        let values = columns.iter().map(|column| shown(step, column));
        [figure::percent(step.fraction), figure::rate(step.rate)]
            .into_iter()
            .chain(values)
            .collect()
    });
    Plot {
        id: "",
        title: "",
        caption: String::new(),
        description: String::new(),
        x: Axis::linear(result.search.answer.rate().unwrap_or_default(), figure::rate),
        y,
        warm_up: None,
        lines,
        thresholds: Vec::new(),
        hover_regions: hover_regions(&rates, texts),
        table: Table {
            head: ["fraction".into(), "due/s".into()].into_iter().chain(names).collect(),
            rows: rows.collect(),
        },
    }
}

/// Returns the fractions in ascending order of the rate.
fn by_rate(result: &SweepResult) -> Vec<&SweepStep> {
    let mut steps: Vec<&SweepStep> = result.steps.iter().collect();
    steps.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    steps
}

/// Returns the range of these columns over all runs.
fn value_range(result: &SweepResult, columns: &[Column]) -> Option<Extent> {
    let spreads = result
        .steps
        .iter()
        .flat_map(|step| columns.iter().filter_map(|column| step.spread(column.2)));
    Extent::of(spreads.flat_map(|spread| [spread.low, spread.high]))
}

fn shown(step: &SweepStep, column: &Column) -> String {
    match step.spread(column.2) {
        Some(MedianRange { median, low, high }) if low < high => {
            let [median, low, high] = [median, low, high].map(figure::duration);
            format!("{median} ({low} – {high})")
        }
        Some(MedianRange { median, .. }) => figure::duration(median),
        None => "–".into(),
    }
}

/// Returns hover regions for rates in ascending order, each around its rate.
fn hover_regions(rates: &[f64], texts: impl Iterator<Item = String>) -> Vec<HoverRegion> {
    let strip = |(place, text): (usize, String)| {
        let rate = rates[place];
        let before = place.checked_sub(1).map_or(0.0, |place| rates[place].midpoint(rate));
        let after = rates.get(place + 1).map_or(f64::INFINITY, |next| rate.midpoint(*next));
        HoverRegion { from: before, to: after, text }
    };
    (0..rates.len()).zip(texts).map(strip).collect()
}
