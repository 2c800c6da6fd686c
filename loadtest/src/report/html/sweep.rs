//! The page of a sweep: the highest rate, how the server does at parts of it, how it was found.
//!
//! What it keeps true: a rate that was not found, or not confirmed, does not look like one that
//! was.

use maud::{Markup, html};

use super::figures::{Figure, tiles};
use super::frame::{Frame, Ruling};
use super::plot::{self, Table};
use super::{rates, setting};
use crate::report::sweep::{bracketed, percent};
use crate::report::word::Word;
use crate::report::{figure, search};
use crate::search::Answer;
use crate::sweep::{FIGURES, Step, StepRun, SweepResult};

/// What has to be known of the figures of a sweep.
const REMARK: &str = "Response times count from the moment at which a request was meant to leave, \
    so that a server that stalls is not spared the requests that had to wait. Every part was run \
    as often as every other, and in turn; what was measured during the warm-up is in no figure.";

/// The whole page.
pub(super) fn page(result: &SweepResult) -> Markup {
    let frame = Frame {
        kicker: "Capacity report",
        target: &result.plan.target,
        about: about(result),
        ruling: ruling(result),
        manifest: &result.manifest,
        remark: REMARK,
    };
    let others: Vec<_> =
        [rates::search(result), rates::cpu(result)].into_iter().flatten().collect();
    frame.around(&html! {
        (tiles(&figures(result)))
        @if let Some(plot) = rates::latencies(result) { (plot.section(true)) }
        (plot::pairs(&others))
        @if !result.steps.is_empty() { (parts(result)) }
        (setting::manifest(&result.manifest))
        (setting::plan(&result.plan, "sweep"))
    })
}

fn about(result: &SweepResult) -> String {
    let SweepResult { plan, manifest, search, steps } = result;
    let sweep = plan.sweep.clone().unwrap_or_default();
    let runs = match steps.len() {
        0 => String::new(),
        parts => format!(", {} of {} at {parts} parts of it", sweep.rounds, sweep.span),
    };
    format!(
        "{} · open loop · {} connections × {} · {} runs of {} to find the rate{runs} · {}",
        plan.era.name(),
        figure::count(plan.connections as u64),
        plan.depth,
        search.probes.len(),
        sweep.search_span,
        setting::ended(manifest)
    )
}

fn ruling(result: &SweepResult) -> Ruling {
    let found = &result.search;
    let of_part = |step: &Step| {
        let (passes, runs) = (step.passes(), step.runs.len());
        format!("At {} of it {passes} of {runs} runs passed.", percent(step.part))
    };
    let missed = result.steps.iter().filter(|step| !step.has_passed()).map(of_part);
    let worth = [
        format!("Confidence: {}", search::confidence(found)),
        format!("Limit: {}", search::limit(found)),
    ];
    Ruling {
        word: Word::of(!result.is_spoiled(), result.has_passed()),
        says: format!("The server bears {}.", search::bears(found)),
        reasons: worth.into_iter().chain(missed).collect(),
    }
}

/// The highest rate, and how the server does at half of it.
fn figures(result: &SweepResult) -> Vec<Figure> {
    let answer = &result.search.answer;
    let note = match answer {
        Answer::Found { passes, .. } => format!("requests a second: {passes} runs in a row passed"),
        Answer::Unconfirmed { passes, .. } => {
            format!("requests a second, unconfirmed: {passes} passed")
        }
        Answer::TooSlow => "no rate that was tried passed".into(),
    };
    let mut all =
        vec![("Highest rate", answer.rate().map_or_else(|| "–".into(), figure::rate), note)];
    let distance = |step: &&Step| (step.part - 0.5).abs();
    let half = result.steps.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    let Some(half) = half else { return all };
    let part = percent(half.part);
    let mut add = |name, note: String, of: fn(&StepRun) -> Option<f64>| {
        let spread = half.spread(of);
        all.extend(spread.map(|spread| (name, figure::duration(spread.median), note)));
    };
    add("Median", format!("half of the requests within, at {part}"), |run| {
        Some(run.response()?.p50_us)
    });
    add("99th percentile", format!("99 of 100 within, at {part}"), |run| {
        Some(run.response()?.p99_us)
    });
    let bytes = half.runs.iter().filter_map(|run| run.server).map(|cost| cost.resident_bytes_max);
    let resident = match bytes.max().unwrap_or_default() {
        0 => String::new(),
        bytes => format!("; {} resident", figure::bytes(bytes)),
    };
    add("Server CPU", format!("an answer, at {part}{resident}"), |run| {
        Some(run.server?.cpu_us_per_answer)
    });
    all
}

/// Every figure of every part, and why runs of it did not pass.
fn parts(result: &SweepResult) -> Markup {
    let steps = &result.steps;
    let row = |name: &str, of: &dyn Fn(&Step) -> String| {
        std::iter::once(name.to_owned()).chain(steps.iter().map(of)).collect()
    };
    let figures = FIGURES.iter().map(|figure| row(figure.name, &|step| bracketed(step, figure.of)));
    let table = Table {
        head: row("part", &|step| percent(step.part)),
        rows: std::iter::once(row("due/s", &|step| figure::rate(step.rate)))
            .chain(figures)
            .chain([row("passed", &|step| format!("{} of {}", step.passes(), step.runs.len()))])
            .collect(),
    };
    let against = steps.iter().flat_map(|step| step.against().map(move |why| (step, why)));
    let against: Vec<_> = against.collect();
    html! {
        section class="card wide" id="parts" {
            h2 { "At parts of the highest rate" }
            p class="caption" {
                "Medians of the runs of a part, in brackets the lowest and the highest. CPU is \
                 that of one answer; lag is how late the generator was."
            }
            div class="scroll parts" { (table.markup("At parts of the highest rate")) }
            @if !against.is_empty() {
                ul class="against" {
                    @for (step, (number, why)) in &against {
                        li { (percent(step.part)) ", run " (number) ": " (why) }
                    }
                }
            }
        }
    }
}
