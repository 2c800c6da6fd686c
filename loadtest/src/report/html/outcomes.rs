//! What became of the requests: how many, what that means, which part of all.

use maud::{Markup, html};

use crate::report::figure;
use crate::result::{RunResult, Totals};

/// What the kinds of failures mean. One that is not here says it by its name.
const MEANINGS: [(&str, &str); 10] = [
    ("connect", "no connection came about"),
    ("closed", "the connection ended before the answer"),
    ("timeout", "no answer came in time"),
    ("garbage", "what came is no message of the protocol"),
    ("wrong", "an answer, and not the one to this request"),
    ("http_4xx", "HTTP refused the request"),
    ("http_5xx", "HTTP told of a failure of the server"),
    ("rpc_error", "an error of JSON-RPC"),
    ("tool_error", "the tool said that it failed"),
    ("unsent", "every connection was busy beyond its bound"),
];

/// A row: a kind, what it means, how many, whether it is good.
type Row<'a> = (&'a str, &'a str, u64, bool);

/// The section of the page.
pub(super) fn outcomes(result: &RunResult) -> Markup {
    let Totals { answered, failures, unasked, lost, opened, refused, .. } = &result.totals;
    let meaning = |kind: &str| {
        MEANINGS.iter().find(|(name, _)| *name == kind).map_or("", |(_, meaning)| *meaning)
    };
    let failed = failures.iter().map(|(kind, count)| (&kind[..], meaning(kind), *count, false));
    let rows: Vec<Row<'_>> =
        std::iter::once(("answered", "answered well", *answered, true)).chain(failed).collect();
    let all: u64 = rows.iter().map(|row| row.2).sum();
    html! {
        section class="card wide" id="outcomes" {
            h2 { "Outcomes" }
            p class="caption" { "What became of every request of which the end is known." }
            table class="outcomes" {
                thead {
                    tr {
                        th scope="col" { "outcome" }
                        th scope="col" class="meaning" { "which is" }
                        th scope="col" { "requests" }
                        th scope="col" { "part" }
                        th scope="col" class="share" { span class="unseen" { "part, drawn" } }
                    }
                }
                tbody { @for row in &rows { (shown(row, all)) } }
            }
            p class="caption" {
                (figure::count(*opened)) " of " (figure::count(result.plan.connections as u64))
                " connections opened, " (figure::count(*lost)) " were lost; "
                (figure::count(*unasked)) " answers came that nobody had asked for."
                @if let Some(why) = refused { " The last that did not open: " (why) }
            }
        }
    }
}

fn shown(&(kind, meaning, count, is_good): &Row<'_>, all: u64) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let part = if all == 0 { 0.0 } else { count as f64 / all as f64 };
    html! {
        tr {
            th scope="row" { (kind) }
            td class="meaning" { (meaning) }
            td { (figure::count(count)) }
            td { (figure::part(part)) }
            td class="share" {
                svg class={ "bar " (if is_good { "one" } else { "four" }) } aria-hidden="true" {
                    rect class="rest" width="100%" height="100%" rx="3" {}
                    rect class="part" width=(format!("{:.3}%", part * 100.0)) height="100%"
                        rx="3" {}
                }
            }
        }
    }
}
