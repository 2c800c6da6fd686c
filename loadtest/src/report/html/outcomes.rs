//! Outcomes of the requests by kind.

use maud::{Markup, html};

use crate::figure;
use crate::metrics::outcome::Failure;
use crate::result::{RunResult, Totals};

/// The requests with one outcome.
struct Row<'a> {
    kind: &'a str,
    meaning: &'a str,
    count: u64,
    is_success: bool,
}

/// Returns the section of outcomes.
pub(super) fn outcomes(result: &RunResult) -> Markup {
    let Totals {
        answered,
        failures,
        unsolicited: unasked,
        late,
        lost,
        opened,
        last_error: refused,
        ..
    } = &result.totals;
    let meaning = |kind: &str| {
        let kind = Failure::ALL.into_iter().find(|failure| failure.name() == kind);
        kind.map_or("", Failure::description)
    };
    let failed = failures.iter().map(|(kind, count)| Row {
        kind,
        meaning: meaning(kind),
        count: *count,
        is_success: false,
    });
    let succeeded = Row {
        kind: "answered",
        meaning: "successful response",
        count: *answered,
        is_success: true,
    };
    let rows: Vec<Row<'_>> = std::iter::once(succeeded).chain(failed).collect();
    let all: u64 = rows.iter().map(|row| row.count).sum();
    html! {
        section class="card wide" id="outcomes" {
            h2 { "Outcomes" }
            p class="caption" { "Completed requests by outcome." }
            table class="outcomes" {
                thead {
                    tr {
                        th scope="col" { "outcome" }
                        th scope="col" class="meaning" { "description" }
                        th scope="col" { "requests" }
                        th scope="col" { "share" }
                        th scope="col" class="share" { span class="unseen" { "share as a bar" } }
                    }
                }
                tbody { @for row in &rows { (shown(row, all)) } }
            }
            p class="caption" {
                (figure::count(*opened)) " of " (figure::count(result.plan.connections as u64))
                " connections opened, " (figure::count(*lost)) " lost; "
                (figure::count(*unasked)) " responses without a matching request."
                @if *late > 0 {
                    " " (figure::count(*late)) " responses to requests that had timed out."
                }
                @if let Some(why) = refused { " Last connection error: " (why) }
            }
            @for (kind, example) in &result.failure_examples {
                h3 { "First " (kind) }
                pre { (example) }
            }
        }
    }
}

fn shown(row: &Row<'_>, all: u64) -> Markup {
    let &Row { kind, meaning, count, is_success } = row;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let part = if all == 0 { 0.0 } else { count as f64 / all as f64 };
    html! {
        tr {
            th scope="row" { (kind) }
            td class="meaning" { (meaning) }
            td { (figure::count(count)) }
            td { (figure::percent(part)) }
            td class="share" {
                svg class={ "bar " (if is_success { "one" } else { "four" }) } aria-hidden="true" {
                    rect class="rest" width="100%" height="100%" rx="3" {}
                    rect class="part" width=(format!("{:.3}%", part * 100.0)) height="100%"
                        rx="3" {}
                }
            }
        }
    }
}
