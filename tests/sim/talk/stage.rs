//! One run: a server of several shards, its clients and the world between them, in one thread.
//!
//! Rounds are turned until the server has drained: clients act, shards turn in an order that the
//! seed decides, and time moves on when all of them sleep. Nothing here waits, and the same
//! scenario gives the same run.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::sim::{Fault, World};
use corelane::protocol::message::ServerInfo;
use corelane::server::{Origin, Server};
use corelane::service::{Catalog, CatalogError, Live, NoArguments, Outcome, Tool, demo};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::talk::client::{Client, Climate, Habits};
use crate::talk::scenario::Scenario;
use crate::tally::Tally;
use crate::world::lane::Lane;
use crate::world::notices::{Notice, Notices};
use crate::world::street::{Street, address};
use crate::world::watched::Places;
use crate::world::wire::Wire;

/// How a run went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// What everybody heard and when, folded: the same for the same run.
    pub(crate) digest: u64,
    pub(crate) rounds: usize,
    /// When each client was over, in the order in which they connected.
    pub(crate) ends: Vec<Moment>,
    /// When the server had drained.
    pub(crate) ended: Moment,
}

/// The pieces of a run.
struct Stage<'a> {
    scenario: &'a Scenario,
    random: Random,
    street: Street,
    /// Where the one client is that does not connect.
    pipes: Option<Wire>,
    notices: Notices,
    /// Catalogs offered so far: the number of the last one.
    offers: u64,
    /// When which of the scenario's clients connects, the next one in front.
    arrivals: VecDeque<(Duration, usize)>,
    letters: VecDeque<(Duration, usize)>,
    /// How long after the last one time jumps, and how far.
    jumps: VecDeque<(Duration, Duration)>,
    jumped: Moment,
    /// All jumps together.
    jumps_total: Duration,
    has_to_drain: bool,
    clients: Vec<Client>,
    climate: Climate,
    /// How long the drain may take, once it has begun.
    drain_max: Duration,
    tally: Tally,
}

/// Runs a scenario to its end.
///
/// # Errors
///
/// What did not hold.
pub(crate) fn run(scenario: &Scenario) -> Result<Report, String> {
    let mut stage = Stage::set(scenario).map_err(|error| error.to_string())?;
    for round in 0..ROUNDS_MAX {
        let now = stage.street.world.now();
        // First of all, so that a shard knows the present moment when something happens in it.
        let ended = stage.street.turn(now, &mut stage.random)?;
        stage.tally = stage.tally.plus(ended);
        for client in &mut stage.clients {
            client.turn(now, &stage.climate)?;
        }
        stage.happen(now);
        if stage.has_no_more_clients() && stage.street.has_drained() {
            return stage.close(round);
        }
        stage.let_time_pass(now)?;
    }
    Err(stage.describe("the run does not end"))
}

impl<'a> Stage<'a> {
    fn set(scenario: &'a Scenario) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(scenario.seed.wrapping_mul(3) ^ ORDER);
        let world = World::with_faults(random.next_u64(), scenario.faults);
        let catalog = offered(0)?;
        let origin = Origin { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::new(catalog).options(scenario.options.clone()).origin(origin);
        let (seeds, handle) = server.seeds(scenario.shards)?;
        let places = Places::default();
        let (mut lanes, mut pipes) = (Vec::new(), None);
        for seed in seeds {
            if scenario.is_piped {
                let (lane, wire) = Lane::attach(&world, seed, &places)?;
                lanes.push(lane);
                pipes = Some(wire);
            } else {
                lanes.push(Lane::listen(&world, seed, address(), &places)?);
            }
        }
        let arrivals = scenario.clients.iter().enumerate();
        let mut arrivals: Vec<_> = arrivals.map(|(index, client)| (client.0, index)).collect();
        arrivals.sort_unstable();
        let mut letters = scenario.letters.clone();
        letters.sort_unstable();
        let tcp = &scenario.options.tcp;
        let has_resets =
            scenario.faults.has(Fault::Reset) || scenario.faults.has(Fault::FailedAccept);
        let climate = Climate {
            has_resets,
            is_piped: scenario.is_piped,
            has_refusals: scenario.is_crowded(),
            has_shortage: scenario.options.limits.memory_bytes_max < PLENTY_BYTES,
            lease_max: tcp.lease_max,
            idle_max: tcp.idle_max,
            drain: None,
            jumped: None,
        };
        Ok(Self {
            scenario,
            random,
            street: Street::new(world, lanes, places, scenario.naps),
            pipes,
            notices: Notices::new(handle),
            offers: 0,
            arrivals: arrivals.into(),
            letters: letters.into(),
            jumps: scenario.jumps.clone().into(),
            jumped: Moment::ORIGIN,
            jumps_total: Duration::ZERO,
            has_to_drain: false,
            clients: Vec::new(),
            climate,
            drain_max: Duration::MAX,
            tally: Tally::default(),
        })
    }

    /// Lets happen what is due from outside: clients, letters, the drain. Not while a shard is
    /// late: it would take a letter for older than it is, as one that waits in the kernel never
    /// does.
    fn happen(&mut self, now: Moment) {
        if self.street.is_somebody_late(now) {
            return;
        }
        let elapsed = now.since(Moment::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            let acts = self.scenario.clients[index].1.clone();
            let random = Random::seeded(self.random.next_u64());
            let habits = Habits {
                is_slow: self.scenario.faults.has(Fault::SlowReader) && self.random.chance(1, 2),
                may_miss_progress: self.scenario.may_fill_up(),
                calls_in_flight_max: self.scenario.options.limits.requests_in_flight_max as usize,
            };
            let connect = || Wire::stream(self.street.world.connect(address()));
            let wire = self.pipes.take().unwrap_or_else(connect);
            self.clients.push(Client::new(index, wire, acts, random, now, habits));
        }
        while let Some(&(at, count)) = self.letters.front()
            && at <= elapsed
        {
            self.letters.pop_front();
            self.leave_letters(count);
        }
        let is_due = self.scenario.drain.is_some_and(|at| at <= elapsed);
        if !self.has_to_drain && (is_due || self.has_no_more_clients()) {
            self.has_to_drain = true;
            let is_repeated = self.random.chance(1, 4);
            for _ in 0..=u8::from(is_repeated) {
                self.notices.say_at_once(Notice::Drain);
            }
        }
        if self.notices.pass_on() {
            self.begin_to_drain(now);
        }
        self.jump_ahead(now);
    }

    /// Leaves letters that change nothing that a client could notice but the version.
    fn leave_letters(&mut self, count: usize) {
        self.tally.letters += count as u64;
        if count == 1
            && let Ok(catalog) = offered(self.offers + 1)
        {
            self.offers += 1;
            return self.notices.say(Notice::Offer(Arc::new(catalog)));
        }
        let mut options = self.scenario.options.clone();
        for _ in 0..count {
            options.limits.outgoing_bytes_max = 256 << self.random.below(8);
            self.notices.say(Notice::KeepTo(Box::new(options.clone())));
        }
    }

    fn begin_to_drain(&mut self, now: Moment) {
        let drain_max = self.scenario.options.engine.drain_max;
        self.climate.drain = Some((now, drain_max));
        let is_prompt = self.has_no_more_clients() || !self.scenario.faults.has(Fault::SlowReader);
        let goodbye_max = if is_prompt { GOODBYE_MAX } else { drain_max };
        self.drain_max = LATE_MAX + drain_max.min(goodbye_max);
    }

    /// Has time jump where it is to.
    fn jump_ahead(&mut self, now: Moment) {
        let Some(&(after, span)) = self.jumps.front() else { return };
        if now < self.jumped.after(after) {
            return;
        }
        self.jumps.pop_front();
        let in_flight: usize = self.clients.iter_mut().map(Client::jump).sum();
        self.tally.jumps += u64::from(in_flight > 0);
        self.street.world.jump(span);
        self.jumped = self.street.world.now();
        self.climate.jumped = Some(self.jumped);
        self.jumps_total += span;
        self.drain_max = self.drain_max.saturating_add(span);
    }

    /// Moves time on where nobody has anything left to do now, or where somebody is late.
    fn let_time_pass(&mut self, now: Moment) -> Result<(), String> {
        let next = self.next(now);
        let has_moved = self.street.let_time_pass(now, next).map_err(|what| self.describe(what))?;
        if !has_moved {
            return Ok(());
        }
        match self.climate.drain {
            Some((since, _)) if now > since.after(self.drain_max) && !self.street.has_drained() => {
                Err(self.describe("the drain takes too long"))
            }
            None if now.since(Moment::ORIGIN) > TIME_MAX + self.jumps_total => {
                Err(self.describe("the run takes too long"))
            }
            _ => Ok(()),
        }
    }

    /// When something is due that the world does not know of.
    fn next(&self, now: Moment) -> Option<Moment> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let letter = self.letters.front().map(|&(at, _)| at);
        let drain = self.scenario.drain.filter(|_| !self.has_to_drain);
        let jump = self.jumps.front().map(|&(after, _)| self.jumped.after(after));
        let jump = jump.map(|at| at.since(Moment::ORIGIN));
        let outside = [arrival, letter, drain, jump].into_iter().flatten();
        let outside = outside.map(|at| Moment::ORIGIN.after(at));
        let outside = outside.filter(|_| !self.street.is_somebody_late(now));
        let clients = self.clients.iter().filter_map(Client::next);
        outside.chain(clients).min()
    }

    fn has_no_more_clients(&self) -> bool {
        self.arrivals.is_empty() && self.clients.iter().all(Client::is_over)
    }

    /// Checks what holds over the whole run.
    fn close(mut self, rounds: usize) -> Result<Report, String> {
        self.street.settle()?;
        self.compare_places()?;
        for lane in &self.street.lanes {
            let checked = self.notices.check(lane.letters(), self.scenario.is_piped);
            checked.map_err(|reason| format!("shard {}: {reason}", lane.number()))?;
        }
        let mut digest = 0_u64;
        for client in &self.clients {
            self.tally = self.tally.plus(client.tally());
            digest = digest.rotate_left(7) ^ client.digest();
        }
        let ends = self.clients.iter().filter_map(Client::ended).collect();
        Ok(Report { tally: self.tally, digest, rounds, ends, ended: self.street.world.now() })
    }

    /// Checks that no shard has read more than its own clients said.
    fn compare_places(&self) -> Result<(), String> {
        let places = self.street.places.borrow();
        for lane in &self.street.lanes {
            let is_here = |client: &&Client| {
                self.scenario.is_piped || places.get(&client.address()) == Some(&lane.number())
            };
            let here = self.clients.iter().filter(is_here);
            let said: u64 = here.map(|client| client.conversation.said()).sum();
            if lane.messages() > said {
                let (number, read) = (lane.number(), lane.messages());
                return Err(format!("shard {number} has read {read} messages, not {said}"));
            }
        }
        Ok(())
    }

    fn describe(&self, what: &str) -> String {
        let waiting = self.clients.iter().filter(|client| !client.is_over());
        self.street.describe(what, waiting.map(Client::describe))
    }
}

/// The demo tools and one that tells its progress badly, under a version of their own.
fn offered(version: u64) -> Result<Catalog, CatalogError> {
    let stutter = Tool::new("stutter").local(|Stutter { steps, step_ms }, live: Live| async move {
        for done in 1..=steps {
            live.sleep(Duration::from_millis(step_ms.into())).await?;
            // What does not grow is not passed on.
            for progress in [done, done, done - 1] {
                live.progress(progress.into(), Some(steps.into()), None);
            }
        }
        Ok(Outcome::text(format!("took {steps} steps of {step_ms} ms")))
    });
    let ask = Tool::new("ask").local(|_: NoArguments, live: Live| async move {
        let roots = live.roots("roots").await?;
        Ok(Outcome::text(format!("{} roots", roots.len())))
    });
    Catalog::builder(ServerInfo::new("sim", format!("1.0.{version}")))
        .tools(demo::tools())
        .tool(stutter)
        .tool(ask)
        .build()
}

#[derive(Deserialize, JsonSchema)]
struct Stutter {
    steps: u32,
    step_ms: u32,
}

/// Keeps the order of the shards apart from other draws of the same seed.
const ORDER: u64 = 0x004F_5244_4552;
/// Rounds of a run, at most.
const ROUNDS_MAX: usize = 400_000;
/// Time of a run before its drain, at most: a few idle timeouts one after the other.
const TIME_MAX: Duration = Duration::from_hours(1);
/// How long a drain may take when every client has left: a last call and a goodbye that nobody
/// answers.
const GOODBYE_MAX: Duration = Duration::from_millis(1_600);
/// How late anything may be: ticks, naps, delays.
const LATE_MAX: Duration = Duration::from_millis(50);
/// So much memory never runs out.
const PLENTY_BYTES: usize = 1 << 20;
