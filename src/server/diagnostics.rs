//! What a running server reports of itself: reloads of its configuration, pages of the list of open
//! connections, and the counters that each shard has published last, for threads that are no
//! shards.
//!
//! Invariants of the list: a page has at most [`ROWS_MAX`] connections, and a shard visits at most
//! [`SLOTS_PER_TURN`] places of its table in a turn. Connections that open or close meanwhile may
//! be listed or not; others are listed once.
//!
//! Invariants of the counters: a shard publishes only on request and once at its end; counters
//! never decrease; a reader waits for a shard for at most [`REPLY_TIMEOUT`].

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use corelane_engine::mesh::ShardId;
use corelane_protocol::json;

use crate::telemetry::counters::Counters;
use crate::telemetry::metrics::ReloadTotals;
use crate::telemetry::open_work::{ConnectionInfo, ConnectionTraffic, PingCounts};

/// Counts reloads; the thread that reloads writes, the shards read.
#[derive(Debug, Default)]
pub(super) struct ConfigReloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// Seconds since 1970 of the last success; 0 before the first.
    succeeded_at: AtomicU64,
}

impl ConfigReloads {
    /// Counts a reload that has ended at the time `unix_seconds`.
    #[cfg(feature = "signals")]
    pub fn record(&self, is_success: bool, unix_seconds: u64) {
        if is_success {
            self.succeeded_at.store(unix_seconds, Ordering::Relaxed);
        }
        let counter = if is_success { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers.
    pub fn totals(&self) -> ReloadTotals {
        let Self { succeeded, failed, succeeded_at } = self;
        let [succeeded, failed, succeeded_at] =
            [succeeded, failed, succeeded_at].map(|it| it.load(Ordering::Relaxed));
        ReloadTotals { succeeded, failed, succeeded_at }
    }
}

/// Connections of one page.
const ROWS_MAX: usize = 1_000;

/// Places of the table of connections that a shard visits in one turn.
pub(super) const SLOTS_PER_TURN: u32 = 256;

/// Where a page begins. Written as `SHARD.SLOT`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ListPosition {
    pub shard: u16,
    pub slot: u32,
}

impl fmt::Display for ListPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.shard, self.slot)
    }
}

impl FromStr for ListPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (shard, slot) = text.split_once('.').ok_or(())?;
        Ok(Self { shard: shard.parse().map_err(drop)?, slot: slot.parse().map_err(drop)? })
    }
}

/// Connections of one page, in the form of its reader.
#[derive(Debug)]
pub(super) enum Rows {
    /// As text: JSON objects, separated by commas.
    Json(Vec<u8>),
    /// As values, for a thread that waits for them.
    Values(Vec<ConnectionInfo>, SyncSender<ConnectionPage>),
}

/// A page for a thread.
#[derive(Debug)]
pub(super) struct ConnectionPage {
    pub rows: Vec<ConnectionInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<ListPosition>,
}

/// A page in progress.
#[derive(Debug)]
pub(super) struct PageBuilder {
    pub position: ListPosition,
    len: usize,
    pub rows: Rows,
}

impl PageBuilder {
    /// Begins a page at `position`.
    pub const fn new(position: ListPosition, rows: Rows) -> Self {
        Self { position, len: 0, rows }
    }

    /// Returns whether the page has all of its connections.
    pub const fn is_full(&self) -> bool {
        self.len + SLOTS_PER_TURN as usize > ROWS_MAX
    }

    /// Returns the id of the shard whose connections come next.
    pub const fn shard(&self) -> ShardId {
        ShardId(self.position.shard)
    }

    /// Adds a connection.
    pub fn push(&mut self, connection: ConnectionInfo) {
        self.len += 1;
        match &mut self.rows {
            Rows::Values(rows, _) => rows.push(connection),
            Rows::Json(text) => {
                if !text.is_empty() {
                    text.push(b',');
                }
                write_connection(text, &connection);
            }
        }
    }
}

/// Writes the JSON document of a page.
pub(super) fn write_page(rows: &[u8], next: Option<ListPosition>) -> Vec<u8> {
    let mut text = Vec::with_capacity(rows.len() + 64);
    text.extend_from_slice(b"{\"connections\":[");
    text.extend_from_slice(rows);
    match next {
        Some(next) => text.extend_from_slice(format!("],\"next\":\"{next}\"}}").as_bytes()),
        None => text.extend_from_slice(b"],\"next\":null}"),
    }
    text
}

fn write_connection(text: &mut Vec<u8>, connection: &ConnectionInfo) {
    let ConnectionInfo { shard, transport, peer, started, traffic, .. } = connection;
    let ConnectionTraffic { bytes_in, bytes_out, messages_in, messages_out } = traffic;
    let ConnectionInfo { requests_pending, bytes_buffered, pings, .. } = connection;
    let PingCounts { pings_in, pings_out, pongs_in } = pings;
    let peer = match peer {
        Some(peer) => format!("\"{peer}\""),
        None => "null".to_owned(),
    };
    let head =
        format!("{{\"shard\":{shard},\"transport\":\"{transport}\",\"peer\":{peer},\"started\":");
    text.extend_from_slice(head.as_bytes());
    let since_1970 = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json::write_timestamp(text, u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX));
    let rest = format!(
        ",\"bytes_in\":{bytes_in},\"bytes_out\":{bytes_out},\"messages_in\":{messages_in},\
         \"messages_out\":{messages_out},\"requests_pending\":{requests_pending},\
         \"bytes_buffered\":{bytes_buffered},\"pings_in\":{pings_in},\"pings_out\":{pings_out},\
         \"pongs_in\":{pongs_in},\"pongs_out\":{pings_in}}}"
    );
    text.extend_from_slice(rest.as_bytes());
}

/// Locked for one copy of counters.
#[expect(
    clippy::disallowed_types,
    reason = "a shard locks it only when its counters are requested"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// Longest time for which a reader waits for the shards.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_micros(500);

/// The last published counters of every shard.
#[derive(Debug)]
pub(super) struct CounterSnapshots {
    state: Mutex<State>,
    published: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of the last request.
    request: u64,
    shards: Vec<ShardSnapshot>,
}

#[derive(Clone, Debug, Default)]
struct ShardSnapshot {
    counters: Counters,
    /// The latest request that they answer; [`u64::MAX`] if the shard has ended.
    request: u64,
}

impl CounterSnapshots {
    pub fn new(shards: usize) -> Self {
        let shards = vec![ShardSnapshot::default(); shards];
        Self { state: Mutex::new(State { request: 0, shards }), published: Condvar::new() }
    }

    /// Begins a request; returns its number.
    pub fn begin_request(&self) -> u64 {
        let mut state = self.lock();
        state.request += 1;
        state.request
    }

    /// Publishes the counters of a shard as the reply to `request`.
    pub fn publish(&self, shard: ShardId, request: u64, counters: Counters) {
        let mut state = self.lock();
        if let Some(snapshot) = state.shards.get_mut(shard.index()) {
            snapshot.counters = counters;
            snapshot.request = snapshot.request.max(request);
        }
        drop(state);
        self.published.notify_all();
    }

    /// Publishes the counters of a shard that has ended.
    pub fn publish_last(&self, shard: ShardId, counters: Counters) {
        self.publish(shard, u64::MAX, counters);
    }

    /// Waits until the shards in `requested` have replied to `request`, or `timeout` has passed.
    /// Returns the sum of the last counters of all shards.
    pub fn wait(&self, requested: &[ShardId], request: u64, timeout: Duration) -> Counters {
        let is_pending = |state: &mut State| {
            let mut shards = requested.iter().filter_map(|shard| state.shards.get(shard.index()));
            shards.any(|snapshot| snapshot.request < request)
        };
        let waited = self.published.wait_timeout_while(self.lock(), timeout, is_pending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut total = Counters::default();
        for snapshot in &state.shards {
            total.add(&snapshot.counters);
        }
        total
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_read_as_written() {
        let position = ListPosition { shard: 3, slot: 70_000 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for text in ["", "1", "1.", ".1", "1.2.3", "-1.2", "65536.0"] {
            assert!(text.parse::<ListPosition>().is_err(), "{text}");
        }
    }

    const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];
    const MINUTE: Duration = Duration::from_mins(1);

    fn accepted(accepted: u64) -> Counters {
        let mut counters = Counters::default();
        counters.connections.accepted = accepted;
        counters
    }

    #[test]
    fn reader_waits_for_every_requested_shard() {
        let snapshots = CounterSnapshots::new(2);
        let request = snapshots.begin_request();
        let total = std::thread::scope(|scope| {
            let reader = scope.spawn(|| snapshots.wait(&SHARDS, request, MINUTE));
            snapshots.publish(SHARDS[0], request, accepted(3));
            snapshots.publish(SHARDS[1], request, accepted(4));
            reader.join().unwrap()
        });
        assert_eq!(total, accepted(7));
    }

    #[test]
    fn slow_shard_contributes_its_last_counters() {
        let snapshots = CounterSnapshots::new(2);
        let late = snapshots.begin_request();
        assert_eq!(snapshots.wait(&SHARDS, late, Duration::ZERO), accepted(0));
        let request = snapshots.begin_request();
        snapshots.publish(SHARDS[0], late, accepted(1));
        snapshots.publish(SHARDS[1], request, accepted(10));
        assert_eq!(snapshots.wait(&SHARDS, request, Duration::ZERO), accepted(11));
    }

    #[test]
    fn ended_shard_answers_every_request() {
        let snapshots = CounterSnapshots::new(2);
        snapshots.publish_last(SHARDS[1], accepted(5));
        let request = snapshots.begin_request();
        assert_eq!(snapshots.wait(&SHARDS[1..], request, MINUTE), accepted(5));
    }
}
