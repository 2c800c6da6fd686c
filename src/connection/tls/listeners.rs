//! Configuration of encrypted listeners, which can be replaced while they accept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_tls::{TlsErrorKind, TlsServer};

use crate::telemetry::certificate::CertificateExpiry;

/// Locked once for each connection that is accepted, and for each request of metrics.
#[expect(clippy::disallowed_types, reason = "a reload replaces it on another thread")]
type RwLock<T> = std::sync::RwLock<T>;

/// The TLS configuration of a listener on all shards; a clone is the same slot.
#[derive(Clone, Debug)]
pub struct TlsSlot(Arc<RwLock<TlsServer>>);

impl TlsSlot {
    /// Creates a slot with its first configuration.
    pub fn new(server: TlsServer) -> Self {
        Self(Arc::new(RwLock::new(server)))
    }

    /// Replaces the configuration for the connections that are accepted from now on.
    pub fn replace(&self, server: TlsServer) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// Returns the configuration.
    pub(super) fn current(&self) -> TlsServer {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Limits of the handshakes of a shard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsLimits {
    /// Time from the accept to the end of the handshake; then the connection is closed.
    pub handshake_timeout: Duration,
    /// Handshakes in progress; for a further one another ends, or it is refused. Cost: the TLS
    /// state of each. [`SILENT_FACTOR`] times as many connections may be silent.
    pub handshakes_max: usize,
    /// Of these, from one client address (IPv6: /64 prefix).
    pub handshakes_per_address_max: usize,
    /// Percent of the time of the shard for handshakes; others are done on threads.
    pub shard_percent: u8,
    /// Proxies, whose addresses are exempt; 127.0.0.1 and `::1` if there is none.
    pub trusted_proxies: TrustedProxies,
}

/// Connections from which no byte has arrived, for each handshake that may be in progress: they
/// have no TLS state.
pub(super) const SILENT_FACTOR: usize = 16;

/// The limit that a further handshake would exceed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HandshakeLimit {
    /// That of the shard.
    Shard,
    /// That of the client address.
    Address,
    /// That of failures of the client address.
    Failures,
}

/// Limits how often the handshakes of a client address may fail.
pub trait HandshakeGuard: fmt::Debug + Send + Sync {
    /// Returns whether a handshake of the address may begin.
    fn admits(&self, client: Option<ClientAddress>, now: Instant) -> bool;

    /// Counts a handshake of the address that has failed.
    fn record_failure(&self, client: Option<ClientAddress>, now: Instant);
}

/// Handshakes of all shards since the start, and when the certificates expire.
#[derive(Debug, Default)]
pub struct TlsCounters {
    full: AtomicU64,
    resumed: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    address_refused: AtomicU64,
    failed: [AtomicU64; FAILURES.len()],
    failures_refused: AtomicU64,
    certificates: RwLock<Vec<CertificateExpiry>>,
    /// How often an address may fail.
    failures: OnceLock<Arc<dyn HandshakeGuard>>,
}

/// Reasons of failed handshakes, and their names in metrics.
const FAILURES: [(TlsErrorKind, &str); 7] = [
    (TlsErrorKind::Closed, "closed"),
    (TlsErrorKind::Timeout, "timeout"),
    (TlsErrorKind::NotTls, "not_tls"),
    (TlsErrorKind::OutdatedVersion, "version"),
    (TlsErrorKind::CertificateRequired, "certificate_required"),
    (TlsErrorKind::CertificateRejected, "certificate_rejected"),
    (TlsErrorKind::Other, "other"),
];

impl TlsCounters {
    pub(super) fn count_open(&self, is_resumed: bool) {
        let counter = if is_resumed { &self.resumed } else { &self.full };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, kind: TlsErrorKind) {
        let index = FAILURES.iter().position(|(failure, _)| *failure == kind);
        if let Some(counter) = self.failed.get(index.unwrap_or(FAILURES.len() - 1)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_refused(&self, limit: HandshakeLimit) {
        let counter = match limit {
            HandshakeLimit::Shard => &self.refused,
            HandshakeLimit::Address => &self.address_refused,
            HandshakeLimit::Failures => &self.failures_refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Limits how often an address may fail.
    pub fn limit_failures(&self, failures: Arc<dyn HandshakeGuard>) {
        self.failures.set(failures).ok();
    }

    /// Returns how often an address may fail.
    pub(super) fn failures(&self) -> Option<&dyn HandshakeGuard> {
        self.failures.get().map(|failures| &**failures)
    }

    /// Replaces the certificates that are served.
    pub fn set_certificates(&self, certificates: Vec<CertificateExpiry>) {
        *self.certificates.write().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Returns when the certificates that are served expire.
    pub fn certificates(&self) -> Vec<CertificateExpiry> {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of handshakes by their result: `full`, `resumed`, `refused`, `evicted`,
    /// `address_refused`, `failures_refused`, or why they failed.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let complete = [
            ("full", &self.full),
            ("resumed", &self.resumed),
            ("refused", &self.refused),
            ("evicted", &self.evicted),
            ("address_refused", &self.address_refused),
            ("failures_refused", &self.failures_refused),
        ];
        let failed = FAILURES.iter().map(|(_, name)| *name).zip(&self.failed);
        complete
            .into_iter()
            .chain(failed)
            .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}
