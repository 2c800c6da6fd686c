//! Results of a fan-out: when the streams received the published notifications.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generator::Measurements;
use crate::metrics::fanout::Publication;
use crate::metrics::outcome::Failure;
use crate::plan::ListenPlan;

/// Results of the subscribed streams. Times are in microseconds and count from the intended time of
/// the publication.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ListenResult {
    /// Configured number of streams.
    pub streams: u64,
    /// Streams that were open when the first request was sent.
    pub opened: u64,
    /// Streams that ended although the load generator did not close them.
    pub lost: u64,
    /// Notifications delivered, summed over streams.
    pub delivered: u64,
    /// Notifications that were late or not delivered, summed over streams.
    pub missed: u64,
    /// Notifications that were duplicate, too late or unrelated to a publication.
    pub unexpected: u64,
    /// Bytes received on the connections of the streams.
    pub bytes: u64,
    /// Failed publish requests by kind. Their notifications count as missed.
    pub failures: BTreeMap<String, u64>,
    /// Time to the first stream.
    pub first: MinMedianMax,
    /// Time to the median stream.
    pub median: MinMedianMax,
    /// Time to the last stream.
    pub last: MinMedianMax,
    /// Results of each publication.
    pub publications: Vec<PublicationResult>,
}

/// A figure over all publications that reached a stream, in microseconds; null in files if none
/// did.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MinMedianMax {
    /// The minimum.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub min_us: Option<f64>,
    /// The median.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub median_us: Option<f64>,
    /// The maximum.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub max_us: Option<f64>,
}

/// Delivery of one publication.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PublicationResult {
    /// Time to the first stream, in microseconds; `None` if no stream received it.
    pub first_us: Option<f64>,
    /// Time to the median of the streams that received it.
    pub median_us: Option<f64>,
    /// Time to the last stream that received it.
    pub last_us: Option<f64>,
    /// Streams that received it.
    pub received: u64,
}

impl ListenResult {
    pub(super) fn of(plan: &ListenPlan, finding: &Measurements) -> Self {
        let streams = plan.streams as u64;
        let publications: Vec<_> = finding.publications.iter().map(PublicationResult::of).collect();
        let delivered = publications.iter().map(|publication| publication.received).sum();
        let wanted = streams * publications.len() as u64;
        let listened = &finding.total.fanout;
        let failed = |kind: Failure| (kind.name().into(), listened.publish_outcomes.failed(kind));
        let failures = Failure::ALL.into_iter().map(failed).filter(|(_, count)| *count > 0);
        let spread = |figure: fn(&PublicationResult) -> Option<f64>| {
            MinMedianMax::of(publications.iter().filter_map(figure).collect())
        };
        Self {
            streams,
            opened: finding.open_streams,
            lost: listened.lost,
            delivered,
            missed: wanted.saturating_sub(delivered),
            unexpected: listened.stray,
            bytes: listened.bytes,
            failures: failures.collect(),
            first: spread(|publication| publication.first_us),
            median: spread(|publication| publication.median_us),
            last: spread(|publication| publication.last_us),
            publications,
        }
    }

    /// Returns the ratio of missed notifications, from 0 to 1; 1 if nothing was published.
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
        let Publication { received, first, median, last, .. } = *publication;
        let [first_us, median_us, last_us] =
            [first, median, last].map(|time| time.map(super::microseconds));
        Self { first_us, median_us, last_us, received }
    }
}

impl MinMedianMax {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied();
        let last = figures.len().saturating_sub(1);
        Self { min_us: at(0), median_us: at(last / 2), max_us: at(last) }
    }
}
