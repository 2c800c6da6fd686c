//! Table lines of users, churn, slow readers, event streams and drift, if a run has them.

use std::fmt::Write as _;

use super::percentile_row::percentile_row;
use crate::figure;
use crate::result::drift::Tenth;
use crate::result::{
    ConnectionsResult, Drift, EventStreamsResult, Percentiles, RunResult, SlowReadersResult,
    UsersResult,
};

/// Fewest measured seconds for which drift is shown.
const DRIFT_SECONDS_MIN: f64 = 60.0;

/// Returns the percentile rows of connects and reconnects.
pub(super) fn rows(result: &RunResult) -> Vec<String> {
    let RunResult { plan, connections: openings, totals, .. } = result;
    // Without requests the connect times are the result.
    if plan.churn.is_none() && totals.due > 0 {
        return Vec::new();
    }
    let mut rows = vec![percentile_row("connect", &openings.connect)];
    rows.extend(openings.churn.as_ref().map(|churn| percentile_row("churn", churn)));
    rows.extend(openings.storm.as_ref().map(|storm| percentile_row("storm", storm)));
    rows
}

/// Returns the lines of what the connections did besides requests, and of drift.
pub(super) fn lines(result: &RunResult) -> Vec<String> {
    let RunResult { plan, connections: openings, slow_readers: readers, drift, totals, .. } =
        result;
    let mut lines = Vec::new();
    lines.extend(result.users.as_ref().map(|users| users_line(users, totals.duration_s)));
    lines.extend(result.users.as_ref().and_then(|users| users.event_streams).map(streams_line));
    if plan.churn.is_some() {
        lines.push(connections_line(openings));
    }
    lines.extend(readers.as_ref().map(slow_readers_line));
    lines.extend(readers.as_ref().and_then(others_line));
    if totals.streams.streamed > 0 || plan.calls.iter().any(|call| call.progress) {
        lines.push(format!(
            "streams  {} responses as event streams · {} notifications",
            figure::count(totals.streams.streamed),
            figure::count(totals.streams.notifications)
        ));
    }
    let drift = drift.as_ref().filter(|_| totals.duration_s > DRIFT_SECONDS_MIN);
    lines.extend(drift.map(drift_line));
    lines
}

fn users_line(users: &UsersResult, seconds: f64) -> String {
    format!("users    {}", users_text(users, seconds))
}

fn streams_line(streams: EventStreamsResult) -> String {
    let EventStreamsResult { opened, notifications, requests, lost, refused, .. } = streams;
    let [opened, notifications, requests, lost, refused] =
        [opened, notifications, requests, lost, refused].map(figure::count);
    format!(
        "events   {opened} streams opened · {notifications} notifications · {requests} requests · \
         {lost} lost · {refused} refused"
    )
}

/// Returns the counts of users, their iterations and what they did, for a run of `seconds`.
pub(super) fn users_text(users: &UsersResult, seconds: f64) -> String {
    let UsersResult { users: count, iterations, failed_iterations, .. } = *users;
    let mut text = format!(
        "{} · {} iterations · {}/s · {} failed",
        figure::count(count),
        figure::count(iterations),
        figure::rate(per_second(iterations, seconds)),
        figure::count(failed_iterations)
    );
    for (what, count) in users.actions().into_iter().filter(|(_, count)| *count > 0) {
        // Writing to a string does not fail.
        write!(text, " · {what} {}", figure::count(count)).unwrap_or(());
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(f64::MIN_POSITIVE)
}

fn connections_line(openings: &ConnectionsResult) -> String {
    let ConnectionsResult {
        opened,
        failures: refused,
        not_reopened: unopened,
        sessions_not_deleted: undeleted,
        ..
    } = openings;
    let mut line = format!("opened   {} connections", figure::count(*opened));
    for (kind, count) in refused {
        // Writing to a string does not fail.
        write!(line, " · failed {kind} {}", figure::count(*count)).unwrap_or(());
    }
    for (what, count) in [("not reopened", unopened), ("sessions not deleted", undeleted)] {
        if *count > 0 {
            write!(line, " · {what} {}", figure::count(*count)).unwrap_or(());
        }
    }
    line
}

fn slow_readers_line(readers: &SlowReadersResult) -> String {
    let SlowReadersResult { sent: asked, answered, failed, closed, .. } = readers;
    let [asked, answered, failed, closed] =
        [asked, answered, failed, closed].map(|count| figure::count(*count));
    format!(
        "slow     {asked} sent · {answered} responses read · {failed} failed · closed by the \
         server {closed} times"
    )
}

fn others_line(readers: &SlowReadersResult) -> Option<String> {
    let (before, since) = readers.others_before.as_ref().zip(readers.others_after.as_ref())?;
    let shown = |percentiles: &Percentiles| {
        let Percentiles { p50_us, p99_us, .. } = percentiles;
        format!("p50 {}, p99 {}", figure::latency(*p50_us), figure::latency(*p99_us))
    };
    Some(format!("others   {} before · {} after", shown(before), shown(since)))
}

fn drift_line(drift: &Drift) -> String {
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
    fn connections_line_lists_failures_by_kind() {
        let openings = ConnectionsResult {
            opened: 100,
            failures: [("connect".to_owned(), 3)].into(),
            not_reopened: 2,
            sessions_not_deleted: 1,
            ..ConnectionsResult::default()
        };
        let line = connections_line(&openings);
        for part in ["100 connections", "failed connect 3", "not reopened 2", "not deleted 1"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn others_line_compares_before_and_after() {
        let at = |us| Some(Percentiles { p99_us: Some(us), ..Percentiles::default() });
        let readers = SlowReadersResult::default();
        assert!(others_line(&readers).is_none());
        let readers =
            SlowReadersResult { others_before: at(10.0), others_after: at(20.5), ..readers };
        let line = others_line(&readers).unwrap();
        assert!(
            line.contains("p99 10.0 µs before") && line.contains("p99 20.5 µs after"),
            "{line}"
        );
    }

    #[test]
    fn drift_line_shows_first_and_last_tenth() {
        let tenth = |p99_us, bytes| Tenth { p99_us, server_resident_bytes: bytes };
        let drift = Drift { first: tenth(Some(10.0), Some(1 << 20)), last: tenth(None, None) };
        let line = drift_line(&drift);
        assert!(line.contains("p99 10.0 µs, server 1.00 MiB · last tenth p99 none"), "{line}");
    }
}
