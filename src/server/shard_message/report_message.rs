//! Reports of all shards: a message that visits one shard after the other.

use super::session_message::ExchangeAddress;
use crate::server::diagnostics::PageBuilder;
use crate::telemetry::counters::Counters;
use crate::telemetry::open_work::QueueDepths;

/// A report in progress.
#[derive(Debug)]
pub enum ReportMessage {
    /// The counters of all shards, as metrics.
    Metrics {
        /// The exchange that gets the report.
        exchange: ExchangeAddress,
        /// Sum over the shards visited so far.
        counters: Box<Counters>,
        /// Keys that rate limits have counted lately, on the shards visited so far.
        rate_keys: usize,
        /// The queues of the shards visited so far.
        queues: Vec<QueueDepths>,
        /// Number of shards that are not visited yet.
        remaining: u16,
    },
    /// The open connections.
    Connections {
        /// The exchange that gets the report, unless a thread does.
        exchange: Option<ExchangeAddress>,
        /// The page so far.
        page: PageBuilder,
    },
}
