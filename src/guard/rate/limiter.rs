//! The limits of one shard, and the exchange of shares with others.
//!
//! ```text
//!  short of requests ── Request ──▶ every other shard
//!                    ◀── Gift ────  what each has to spare
//! ```
//!
//! A shard whose bucket of a key is less than half full asks the others for as much as four times
//! its requests since it last asked. One that has no requests for the key gives up to all of its
//! bucket, any other up to half of what it has above a quarter. Keys that only one shard can have,
//! those of a session, have the whole limit there. Rules with a small burst have no shares: their
//! buckets are in one table of all shards.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;

use super::bucket::{Bucket, Share};
use super::known_keys::{KeySource, KnownKeys};
use super::rules::{Keys, LimitedMethod, RateRules, RateTarget};
use super::tables::{BucketTable, KeyedHash, SmallBurstAccess, SmallBursts};

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Its authenticated caller.
    pub principal: Option<&'a Arc<Principal>>,
    /// The address of its client; `None` if it is exempt from limits by address.
    pub address: Option<ClientAddress>,
    /// A number that differs between sessions, and between connections without one.
    pub session: u64,
}

/// A limit that a request has exceeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exceeded {
    /// The name of the limit in header fields.
    pub policy: Box<str>,
    /// The rule, as it is configured.
    pub rule: Box<str>,
    /// Requests of one period.
    pub limit: u32,
    /// The period in seconds.
    pub seconds: u32,
    /// Time after which a request may be admitted.
    pub retry_after: Duration,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, limit, seconds, .. } = self;
        match seconds {
            1 => write!(formatter, "{limit} per second ({policy})"),
            _ => write!(formatter, "{limit} in {seconds} seconds ({policy})"),
        }
    }
}

/// A request for the shares of other shards.
#[derive(Clone, Copy, Debug)]
pub struct ShareRequest {
    key: u64,
    share: Share,
    /// Nanoseconds of the share.
    wanted: u64,
}

/// Part of the share of another shard.
#[derive(Clone, Copy, Debug)]
pub struct ShareGift {
    key: u64,
    nanoseconds: u64,
}

/// The limits of one shard.
#[derive(Debug)]
pub struct RateLimiter {
    rules: Arc<RateRules>,
    /// Each rule with its share of this shard.
    limits: Vec<Limit>,
    table: BucketTable,
    keys_max: usize,
    hash: KeyedHash,
    known: KnownKeys,
    small_bursts: Rc<dyn SmallBurstAccess>,
    shards: NonZeroU32,
    requests: Vec<ShareRequest>,
    /// The keys of each session and connection in the table, by rules with keys of sessions.
    sessions: HashMap<u64, Vec<u64>>,
    /// Requests that were limited together with others, for lack of places.
    overflows: u64,
}

/// A rule as it applies on this shard.
#[derive(Clone, Copy, Debug)]
struct Limit {
    keys: Keys,
    /// It is for requests of some names.
    has_name: bool,
    share: Share,
    /// The whole limit, if all shards count in one table.
    whole: Option<Share>,
    /// Hash of the text of the rule.
    seed: u64,
    /// The bucket of keys that have no place in the table.
    overflow: Bucket,
}

impl RateLimiter {
    /// Creates the limits of one of `shards` shards, which share `secret` and the table of small
    /// bursts, for at most `keys_max` keys.
    pub fn new(
        secret: u128,
        shards: NonZeroU32,
        small_bursts: Rc<dyn SmallBurstAccess>,
        keys_max: usize,
    ) -> Self {
        Self {
            rules: Arc::default(),
            limits: Vec::new(),
            table: BucketTable::default(),
            keys_max,
            hash: KeyedHash::new(secret),
            known: KnownKeys::default(),
            small_bursts,
            shards,
            requests: Vec::new(),
            sessions: HashMap::new(),
            overflows: 0,
        }
    }

    /// Applies other rules from now on. A rule that has not changed keeps its buckets. Cost: the
    /// tables, with the first rule.
    pub fn install(&mut self, rules: Arc<RateRules>) {
        self.limits.clear();
        for rule in rules.iter() {
            let is_of_one_shard = rule.keys.contains(Keys::SESSION);
            let shards = if is_of_one_shard { NonZeroU32::MIN } else { self.shards };
            let is_whole = shards > NonZeroU32::MIN && rule.quota.is_small_for(shards);
            if is_whole {
                self.with_small_bursts(|it| it.reserve(self.keys_max));
            }
            let mut hasher = self.hash.hasher();
            rule.text.hash(&mut hasher);
            self.limits.push(Limit {
                keys: rule.keys,
                has_name: rule.has_name(),
                share: rule.quota.share_of(shards),
                whole: is_whole.then(|| rule.quota.share_of(NonZeroU32::MIN)),
                seed: hasher.finish(),
                overflow: Bucket::default(),
            });
        }
        self.table = match (rules.is_empty(), self.rules.is_empty()) {
            (true, _) => BucketTable::default(),
            (false, true) => BucketTable::new(self.keys_max),
            (false, false) => std::mem::take(&mut self.table),
        };
        self.known = if rules.is_empty() { KnownKeys::default() } else { KnownKeys::new() };
        self.requests = Vec::new();
        self.rules = rules;
    }

    /// Frees the places of the keys of a session, or of a connection, that has ended.
    #[inline]
    pub fn end_session(&mut self, session: u64) {
        if !self.sessions.is_empty() {
            self.free_keys(session);
        }
    }

    #[cold]
    fn free_keys(&mut self, session: u64) {
        for key in self.sessions.remove(&session).unwrap_or_default() {
            self.table.remove(key);
        }
    }

    /// Records that a session has a key in the table.
    #[cold]
    fn record_key(&mut self, session: u64, key: u64) {
        let keys = self.sessions.entry(session).or_default();
        // Others free their place once their limit is full again.
        if keys.len() < KEYS_PER_SESSION_MAX && !keys.contains(&key) {
            keys.push(key);
        }
    }

    /// Returns whether anything is limited.
    #[inline]
    pub const fn is_active(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Returns the rules.
    pub fn rules(&self) -> &RateRules {
        &self.rules
    }

    /// Returns the number of keys of this shard that have sent requests lately. Cost: visits the
    /// whole table.
    pub fn keys(&self, now: u64) -> usize {
        self.table.len(now)
    }

    /// Returns the number of keys of all shards, by rules with a small burst.
    pub fn small_burst_keys(&self, now: u64) -> usize {
        self.with_small_bursts(|it| it.keys(now)).unwrap_or_default()
    }

    #[cold]
    fn with_small_bursts<T>(&self, run: impl Fn(&mut SmallBursts) -> T) -> Option<T> {
        let mut returned = None;
        self.small_bursts.access(&mut |it| returned = Some(run(it)));
        returned
    }

    /// Takes the number of requests that were limited together because there were too many keys.
    #[inline]
    pub const fn take_overflows(&mut self) -> u64 {
        std::mem::replace(&mut self.overflows, 0)
    }

    /// Admits a request, or a notification, if all limits allow it.
    ///
    /// # Errors
    ///
    /// The first limit that is exceeded; the request counts against none then.
    #[inline]
    pub fn admit(
        &mut self,
        caller: &Caller<'_>,
        target: &RateTarget<'_>,
        now: u64,
    ) -> Result<(), Exceeded> {
        let applying = self.rules.for_method(target.method);
        let mut left = applying;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(key) = self.key_of(index, caller, target)
                && let Err(retry_after) = self.take(index, key, caller.session, now)
            {
                self.put_back(applying & ((1 << index) - 1), caller, target);
                return Err(self.exceeded(index, retry_after));
            }
        }
        Ok(())
    }

    /// Returns the hash of what has a bucket of its own by a rule, or `None` if the rule is not for
    /// this request.
    #[inline]
    fn key_of(
        &mut self,
        index: usize,
        caller: &Caller<'_>,
        target: &RateTarget<'_>,
    ) -> Option<u64> {
        let Limit { keys, has_name, seed, .. } = *self.limits.get(index)?;
        if has_name && !self.rules.get(index)?.is_for_name(target) {
            return None;
        }
        if keys == Keys::default() {
            return Some(seed);
        }
        let principal = caller.principal.filter(|_| keys.contains(Keys::PRINCIPAL));
        let address = match (keys.contains(Keys::ADDRESS), keys.contains(Keys::PRINCIPAL)) {
            (true, _) => caller.address?.to_bits(),
            // Without a credential the address stands for the caller.
            (false, true) if principal.is_none() => {
                caller.address.map_or(0, ClientAddress::to_bits)
            }
            (false, _) => 0,
        };
        let session = if keys.contains(Keys::SESSION) { caller.session } else { 0 };
        let method = match target.method {
            _ if !keys.contains(Keys::METHOD) => 0,
            LimitedMethod::Request(method) => 1 + method as u64,
            LimitedMethod::Notification(_) => u64::MAX,
            LimitedMethod::Other(request) => u64::MAX - 1 - request as u64,
        };
        let source = KeySource { seed, address, session, method, principal };
        if keys.contains(Keys::TOOL) {
            return Some(self.hash_source(&source, Some(target.tool)));
        }
        Some(self.known.find(&source).unwrap_or_else(|| self.add_known(&source)))
    }

    /// Hashes the key of a caller, who is known from now on.
    #[cold]
    fn add_known(&mut self, source: &KeySource<'_>) -> u64 {
        let key = self.hash_source(source, None);
        self.known.insert(source, key);
        key
    }

    // Not cold: rules by tool hash every request.
    #[inline(never)]
    fn hash_source(&self, source: &KeySource<'_>, tool: Option<&str>) -> u64 {
        if source.principal.is_none() && tool.is_none() {
            return self.hash.of_words(source.words());
        }
        let mut hasher = self.hash.hasher();
        source.words().hash(&mut hasher);
        if let Some(principal) = source.principal {
            hash_principal(principal, &mut hasher);
        }
        if let Some(tool) = tool {
            tool.hash(&mut hasher);
        }
        hasher.finish()
    }

    #[inline]
    fn take(&mut self, index: usize, key: u64, session: u64, now: u64) -> Result<(), Duration> {
        let Limit { share, overflow, whole, keys, .. } = &mut self.limits[index];
        let share = *share;
        if let Some(whole) = *whole {
            let taken = self.with_small_bursts(|it| it.take(key, whole, now)).flatten();
            let Limit { overflow, .. } = &mut self.limits[index];
            return taken
                .unwrap_or_else(|| take_overflow(overflow, &mut self.overflows, share, now));
        }
        let Some(entry) = self.table.place(key, now) else {
            return take_overflow(overflow, &mut self.overflows, share, now);
        };
        let taken = entry.bucket.take(share, now);
        if share.is_shared() {
            let (is_low, interval) = (entry.bucket.is_low(share), share.exchange_interval());
            if let Some(demand) = entry.count_request(is_low, interval, now)
                && self.requests.len() < REQUESTS_MAX
            {
                self.requests.push(ShareRequest { key, share, wanted: share.wanted(demand) });
            }
        } else if keys.contains(Keys::SESSION) && entry.record() {
            self.record_key(session, key);
        }
        taken
    }

    /// Gives back what was taken for a request that a later rule refuses.
    #[cold]
    fn put_back(&mut self, mut taken: u32, caller: &Caller<'_>, target: &RateTarget<'_>) {
        while taken != 0 {
            let index = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            let Some(key) = self.key_of(index, caller, target) else { continue };
            let Limit { share, overflow, whole, .. } = &mut self.limits[index];
            if let Some(whole) = *whole {
                let share = *share;
                if self.with_small_bursts(|it| it.put_back(key, whole)) != Some(true) {
                    self.limits[index].overflow.put_back(share);
                }
                continue;
            }
            match self.table.find(key) {
                Some(entry) => entry.bucket.put_back(*share),
                None => overflow.put_back(*share),
            }
        }
    }

    #[cold]
    fn exceeded(&self, index: usize, retry_after: Duration) -> Exceeded {
        let (policy, rule, quota) = match self.rules.get(index) {
            Some(rule) => (rule.policy.clone(), rule.text.trim_end().into(), Some(rule.quota)),
            None => (Box::default(), Box::default(), None),
        };
        let limit = quota.map_or(0, |quota| quota.limit.get());
        let seconds = quota.map_or(0, |quota| quota.seconds.get());
        Exceeded { policy, rule, limit, seconds, retry_after }
    }

    /// Takes the requests for shares that have gathered, to send them to all other shards.
    pub fn take_requests(&mut self) -> Option<Arc<[ShareRequest]>> {
        if self.requests.is_empty() {
            return None;
        }
        let requests = self.requests.as_slice().into();
        self.requests.clear();
        Some(requests)
    }

    /// Gives another shard part of the shares that it requests.
    pub fn give(&mut self, requester: u16, requests: &[ShareRequest], now: u64) -> Vec<ShareGift> {
        let mut gifts = Vec::new();
        for ShareRequest { key, share, wanted } in requests {
            let Some(entry) = self.table.place(*key, now) else { continue };
            let gives_all = entry.count_gift(requester);
            let nanoseconds = entry.bucket.give(*share, *wanted, gives_all, now);
            if nanoseconds > 0 {
                gifts.push(ShareGift { key: *key, nanoseconds });
            }
        }
        gifts
    }

    /// Adds what another shard has given.
    pub fn receive(&mut self, gifts: &[ShareGift]) {
        for ShareGift { key, nanoseconds } in gifts {
            if let Some(entry) = self.table.find(*key) {
                entry.bucket.receive(*nanoseconds);
            }
        }
    }
}

/// Takes a request from the bucket of those that have no place in the table.
#[cold]
fn take_overflow(
    overflow: &mut Bucket,
    overflows: &mut u64,
    share: Share,
    now: u64,
) -> Result<(), Duration> {
    *overflows += 1;
    overflow.take(share, now)
}

/// Hashes who sends a request.
fn hash_principal(principal: &Principal, hasher: &mut impl Hasher) {
    principal.id().hash(hasher);
    principal.issuer().hash(hasher);
    principal.client_id().hash(hasher);
}

/// Keys of one session that are freed when it ends.
const KEYS_PER_SESSION_MAX: usize = 64;

/// Keys whose shares are requested at once.
const REQUESTS_MAX: usize = 256;
