//! The lanes of a run side by side, and the time that passes for all of them.
//!
//! What it keeps true: the shards that are awake turn in an order of its own each round, and time
//! moves on only when nobody has anything left to do in the present. Who comes, what happens to
//! them and how long a run may take is the business of whoever sets the street.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::sim::{SimRing, World};
use corelane::engine::ring::{Patience, Ring, RingOptions};

use crate::tally::Tally;
use crate::world::lane::Lane;
use crate::world::watched::Places;

/// The shards of one server in their world.
pub(crate) struct Street {
    pub(crate) world: World,
    pub(crate) lanes: Vec<Lane>,
    /// Which shard has which client.
    pub(crate) places: Places,
    /// Never used for anything but to be woken when the test itself has something to do.
    alarm: SimRing,
    /// One turn of a shard in so many comes late.
    naps: Option<usize>,
    /// Rounds since anything was left to happen.
    still_rounds: usize,
}

impl Street {
    pub(crate) fn new(world: World, lanes: Vec<Lane>, places: Places, naps: Option<usize>) -> Self {
        let alarm = world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() });
        Self { world, lanes, places, alarm, naps, still_rounds: 0 }
    }

    /// One turn of each shard that is awake; what those counted that have drained in it.
    ///
    /// # Errors
    ///
    /// What one of them has not given back.
    pub(crate) fn turn(&mut self, now: Moment, random: &mut Random) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for place in (1..self.lanes.len()).rev() {
            self.lanes.swap(place, random.below(place + 1));
        }
        for lane in &mut self.lanes {
            if lane.has_finished() || lane.is_napping(now) {
                continue;
            }
            if self.naps.is_some_and(|naps| random.chance(1, naps)) {
                lane.nap(now, random);
            } else if let Some(ended) = lane.turn(&self.places)? {
                tally = tally.plus(ended);
            }
        }
        Ok(tally)
    }

    /// Moves time on where nobody has anything left to do now, or where somebody is late. `next` is
    /// when something is due that the world does not know of. Whether it came to that.
    ///
    /// # Errors
    ///
    /// Nothing will ever happen.
    pub(crate) fn let_time_pass(
        &mut self,
        now: Moment,
        next: Option<Moment>,
    ) -> Result<bool, &'static str> {
        let naps = self.lanes.iter().filter_map(|lane| lane.naps_until(now));
        let next = naps.chain(next).min();
        if next.is_some_and(|next| next <= now) {
            return Ok(false);
        }
        let patience = next.map_or(Patience::Forever, |next| Patience::For(next.since(now)));
        if self.alarm.park(patience) > now {
            // The last ring moves time by itself.
            return Ok(false);
        }
        if !self.world.is_calm() && !self.is_somebody_late(now) {
            return Ok(false);
        }
        // Somebody may not have looked at what happened last.
        self.still_rounds = if self.world.step() { 0 } else { self.still_rounds + 1 };
        if self.still_rounds > STILL_ROUNDS_MAX {
            Err("nothing will ever happen")
        } else {
            Ok(true)
        }
    }

    /// Whether a shard gets no turn now.
    pub(crate) fn is_somebody_late(&self, now: Moment) -> bool {
        self.lanes.iter().any(|lane| lane.is_napping(now))
    }

    /// Whether every shard is gone.
    pub(crate) fn has_drained(&self) -> bool {
        self.lanes.iter().all(Lane::has_finished)
    }

    /// What the shards hold of what clients have left behind.
    pub(crate) fn holdings(&self) -> usize {
        self.lanes.iter().map(Lane::holdings).sum()
    }

    /// Checks that the world got everything back.
    ///
    /// # Errors
    ///
    /// What it did not.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let ledger = self.world.ledger();
        if ledger.is_settled() {
            return Ok(());
        }
        Err(format!("not everything was given back: {ledger:?}"))
    }

    /// What went wrong, when, and how everybody stands: the shards and those who are `waiting`.
    pub(crate) fn describe(&self, what: &str, waiting: impl Iterator<Item = String>) -> String {
        let rows: Vec<String> = self.lanes.iter().map(Lane::describe).chain(waiting).collect();
        format!("{what}, at {:?}\n{}", self.world.now(), rows.join("\n"))
    }
}

/// Where the server listens.
pub(crate) fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8888).into()
}

/// Rounds in which nothing is left to happen, at most.
const STILL_ROUNDS_MAX: usize = 2;

/// Rounds of a run, at most.
pub(crate) const ROUNDS_MAX: usize = 400_000;
/// Time of a run, at most.
pub(crate) const TIME_MAX: Duration = Duration::from_mins(2);
/// How often a server that was left alone is looked at.
pub(crate) const REST_STEP: Duration = Duration::from_millis(10);
/// How long a connection may be ended: a goodbye that nobody answers.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_millis(1_600);
