//! Numbers of connections, sessions and streams over all shards, for the status page.
//!
//! Connections are counted where they are accepted. A shard reports its other numbers at the end of
//! a turn in which they changed, and before it reads the totals. So these are exact with one shard,
//! and lag by one turn of the other shards with several.

use std::sync::Arc;

use corelane_engine::mesh::SharedCounter;

use crate::connection::proxy_protocol::ProxyCounters;
use crate::connection::tls::TlsCounters;
use crate::server::acceptance::ConnectionCount;
use crate::server::auth::AuthSource;
use crate::server::diagnostics::ConfigReloads;
use crate::server::traces::TraceSource;
use crate::telemetry::lines::LineQueue;
use crate::telemetry::trace::TraceTotals;

/// Logs with a queue of their own, each with its name in the metrics.
pub type NamedLogs = Arc<[(&'static str, Arc<LineQueue>)]>;

/// Numbers that one shard has reported, and the totals over all shards.
#[derive(Clone, Debug, Default)]
pub struct SharedGauges {
    /// HTTP and WebSocket connections of all shards.
    connections: [Arc<ConnectionCount>; 2],
    sessions: Arc<SharedCounter>,
    streams: Arc<SharedCounter>,
    /// Handshakes of all shards, if a listener is encrypted.
    tls: Option<Arc<TlsCounters>>,
    /// PROXY headers of all shards, if a listener expects them.
    proxies: Option<Arc<ProxyCounters>>,
    /// Reloads of the configuration.
    reloads: Arc<ConfigReloads>,
    /// Spans that are exported.
    traces: Arc<TraceSource>,
    logs: NamedLogs,
    /// What tokens are verified with.
    auth: Arc<AuthSource>,
    reported: GaugeValues,
}

/// Numbers of all shards.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GaugeTotals {
    /// HTTP and WebSocket connections.
    pub connections: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// Subscription streams, and attached streams of legacy sessions.
    pub streams: usize,
}

/// Numbers of one shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GaugeValues {
    /// Legacy sessions.
    pub sessions: usize,
    /// Subscription streams, and attached streams of legacy sessions.
    pub streams: usize,
}

impl SharedGauges {
    /// Creates gauges with the counts of open HTTP and WebSocket connections, those of TLS, of
    /// PROXY headers, of spans, of logs and of credentials.
    pub(in crate::server) fn new(
        connections: [Arc<ConnectionCount>; 2],
        tls: Option<Arc<TlsCounters>>,
        proxies: Option<Arc<ProxyCounters>>,
        traces: Arc<TraceSource>,
        logs: NamedLogs,
        auth: Arc<AuthSource>,
    ) -> Self {
        Self { connections, tls, proxies, traces, logs, auth, ..Self::default() }
    }

    /// Returns the numbers of TLS, if a listener is encrypted.
    pub(in crate::server) fn tls(&self) -> Option<&TlsCounters> {
        self.tls.as_deref()
    }

    /// Returns the numbers of PROXY headers, if a listener expects them.
    pub(in crate::server) fn proxies(&self) -> Option<&ProxyCounters> {
        self.proxies.as_deref()
    }

    /// Returns the numbers of spans, if they are exported.
    pub(in crate::server) fn traces(&self) -> Option<TraceTotals> {
        self.traces.totals()
    }

    /// Returns the numbers of lost lines by their log.
    pub(in crate::server) fn log_lines_lost(&self) -> Vec<(&'static str, u64)> {
        self.logs.iter().map(|(name, lines)| (*name, lines.lost_total())).collect()
    }

    /// Returns when what tokens are verified with was last read, by its source.
    pub(in crate::server) fn credentials_read(&self) -> Vec<(Box<str>, u64)> {
        self.auth.read_times()
    }

    /// Returns where reloads of the configuration are counted.
    pub(in crate::server) const fn config_reloads(&self) -> &Arc<ConfigReloads> {
        &self.reloads
    }

    /// Reports the numbers of this shard; does nothing if they are unchanged.
    #[inline]
    pub(in crate::server) fn report(&mut self, values: GaugeValues) {
        if values != self.reported {
            self.sessions.adjust(self.reported.sessions, values.sessions);
            self.streams.adjust(self.reported.streams, values.streams);
            self.reported = values;
        }
    }

    /// Returns the totals over all shards.
    pub(in crate::server) fn totals(&self) -> GaugeTotals {
        GaugeTotals {
            connections: self.connections.iter().map(|it| it.total()).sum(),
            sessions: self.sessions.count(),
            streams: self.streams.count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn totals(sessions: usize, streams: usize) -> GaugeTotals {
        GaugeTotals { connections: 0, sessions, streams }
    }

    #[test]
    fn gauges_sum_reports_of_all_shards() {
        let gauges = SharedGauges::default();
        let mut shards = [(); 3].map(|()| gauges.clone());
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.report(GaugeValues { sessions: 1 + index, streams: 10 });
        }
        assert!(shards.iter().all(|it| it.totals() == totals(6, 30)));
        shards[2].report(GaugeValues { sessions: 0, streams: 11 });
        shards[2].report(GaugeValues { sessions: 0, streams: 11 });
        assert_eq!(shards[0].totals(), totals(3, 31));
        for shard in &mut shards {
            shard.report(GaugeValues::default());
        }
        assert_eq!(gauges.totals(), totals(0, 0));
    }
}
