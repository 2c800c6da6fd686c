//! The lines of a table that only some runs have: connections that came and went, slow readers,
//! streams, and what a long run did to a server.

use std::fmt::Write as _;

use super::figure;
use super::table::row;
use crate::result::drift::Tenth;
use crate::result::{Drift, OpeningsResult, Percentiles, ReadersResult, RunResult};

/// Measured seconds from which on drift is shown.
const DRIFT_SECONDS_MIN: f64 = 60.0;

/// The rows of percentiles that a run asked for.
pub(super) fn rows(result: &RunResult) -> Vec<String> {
    let RunResult { plan, openings, totals, .. } = result;
    // Without a request there is nothing else to see.
    if plan.churn.is_none() && totals.due > 0 {
        return Vec::new();
    }
    let mut rows = vec![row("connect", &openings.connect)];
    rows.extend(openings.churn.as_ref().map(|churn| row("churn", churn)));
    rows.extend(openings.storm.as_ref().map(|storm| row("storm", storm)));
    rows
}

/// The lines that a run asked for.
pub(super) fn lines(result: &RunResult) -> Vec<String> {
    let RunResult { plan, openings, readers, drift, totals, .. } = result;
    let mut lines = Vec::new();
    if plan.churn.is_some() {
        lines.push(connections(openings));
    }
    lines.extend(readers.as_ref().map(slow));
    lines.extend(readers.as_ref().and_then(others));
    if totals.streamed > 0 || plan.calls.iter().any(|call| call.progress) {
        lines.push(format!(
            "streams  {} answers came as streams · {} notices",
            figure::count(totals.streamed),
            figure::count(totals.notices)
        ));
    }
    let drift = drift.as_ref().filter(|_| totals.span_s > DRIFT_SECONDS_MIN);
    lines.extend(drift.map(drifted));
    lines
}

fn connections(openings: &OpeningsResult) -> String {
    let OpeningsResult { opened, refused, unopened, undeleted, .. } = openings;
    let mut line = format!("opened   {} connections", figure::count(*opened));
    for (kind, count) in refused {
        // Writing to a string does not fail.
        write!(line, " · refused {kind} {}", figure::count(*count)).unwrap_or(());
    }
    for (what, count) in [("not back", unopened), ("sessions not deleted", undeleted)] {
        if *count > 0 {
            write!(line, " · {what} {}", figure::count(*count)).unwrap_or(());
        }
    }
    line
}

fn slow(readers: &ReadersResult) -> String {
    let ReadersResult { asked, answered, failed, closed, .. } = readers;
    let [asked, answered, failed, closed] =
        [asked, answered, failed, closed].map(|count| figure::count(*count));
    format!(
        "slow     {asked} asked · {answered} answers read · {failed} failed · closed by the server \
         {closed} times"
    )
}

fn others(readers: &ReadersResult) -> Option<String> {
    let (before, since) = readers.others_before.as_ref().zip(readers.others_since.as_ref())?;
    let shown = |percentiles: &Percentiles| {
        let Percentiles { p50_us, p99_us, .. } = percentiles;
        format!("p50 {}, p99 {}", figure::duration(*p50_us), figure::duration(*p99_us))
    };
    Some(format!("others   {} before · {} since", shown(before), shown(since)))
}

fn drifted(drift: &Drift) -> String {
    let Drift { first, last } = drift;
    let tenth = |tenth: &Tenth| {
        let p99 = tenth.p99_us.map_or_else(|| "none".into(), figure::duration);
        let memory = tenth.server_resident_bytes;
        let memory = memory.map(|bytes| format!(", server {}", figure::bytes(bytes)));
        format!("p99 {p99}{}", memory.unwrap_or_default())
    };
    format!("drift    first tenth {} · last tenth {}", tenth(first), tenth(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_come_back_is_shown_by_its_reason() {
        let openings = OpeningsResult {
            opened: 100,
            refused: [("connect".to_owned(), 3)].into(),
            unopened: 2,
            undeleted: 1,
            ..OpeningsResult::default()
        };
        let line = connections(&openings);
        for part in ["100 connections", "refused connect 3", "not back 2", "not deleted 1"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn the_others_are_shown_before_and_since() {
        let at = |p99_us| Some(Percentiles { p99_us, ..Percentiles::default() });
        let readers = ReadersResult::default();
        assert!(others(&readers).is_none());
        let readers = ReadersResult { others_before: at(10.0), others_since: at(20.5), ..readers };
        let line = others(&readers).unwrap();
        assert!(
            line.contains("p99 10.0 µs before") && line.contains("p99 20.5 µs since"),
            "{line}"
        );
    }

    #[test]
    fn drift_shows_latency_and_memory_of_both_ends() {
        let tenth = |p99_us, bytes| Tenth { p99_us, server_resident_bytes: bytes };
        let drift = Drift { first: tenth(Some(10.0), Some(1 << 20)), last: tenth(None, None) };
        let line = drifted(&drift);
        assert!(line.contains("p99 10.0 µs, server 1.00 MiB · last tenth p99 none"), "{line}");
    }
}
