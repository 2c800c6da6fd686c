//! What came of a fan-out: when streams heard of what was published.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::generator::Finding;
use crate::measure::fanout::Publication;
use crate::measure::outcome::Failure;
use crate::plan::ListenPlan;

/// What those that listen have heard. All times count from the moment for which a publication was
/// planned, in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ListenResult {
    /// Streams that were to listen.
    pub streams: u64,
    /// Streams that were open when the first request left.
    pub opened: u64,
    /// Streams that ended without our doing.
    pub lost: u64,
    /// How often a stream heard of a publication.
    pub delivered: u64,
    /// How often one did not in time, or was not there to hear.
    pub missed: u64,
    /// Notifications that came twice, too late, or for nothing.
    pub stray: u64,
    /// Bytes that came over connections that listen.
    pub bytes: u64,
    /// Requests to publish that failed, by how. What they were to publish counts as missed.
    pub failures: BTreeMap<String, u64>,
    /// Until the first stream heard.
    pub first: Spread,
    /// Until the stream in the middle did.
    pub median: Spread,
    /// Until the last did.
    pub last: Spread,
    /// Publication by publication.
    pub publications: Vec<PublicationResult>,
}

/// One figure over all publications that anybody heard of, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min_us: f64,
    /// The one in the middle.
    pub median_us: f64,
    /// The greatest.
    pub max_us: f64,
}

/// How one publication reached the streams.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PublicationResult {
    /// Until the first heard, in microseconds; none where none did, here and below.
    pub first_us: Option<f64>,
    /// Until the one in the middle did, of those that did.
    pub median_us: Option<f64>,
    /// Until the last did, of those that did.
    pub last_us: Option<f64>,
    /// Streams that heard.
    pub heard: u64,
}

impl ListenResult {
    pub(super) fn of(plan: &ListenPlan, finding: &Finding) -> Self {
        let streams = plan.streams as u64;
        let publications: Vec<_> = finding.publications.iter().map(PublicationResult::of).collect();
        let delivered = publications.iter().map(|publication| publication.heard).sum();
        let wanted = streams * publications.len() as u64;
        let listened = &finding.total.listened;
        let failed = |kind: Failure| (kind.name().into(), listened.publishing.failed(kind));
        let failures = Failure::ALL.into_iter().map(failed).filter(|(_, count)| *count > 0);
        let spread = |figure: fn(&PublicationResult) -> Option<f64>| {
            Spread::of(publications.iter().filter_map(figure).collect())
        };
        Self {
            streams,
            opened: finding.listening,
            lost: listened.lost,
            delivered,
            missed: wanted.saturating_sub(delivered),
            stray: listened.stray,
            bytes: listened.bytes,
            failures: failures.collect(),
            first: spread(|publication| publication.first_us),
            median: spread(|publication| publication.median_us),
            last: spread(|publication| publication.last_us),
            publications,
        }
    }

    /// The part of what was to be heard that was missed, from zero to one; one where nothing was
    /// published at all.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn missed_ratio(&self) -> f64 {
        match self.delivered + self.missed {
            0 => 1.0,
            wanted => self.missed as f64 / wanted as f64,
        }
    }
}

impl PublicationResult {
    fn of(publication: &Publication) -> Self {
        let Publication { heard, first, median, last, .. } = *publication;
        let [first_us, median_us, last_us] =
            [first, median, last].map(|time| time.map(super::microseconds));
        Self { first_us, median_us, last_us, heard }
    }
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied().unwrap_or_default();
        let last = figures.len().saturating_sub(1);
        Self { min_us: at(0), median_us: at(last / 2), max_us: at(last) }
    }
}
