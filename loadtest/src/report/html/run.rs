//! The page of a run: its figures, its plots, what became of its requests.
//!
//! What it keeps true: there is a section for what was measured, and none for what was not.

use maud::{Markup, html};

use super::figures::figures;
use super::frame::{Frame, Ruling};
use super::further::further;
use super::history::History;
use super::outcomes::outcomes;
use super::plot::{self, Plot};
use super::{charts, latencies, setting};
use crate::plan::Thresholds;
use crate::report::figure;
use crate::report::word::Word;
use crate::result::{Fault, RunResult};

/// What has to be known of the figures of a run.
const REMARK: &str = "Latencies are response times unless it says otherwise: they count from the \
    moment at which a request was meant to leave, so that a server that stalls is not spared the \
    requests that had to wait. What was measured during the warm-up is in no figure.";

/// The whole page.
pub(super) fn page(result: &RunResult) -> Markup {
    let frame = Frame {
        kicker: "Load report",
        target: &result.plan.target,
        about: about(result),
        ruling: ruling(result),
        manifest: &result.manifest,
        remark: REMARK,
    };
    frame.around(&html! {
        (figures(result))
        @if let Some(plot) = latencies::percentiles(result) { (plot.section(true)) }
        (plot::pairs(&plots(result)))
        (outcomes(result))
        @if let Some(section) = further(result) { (section) }
        (setting::manifest(&result.manifest))
        (setting::plan(&result.plan, "run"))
    })
}

/// The plots over time, those of which anything is known.
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

fn about(result: &RunResult) -> String {
    let RunResult { plan, totals, manifest, .. } = result;
    let kind = match (totals.due, plan.closed, plan.poisson) {
        (0, ..) => "no requests",
        (_, true, _) => "closed loop",
        (_, false, true) => "open loop, Poisson arrivals",
        (_, false, false) => "open loop, even arrivals",
    };
    let warm_up = if plan.warm_up.duration().is_zero() {
        String::new()
    } else {
        format!(" after {} of warm-up", plan.warm_up)
    };
    format!(
        "{} · {kind} · {} connections × {} · {:.1} s measured{warm_up} · {}",
        plan.era.name(),
        figure::count(plan.connections as u64),
        plan.depth,
        totals.span_s,
        setting::ended(manifest)
    )
}

fn ruling(result: &RunResult) -> Ruling {
    let verdict = &result.verdict;
    let word = Word::of(verdict.is_valid(), verdict.has_passed());
    let says = match (word, verdict.fault()) {
        (Word::Invalid, Some(Fault::Server)) => {
            "This run does not count: the server left no room for what was due."
        }
        (Word::Invalid, _) => "This run does not count: the generator could not keep its plan.",
        (Word::Missed, _) => "The run counts, and the server missed a threshold.",
        (Word::Passed, _) if result.plan.thresholds == Thresholds::default() => {
            "The run counts. No threshold was set."
        }
        (Word::Passed, _) => "The run counts, and every threshold held.",
    };
    let reasons = [&verdict.invalid[..], &verdict.beyond, &verdict.missed].concat();
    Ruling { word, says: says.into(), reasons }
}
