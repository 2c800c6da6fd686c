//! Key figures of a run. Unmeasured values are a dash or omitted, never zero.

use maud::{Markup, html};

use crate::figure;
use crate::result::RunResult;

/// Name, value and note.
pub(super) type Figure = (&'static str, String, String);

/// Returns the section of key figures.
pub(super) fn figures(result: &RunResult) -> Markup {
    let RunResult { totals, lag, generator, server, .. } = result;
    let mut all = if totals.due > 0 { requests(result) } else { vec![connections(result)] };
    let per_response = |us: Option<f64>| {
        us.map_or_else(String::new, |us| format!("{} per response", figure::duration(us)))
    };
    if let Some(server) = server {
        all.push((
            "Server CPU",
            format!("{} cores", figure::digits(server.cores)),
            per_response(server.cpu_us_per_response),
        ));
        all.push((
            "Server memory",
            server.resident_bytes_max.map_or_else(|| "–".into(), figure::bytes),
            format!(
                "resident, {} connections{}{}",
                figure::count(totals.opened),
                result.memory_growth.map(|it| format!("; {}", it.text())).unwrap_or_default(),
                server.accounting.map(|it| format!("; {}", it.description())).unwrap_or_default(),
            ),
        ));
    }
    all.push((
        "Generator CPU",
        format!("{} cores", figure::digits(generator.cores)),
        lag.p99_us.map_or_else(String::new, |us| format!("p99 lag {}", figure::duration(us))),
    ));
    tiles(&all)
}

/// Returns figures side by side.
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

/// Returns the figures of requests.
fn requests(result: &RunResult) -> Vec<Figure> {
    let RunResult { totals, response, .. } = result;
    let failed: u64 = totals.failures.values().sum();
    vec![
        (
            "Successful responses a second",
            figure::rate(totals.rate),
            format!("{} of {} due", figure::count(totals.answered), figure::count(totals.due)),
        ),
        ("Median", figure::latency(response.p50_us), "half of the requests within".into()),
        ("99th percentile", figure::latency(response.p99_us), "99 of 100 within".into()),
        (
            "99.9th percentile",
            figure::latency(response.p999_us),
            format!("maximum {}", figure::latency(response.max_us)),
        ),
        (
            "Failed",
            figure::percent_or_dash(totals.failure_ratio),
            format!("{} requests, {} connections lost", figure::count(failed), totals.lost),
        ),
    ]
}

/// Returns the figure of a run without requests.
fn connections(result: &RunResult) -> Figure {
    let RunResult { plan, totals, .. } = result;
    let (all, lost) = (figure::count(plan.connections as u64), figure::count(totals.lost));
    ("Connections", figure::count(totals.opened), format!("of {all} opened, {lost} lost"))
}
