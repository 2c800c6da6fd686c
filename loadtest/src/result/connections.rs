//! Results of opening connections, and of slow readers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::generator::Measurements;
use crate::metrics::connects::ConnectMetrics;
use crate::metrics::outcome::Failure;

/// Connections opened during a run, and failed attempts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ConnectionsResult {
    /// Connections opened, including replacements.
    pub opened: u64,
    /// Failed attempts by kind.
    pub failures: BTreeMap<String, u64>,
    /// Replacements that were due and not open at the end of the run.
    pub not_reopened: u64,
    /// Sessions that the server did not delete on request.
    pub sessions_not_deleted: u64,
    /// Requests that were sent again over a new connection, since the server closed theirs between
    /// two requests.
    pub repeated: u64,
    /// Time from connect to the end of the handshake, of connections that are not replacements.
    pub connect: Percentiles,
    /// Time from the intended replacement of a connection until the new one was open.
    pub churn: Option<Percentiles>,
    /// Time from a storm until the replacement was open.
    pub storm: Option<Percentiles>,
}

impl ConnectionsResult {
    /// Returns the result of these counters.
    pub fn of(openings: &ConnectMetrics) -> Self {
        let refused = Failure::ALL.into_iter().map(|kind| (kind, openings.failures(kind)));
        let refused = refused.filter(|(_, count)| *count > 0);
        let some =
            |histogram| Some(Percentiles::from_histogram(histogram)).filter(|all| all.count > 0);
        Self {
            opened: openings.opened,
            failures: refused.map(|(kind, count)| (kind.name().into(), count)).collect(),
            not_reopened: openings.not_reopened,
            sessions_not_deleted: openings.sessions_not_deleted,
            repeated: openings.repeated,
            connect: Percentiles::from_histogram(&openings.connect),
            churn: some(&openings.churn),
            storm: some(&openings.storm),
        }
    }
}

/// Results of the slow readers, and of the other connections before and after they began.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct SlowReadersResult {
    /// Requests sent by slow readers.
    pub sent: u64,
    /// Successful responses read, including those read after the last request.
    pub answered: u64,
    /// Other responses read.
    pub failed: u64,
    /// Slow connections closed by the server.
    pub closed: u64,
    /// Response times of the other connections before slow reading began; `None` if it began with
    /// the run.
    pub others_before: Option<Percentiles>,
    /// Response times of the other connections afterwards.
    pub others_after: Option<Percentiles>,
}

impl SlowReadersResult {
    /// Returns the result of this run.
    pub fn of(finding: &Measurements) -> Self {
        let slow = finding.total.slow_readers;
        let all = finding.total.latencies.response();
        let before = finding.before_slow_readers.as_ref().map(|before| before.latencies.response());
        let since = before.map(|before| {
            let mut since = all.clone();
            // `before` is a subset; if subtraction fails nonetheless, the total is used.
            since.subtract(before).unwrap_or(());
            since
        });
        Self {
            sent: slow.sent,
            answered: slow.answered,
            failed: slow.failed,
            closed: slow.closed,
            others_before: before.map(Percentiles::from_histogram),
            others_after: since.as_ref().map(Percentiles::from_histogram),
        }
    }
}
