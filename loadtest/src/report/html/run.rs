//! HTML page of a run. Sections without measurements are omitted.

use maud::{Markup, html};

use super::figures::figures;
use super::frame::{PageFrame, VerdictBanner};
use super::history::History;
use super::other_results::other_results;
use super::outcomes::outcomes;
use super::plot::{self, Plot};
use super::{charts, environment, latencies};
use crate::figure;
use crate::result::{CallResult, RunResult, RunStatus};

/// Columns of the table of requests.
const CALL_COLUMNS: [&str; 11] = [
    "answered", "a second", "failed", "mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max",
];

/// The remark below the figures.
const REMARK: &str = "Latencies are response times unless stated otherwise: they count from the \
    intended send time of a request, so that the results include the wait caused by a stalled \
    server (no coordinated omission). The warm-up is excluded.";

/// Returns the page.
pub(super) fn page(result: &RunResult) -> Markup {
    let frame = PageFrame {
        report_kind: "Load report",
        target: &result.plan.target,
        summary: summary(result),
        verdict: verdict_banner(result),
        manifest: &result.manifest,
        remark: REMARK,
    };
    frame.render(&html! {
        (figures(result))
        @if let Some(plot) = latencies::percentiles(result) { (plot.section(true)) }
        @if !result.calls.is_empty() { (calls(result)) }
        (plot::pairs(&plots(result)))
        (outcomes(result))
        @if let Some(section) = other_results(result) { (section) }
        (environment::manifest(&result.manifest))
        (environment::plan(&result.plan, "run"))
    })
}

/// Returns the plots over time that have data.
fn plots(result: &RunResult) -> Vec<Plot> {
    let history = History::of(result);
    let all = [
        charts::latencies(result, &history),
        charts::throughput(result, &history),
        charts::connections(result, &history),
        charts::lag(result, &history),
        charts::cores(result, &history),
        charts::memory(result, &history),
    ];
    all.into_iter().flatten().collect()
}

fn summary(result: &RunResult) -> String {
    let RunResult { plan, totals, manifest, .. } = result;
    let kind = match (totals.due, plan.closed, plan.poisson) {
        (0, ..) => "no requests",
        _ if !plan.scenarios.is_empty() => "users",
        (_, true, _) => "closed loop",
        (_, false, true) => "open loop, Poisson arrivals",
        (_, false, false) => "open loop, even arrivals",
    };
    let warm_up = if plan.warm_up.get().is_zero() {
        String::new()
    } else {
        format!(" after {} of warm-up", plan.warm_up)
    };
    format!(
        "{} · {kind} · {} connections × {} · {:.1} s measured{warm_up} · {}",
        plan.era_name(),
        figure::count(plan.connections as u64),
        plan.depth,
        totals.duration_s,
        environment::ended(manifest)
    )
}

fn verdict_banner(result: &RunResult) -> VerdictBanner {
    let status = result.status();
    let sentence = match status {
        RunStatus::Invalid => "The run cannot be judged.",
        RunStatus::Failed => "The run failed.",
        RunStatus::Missed => "A threshold was missed.",
        RunStatus::Completed => "No threshold was set.",
        RunStatus::Passed => "All thresholds were kept.",
    };
    let reasons = match status {
        RunStatus::Passed => result.plan.thresholds.limits(),
        _ => result.verdict.reason_texts(),
    };
    let notes = result.verdict.notes.iter().cloned();
    let reasons = reasons.into_iter().chain(notes).collect();
    VerdictBanner { status, sentence: sentence.into(), reasons }
}

/// Returns the section of the kinds of requests in a mix.
fn calls(result: &RunResult) -> Markup {
    html! {
        section class="card wide" id="calls" {
            h2 { "Response time by request" }
            table {
                thead {
                    tr {
                        th scope="col" { "request" }
                        @for name in CALL_COLUMNS { th scope="col" { (name) } }
                    }
                }
                tbody { @for call in &result.calls { (call_row(call)) } }
            }
        }
    }
}

fn call_row(call: &CallResult) -> Markup {
    html! {
        tr {
            th scope="row" { (call.name) }
            td { (figure::count(call.answered)) }
            td { (figure::rate(call.rate)) }
            td { (figure::count(call.failed)) }
            @for (_, us) in call.response.statistics() {
                td { (figure::latency(us)) }
            }
        }
    }
}
