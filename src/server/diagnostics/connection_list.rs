//! Pages of the list of open connections.
//!
//! Invariants: a page has at most [`ROWS_MAX`] connections, and a shard visits at most
//! [`SLOTS_PER_TURN`] places of its table in a turn. Connections that open or close meanwhile may
//! be listed or not; others are listed once.

use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::SyncSender;
use std::time::SystemTime;

use corelane_engine::mesh::ShardId;
use corelane_protocol::json;

use crate::telemetry::connection_info::{ConnectionInfo, ConnectionTraffic, PingCounts};

/// Connections of one page.
const ROWS_MAX: usize = 1_000;

/// Places of the table of connections that a shard visits in one turn.
pub const SLOTS_PER_TURN: u32 = 256;

/// Where a page begins. Written as `SHARD.SLOT`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ListPosition {
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
pub enum Rows {
    /// As text: JSON objects, separated by commas.
    Json(Vec<u8>),
    /// As values, for a thread that waits for them.
    Values(Vec<ConnectionInfo>, SyncSender<ConnectionPage>),
}

/// A page for a thread.
#[derive(Debug)]
pub struct ConnectionPage {
    pub rows: Vec<ConnectionInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<ListPosition>,
}

/// A page in progress.
#[derive(Debug)]
pub struct PageBuilder {
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
pub fn write_page(rows: &[u8], next: Option<ListPosition>) -> Vec<u8> {
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
}
