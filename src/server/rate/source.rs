//! The rules of a server, and the limit of connections, which all shards share.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;

use super::RateLimits;
use crate::guard::rate::bucket::Quota;
use crate::guard::rate::connections::ConnectionRates;
use crate::guard::rate::limiter::RateLimiter;
use crate::guard::rate::rules::{RateRules, parse_quota};
use crate::guard::rate::tables::{SmallBurstAccess, SmallBursts};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::options::RateOptions;

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
pub struct RateSource {
    /// The rules at start.
    rules: Arc<RateRules>,
    /// Each shard starts with these; all hash with the same secret.
    keys_max: usize,
    secret: u128,
    /// What all shards count together.
    small_bursts: SharedBursts,
    connections: Mutex<ConnectionRates>,
}

impl RateSource {
    /// Reads rules.
    ///
    /// # Errors
    ///
    /// Which option is malformed, and why.
    pub fn load(options: &RateOptions, secret: &[u8; KEY_BYTES]) -> Result<Self, String> {
        let (rules, quota) = parse(options)?;
        let secret = SecureRng::new(secret, Purpose::RateHashes).next_u128().unwrap_or_default();
        let keys_max = options.keys_max as usize;
        let mut connections = ConnectionRates::new(secret, keys_max);
        connections.install(quota);
        let small_bursts = SharedBursts::default();
        let (rules, connections) = (rules.into(), Mutex::new(connections));
        Ok(Self { rules, keys_max, secret, small_bursts, connections })
    }

    /// Returns the limits of one of `shards` shards.
    pub fn shard_part(&self, shard: ShardId, shards: u16) -> RateLimits {
        let count = NonZeroU32::new(shards.into()).unwrap_or(NonZeroU32::MIN);
        let mut limiter =
            RateLimiter::new(self.secret, count, Rc::new(self.small_bursts.clone()), self.keys_max);
        limiter.install(Arc::clone(&self.rules));
        RateLimits::new(limiter, shard, shards)
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
        let (rules, quota) = parse(options)?;
        self.connections().install(quota);
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

    fn connections(&self) -> MutexGuard<'_, ConnectionRates> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(options: &RateOptions) -> Result<(RateRules, Option<Quota>), String> {
    let rules = RateRules::parse(&options.rules);
    let rules = rules.map_err(|error| format!("rate.rules: {error}"))?;
    let quota = options.connections.as_deref().map(parse_quota).transpose();
    let quota = quota.map_err(|error| format!("rate.connections: {error}"))?;
    Ok((rules, quota))
}
