//! Simulation of a mesh of shards: the seed decides its sizes, who sends how much to whom and when,
//! which shard stalls meanwhile, and whose messages are read first.
//!
//! Only shards that are awake get a turn, so a missing wake-up leaves messages unread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::mesh::{Inbox, SendQueue, Sender, ShardId, build_mesh};
use corelane_engine::ring::sim::{Faults, SimRing, World};
use corelane_engine::ring::{Completion, ParkTimeout, Ring, RingOptions};
use corelane_engine::shard_loop::{Driver, ShardLoop, TurnStatus};

use crate::harness::mesh::simulated_mesh;
use crate::mesh_simulation::delivery_checker::{DeliveryChecker, MeshMessage};
use crate::totals::Totals;

type SharedChecker = Rc<RefCell<DeliveryChecker>>;

/// Driver of one shard: sends bursts of messages and reads what arrives.
struct MeshDriver {
    inbox: Inbox<MeshMessage>,
    checker: SharedChecker,
    random: Random,
    neighbours: Vec<ShardId>,
    messages: Vec<MeshMessage>,
    bursts_left: usize,
    /// When it sends next.
    next_burst: Option<Instant>,
    /// It ends once it has sent everything, even while others still send to it.
    ends_early: bool,
    failure: Option<String>,
}

impl MeshDriver {
    /// Sends several messages, to one neighbour or to any of them.
    fn send_burst(&mut self, now: Instant) {
        let favourite = self.random.below(self.neighbours.len());
        let has_favourite = self.random.chance(1, 2);
        for _ in 0..=self.random.below(12) {
            let drawn = self.random.below(self.neighbours.len());
            let to = self.neighbours[if has_favourite { favourite } else { drawn }];
            let from = self.inbox.shard().index();
            let message = self.checker.borrow().next_message(from, to.index());
            if self.random.chance(1, 3) {
                // A refused message was never sent.
                if self.inbox.try_send(to, message).is_err() {
                    continue;
                }
            } else {
                self.inbox.send(to, message);
            }
            self.checker.borrow_mut().record_sent(message);
        }
        self.bursts_left -= 1;
        let pause = Duration::from_micros(self.random.below(400) as u64);
        self.next_burst = (self.bursts_left > 0).then(|| now.after(pause));
    }

    fn totals(&self) -> Totals {
        let counts = self.inbox.counts();
        Totals {
            inboxes_full: counts.inbox_full,
            channels_full: counts.channel_full,
            shard_messages_queued: counts.queued,
            shard_messages_undeliverable: counts.dropped,
            shards_woken: counts.wakes,
            ..Totals::default()
        }
    }
}

impl Driver<SimRing> for MeshDriver {
    fn handle_completion(&mut self, _: &mut SimRing, _: Completion, _: Instant) {}

    fn expire_timers(&mut self, _: &mut SimRing, now: Instant) {
        if self.next_burst.is_some_and(|next| next <= now) {
            self.send_burst(now);
        }
    }

    fn receive_messages(&mut self, _: &mut SimRing, now: Instant) -> bool {
        let messages_max = 1 + self.random.below(8);
        let more = self.inbox.receive(&mut self.messages, messages_max);
        for message in self.messages.drain(..) {
            let arrived =
                self.checker.borrow_mut().record_arrival(self.inbox.shard().index(), message);
            self.failure = self.failure.take().or_else(|| arrived.err());
        }
        if more && self.bursts_left > 0 && self.random.chance(1, 4) {
            self.send_burst(now);
        }
        more
    }

    fn poll_futures(&mut self, _: &mut SimRing, _: Instant) -> bool {
        false
    }

    fn flush(&mut self, ring: &mut SimRing, _: Instant) {
        self.inbox.wake_targets(|waker| ring.wake(waker));
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_burst
    }

    fn prepare_park(&mut self) -> bool {
        self.inbox.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.ends_early && self.bursts_left == 0 && self.inbox.queued() == 0
    }
}

/// State of one run.
struct MeshSimulation {
    world: World,
    random: Random,
    checker: SharedChecker,
    shards: Vec<Option<ShardLoop<SimRing, MeshDriver>>>,
    /// Until when each shard gets no turn.
    stalled_until: Vec<Instant>,
    stall_chance: usize,
    sender: Sender<MeshMessage>,
    /// Messages from outside that found a full inbox.
    send_queue: SendQueue<MeshMessage>,
    external_messages_left: usize,
    /// Advances time to the end of a stall.
    clock_ring: SimRing,
    totals: Totals,
}

/// Runs a seed until every message has been read.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(seed: u64) -> Result<Totals, String> {
    let mut run = MeshSimulation::new(seed);
    let mut still_rounds = 0;
    for _ in 0..ROUNDS_MAX {
        run.turn_shards()?;
        run.send_from_outside();
        if run.is_complete() {
            return Ok(run.finish());
        }
        still_rounds = if run.advance_time() { 0 } else { still_rounds + 1 };
        if still_rounds > 2 {
            break;
        }
    }
    let missing = run.checker.borrow().undelivered();
    Err(format!("messages stay unread at {:?}: {missing:?}", run.world.now()))
}

impl MeshSimulation {
    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x4D45_5348 << 24);
        let faults = Faults::random(&mut random);
        let world = World::with_faults(random.next_u64(), faults);
        let count = 2 + random.below(4);
        let checker: SharedChecker = Rc::new(RefCell::new(DeliveryChecker::new(count)));
        let options = simulated_mesh(faults, &mut random);
        let (endpoints, sender) = build_mesh(count, &options);
        let quitter = random.chance(1, 4).then(|| random.below(count));
        let shards = endpoints.into_iter().map(|endpoint| {
            let ring = world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() });
            let number = endpoint.shard().index();
            let inbox = endpoint.open(ring.waker());
            let driver = MeshDriver {
                neighbours: inbox.other_shards().collect(),
                inbox,
                checker: Rc::clone(&checker),
                random: Random::seeded(random.next_u64()),
                messages: Vec::new(),
                bursts_left: 1 + random.below(20),
                next_burst: Some(Instant::ORIGIN),
                ends_early: quitter == Some(number),
                failure: None,
            };
            Some(ShardLoop::new(ring, driver))
        });
        let shards: Vec<_> = shards.collect();
        Self {
            checker,
            stalled_until: vec![Instant::ORIGIN; count],
            shards,
            stall_chance: random.below(4),
            sender,
            send_queue: SendQueue::new(count),
            external_messages_left: random.below(60),
            clock_ring: world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() }),
            world,
            random,
            totals: Totals::default(),
        }
    }

    /// Gives each shard that is awake one turn, in an order that changes every round.
    fn turn_shards(&mut self) -> Result<(), String> {
        let now = self.world.now();
        let start = self.random.below(self.shards.len());
        for step in 0..self.shards.len() {
            let number = (start + step) % self.shards.len();
            let Some(shard) = &mut self.shards[number] else { continue };
            if now < self.stalled_until[number] || shard.ring().is_asleep() {
                continue;
            }
            if self.random.chance(self.stall_chance, 16) {
                let nap = Duration::from_micros(self.random.below(3_000) as u64);
                self.stalled_until[number] = now.after(nap);
                continue;
            }
            let turn = shard.run_turn(ParkTimeout::Infinite);
            if let Some(failure) = shard.ring_and_driver_mut().1.failure.take() {
                return Err(failure);
            }
            if turn == TurnStatus::Finished {
                self.checker.borrow_mut().record_end(number);
                self.totals = self.totals.plus(shard.driver().totals());
                self.shards[number] = None;
            }
        }
        Ok(())
    }

    /// Sends messages as a thread that is no shard and must not wait.
    fn send_from_outside(&mut self) {
        self.send_queue.flush(|shard, message| self.sender.try_send(shard, message));
        if self.external_messages_left == 0 || !self.random.chance(1, 2) {
            return;
        }
        for _ in 0..=self.random.below(6).min(self.external_messages_left - 1) {
            self.external_messages_left -= 1;
            let (outside, to) = (self.shards.len(), self.random.below(self.shards.len()));
            let message = self.checker.borrow().next_message(outside, to);
            self.checker.borrow_mut().record_sent(message);
            self.send_queue.push(ShardId(u16::try_from(to).unwrap_or(0)), message);
        }
        self.send_queue.flush(|shard, message| self.sender.try_send(shard, message));
    }

    /// Returns whether everything was sent and read.
    fn is_complete(&self) -> bool {
        let mut shards = self.shards.iter().flatten();
        let is_written = shards.all(|shard| shard.driver().bursts_left == 0);
        is_written && self.external_messages_left == 0 && self.checker.borrow().is_complete()
    }

    /// Advances time if no shard has work now; returns `false` if no event is left.
    fn advance_time(&mut self) -> bool {
        let now = self.world.now();
        let nap = self.stalled_until.iter().filter(|&&until| now < until).min().copied();
        let timeout =
            nap.map_or(ParkTimeout::Infinite, |until| ParkTimeout::After(until.since(now)));
        if self.clock_ring.park(timeout) > now || self.external_messages_left > 0 {
            return true;
        }
        let is_calm = self.world.is_idle();
        if !is_calm && nap.is_none() {
            return true;
        }
        self.world.advance()
    }

    fn finish(self) -> Totals {
        let shards = self.shards.iter().flatten().map(|shard| shard.driver().totals());
        let totals = shards.fold(self.totals, Totals::plus);
        totals.plus(self.checker.borrow().totals)
    }
}

/// Limit of rounds per run.
const ROUNDS_MAX: usize = 100_000;
