//! What the connections to listeners that expect PROXY headers have begun with, over all shards.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a connection has begun with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HeaderResult {
    /// A header with the address of a client.
    Client,
    /// A header without one: the proxy speaks for itself, or does not know it.
    Local,
    /// The peer is no trusted proxy.
    Untrusted,
    /// Something else than a header.
    Missing,
    /// A malformed or too long header.
    Invalid,
    /// A header that was not complete in time.
    Timeout,
    /// The end of the connection.
    Closed,
}

/// Results, and their names in metrics.
const NAMES: [(HeaderResult, &str); 7] = [
    (HeaderResult::Client, "client"),
    (HeaderResult::Local, "local"),
    (HeaderResult::Untrusted, "untrusted"),
    (HeaderResult::Missing, "missing"),
    (HeaderResult::Invalid, "invalid"),
    (HeaderResult::Timeout, "timeout"),
    (HeaderResult::Closed, "closed"),
];

/// Connections to listeners that expect headers, of all shards since the start.
#[derive(Debug, Default)]
pub struct ProxyCounters([AtomicU64; NAMES.len()]);

impl ProxyCounters {
    pub(super) fn count(&self, result: HeaderResult) {
        let index = NAMES.iter().position(|(it, _)| *it == result);
        if let Some(counter) = index.and_then(|index| self.0.get(index)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of connections by their result: `client`, `local`, or why they were
    /// refused.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = NAMES.iter().map(|(_, name)| *name);
        names.zip(&self.0).map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}
