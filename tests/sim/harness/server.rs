//! All shards of a simulated server, and the clock that they share.
//!
//! Invariants: the shards that are awake run in an order that changes every round; time advances
//! only when no shard has work in the present. Clients, faults and time limits of a run are decided
//! by the caller.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::{SimRing, World};
use corelane_engine::ring::{ParkTimeout, Ring, RingOptions};

use crate::harness::recording_ring::ShardByClient;
use crate::harness::shard::SimShard;
use crate::totals::Totals;

/// The shards of one server in their world.
pub(crate) struct SimServer {
    pub(crate) world: World,
    pub(crate) shards: Vec<SimShard>,
    /// Which shard accepted which client.
    pub(crate) accepted: ShardByClient,
    /// Used only to be woken when the test itself has something due.
    clock_ring: SimRing,
    /// One turn of a shard in this many is stalled.
    stall_chance: Option<usize>,
    /// Rounds since the last event.
    rounds_without_event: usize,
}

impl SimServer {
    pub(crate) fn new(
        world: World,
        shards: Vec<SimShard>,
        accepted: ShardByClient,
        stall_chance: Option<usize>,
    ) -> Self {
        let clock_ring = world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() });
        Self { world, shards, accepted, clock_ring, stall_chance, rounds_without_event: 0 }
    }

    /// Gives each shard that is awake one turn; returns the counts of those that ended in it.
    ///
    /// # Errors
    ///
    /// A shard ended without releasing something.
    pub(crate) fn turn(&mut self, now: Instant, random: &mut Random) -> Result<Totals, String> {
        let mut totals = Totals::default();
        for place in (1..self.shards.len()).rev() {
            self.shards.swap(place, random.below(place + 1));
        }
        for shard in &mut self.shards {
            if shard.has_drained() || shard.is_stalled(now) {
                continue;
            }
            if self.stall_chance.is_some_and(|naps| random.chance(1, naps)) {
                shard.stall(now, random);
            } else if let Some(ended) = shard.turn(&self.accepted)? {
                totals = totals.plus(ended);
            }
        }
        Ok(totals)
    }

    /// Advances time if no shard has work now, or if one is stalled; returns whether it did. `next`
    /// is when the test itself has something due.
    ///
    /// # Errors
    ///
    /// No event is left.
    pub(crate) fn advance_time(
        &mut self,
        now: Instant,
        next: Option<Instant>,
    ) -> Result<bool, &'static str> {
        let naps = self.shards.iter().filter_map(|shard| shard.stalled_until(now));
        let next = naps.chain(next).min();
        if next.is_some_and(|next| next <= now) {
            return Ok(false);
        }
        let timeout =
            next.map_or(ParkTimeout::Infinite, |next| ParkTimeout::After(next.since(now)));
        if self.clock_ring.park(timeout) > now {
            // The last ring advances time by itself.
            return Ok(false);
        }
        if !self.world.is_idle() && !self.is_any_shard_stalled(now) {
            return Ok(false);
        }
        // A shard may not have seen the last event yet.
        self.rounds_without_event =
            if self.world.advance() { 0 } else { self.rounds_without_event + 1 };
        if self.rounds_without_event > ROUNDS_WITHOUT_EVENT_MAX {
            Err("no event is left")
        } else {
            Ok(true)
        }
    }

    /// Returns whether a shard is stalled now.
    pub(crate) fn is_any_shard_stalled(&self, now: Instant) -> bool {
        self.shards.iter().any(|shard| shard.is_stalled(now))
    }

    /// Returns whether every shard has ended.
    pub(crate) fn has_drained(&self) -> bool {
        self.shards.iter().all(SimShard::has_drained)
    }

    /// Number of objects that the shards hold on behalf of clients.
    pub(crate) fn held_objects(&self) -> usize {
        self.shards.iter().map(SimShard::held_objects).sum()
    }

    /// Checks that the world got everything back.
    ///
    /// # Errors
    ///
    /// Something was not released.
    pub(crate) fn check_released(&self) -> Result<(), String> {
        let usage = self.world.resource_usage();
        if usage.is_idle() {
            return Ok(());
        }
        Err(format!("not everything was released: {usage:?}"))
    }

    /// Describes a failure, its time, the state of the shards and that of the `waiting` clients.
    pub(crate) fn describe(&self, what: &str, waiting: impl Iterator<Item = String>) -> String {
        let rows: Vec<String> = self.shards.iter().map(SimShard::describe).chain(waiting).collect();
        format!("{what}, at {:?}\n{}", self.world.now(), rows.join("\n"))
    }
}

/// Address on which the server listens.
pub(crate) fn listen_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8888).into()
}

/// Limit of rounds without an event.
const ROUNDS_WITHOUT_EVENT_MAX: usize = 2;

/// Limit of rounds per run.
pub(crate) const ROUNDS_MAX: usize = 400_000;
/// Limit of simulated time per run.
pub(crate) const TIME_MAX: Duration = Duration::from_mins(2);
/// Interval at which a server without clients is checked.
pub(crate) const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long closing a connection may take if its client does not respond.
pub(crate) const CLOSE_MAX: Duration = Duration::from_millis(1_600);
