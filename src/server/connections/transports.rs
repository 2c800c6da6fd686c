//! The connections of a shard and the state of the transports that they carry.

use super::acceptor::Acceptor;
use super::half_closed::HalfClosed;
use crate::base::time::Instant;
use crate::connection::{ConnectionStatistics, Connections};
use crate::server::connection_state::ConnectionState;
use crate::server::http::HttpFrontend;
use crate::server::memory::HolderSearch;
use crate::server::shard_message::ShardLimits;
use crate::server::websocket::WebSocketFrontend;
use crate::telemetry::counters::Counters;
use crate::telemetry::open_work::OpenWork;

/// Connections, listeners, HTTP and WebSocket state of one shard.
pub(in crate::server) struct Transports {
    pub(in crate::server) connections: Connections<ConnectionState>,
    pub(in crate::server) acceptor: Acceptor,
    pub(in crate::server) half_closed: HalfClosed,
    pub(in crate::server) http: HttpFrontend,
    pub(in crate::server) websockets: WebSocketFrontend,
    pub(in crate::server) holder_search: HolderSearch,
}

impl Transports {
    /// Applies new limits. Connections that exceed one already stay open.
    pub(in crate::server) fn set_limits(&mut self, limits: &ShardLimits) {
        self.acceptor.set_limits(limits);
        self.half_closed.set_limits(limits.half_close);
        self.connections.options = limits.connections;
        self.http.set_limits(limits.http_request, limits.http_timeouts, limits.sessions);
        self.websockets.rules = limits.websocket;
    }

    /// Returns the next deadline of connections, their calls, exchanges and sessions.
    pub(in crate::server) fn next_deadline(&self) -> Option<Instant> {
        let http = self.http.is_active().then(|| self.http.next_deadline()).flatten();
        [self.connections.deadline(), self.half_closed.next_deadline(), http]
            .into_iter()
            .flatten()
            .min()
    }

    /// Counts connections, exchanges and sessions.
    pub(in crate::server) const fn count_open(&self, open: &mut OpenWork) {
        open.connections = self.connections.table.len();
        open.exchanges = self.http.open_exchanges();
        open.sessions = self.http.sessions.len();
    }

    pub(in crate::server) const fn add_counters(&self, counters: &mut Counters) {
        let ConnectionStatistics { read_pauses, sends, bytes_in, bytes_out, websocket } =
            &self.connections.statistics;
        let traffic = &mut counters.traffic;
        (traffic.bytes_in, traffic.bytes_out) = (*bytes_in, *bytes_out);
        (traffic.sends, traffic.read_pauses) = (*sends, *read_pauses);
        counters.websockets = self.websockets.all_counters(websocket);
        counters.shard.events_suppressed = self.acceptor.events_suppressed();
    }
}
