//! Rate limits of a server: of requests on each shard, of connections and failures over all shards.
//!
//! A shard decides by its own state, except for rules with a small burst, whose state all shards
//! share. Shards that are short of requests for a key ask the others for what they can spare
//! ([`RateMessage`]); who has none to send costs no message.
//!
//! The rules, and the limit of connections, are shared by all shards ([`RateSource`]).

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::mesh::ShardId;
use corelane_protocol::eras::{ClientNotification, Method};
use corelane_protocol::error::{Error, ErrorKind};

use super::connection_state::PeerState;
use super::failure_limit::FailureLimit;
use super::options::RateOptions;
use super::outbox::Outbox;
use super::reply_to::{PeerId, RefusalFields};
use super::shard_message::{RateMessage, ShardMessage};
use crate::guard::pattern::TargetUri;
use crate::guard::rate::ConnectionRates;
use crate::guard::rate::bucket::Quota;
use crate::guard::rate::limiter::{Caller, Exceeded, RateLimiter};
use crate::guard::rate::rules::{LimitedMethod, OtherRequest, RateRules, RateTarget, parse_quota};
use crate::guard::rate::tables::{SmallBurstAccess, SmallBursts};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::service::Catalog;
use crate::telemetry::counters::Counters;

/// The rate limits of one shard; off by default.
#[derive(Debug)]
pub(super) struct RateLimits {
    limiter: Box<RateLimiter>,
    /// Whether there are rules.
    is_active: bool,
    /// Whether a rule depends on the name that a request is for.
    needs_name: bool,
    shard: ShardId,
    /// Whether an answer of each shard is outstanding.
    is_asked: Box<[bool]>,
    trusted: TrustedProxies,
}

/// The names in a request that rules depend on.
struct TargetNames<'n> {
    name: &'n str,
    /// The URI, as the catalog resolves it, instead of a name.
    uri: Option<Cow<'n, str>>,
    tool: &'n str,
}

impl RateLimits {
    fn new(limiter: RateLimiter, shard: ShardId, shards: u16, trusted: TrustedProxies) -> Self {
        let (is_active, needs_name) = (limiter.is_active(), needs_name(limiter.rules()));
        let is_asked = vec![false; usize::from(shards)].into();
        Self { limiter: Box::new(limiter), is_active, needs_name, shard, is_asked, trusted }
    }

    /// Returns whether requests are limited.
    #[inline]
    pub(super) const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Returns whether a rule depends on the name that a request is for.
    #[inline]
    pub(super) const fn needs_name(&self) -> bool {
        self.needs_name
    }

    /// Uses other rules from now on.
    pub(super) fn install(&mut self, rules: Arc<RateRules>) {
        self.limiter.install(rules);
        self.is_active = self.limiter.is_active();
        self.needs_name = needs_name(self.limiter.rules());
    }

    /// Returns the number of keys that have sent requests lately.
    pub(super) fn keys(&self, now: Instant) -> usize {
        let own = self.limiter.keys(now.nanoseconds());
        // Those of all shards are counted once.
        let is_first = self.shard == ShardId(0);
        own + if is_first { self.limiter.small_burst_keys(now.nanoseconds()) } else { 0 }
    }

    /// Checks a request of `peer` against all limits.
    ///
    /// # Errors
    ///
    /// The error response: a limit is exceeded.
    #[inline]
    pub(super) fn check(
        &mut self,
        catalog: &Catalog,
        peer: &mut PeerState<'_>,
        peer_id: PeerId,
        now: Instant,
        method: Method,
        name: &str,
    ) -> Result<(), Error> {
        let admitted =
            self.admit(catalog, peer, peer_id, now, LimitedMethod::Request(method), name);
        admitted.map_err(|exceeded| refuse(peer, exceeded))
    }

    /// Returns whether a notification of `peer` exceeds a limit, and is dropped. Those that begin
    /// or end something are not limited.
    pub(super) fn drops_notification(
        &mut self,
        catalog: &Catalog,
        peer: &mut PeerState<'_>,
        peer_id: PeerId,
        now: Instant,
        name: &str,
    ) -> bool {
        use ClientNotification::{Cancelled, Initialized};
        if matches!(ClientNotification::parse(name), Some(Initialized | Cancelled)) {
            return false;
        }
        let method = LimitedMethod::Notification(name);
        let is_dropped = self.admit(catalog, peer, peer_id, now, method, "").is_err();
        peer.outbox.counters.requests.notifications_dropped += u64::from(is_dropped);
        is_dropped
    }

    /// Returns the address that counts: that of the request, or of the connection.
    pub(super) fn client_of(&self, peer: &PeerState<'_>, peer_id: PeerId) -> Option<ClientAddress> {
        address_of(peer, peer_id, &self.trusted)
    }

    /// Returns the client address of a peer at `address`.
    pub(super) fn client_at(&self, address: IpAddr) -> Option<ClientAddress> {
        self.trusted.client_at(address)
    }

    /// Frees what is kept of a session or connection that has ended.
    #[inline]
    pub(super) fn end_session(&mut self, peer_id: PeerId) {
        self.limiter.end_session(peer_id.to_bits());
    }

    /// Checks a request that is no message of MCP against all limits.
    ///
    /// # Errors
    ///
    /// A limit is exceeded.
    pub(super) fn admit_other(
        &mut self,
        caller: &Caller<'_>,
        request: OtherRequest,
        now: Instant,
        counters: &mut Counters,
    ) -> Result<(), Exceeded> {
        let method = LimitedMethod::Other(request);
        let target = RateTarget { method, name: "", uri: None, tool: "" };
        let admitted = self.limiter.admit(caller, &target, now.nanoseconds());
        counters.requests.rate_overflows += self.limiter.take_overflows();
        counters.overload.refused_rate += u64::from(admitted.is_err());
        admitted
    }

    /// Admits a request or notification, if all limits allow it.
    fn admit(
        &mut self,
        catalog: &Catalog,
        peer: &mut PeerState<'_>,
        peer_id: PeerId,
        now: Instant,
        method: LimitedMethod<'_>,
        name: &str,
    ) -> Result<(), Exceeded> {
        let names = self.needs_name.then(|| self.read_names(catalog, method, name));
        let uri = names.as_ref().and_then(|names| names.uri.as_deref());
        let forms = uri.map(TargetUri::with_and_without_query);
        let (name, tool) = names.as_ref().map_or(("", ""), |names| (names.name, names.tool));
        let target = RateTarget { method, name, uri: forms.as_ref(), tool };
        let caller = Caller {
            principal: peer.principal(),
            address: address_of(peer, peer_id, &self.trusted),
            session: peer_id.to_bits(),
        };
        let admitted = self.limiter.admit(&caller, &target, now.nanoseconds());
        peer.outbox.counters.requests.rate_overflows += self.limiter.take_overflows();
        admitted
    }

    /// Reads what a request is for. Names that no tool has are limited together: they are as many
    /// as a client likes.
    #[inline(never)]
    fn read_names<'n>(
        &self,
        catalog: &'n Catalog,
        method: LimitedMethod<'_>,
        name: &'n str,
    ) -> TargetNames<'n> {
        let rules = self.limiter.rules();
        let is_of = |wanted| matches!(method, LimitedMethod::Request(method) if method == wanted);
        let is_tool = is_of(Method::ToolsCall);
        let tool =
            if is_tool && rules.needs_tool() && catalog.tool(name).is_some() { name } else { "" };
        let is_uri = matches!(method, LimitedMethod::Request(method) if method.names_uri());
        let uri = (is_uri && rules.needs_name()).then(|| catalog.resolved_uri(name));
        TargetNames { name, uri, tool }
    }

    /// Asks other shards for what this one is short of.
    #[inline]
    pub(super) fn request_shares(&mut self, outbox: &mut Outbox) {
        if self.is_active
            && let Some(requests) = self.limiter.take_requests()
        {
            let from = self.shard;
            for (shard, is_asked) in (0..).map(ShardId).zip(&mut self.is_asked) {
                if shard != from && !*is_asked {
                    *is_asked = true;
                    let requests = Arc::clone(&requests);
                    let message = RateMessage::Request { from, requests };
                    outbox.forward(shard, ShardMessage::Rate(Box::new(message)));
                }
            }
        }
    }

    /// Handles a message of another shard.
    pub(super) fn handle_message(
        &mut self,
        message: RateMessage,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        match message {
            RateMessage::Request { from: to, requests } => {
                let gifts = self.limiter.give(to.0, &requests, now.nanoseconds());
                let message = RateMessage::Gifts { from: self.shard, gifts };
                outbox.forward(to, ShardMessage::Rate(Box::new(message)));
            }
            RateMessage::Gifts { from, gifts } => {
                self.limiter.receive(&gifts);
                if let Some(is_asked) = self.is_asked.get_mut(from.index()) {
                    *is_asked = false;
                }
            }
        }
    }
}

/// Returns the address that counts: that of the request, or of the connection.
#[inline]
fn address_of(
    peer: &PeerState<'_>,
    peer_id: PeerId,
    trusted: &TrustedProxies,
) -> Option<ClientAddress> {
    match (peer_id, peer.origin.peer_addr) {
        (PeerId::HttpSession(_) | PeerId::Parity(_), Some(address)) => {
            trusted.client_at(address.ip())
        }
        _ => peer.state.client,
    }
}

/// Returns whether a rule depends on the name that a request is for.
const fn needs_name(rules: &RateRules) -> bool {
    rules.needs_name() || rules.needs_tool()
}

/// Makes the error for a request that exceeds a limit, and counts it.
#[cold]
fn refuse(peer: &mut PeerState<'_>, exceeded: Exceeded) -> Error {
    peer.outbox.counters.overload.refused_rate += 1;
    let error = error_of(&exceeded);
    peer.refusal = Some(RefusalFields::RateLimit(Box::new(exceeded)));
    error
}

/// Returns the error of an exceeded limit. `data.retryAfterMs` is the time after which the next
/// request may be admitted, rounded up.
pub(super) fn error_of(exceeded: &Exceeded) -> Error {
    let milliseconds = exceeded.retry_after.as_nanos().div_ceil(1_000_000).max(1);
    let message = format!("rate limit exceeded: {exceeded}; retry in {milliseconds} ms");
    let data = format!(r#"{{"retryable":true,"retryAfterMs":{milliseconds}}}"#);
    Error::new(ErrorKind::RateLimited, message).with_data(data)
}

#[expect(clippy::disallowed_types, reason = "locked when a connection opens, and by small bursts")]
type Mutex<T> = std::sync::Mutex<T>;

/// The table of rules with a small burst, locked for each request under one.
#[derive(Clone, Debug, Default)]
struct SharedBursts(Arc<Mutex<SmallBursts>>);

impl SmallBurstAccess for SharedBursts {
    fn access(&self, run: &mut dyn FnMut(&mut SmallBursts)) {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What limits requests and connections.
#[derive(Debug)]
pub(super) struct RateSource {
    /// The rules at start.
    rules: Arc<RateRules>,
    /// Each shard starts with these; all hash with the same secret.
    keys_max: usize,
    secret: u128,
    /// What all shards count together.
    small_bursts: SharedBursts,
    connections: Mutex<ConnectionRates>,
    failures: Arc<FailureLimit>,
}

impl RateSource {
    /// Reads rules.
    ///
    /// # Errors
    ///
    /// Which option is malformed, and why.
    pub fn load(options: &RateOptions, secret: &[u8; KEY_BYTES]) -> Result<Self, String> {
        let Parsed { rules, connections: quota, failures: failure_quota } = parse(options)?;
        let secret = SecureRng::new(secret, Purpose::RateHashes).next_u128().unwrap_or_default();
        let keys_max = options.keys_max as usize;
        let mut connections = ConnectionRates::new(secret, keys_max);
        connections.install(quota);
        let small_bursts = SharedBursts::default();
        let (rules, connections) = (rules.into(), Mutex::new(connections));
        let failures = Arc::new(FailureLimit::new(secret, keys_max));
        failures.install(failure_quota);
        Ok(Self { rules, keys_max, secret, small_bursts, connections, failures })
    }

    /// Returns the limits of one of `shards` shards.
    pub fn shard_part(&self, shard: ShardId, shards: u16, trusted: &TrustedProxies) -> RateLimits {
        let count = NonZeroU32::new(shards.into()).unwrap_or(NonZeroU32::MIN);
        let mut limiter =
            RateLimiter::new(self.secret, count, Rc::new(self.small_bursts.clone()), self.keys_max);
        limiter.install(Arc::clone(&self.rules));
        RateLimits::new(limiter, shard, shards, trusted.clone())
    }

    /// Reads rules again. `publish` gets those that are used from now on.
    ///
    /// # Errors
    ///
    /// Which option is malformed, and why; nothing changes.
    pub fn reload(
        &self,
        options: &RateOptions,
        publish: impl FnOnce(Arc<RateRules>),
    ) -> Result<(), String> {
        let Parsed { rules, connections, failures } = parse(options)?;
        self.connections().install(connections);
        self.failures.install(failures);
        publish(Arc::new(rules));
        Ok(())
    }

    /// Admits a connection of an address, whichever shard accepts it.
    ///
    /// # Errors
    ///
    /// The time after which the address may open another one.
    pub fn admit_connection(&self, client: ClientAddress, now: Instant) -> Result<(), Duration> {
        self.connections().admit(client, now.nanoseconds())
    }

    /// Returns the limit of failures, which all shards share.
    pub const fn failures(&self) -> &Arc<FailureLimit> {
        &self.failures
    }

    fn connections(&self) -> MutexGuard<'_, ConnectionRates> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What options say.
struct Parsed {
    rules: RateRules,
    connections: Option<Quota>,
    failures: Option<Quota>,
}

fn parse(options: &RateOptions) -> Result<Parsed, String> {
    let rules = RateRules::parse(&options.rules);
    let rules = rules.map_err(|error| format!("rate.rules: {error}"))?;
    let quota = |key, text: &Option<String>| {
        let quota = text.as_deref().map(parse_quota).transpose();
        quota.map_err(|error| format!("{key}: {error}"))
    };
    let connections = quota("rate.connections", &options.connections)?;
    let failures = quota("rate.failures", &options.failures)?;
    Ok(Parsed { rules, connections, failures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_rounds_time_up() {
        for (nanoseconds, milliseconds) in [(0, 1), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            let retry_after = Duration::from_nanos(nanoseconds);
            let (policy, rule) = ("all".into(), "* rate=9/s".into());
            let exceeded = Exceeded { policy, rule, limit: 9, seconds: 1, retry_after };
            let error = error_of(&exceeded);
            let data = format!(r#"{{"retryable":true,"retryAfterMs":{milliseconds}}}"#);
            assert_eq!((error.code, error.data.as_deref()), (1002, Some(&*data)));
            assert!(error.message.starts_with("rate limit exceeded: 9 per second (all); "));
        }
    }
}
