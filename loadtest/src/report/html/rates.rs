//! What a sweep has to plot over the rate: response times, CPU, and the runs of its search.
//!
//! What it keeps true: a value is the median of the runs of a part, and stands with the lowest and
//! the highest of them; of the search every run is a dot, those that do not count as well.

use super::axis::Axis;
use super::latencies::{bounds, duration_axis, extent, scale, with_bounds};
use super::plot::{Line, Plot, Spot, Table};
use crate::plan::Thresholds;
use crate::probe::{Probe, Trial};
use crate::report::figure;
use crate::report::sweep::percent;
use crate::report::word::Word;
use crate::sweep::{Spread, Step, StepRun, SweepResult};

/// A line over the rate: its name, its stroke, its value in microseconds in a run.
type Column = (&'static str, &'static str, fn(&StepRun) -> Option<f64>);

const LATENCIES: [Column; 3] = [
    ("median", "one", |run| Some(run.response()?.p50_us)),
    ("99th percentile", "two dashed", |run| Some(run.response()?.p99_us)),
    ("99.9th percentile", "four dotted", |run| Some(run.response()?.p999_us)),
];
const CPU: [Column; 2] = [
    ("server", "one", |run| Some(run.server?.cpu_us_per_answer)),
    ("generator", "two dashed", |run| Some(run.generator.cpu_us_per_answer)),
];
/// How the runs of a search went, and the dots that say so.
const TRIALS: [(Word, &str); 3] =
    [(Word::Passed, "dots one"), (Word::Missed, "dots two"), (Word::Invalid, "dots three")];

/// Response times at the parts, where anything was answered.
pub(super) fn latencies(result: &SweepResult) -> Option<Plot> {
    let range = reach(result, &LATENCIES)?;
    let bounds = bounds(&result.plan.thresholds, range);
    let (least, most) = with_bounds(range, &bounds);
    let mut known = by_rate(result).into_iter().rev();
    let (part, p99) =
        known.find_map(|step| Some((step.part, step.spread(LATENCIES[1].2)?.median)))?;
    Some(Plot {
        caption: format!(
            "From the moment at which a request was meant to leave to its answer, at parts of the \
             highest rate: medians of the runs{}.",
            scale(least, most)
        ),
        description: format!(
            "At {} the 99th percentile was {}.",
            percent(part),
            figure::duration(p99)
        ),
        bounds,
        ..over_rate(
            ("rates", "Response time by rate"),
            result,
            &LATENCIES,
            duration_axis(least, most),
        )
    })
}

/// CPU time of an answer at the parts, where it is known.
pub(super) fn cpu(result: &SweepResult) -> Option<Plot> {
    let (_, most) = reach(result, &CPU)?;
    Some(Plot {
        caption: "CPU time of both processes for each good answer: medians of the runs.".into(),
        description: "What an answer costs at each part of the highest rate.".into(),
        ..over_rate(
            ("cpu", "CPU of an answer by rate"),
            result,
            &CPU,
            Axis::linear(most, figure::round_duration),
        )
    })
}

/// The 99th percentile of every run of the search, where anything was answered.
pub(super) fn search(result: &SweepResult) -> Option<Plot> {
    let probes = &result.search.probes;
    let range = extent(probes.iter().map(|probe| probe.trial.p99_us))?;
    let set = Thresholds { p99: result.plan.thresholds.p99, ..Thresholds::default() };
    let bounds = bounds(&set, range);
    let (least, most) = with_bounds(range, &bounds);
    let fastest = probes.iter().map(|probe| probe.rate).fold(0.0, f64::max);
    let lines = TRIALS.map(|(word, stroke)| {
        let those = probes.iter().filter(|probe| how(&probe.trial) == word);
        let those = those.filter(|probe| probe.trial.p99_us > 0.0);
        // A gap behind each makes it a dot.
        Line::new(
            word.text(),
            stroke,
            those.flat_map(|probe| [(probe.rate, Some(probe.trial.p99_us)), (probe.rate, None)]),
        )
    });
    Some(Plot {
        id: "search",
        title: "The search for the highest rate",
        caption: format!(
            "The 99th percentile of each of its {} runs, by the rate that was tried{}. A run that \
             is invalid says nothing of the server.",
            probes.len(),
            scale(least, most)
        ),
        description: format!("Rates up to {} a second were tried.", figure::rate(fastest)),
        x: Axis::linear(fastest, figure::rate),
        y: duration_axis(least, most),
        warm_up: None,
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
        bounds,
        spots: spots_of(probes),
        table: table_of(probes),
    })
}

/// How a run of a search went.
const fn how(trial: &Trial) -> Word {
    Word::of(trial.is_valid, trial.has_passed())
}

/// A strip for each rate that was tried, with what became of its runs.
fn spots_of(probes: &[Probe]) -> Vec<Spot> {
    let mut sorted: Vec<&Probe> = probes.iter().collect();
    sorted.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let groups: Vec<&[&Probe]> =
        sorted.chunk_by(|one, other| one.rate.total_cmp(&other.rate).is_eq()).collect();
    let rates: Vec<f64> = groups.iter().map(|group| group[0].rate).collect();
    let texts = groups.iter().map(|group| {
        let runs = group.iter().map(|Probe { number, trial, .. }| {
            format!("run {number} {}, {}", how(trial).text(), figure::duration(trial.p99_us))
        });
        let runs: Vec<String> = runs.collect();
        format!("{} a second: {}", figure::rate(group[0].rate), runs.join(" · "))
    });
    strips(&rates, texts)
}

/// The runs of a search in their order.
fn table_of(probes: &[Probe]) -> Table {
    let head = ["run", "due/s", "outcome", "answers/s", "p99", "failed", "what spoke against it"];
    let row = |Probe { number, rate, trial }: &Probe| {
        vec![
            number.to_string(),
            figure::rate(*rate),
            how(trial).text().into(),
            figure::rate(trial.answered),
            figure::duration(trial.p99_us),
            figure::part(trial.failure_ratio),
            trial.against.join("; "),
        ]
    };
    Table { head: head.map(Into::into).to_vec(), rows: probes.iter().map(row).collect() }
}

/// A plot over the rate, without its words.
fn over_rate(
    (id, title): (&'static str, &'static str),
    result: &SweepResult,
    columns: &[Column],
    y: Axis,
) -> Plot {
    let steps = by_rate(result);
    let spreads = |of| steps.iter().map(move |step| (step.rate, step.spread(of)));
    let mut lines: Vec<Line> = columns
        .iter()
        .map(|&(name, stroke, of)| {
            let medians = spreads(of).map(|(rate, spread)| (rate, spread.map(|it| it.median)));
            Line::new(name, stroke, medians)
        })
        .filter(|line| line.points.iter().any(|point| point.1.is_some()))
        .collect();
    let ranges = columns.iter().flat_map(|column| spreads(column.2));
    let ranges = ranges.filter_map(|(rate, spread)| Some((rate, spread?)));
    let ranges = ranges.filter(|(_, spread)| spread.low < spread.high);
    let range =
        |(rate, Spread { low, high, .. })| [(rate, Some(low)), (rate, Some(high)), (rate, None)];
    let ranges = Line::new("lowest to highest run", "three", ranges.flat_map(range));
    lines.extend((!ranges.points.is_empty()).then_some(ranges));
    let rates: Vec<f64> = steps.iter().map(|step| step.rate).collect();
    let texts = steps.iter().map(|step| {
        let values = columns.iter().map(|column| format!("{} {}", column.0, shown(step, column)));
        let values: Vec<String> = values.collect();
        format!(
            "{} of it, {}/s: {}",
            percent(step.part),
            figure::rate(step.rate),
            values.join(" · ")
        )
    });
    let names = columns.iter().map(|column| column.0.to_owned());
    let rows = steps.iter().map(|step| {
        let values = columns.iter().map(|column| shown(step, column));
        [percent(step.part), figure::rate(step.rate)].into_iter().chain(values).collect()
    });
    Plot {
        id,
        title,
        caption: String::new(),
        description: String::new(),
        x: Axis::linear(result.search.answer.rate().unwrap_or_default(), figure::rate),
        y,
        warm_up: None,
        lines,
        bounds: Vec::new(),
        spots: strips(&rates, texts),
        table: Table {
            head: ["part".into(), "due/s".into()].into_iter().chain(names).collect(),
            rows: rows.collect(),
        },
    }
}

/// The parts from the lowest rate to the highest.
fn by_rate(result: &SweepResult) -> Vec<&Step> {
    let mut steps: Vec<&Step> = result.steps.iter().collect();
    steps.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    steps
}

/// The least and the most that any run has of these columns.
fn reach(result: &SweepResult, columns: &[Column]) -> Option<(f64, f64)> {
    let spreads = result
        .steps
        .iter()
        .flat_map(|step| columns.iter().filter_map(|column| step.spread(column.2)));
    extent(spreads.flat_map(|spread| [spread.low, spread.high]))
}

fn shown(step: &Step, column: &Column) -> String {
    match step.spread(column.2) {
        Some(Spread { median, low, high }) if low < high => {
            let [median, low, high] = [median, low, high].map(figure::duration);
            format!("{median} ({low} – {high})")
        }
        Some(Spread { median, .. }) => figure::duration(median),
        None => "–".into(),
    }
}

/// A strip for each of these rates, which are in order: what is nearest to it.
fn strips(rates: &[f64], texts: impl Iterator<Item = String>) -> Vec<Spot> {
    let strip = |(place, text): (usize, String)| {
        let rate = rates[place];
        let before = place.checked_sub(1).map_or(0.0, |place| rates[place].midpoint(rate));
        let after = rates.get(place + 1).map_or(f64::INFINITY, |next| rate.midpoint(*next));
        Spot { from: before, to: after, text }
    };
    (0..rates.len()).zip(texts).map(strip).collect()
}
