//! How connections opened during a run, and how slow readers were borne with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::generator::Finding;
use crate::measure::openings::Openings;
use crate::measure::outcome::Failure;

/// How long connections took to open, and what became of the others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct OpeningsResult {
    /// Connections that opened, those before the first request and those again included.
    pub opened: u64,
    /// Attempts that came to nothing, by how.
    pub refused: BTreeMap<String, u64>,
    /// Replacements that were due and had not opened when the run was over.
    pub unopened: u64,
    /// Sessions that the server did not end though it was asked to.
    pub undeleted: u64,
    /// From the beginning of the connect to being open, handshake included, of the connections
    /// that replaced no other.
    pub connect: Percentiles,
    /// From the moment at which a connection was due to be replaced to the open replacement.
    pub churn: Option<Percentiles>,
    /// From the moment of a storm to the open replacement.
    pub storm: Option<Percentiles>,
}

impl OpeningsResult {
    /// What was counted.
    pub fn of(openings: &Openings) -> Self {
        let refused = Failure::ALL.into_iter().map(|kind| (kind, openings.refused(kind)));
        let refused = refused.filter(|(_, count)| *count > 0);
        let some = |histogram| Some(Percentiles::of(histogram)).filter(|all| all.count > 0);
        Self {
            opened: openings.opened,
            refused: refused.map(|(kind, count)| (kind.name().into(), count)).collect(),
            unopened: openings.unopened,
            undeleted: openings.undeleted,
            connect: Percentiles::of(&openings.connect),
            churn: some(&openings.churn),
            storm: some(&openings.storm),
        }
    }
}

/// What became of the connections that read slowly, and of the others meanwhile.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReadersResult {
    /// Requests that the slow ones sent.
    pub asked: u64,
    /// Good answers that they read, those behind the last request included.
    pub answered: u64,
    /// Other answers that they read.
    pub failed: u64,
    /// How often the server closed one of them.
    pub closed: u64,
    /// The response times of the others before they began, where they began later than the run.
    pub others_before: Option<Percentiles>,
    /// The same from then on.
    pub others_since: Option<Percentiles>,
}

impl ReadersResult {
    /// What was counted.
    pub fn of(finding: &Finding) -> Self {
        let slow = finding.total.slow;
        let all = finding.total.latencies.response();
        let before = finding.before.as_ref().map(|before| before.latencies.response());
        let since = before.map(|before| {
            let mut since = all.clone();
            // What went before is part of the whole; where it is not, the whole has to do.
            since.subtract(before).unwrap_or(());
            since
        });
        Self {
            asked: slow.asked,
            answered: slow.answered,
            failed: slow.failed,
            closed: slow.closed,
            others_before: before.map(Percentiles::of),
            others_since: since.as_ref().map(Percentiles::of),
        }
    }
}
