//! A run of clients that use client requests, tasks and subscriptions, over several shards in one
//! thread.
//!
//! When the last client has left, the server runs on until it holds nothing on their behalf: calls,
//! client requests and tasks expire. Only then is it drained. In some runs it is drained before.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use corelane::{Options, Server, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::sim::{Fault, Faults, World};
use corelane_protocol::revision::Revision;

use crate::feature_simulation::action::{self, Action};
use crate::feature_simulation::catalog_versions::{self, CatalogUpdates};
use crate::feature_simulation::client::{ClientProfile, SimClient};
use crate::feature_simulation::shared_model::SharedModel;
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::mesh::simulated_mesh;
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{
    CLOSE_MAX, IDLE_CHECK_INTERVAL, ROUNDS_MAX, SimServer, TIME_MAX, listen_address,
};
use crate::harness::shard::SimShard;
use crate::harness::socket::ClientSocket;
use crate::totals::Totals;
use crate::websocket::connection::WebSocketConnection;
use crate::websocket::fault_proxy::FrameFault;
use crate::websocket::faults::WebSocketRules;
use crate::websocket::transport::{ClientTransport, Conditions};

/// Everything about one run but the order of its shards.
#[derive(Clone, Debug)]
pub(crate) struct FeaturePlan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// Clients use WebSocket instead of newline-delimited messages.
    pub(crate) is_websocket: bool,
    /// Damage of the server's WebSocket frames.
    pub(crate) frame_fault: Option<FrameFault>,
    /// When each client connects, its revision and its actions.
    pub(crate) clients: Vec<(Duration, Revision, Vec<Action>)>,
    /// When the server begins to drain; `None`: when it is at rest.
    pub(crate) drain_at: Option<Duration>,
    /// One turn of a shard in this many is stalled.
    pub(crate) stall_chance: Option<usize>,
}

/// Result of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FeatureReport {
    pub(crate) totals: Totals,
    /// Hash of what all clients received and when; equal for equal runs.
    pub(crate) digest: u64,
    /// When each client was done, in the order in which they connected.
    pub(crate) client_ends: Vec<Instant>,
    /// When the server held nothing of them any more.
    pub(crate) released_at: Option<Instant>,
}

/// State of a run.
struct FeatureSimulation<'a> {
    plan: &'a FeaturePlan,
    random: Random,
    server: SimServer,
    commands: CommandQueue,
    /// Declared after the shards, which a dropped update still notifies.
    catalog_updates: CatalogUpdates,
    arrivals: VecDeque<(Duration, usize)>,
    clients: Vec<SimClient>,
    shared_model: SharedModel,
    /// When the last client had left.
    last_client_left: Option<Instant>,
    released_at: Option<Instant>,
    /// When the drain began.
    drain_began: Option<Instant>,
    totals: Totals,
}

impl FeaturePlan {
    /// Draws the run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x4755_4553_5453 << 8);
        let random = &mut random;
        let mut faults = Faults::random(random).without(Fault::ClockJump);
        if random.chance(1, 2) {
            faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        }
        let mut options = options();
        options.limits.outgoing_bytes_max = 512 << random.below(10);
        options.limits.requests_in_flight_max = if random.chance(1, 4) { 2 } else { 64 };
        options.engine.mesh = simulated_mesh(faults, random);
        options.engine.ring_sizes.receive_buffers = 2 << random.below(6);
        options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(7);
        let stall_chance = random.chance(1, 2).then(|| 4 + random.below(16));
        let visits = (0..3 + random.below(7)).map(|_| {
            let connects = Duration::from_micros(random.below(60_000) as u64);
            let revision = match random.below(6) {
                0 => Revision::ALL[random.below(Revision::ALL.len())],
                1 | 2 => Revision::LATEST_LEGACY,
                _ => Revision::LATEST,
            };
            (connects, revision, action::draw_actions(random))
        });
        let clients = visits.collect();
        let is_cut_short = random.chance(1, 5);
        let drain_at = is_cut_short.then(|| Duration::from_micros(random.below(200_000) as u64));
        let shards = 1 + random.below(3);
        let (is_websocket, frame_fault) = (false, None);
        Self {
            seed,
            shards,
            options,
            faults,
            is_websocket,
            frame_fault,
            clients,
            drain_at,
            stall_chance,
        }
    }
}

impl FeaturePlan {
    /// Draws the run of this seed, with a memory limit that its clients reach.
    pub(crate) fn draw_memory_limited(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let mut random = Random::seeded(seed ^ MEMORY_SALT);
        plan.options.limits.memory_bytes_max = plan.shards * ((2 << 10) << random.below(5));
        plan
    }

    /// Returns whether the memory limit may be reached.
    const fn may_exhaust_memory(&self) -> bool {
        self.options.limits.memory_bytes_max < 1 << 20
    }
}

/// Short timeouts and large limits.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.limits.request_timeout = Duration::from_millis(400);
    options.limits.client_request_timeout = Duration::from_millis(150);
    options.limits.request_state_ttl = Duration::from_millis(250);
    options.limits.task_ttl = Duration::from_millis(800);
    options.limits.task_ttl_max = Duration::from_millis(1_500);
    options.engine.blocking_threads = 1;
    options.engine.drain_timeout = Duration::from_millis(300);
    options.engine.ring_sizes = RingOptions { sockets_max: 64, ..RingOptions::default() };
    options
}

/// Runs a plan to its end; returns its counts.
///
/// # Errors
///
/// Describes the violated rule and the faults of the plan.
pub(crate) fn run_for_totals(plan: &FeaturePlan) -> Result<Totals, String> {
    let report = run(plan);
    report.map(|it| it.totals).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
}

/// Runs a plan to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &FeaturePlan) -> Result<FeatureReport, String> {
    let mut simulation = FeatureSimulation::new(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = simulation.server.world.now();
        let ended = simulation.server.turn(now, &mut simulation.random)?;
        simulation.totals = simulation.totals.plus(ended);
        simulation.turn_clients(now)?;
        simulation.apply_due_events(now)?;
        if simulation.last_client_left.is_some() && simulation.server.has_drained() {
            return simulation.finish();
        }
        simulation.advance_time(now)?;
    }
    Err(simulation.describe("the run does not end"))
}

impl<'a> FeatureSimulation<'a> {
    fn new(plan: &'a FeaturePlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(5) ^ ORDER_SALT);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let (made, (edits, asked)) = (Arc::<AtomicU64>::default(), mpsc::channel());
        let origin = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server =
            Server::builder(catalog_versions::catalog(&made)?).options(plan.options.clone());
        let (seeds, handle) =
            server.entropy(origin).send_updates_to(edits).shard_builders(plan.shards)?;
        let places = ShardByClient::default();
        let transport = if plan.is_websocket { Transport::Http } else { Transport::Tcp };
        let listen = |seed| SimShard::listen(transport, &world, seed, listen_address(), &places);
        let shards = seeds.into_iter().map(listen);
        let shards = shards.collect::<Result<_, _>>()?;
        let visits = plan.clients.iter().enumerate();
        let mut arrivals: Vec<_> = visits.map(|(index, visit)| (visit.0, index)).collect();
        arrivals.sort_unstable();
        Ok(Self {
            plan,
            random,
            server: SimServer::new(world, shards, places, plan.stall_chance),
            commands: CommandQueue::new(handle),
            catalog_updates: CatalogUpdates::new(asked, made),
            arrivals: arrivals.into(),
            clients: Vec::new(),
            shared_model: SharedModel::new(plan.options.limits.request_state_ttl)
                .with_memory_limit(plan.may_exhaust_memory()),
            last_client_left: None,
            released_at: None,
            drain_began: None,
            totals: Totals::default(),
        })
    }

    /// Applies due events from outside: clients, catalog updates, the drain.
    fn apply_due_events(&mut self, now: Instant) -> Result<(), String> {
        if self.server.is_any_shard_stalled(now) {
            return Ok(());
        }
        let elapsed = now.since(Instant::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            self.connect_client(index, now);
        }
        self.catalog_updates.apply_due(now, &mut self.random);
        if self.arrivals.is_empty() && self.clients.iter().all(SimClient::is_over) {
            self.check_released(now)?;
        }
        let is_due =
            self.plan.drain_at.is_some_and(|at| at <= elapsed) || self.released_at.is_some();
        if is_due && self.drain_began.is_none() {
            self.drain_began = Some(now);
            self.commands.push_front(ServerCommand::Drain);
        }
        self.commands.send_pending();
        Ok(())
    }

    /// All clients have left: checks that the server releases everything in time.
    fn check_released(&mut self, now: Instant) -> Result<(), String> {
        let alone = *self.last_client_left.get_or_insert(now);
        if self.server.held_objects() == 0 {
            self.released_at.get_or_insert(now);
        } else if now > alone.after(self.release_max()) {
            return Err(self.describe("the server still holds objects of clients"));
        }
        Ok(())
    }

    /// How long the server may hold anything after its client has left.
    fn release_max(&self) -> Duration {
        let limits = &self.plan.options.limits;
        limits.task_ttl_max + limits.request_timeout + limits.client_request_timeout + CLOSE_MAX
    }

    fn connect_client(&mut self, index: usize, now: Instant) {
        let (_, revision, actions) = self.plan.clients[index].clone();
        let is_slow = self.plan.faults.has(Fault::SlowReader) && self.random.chance(1, 2);
        let profile = ClientProfile { number: 1 + index as u64, revision, is_slow };
        let wire = ClientSocket::stream(self.server.world.connect(listen_address()));
        let carrier = if self.plan.is_websocket {
            let random = Random::seeded(self.random.next_u64());
            let terms = WebSocketRules::from_options(&self.plan.options);
            ClientTransport::WebSocket(Box::new(WebSocketConnection::open(
                wire,
                terms,
                self.plan.frame_fault,
                random,
                now,
            )))
        } else {
            ClientTransport::Lines(wire)
        };
        let random = Random::seeded(self.random.next_u64());
        self.clients.push(SimClient::new(profile, carrier, actions, random, now));
    }

    fn turn_clients(&mut self, now: Instant) -> Result<(), String> {
        let faults = self.plan.faults;
        let breaks = faults.has(Fault::Reset)
            || faults.has(Fault::AcceptFailure)
            || self.plan.may_exhaust_memory();
        let cut =
            self.drain_began.map(|drained| drained.after(self.plan.options.engine.drain_timeout));
        let conditions = Conditions { may_break: breaks, drain_end: cut };
        for client in &mut self.clients {
            client.turn(now, &mut self.shared_model, conditions)?;
        }
        Ok(())
    }

    /// Advances time if no shard has work now, or if one is stalled.
    fn advance_time(&mut self, now: Instant) -> Result<(), String> {
        let next = self.next_due(now);
        let has_moved = self.server.advance_time(now, next).map_err(|what| self.describe(what))?;
        if !has_moved {
            return Ok(());
        }
        if now.since(Instant::ORIGIN) > TIME_MAX {
            return Err(self.describe("the run takes too long"));
        }
        Ok(())
    }

    /// Returns when the test itself has something due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let drain = self.plan.drain_at.filter(|_| self.drain_began.is_none());
        let outside = [arrival, drain].into_iter().flatten().map(|at| Instant::ORIGIN.after(at));
        let outside = outside.chain(self.catalog_updates.next_due());
        let outside = outside.filter(|_| !self.server.is_any_shard_stalled(now));
        let rest = self
            .last_client_left
            .filter(|_| self.drain_began.is_none())
            .map(|_| now.after(IDLE_CHECK_INTERVAL));
        let visitors = self.clients.iter().filter_map(SimClient::next_action);
        outside.chain(rest).chain(visitors).min()
    }

    /// Checks what must hold over the whole run.
    fn finish(mut self) -> Result<FeatureReport, String> {
        self.server.check_released()?;
        self.shared_model.check_end(self.catalog_updates.versions_made())?;
        self.shared_model.check_evicted(self.totals.tasks_evicted)?;
        if self.released_at.is_some() && self.catalog_updates.next_due().is_some() {
            return Err("a requested catalog update was not made".to_owned());
        }
        self.totals.catalog_updates += self.catalog_updates.versions_made();
        self.totals.catalog_updates_delayed += self.catalog_updates.delayed;
        let mut digest = 0_u64;
        self.totals = self.totals.plus(self.shared_model.totals);
        for client in &self.clients {
            self.totals = self.totals.plus(client.totals());
            digest = digest.rotate_left(7) ^ client.digest();
        }
        let ends = self.clients.iter().filter_map(SimClient::ended_at).collect();
        Ok(FeatureReport {
            totals: self.totals,
            digest,
            client_ends: ends,
            released_at: self.released_at,
        })
    }

    fn describe(&self, what: &str) -> String {
        let here = self.clients.iter().filter(|client| !client.is_over());
        self.server.describe(what, here.map(SimClient::describe))
    }
}

/// Distinguishes the order of shards from other random streams of the same seed.
const ORDER_SALT: u64 = 0x0047_4154_4845;

/// Distinguishes the random stream of memory limits.
const MEMORY_SALT: u64 = 0x4D45_4D4F;
