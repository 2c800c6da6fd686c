//! A run of clients that are asked, keep tasks and listen, over several shards in one thread.
//!
//! When the last client has gone, the server is left alone until nothing of them is left: calls and
//! questions have a time, and so have tasks. Only then is it drained. In some runs it is drained
//! before, in the middle of everything.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::mesh::MeshOptions;
use corelane::engine::ring::RingOptions;
use corelane::engine::ring::sim::{Fault, Faults, World};
use corelane::observe::label::Transport;
use corelane::protocol::revision::Revision;
use corelane::server::{Options, Origin, Server};

use crate::frames::carrier::{Carrier, Weather};
use crate::frames::faults::Terms;
use crate::frames::framed::Framed;
use crate::frames::relay::Break;
use crate::meeting::commons::Commons;
use crate::meeting::deed::{self, Deed};
use crate::meeting::editions::{self, Editions};
use crate::meeting::visitor::{Person, Visitor};
use crate::tally::Tally;
use crate::world::lane::Lane;
use crate::world::notices::{Notice, Notices};
use crate::world::street::{GOODBYE_MAX, REST_STEP, ROUNDS_MAX, Street, TIME_MAX, address};
use crate::world::watched::Places;
use crate::world::wire::Wire;

/// What is to happen in one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// Whether they speak WebSocket and not lines.
    pub(crate) is_framed: bool,
    /// What breaks what the server says over that.
    pub(crate) breaks: Option<Break>,
    /// When each client connects, what it speaks, and what it does then.
    pub(crate) visits: Vec<(Duration, Revision, Vec<Deed>)>,
    /// When the server is told to drain, where that is not when it is at rest.
    pub(crate) drain: Option<Duration>,
    /// One turn of a shard in so many comes late.
    pub(crate) naps: Option<usize>,
}

/// How a run went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Outing {
    pub(crate) tally: Tally,
    /// What everybody heard and when, folded: the same for the same run.
    pub(crate) digest: u64,
    /// When each client was over, in the order in which they connected.
    pub(crate) ends: Vec<Moment>,
    /// When nothing was left of them.
    pub(crate) rested: Option<Moment>,
}

/// The pieces of a run.
struct Gathering<'a> {
    plan: &'a Plan,
    random: Random,
    street: Street,
    notices: Notices,
    /// Behind the shards, which an edit that is not made tells so.
    editions: Editions,
    arrivals: VecDeque<(Duration, usize)>,
    visitors: Vec<Visitor>,
    commons: Commons,
    /// When the last client had gone.
    alone: Option<Moment>,
    rested: Option<Moment>,
    /// When it was told to drain.
    drained: Option<Moment>,
    tally: Tally,
}

impl Plan {
    /// The run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x4755_4553_5453 << 8);
        let random = &mut random;
        let mut faults = Faults::drawn(random).without(Fault::ClockJump);
        if random.chance(1, 2) {
            faults = faults.without(Fault::Reset).without(Fault::FailedAccept);
        }
        let mut options = options();
        options.limits.outgoing_bytes_max = 512 << random.below(10);
        options.limits.requests_in_flight_max = if random.chance(1, 4) { 2 } else { 64 };
        options.engine.mesh = MeshOptions::simulated(faults, random);
        options.engine.ring_sizes.receive_buffers = 2 << random.below(6);
        options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(7);
        let naps = random.chance(1, 2).then(|| 4 + random.below(16));
        let visits = (0..3 + random.below(7)).map(|_| {
            let connects = Duration::from_micros(random.below(60_000) as u64);
            let revision = match random.below(6) {
                0 => Revision::ALL[random.below(Revision::ALL.len())],
                1 | 2 => Revision::LATEST_LEGACY,
                _ => Revision::LATEST,
            };
            (connects, revision, deed::draw(random))
        });
        let visits = visits.collect();
        let is_cut_short = random.chance(1, 5);
        let drain = is_cut_short.then(|| Duration::from_micros(random.below(200_000) as u64));
        let shards = 1 + random.below(3);
        let (is_framed, breaks) = (false, None);
        Self { seed, shards, options, faults, is_framed, breaks, visits, drain, naps }
    }
}

/// Times that are over soon, and room for everything.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.limits.request_max = Duration::from_millis(400);
    options.limits.question_max = Duration::from_millis(150);
    options.limits.round_max = Duration::from_millis(250);
    options.limits.task_ttl = Duration::from_millis(800);
    options.limits.task_ttl_max = Duration::from_millis(1_500);
    options.engine.blocking_threads = 1;
    options.engine.drain_max = Duration::from_millis(300);
    options.engine.ring_sizes = RingOptions { sockets_max: 64, ..RingOptions::default() };
    options
}

/// Runs a plan to its end: what was reached.
///
/// # Errors
///
/// What is wrong, with the faults that were in play.
pub(crate) fn tally(plan: &Plan) -> Result<Tally, String> {
    let outing = run(plan);
    outing.map(|it| it.tally).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
}

/// Runs a plan to its end.
///
/// # Errors
///
/// What did not hold.
pub(crate) fn run(plan: &Plan) -> Result<Outing, String> {
    let mut gathering = Gathering::set(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = gathering.street.world.now();
        let ended = gathering.street.turn(now, &mut gathering.random)?;
        gathering.tally = gathering.tally.plus(ended);
        gathering.turn_visitors(now)?;
        gathering.happen(now)?;
        if gathering.alone.is_some() && gathering.street.has_drained() {
            return gathering.close();
        }
        gathering.let_time_pass(now)?;
    }
    Err(gathering.describe("the run does not end"))
}

impl<'a> Gathering<'a> {
    fn set(plan: &'a Plan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(5) ^ ORDER);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let (made, (edits, asked)) = (Arc::<AtomicU64>::default(), mpsc::channel());
        let origin = Origin { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::new(editions::catalog(&made)?).options(plan.options.clone());
        let (seeds, handle) = server.origin(origin).edits_to(edits).seeds(plan.shards)?;
        let places = Places::default();
        let transport = if plan.is_framed { Transport::Http } else { Transport::Tcp };
        let listen = |seed| Lane::listen_for(transport, &world, seed, address(), &places);
        let lanes = seeds.into_iter().map(listen);
        let lanes = lanes.collect::<Result<_, _>>()?;
        let visits = plan.visits.iter().enumerate();
        let mut arrivals: Vec<_> = visits.map(|(index, visit)| (visit.0, index)).collect();
        arrivals.sort_unstable();
        Ok(Self {
            plan,
            random,
            street: Street::new(world, lanes, places, plan.naps),
            notices: Notices::new(handle),
            editions: Editions::new(asked, made),
            arrivals: arrivals.into(),
            visitors: Vec::new(),
            commons: Commons::new(plan.options.limits.round_max),
            alone: None,
            rested: None,
            drained: None,
            tally: Tally::default(),
        })
    }

    /// Lets happen what is due from outside: clients, catalogs, the drain.
    fn happen(&mut self, now: Moment) -> Result<(), String> {
        if self.street.is_somebody_late(now) {
            return Ok(());
        }
        let elapsed = now.since(Moment::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            self.arrive(index, now);
        }
        self.editions.turn(now, &mut self.random);
        if self.arrivals.is_empty() && self.visitors.iter().all(Visitor::is_over) {
            self.rest(now)?;
        }
        let is_due = self.plan.drain.is_some_and(|at| at <= elapsed) || self.rested.is_some();
        if is_due && self.drained.is_none() {
            self.drained = Some(now);
            self.notices.say_at_once(Notice::Drain);
        }
        self.notices.pass_on();
        Ok(())
    }

    /// Nobody is there: nothing may be left of anybody after a while.
    fn rest(&mut self, now: Moment) -> Result<(), String> {
        let alone = *self.alone.get_or_insert(now);
        if self.street.holdings() == 0 {
            self.rested.get_or_insert(now);
        } else if now > alone.after(self.left_max()) {
            return Err(self.describe("something is left behind"));
        }
        Ok(())
    }

    /// How long anything may stay when its client has gone.
    fn left_max(&self) -> Duration {
        let limits = &self.plan.options.limits;
        limits.task_ttl_max + limits.request_max + limits.question_max + GOODBYE_MAX
    }

    fn arrive(&mut self, index: usize, now: Moment) {
        let (_, revision, deeds) = self.plan.visits[index].clone();
        let is_slow = self.plan.faults.has(Fault::SlowReader) && self.random.chance(1, 2);
        let person = Person { number: 1 + index as u64, revision, is_slow };
        let wire = Wire::stream(self.street.world.connect(address()));
        let carrier = if self.plan.is_framed {
            let random = Random::seeded(self.random.next_u64());
            let terms = Terms::of(&self.plan.options);
            Carrier::Frames(Box::new(Framed::open(wire, terms, self.plan.breaks, random, now)))
        } else {
            Carrier::Lines(wire)
        };
        let random = Random::seeded(self.random.next_u64());
        self.visitors.push(Visitor::new(person, carrier, deeds, random, now));
    }

    fn turn_visitors(&mut self, now: Moment) -> Result<(), String> {
        let faults = self.plan.faults;
        let breaks = faults.has(Fault::Reset) || faults.has(Fault::FailedAccept);
        let cut = self.drained.map(|drained| drained.after(self.plan.options.engine.drain_max));
        let weather = Weather { breaks, cut };
        for visitor in &mut self.visitors {
            visitor.turn(now, &mut self.commons, weather)?;
        }
        Ok(())
    }

    /// Moves time on where nobody has anything left to do now, or where somebody is late.
    fn let_time_pass(&mut self, now: Moment) -> Result<(), String> {
        let next = self.next(now);
        let has_moved = self.street.let_time_pass(now, next).map_err(|what| self.describe(what))?;
        if !has_moved {
            return Ok(());
        }
        if now.since(Moment::ORIGIN) > TIME_MAX {
            return Err(self.describe("the run takes too long"));
        }
        Ok(())
    }

    /// When something is due that the world does not know of.
    fn next(&self, now: Moment) -> Option<Moment> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let drain = self.plan.drain.filter(|_| self.drained.is_none());
        let outside = [arrival, drain].into_iter().flatten().map(|at| Moment::ORIGIN.after(at));
        let outside = outside.chain(self.editions.next());
        let outside = outside.filter(|_| !self.street.is_somebody_late(now));
        let rest = self.alone.filter(|_| self.drained.is_none()).map(|_| now.after(REST_STEP));
        let visitors = self.visitors.iter().filter_map(Visitor::next);
        outside.chain(rest).chain(visitors).min()
    }

    /// Checks what holds over the whole run.
    fn close(mut self) -> Result<Outing, String> {
        self.street.settle()?;
        self.commons.close(self.editions.made())?;
        if self.rested.is_some() && self.editions.next().is_some() {
            return Err("an edition that was asked for was not made".to_owned());
        }
        self.tally.editions += self.editions.made();
        self.tally.editions_held_up += self.editions.held_up;
        let mut digest = 0_u64;
        self.tally = self.tally.plus(self.commons.tally);
        for visitor in &self.visitors {
            self.tally = self.tally.plus(visitor.tally());
            digest = digest.rotate_left(7) ^ visitor.digest();
        }
        let ends = self.visitors.iter().filter_map(Visitor::ended).collect();
        Ok(Outing { tally: self.tally, digest, ends, rested: self.rested })
    }

    fn describe(&self, what: &str) -> String {
        let here = self.visitors.iter().filter(|visitor| !visitor.is_over());
        self.street.describe(what, here.map(Visitor::describe))
    }
}

/// Keeps the order of the shards apart from other draws of the same seed.
const ORDER: u64 = 0x0047_4154_4845;
