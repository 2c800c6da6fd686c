//! The key figures of a result: what a reader takes away who reads nothing else.
//!
//! What it keeps true: what was not measured is a dash, or no figure at all; never a zero.

use maud::{Markup, html};

use crate::report::figure;
use crate::result::RunResult;

/// A figure with its name and what belongs to it.
pub(super) type Figure = (&'static str, String, String);

/// The section of the page.
pub(super) fn figures(result: &RunResult) -> Markup {
    let RunResult { totals, lag, generator, server, .. } = result;
    let mut all = if totals.due > 0 { requests(result) } else { vec![connections(result)] };
    let an_answer = |us: f64| match totals.answered {
        0 => String::new(),
        _ => format!("{} an answer", figure::duration(us)),
    };
    if let Some(server) = server {
        all.push((
            "Server CPU",
            format!("{} cores", figure::digits(server.cores)),
            an_answer(server.cpu_us_per_answer),
        ));
        all.push((
            "Server memory",
            figure::bytes(server.resident_bytes_max),
            format!("resident, {} connections", figure::count(totals.opened)),
        ));
    }
    all.push((
        "Generator CPU",
        format!("{} cores", figure::digits(generator.cores)),
        match lag.count {
            0 => String::new(),
            _ => format!("99 of 100 late by {} at most", figure::duration(lag.p99_us)),
        },
    ));
    tiles(&all)
}

/// Figures beside each other.
pub(super) fn tiles(all: &[Figure]) -> Markup {
    html! {
        dl class="card figures wide" {
            @for (name, value, note) in all {
                div {
                    dt { (name) }
                    dd class="value" { (value) }
                    dd class="note" { (note) }
                }
            }
        }
    }
}

/// What became of requests, and when.
fn requests(result: &RunResult) -> Vec<Figure> {
    let RunResult { totals, response, .. } = result;
    let failed: u64 = totals.failures.values().sum();
    let latency = |us: f64| match response.count {
        0 => "–".into(),
        _ => figure::duration(us),
    };
    vec![
        (
            "Good answers a second",
            figure::rate(totals.rate),
            format!("{} of {} due", figure::count(totals.answered), figure::count(totals.due)),
        ),
        ("Median", latency(response.p50_us), "half of the requests within".into()),
        ("99th percentile", latency(response.p99_us), "99 of 100 within".into()),
        (
            "99.9th percentile",
            latency(response.p999_us),
            format!("the longest {}", latency(response.max_us)),
        ),
        (
            "Failed",
            figure::part(totals.failure_ratio),
            format!("{} requests, {} connections lost", figure::count(failed), totals.lost),
        ),
    ]
}

/// What there is to say where no request was due.
fn connections(result: &RunResult) -> Figure {
    let RunResult { plan, totals, .. } = result;
    let (all, lost) = (figure::count(plan.connections as u64), figure::count(totals.lost));
    ("Connections", figure::count(totals.opened), format!("of {all} opened, {lost} lost"))
}
