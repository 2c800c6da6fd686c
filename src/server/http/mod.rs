//! HTTP on one shard: requests, the exchanges of connections, and legacy sessions, which outlive
//! the connections of their requests.
//!
//! A request that is answered later opens an exchange (`exchanges`), which pauses its
//! connection. Modern requests have no session: the shard of their connection responds.
//!
//! A session (2025-03-26 to 2025-11-25) is created by `initialize` and owned by the shard that
//! responded (`session_store`). Its id names that shard, so a request that arrives at another shard
//! is forwarded to the owner, and the response is sent back.
//!
//! Invariants: every request gets one response, in the order of the requests; an invalid one
//! affects no other, and closes the connection only if its framing is lost.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, basic/transports, "Streamable HTTP".

mod gauges;
mod page;

mod exchanges;

use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::holders::PlaceOwner;
use corelane_base::slab::Key;
use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::ShardId;
#[cfg(feature = "tower")]
use corelane_engine::process::Entropy;
use corelane_transport::http::checks::{CheckId, CheckProfile};
use corelane_transport::http::head;
use corelane_transport::http::head::RequestLimits;
use corelane_transport::http::head_template::HeadTemplate;
#[cfg(feature = "tower")]
use corelane_transport::http::request_id;

pub(super) use self::exchanges::ExchangePath;
use self::exchanges::Exchanges;
use self::gauges::GaugeValues;
pub(super) use self::gauges::{GaugeTotals, SharedGauges};
pub(super) use self::page::{CONTENT_SECURITY_POLICY, write_page};
use super::card::ServerCard;
use super::connection_state::{ConnectionState, EchoedFields, HttpSession, Standing};
use super::dispatch::Dispatcher;
use super::outbox::Outbox;
use super::owner_id::SessionId;
use super::reply_to::PeerId;
use super::session_store::{CreatedSession, RemovedSession, SessionError, SessionStore};
use super::shard_message::{HttpTimeouts, SessionLimits};
use super::upstreams::UpstreamDirectory;
use crate::connection::Connections;
use crate::connection::proxy_protocol::ProxyCounters;
use crate::connection::tls::TlsCounters;
use crate::guard::auth::token_table::TokenDigest;
use crate::guard::origin::{CachedOriginGuard, OriginGuard};
use crate::telemetry::event::Event;
use crate::telemetry::label::EvictionReason;
use crate::telemetry::metrics::ReloadTotals;
use crate::telemetry::throttle::MinuteThrottle;
use crate::telemetry::trace::TraceTotals;

/// Returns the `X-Request-ID` of a response that no shard has written, from the values of the
/// request; `None` if the system has no random source.
#[cfg(feature = "tower")]
pub fn request_id<'v>(sent: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    if let Some(id) = request_id::sent_id_of_all(sent) {
        return Some(id.to_vec());
    }
    let Entropy { secret, .. } = Entropy::from_system().ok()?;
    let random = secret.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))?;
    Some(request_id::random_uuid(random).to_vec())
}

/// Returns the error message for a check that a session has failed.
pub(super) const fn session_error_message(check: CheckId) -> &'static str {
    match check {
        CheckId::SessionExists => {
            "the session has expired or does not exist: send initialize again"
        }
        CheckId::StreamAvailable => {
            "another GET stream of this session is open; only one is allowed"
        }
        CheckId::EventIdKnown => "Last-Event-ID does not identify an event of a resumable stream",
        _ => "the request is rejected",
    }
}

/// HTTP state of one shard.
#[derive(Debug)]
pub(super) struct HttpTransport {
    /// Checks of requests of clients.
    pub checks: RequestChecks,
    /// Checks of requests to the listener of operators.
    pub operator_checks: RequestChecks,
    host_throttle: MinuteThrottle,
    /// Size limits of a request.
    pub limits: RequestLimits,
    pub exchanges: Exchanges,
    /// Legacy sessions.
    pub sessions: SessionStore<HttpSession>,
    /// Numbers of sessions and streams of all shards.
    gauges: SharedGauges,
    /// The servers behind this one.
    pub upstreams: Option<Arc<dyn UpstreamDirectory>>,
    /// The server drains: it accepts no more requests.
    pub is_draining: bool,
    /// The server drains, or is about to: `/readyz` answers 503.
    pub is_unready: bool,
}

/// The checks of requests to one listener.
#[derive(Debug)]
pub(super) struct RequestChecks {
    /// Which HTTP endpoints are enabled.
    pub profile: CheckProfile,
    /// Checks of the headers `Host` and `Origin`.
    pub origin_guard: CachedOriginGuard,
    /// Of the token that operators need, if they need one.
    pub operator_token: Option<TokenDigest>,
    /// The server card, if it is served.
    pub card: Option<Arc<ServerCard>>,
}

impl RequestChecks {
    pub const fn new(
        profile: CheckProfile,
        origin: OriginGuard,
        operator_token: Option<TokenDigest>,
    ) -> Self {
        let origin_guard = CachedOriginGuard::new(origin);
        Self { profile, origin_guard, operator_token, card: None }
    }
}

/// What the HTTP state of a shard is made of.
pub(super) struct HttpParts {
    pub checks: RequestChecks,
    pub operator_checks: RequestChecks,
    pub limits: RequestLimits,
    pub timeouts: HttpTimeouts,
    pub sessions: SessionStore<HttpSession>,
    /// A random number of the process, of which the ids of requests are made.
    pub request_ids: u128,
    pub gauges: SharedGauges,
    pub upstreams: Option<Arc<dyn UpstreamDirectory>>,
}

impl HttpTransport {
    /// Creates the state of `shard`, one of `shard_count`.
    pub fn new(parts: HttpParts, shard: ShardId, shard_count: u16) -> Self {
        Self {
            checks: parts.checks,
            operator_checks: parts.operator_checks,
            host_throttle: MinuteThrottle::default(),
            limits: parts.limits,
            exchanges: Exchanges::new(shard, shard_count, parts.timeouts, parts.request_ids),
            sessions: parts.sessions,
            gauges: parts.gauges,
            upstreams: parts.upstreams,
            is_draining: false,
            is_unready: false,
        }
    }

    /// Sets the clock of response heads.
    pub const fn set_wall_clock(&mut self, wall_clock: WallClock) {
        self.exchanges.wall_clock = wall_clock;
    }

    /// Applies new limits.
    pub const fn set_limits(
        &mut self,
        request: RequestLimits,
        timeouts: HttpTimeouts,
        sessions: SessionLimits,
    ) {
        self.limits = request;
        self.exchanges.timeouts = timeouts;
        self.sessions.limits = sessions;
    }

    /// Creates a session; call [`HttpTransport::confirm_session`] once its handshake has succeeded,
    /// or remove it. Returns `None` if it is refused.
    pub fn create_session(
        &mut self,
        session: HttpSession,
        outbox: &mut Outbox,
        now: Instant,
    ) -> Option<CreatedSession> {
        let address = session.state.client;
        let principal = session.state.principal().cloned();
        let owner = PlaceOwner { principal: principal.as_deref(), address };
        let created = self.sessions.create(session, owner, now);
        if created == Err(SessionError::SessionLimit) {
            outbox.counters.sessions.refused += 1;
            let (shard, peer) = (self.exchanges.shard().0, address.map(ClientAddress::ip));
            outbox.log(Event::SessionRefused { shard, peer });
        }
        created.ok()
    }

    /// Completes the creation of a session: the one that it evicts ends.
    pub fn confirm_session(
        &mut self,
        created: &CreatedSession,
        dispatcher: &mut Dispatcher,
        outbox: &mut Outbox,
        now: Instant,
    ) {
        let counts = &mut outbox.counters.sessions;
        counts.created += 1;
        let Some(eviction) = created.evicts else { return };
        // It was idle: there is no exchange to end.
        let Some(removed) = self.sessions.remove(eviction.key) else { return };
        counts.evicted += 1;
        match eviction.reason {
            EvictionReason::AddressShare => counts.evicted_address_share += 1,
            EvictionReason::Unused => counts.evicted_unused += 1,
            EvictionReason::Idle => counts.evicted_idle += 1,
        }
        let creator = self.sessions.get_mut(created.key).and_then(|it| it.state.client);
        let (shard, peer) = (self.exchanges.shard().0, creator.map(ClientAddress::ip));
        let age = now.since(removed.session.created_at);
        outbox.log(Event::SessionEvicted { shard, reason: eviction.reason, peer, age });
        end_session(removed, dispatcher, outbox, now);
    }

    /// Returns the shard that owns a session.
    pub fn owner_of(&self, session: SessionId) -> ShardId {
        self.exchanges.owner_of(session)
    }

    /// Returns whether this shard owns a session.
    #[inline]
    pub fn owns(&self, session: SessionId) -> bool {
        self.owner_of(session) == self.exchanges.shard()
    }

    /// Returns the number of incomplete exchanges.
    pub const fn open_exchanges(&self) -> usize {
        self.exchanges.open()
    }

    /// Returns whether there are exchanges or sessions, which may have timers.
    #[inline]
    pub const fn is_active(&self) -> bool {
        self.exchanges.open() > 0 || self.sessions.len() > 0
    }

    /// Returns the next deadline of exchanges and sessions.
    pub fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.next_deadline();
        Instant::earliest([self.exchanges.next_deadline(), sessions])
    }

    /// Reports the gauges of this shard, which has `subscriptions` notification streams.
    #[inline]
    pub fn report_gauges(&mut self, subscriptions: usize) {
        let streams = subscriptions + self.sessions.attached_streams();
        self.gauges.report(GaugeValues { sessions: self.sessions.len(), streams });
    }

    /// Returns the numbers of TLS, if a listener is encrypted.
    pub fn tls(&self) -> Option<&TlsCounters> {
        self.gauges.tls()
    }

    /// Returns the numbers of PROXY headers, if a listener expects them.
    pub fn proxies(&self) -> Option<&ProxyCounters> {
        self.gauges.proxies()
    }

    /// Returns the reloads of the configuration.
    pub fn reloads(&self) -> ReloadTotals {
        self.gauges.config_reloads().totals()
    }

    /// Returns when what tokens are verified with was last read, by its source.
    pub fn credentials_read(&self) -> Vec<(Box<str>, u64)> {
        self.gauges.credentials_read()
    }

    /// Returns the numbers of spans, if they are exported.
    pub fn traces(&self) -> Option<TraceTotals> {
        self.gauges.traces()
    }

    /// Returns the numbers of lost lines by their log.
    pub fn log_lines_lost(&self) -> Vec<(&'static str, u64)> {
        self.gauges.log_lines_lost()
    }

    /// Returns the gauges of all shards.
    pub fn gauges(&self) -> GaugeTotals {
        self.gauges.totals()
    }

    /// Returns what response heads at `now` have in common.
    #[inline]
    pub fn heads(&mut self, now: Instant) -> &mut HeadTemplate {
        self.exchanges.heads(now)
    }

    /// Returns the id of a request, which is the last one that has begun.
    pub fn request_id<'r>(&'r self, echoed: EchoedFields<'r>) -> &'r [u8] {
        echoed.request_id_or(self.exchanges.template())
    }

    /// Returns whether a session can still send responses.
    pub fn can_respond(&self, session: Key) -> bool {
        !self.is_draining && self.sessions.contains(session)
    }

    /// Returns the checks of requests on a connection.
    #[inline]
    pub const fn checks_of(&mut self, standing: Standing) -> &mut RequestChecks {
        match standing {
            Standing::Operator => &mut self.operator_checks,
            _ => &mut self.checks,
        }
    }

    /// Returns the origin of a request that is rejected before its checks, if it is allowed. The
    /// `head` may be invalid, or empty if it is not known.
    pub fn allowed_origin<'h>(&mut self, head: &'h [u8], standing: Standing) -> Option<&'h [u8]> {
        let mut origins = head::field_values(head, b"origin");
        let origin = origins.next().filter(|first| origins.all(|other| other == *first))?;
        let guard = &mut self.checks_of(standing).origin_guard;
        let mut hosts = head::field_values(head, b"host").map(Some).peekable();
        let is_hostless = hosts.peek().is_none();
        let mut hosts = hosts.chain(is_hostless.then_some(None));
        hosts.all(|host| guard.check(host, Some(origin)).is_ok()).then_some(origin)
    }

    /// Logs, once a minute, that the `Host` header of a request of `peer` is not allowed.
    pub fn log_refused_host(
        &mut self,
        peer: Option<SocketAddr>,
        sent_id: Option<&[u8]>,
        now: Instant,
    ) {
        if let Some(suppressed) = self.host_throttle.admit(now) {
            let ShardId(shard) = self.exchanges.shard();
            let id = sent_id.unwrap_or_else(|| self.exchanges.heads(now).request_id());
            let request_id = str::from_utf8(id).ok();
            Event::HostRefused { shard, peer, request_id }.emit_suppressed(suppressed);
        }
    }

    /// Returns the exchanges with the connections that carry them.
    pub const fn exchange_path<'a>(
        &'a mut self,
        connections: &'a mut Connections<ConnectionState>,
        outbox: &'a mut Outbox,
        now: Instant,
    ) -> ExchangePath<'a> {
        ExchangePath { exchanges: &mut self.exchanges, connections, outbox, now }
    }

    /// Has `/readyz` answer 503: the server is about to drain.
    pub const fn set_unready(&mut self) {
        self.is_unready = true;
    }
}

/// Cleans up after an ended session: its calls, streams and client requests, and the owner of its
/// tasks.
pub(super) fn end_session(
    removed: RemovedSession<HttpSession>,
    dispatcher: &mut Dispatcher,
    outbox: &mut Outbox,
    now: Instant,
) {
    let RemovedSession { key, mut session, .. } = removed;
    let HttpSession { state, pending_work, .. } = &mut session;
    dispatcher.facts.release(state);
    dispatcher.remove_streams(&mut state.subscriptions, outbox);
    dispatcher.deferred.cancel_calls(&mut state.in_flight, pending_work, outbox);
    let peer = Some((PeerId::HttpSession(key), None));
    dispatcher.deferred.fail_client_requests(peer, now, outbox);
    dispatcher.deferred.tasks.table.remove_owner(PeerId::HttpSession(key));
    dispatcher.rate.end_session(PeerId::HttpSession(key));
}
