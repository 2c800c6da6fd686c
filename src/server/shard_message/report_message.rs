//! Reports of all shards for an HTTP exchange: a message that visits one shard after the other.

use super::http_message::ExchangeAddress;
use crate::telemetry::counters::Counters;

/// A report in progress.
#[derive(Debug)]
pub(in crate::server) enum ReportMessage {
    /// The counters of all shards, as metrics.
    Metrics {
        /// The exchange that gets the report.
        exchange: ExchangeAddress,
        /// Sum over the shards visited so far.
        counters: Box<Counters>,
        /// Number of shards that are not visited yet.
        remaining: u16,
    },
}
