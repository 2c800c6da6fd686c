//! HTML page of a sweep. Rates that were not found or not confirmed are marked.

use maud::{Markup, html};

use super::figures::{Figure, tiles};
use super::frame::{PageFrame, VerdictBanner};
use super::plot::{self, Table};
use super::{environment, rates};
use crate::figure;
use crate::report::search;
use crate::report::sweep::{format_contradiction, median_with_range};
use crate::result::RunStatus;
use crate::search::SearchOutcome;
use crate::sweep::{FIGURES, SweepResult, SweepRun, SweepStep};

/// The remark below the figures.
const REMARK: &str = "Response times count from the intended send time of a request, so that the \
    results include the wait caused by a stalled server (no coordinated omission). All fractions \
    have the same number of runs, in alternating order; the warm-up is excluded.";

/// Returns the page.
pub(super) fn page(result: &SweepResult) -> Markup {
    let frame = PageFrame {
        report_kind: "Capacity report",
        target: &result.plan.target,
        summary: summary(result),
        verdict: verdict_banner(result),
        manifest: &result.manifest,
        remark: REMARK,
    };
    let others: Vec<_> =
        [rates::search(result), rates::cpu(result)].into_iter().flatten().collect();
    frame.render(&html! {
        (tiles(&figures(result)))
        @if let Some(plot) = rates::latencies(result) { (plot.section(true)) }
        (plot::pairs(&others))
        @if !result.steps.is_empty() { (fractions_section(result)) }
        (environment::manifest(&result.manifest))
        (environment::plan(&result.plan, "search"))
    })
}

fn summary(result: &SweepResult) -> String {
    let SweepResult { plan, manifest, search, steps } = result;
    let sweep = plan.sweep.clone().unwrap_or_default();
    let searched = sweep.search_duration.map(|span| format!(" of {span}")).unwrap_or_default();
    let runs = match steps.len() {
        0 => String::new(),
        fractions => {
            format!(", {} of {} at {fractions} fractions of it", sweep.rounds, sweep.duration)
        }
    };
    format!(
        "{} · open loop · {} connections × {} · {} runs{searched} to find the rate{runs} · {}",
        plan.era_name(),
        figure::count(plan.connections as u64),
        plan.depth,
        search.probes.len(),
        environment::ended(manifest)
    )
}

fn verdict_banner(result: &SweepResult) -> VerdictBanner {
    let found = &result.search;
    let of_part = |step: &SweepStep| {
        let (passes, runs) = (step.passes(), step.runs.len());
        format!("At {} of it {passes} of {runs} runs passed.", figure::percent(step.fraction))
    };
    let missed = result.steps.iter().filter(|step| !step.has_passed()).map(of_part);
    let contradicting = result.contradictions();
    let contradicting = contradicting.iter().map(format_contradiction);
    let worth = [
        format!("Runs at this rate: {}.", search::runs_at_rate(&result.plan, found)),
        format!("Limit: {}", search::limit(found)),
    ];
    VerdictBanner {
        status: RunStatus::new(!result.is_invalid(), result.has_passed()),
        sentence: format!("The server sustains {}.", search::sustained_rate(&result.plan, found)),
        reasons: worth.into_iter().chain(missed).chain(contradicting).collect(),
    }
}

/// Returns the highest rate, and figures at the fraction closest to one half.
fn figures(result: &SweepResult) -> Vec<Figure> {
    let answer = &result.search.answer;
    let note = match answer {
        SearchOutcome::Found { passes, failures, .. } => {
            format!("requests a second: {passes} of {} runs passed", passes + failures)
        }
        SearchOutcome::Unconfirmed { passes, .. } => {
            format!("requests a second, unconfirmed: {passes} passed")
        }
        SearchOutcome::TooSlow => "no rate that was tried passed".into(),
    };
    let mut all =
        vec![("Highest rate", answer.rate().map_or_else(|| "–".into(), figure::rate), note)];
    let distance = |step: &&SweepStep| (step.fraction - 0.5).abs();
    let half = result.steps.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    let Some(half) = half else { return all };
    let part = figure::percent(half.fraction);
    let mut add = |name, note: String, of: fn(&SweepRun) -> Option<f64>| {
        let spread = half.spread(of);
        all.extend(spread.map(|spread| (name, figure::duration(spread.median), note)));
    };
    add("Median", format!("half of the requests within, at {part}"), |run| run.response()?.p50_us);
    add("99th percentile", format!("99 of 100 within, at {part}"), |run| run.response()?.p99_us);
    let bytes = half.runs.iter().filter_map(|run| run.server?.resident_bytes_max);
    let resident = bytes.max().map(|bytes| format!("; {} resident", figure::bytes(bytes)));
    let resident = resident.unwrap_or_default();
    add("Server CPU", format!("per response, at {part}{resident}"), |run| {
        run.server?.cpu_us_per_response
    });
    all
}

/// Returns the table of all figures, and the reasons of failed runs.
fn fractions_section(result: &SweepResult) -> Markup {
    let steps = &result.steps;
    let row = |name: &str, of: &dyn Fn(&SweepStep) -> String| {
        std::iter::once(name.to_owned()).chain(steps.iter().map(of)).collect()
    };
    let figures =
        FIGURES.iter().map(|figure| row(figure.name, &|step| median_with_range(step, figure)));
    let table = Table {
        head: row("fraction", &|step| figure::percent(step.fraction)),
        rows: std::iter::once(row("due/s", &|step| figure::rate(step.rate)))
            .chain(figures)
            .chain([row("passed", &|step| format!("{} of {}", step.passes(), step.runs.len()))])
            .collect(),
    };
    let against = steps.iter().flat_map(|step| step.failure_reasons().map(move |why| (step, why)));
    let against: Vec<_> = against.collect();
    html! {
        section class="card wide" id="fractions" {
            h2 { "At fractions of the highest rate" }
            p class="caption" {
                "Medians of the runs of a fraction, in brackets the lowest and the highest. CPU is \
                 that of one response; lag is the delay of the load generator."
            }
            div class="scroll fractions" { (table.markup("At fractions of the highest rate")) }
            @if !against.is_empty() {
                ul class="against" {
                    @for (step, (number, why)) in &against {
                        li { (figure::percent(step.fraction)) ", run " (number) ": " (why) }
                    }
                }
            }
        }
    }
}
