//! One run: a server of several shards, its clients and the world between them, in one thread.
//!
//! Each round, clients act, shards run in an order that the seed decides, and time advances when
//! all of them sleep, until the server has drained. Nothing blocks, and the same scenario gives the
//! same run.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use corelane::internal::demo;
use corelane::{CallToolResult, Catalog, CatalogError, NoArguments, RequestContext, Server, Tool};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::{Fault, World};
use corelane_protocol::model::Implementation;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{SimServer, listen_address};
use crate::harness::shard::SimShard;
use crate::harness::socket::ClientSocket;
use crate::line_simulation::client::{CUT_RESPONSE_MAX, ClientTraits, CloseConditions, LineClient};
use crate::line_simulation::scenario::Scenario;
use crate::totals::Totals;

/// Result of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Report {
    pub(crate) totals: Totals,
    /// Hash of what all clients received and when; equal for equal runs.
    pub(crate) digest: u64,
    pub(crate) rounds: usize,
    /// When each client was done, in the order in which they connected.
    pub(crate) client_ends: Vec<Instant>,
    /// When the server had drained.
    pub(crate) drained_at: Instant,
}

/// State of a run.
struct LineSimulation<'a> {
    scenario: &'a Scenario,
    random: Random,
    server: SimServer,
    /// The pipes of the only client, until it uses them.
    pipes: Option<ClientSocket>,
    commands: CommandQueue,
    /// Number of the last catalog that was offered.
    catalogs_offered: u64,
    /// When each client of the scenario connects, the next one in front.
    arrivals: VecDeque<(Duration, usize)>,
    scheduled_commands: VecDeque<(Duration, usize)>,
    /// Time since the last clock jump, and length of the jump.
    clock_jumps: VecDeque<(Duration, Duration)>,
    last_clock_jump: Instant,
    /// Total length of all jumps.
    clock_jump_total: Duration,
    is_draining: bool,
    clients: Vec<LineClient>,
    conditions: CloseConditions,
    /// How long the drain may take, once it has begun.
    drain_timeout: Duration,
    totals: Totals,
}

/// Runs a scenario to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(scenario: &Scenario) -> Result<Report, String> {
    let mut simulation = LineSimulation::new(scenario).map_err(|error| error.to_string())?;
    for round in 0..ROUNDS_MAX {
        let now = simulation.server.world.now();
        // First, so that a shard knows the present time before events reach it.
        let ended = simulation.server.turn(now, &mut simulation.random)?;
        simulation.totals = simulation.totals.plus(ended);
        for client in &mut simulation.clients {
            client.turn(now, &simulation.conditions)?;
        }
        simulation.apply_due_events(now);
        if simulation.has_finished_clients() && simulation.server.has_drained() {
            return simulation.finish(round);
        }
        simulation.advance_time(now)?;
    }
    Err(simulation.describe("the run does not end"))
}

impl<'a> LineSimulation<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(scenario.seed.wrapping_mul(3) ^ ORDER_SALT);
        let world = World::with_faults(random.next_u64(), scenario.faults);
        let catalog = build_catalog(0)?;
        let origin = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::builder(catalog).options(scenario.options.clone()).entropy(origin);
        let (seeds, handle) = server.shard_builders(scenario.shards)?;
        let places = ShardByClient::default();
        let (mut shards, mut pipes) = (Vec::new(), None);
        for seed in seeds {
            if scenario.is_piped {
                let (shard, wire) = SimShard::serve_pipes(&world, seed, &places)?;
                shards.push(shard);
                pipes = Some(wire);
            } else {
                shards.push(SimShard::listen_tcp(&world, seed, listen_address(), &places)?);
            }
        }
        let arrivals = scenario.clients.iter().enumerate();
        let mut arrivals: Vec<_> =
            arrivals.map(|(index, client)| (client.connects_at, index)).collect();
        arrivals.sort_unstable();
        let mut commands = scenario.commands.clone();
        commands.sort_unstable();
        let tcp = &scenario.options.tcp;
        let has_resets =
            scenario.faults.has(Fault::Reset) || scenario.faults.has(Fault::AcceptFailure);
        let climate = CloseConditions {
            may_reset: has_resets,
            is_piped: scenario.is_piped,
            first_message_timeout: tcp.first_message_timeout,
            idle_timeout: tcp.idle_timeout,
            drain: None,
            last_clock_jump: None,
        };
        Ok(Self {
            scenario,
            random,
            server: SimServer::new(world, shards, places, scenario.stall_chance),
            pipes,
            commands: CommandQueue::new(handle),
            catalogs_offered: 0,
            arrivals: arrivals.into(),
            scheduled_commands: commands.into(),
            clock_jumps: scenario.clock_jumps.clone().into(),
            last_clock_jump: Instant::ORIGIN,
            clock_jump_total: Duration::ZERO,
            is_draining: false,
            clients: Vec::new(),
            conditions: climate,
            drain_timeout: Duration::MAX,
            totals: Totals::default(),
        })
    }

    /// Applies due events from outside: clients, commands, the drain. Not while a shard is stalled:
    /// it would take a message for older than it is, which cannot happen in the kernel.
    fn apply_due_events(&mut self, now: Instant) {
        if self.server.is_any_shard_stalled(now) {
            return;
        }
        let elapsed = now.since(Instant::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            let client = &self.scenario.clients[index];
            let random = Random::seeded(self.random.next_u64());
            let habits = ClientTraits {
                is_slow: self.scenario.faults.has(Fault::SlowReader) && self.random.chance(1, 2),
                may_miss_progress: self.scenario.may_skip_progress(),
                calls_in_flight_max: self.scenario.options.limits.requests_in_flight_max as usize,
                may_be_refused: self.scenario.may_refuse(client),
                may_exhaust_memory: self.scenario.may_exhaust_memory() && !client.is_small,
                half_close: self.scenario.half_close_rule(),
            };
            let world = &self.server.world;
            let connect = || world.connect_from(client.address, listen_address());
            let wire = self.pipes.take().unwrap_or_else(|| ClientSocket::stream(connect()));
            let actions = client.actions.clone();
            self.clients.push(LineClient::new(index, wire, actions, random, now, habits));
        }
        while let Some(&(at, count)) = self.scheduled_commands.front()
            && at <= elapsed
        {
            self.scheduled_commands.pop_front();
            self.send_commands(count);
        }
        let is_due = self.scenario.drain_at.is_some_and(|at| at <= elapsed);
        if !self.is_draining && (is_due || self.has_finished_clients()) {
            self.is_draining = true;
            let is_repeated = self.random.chance(1, 4);
            for _ in 0..=u8::from(is_repeated) {
                self.commands.push_front(ServerCommand::Drain);
            }
        }
        if self.commands.send_pending() {
            self.start_drain(now);
        }
        self.jump_clock(now);
    }

    /// Gives the server commands that change nothing that a client can notice but the version.
    fn send_commands(&mut self, count: usize) {
        self.totals.shard_messages += count as u64;
        if count == 1
            && let Ok(catalog) = build_catalog(self.catalogs_offered + 1)
        {
            self.catalogs_offered += 1;
            return self.commands.push(ServerCommand::ReplaceCatalog(Arc::new(catalog)));
        }
        let mut options = self.scenario.options.clone();
        for _ in 0..count {
            options.limits.outgoing_bytes_max = 256 << self.random.below(8);
            self.commands.push(ServerCommand::ReloadLimits(Box::new(options.clone())));
        }
    }

    fn start_drain(&mut self, now: Instant) {
        let drain_max = self.scenario.options.engine.drain_timeout;
        self.conditions.drain = Some((now, drain_max));
        let is_prompt = self.has_finished_clients() || !self.scenario.faults.has(Fault::SlowReader);
        let goodbye_max = if is_prompt { CLOSE_MAX } else { drain_max };
        self.drain_timeout = LATE_MAX + drain_max.min(goodbye_max) + CUT_RESPONSE_MAX;
    }

    /// Makes the clock jump if that is due.
    fn jump_clock(&mut self, now: Instant) {
        let Some(&(after, span)) = self.clock_jumps.front() else { return };
        if now < self.last_clock_jump.after(after) {
            return;
        }
        self.clock_jumps.pop_front();
        let in_flight: usize = self.clients.iter_mut().map(LineClient::prepare_clock_jump).sum();
        self.totals.clock_jumps += u64::from(in_flight > 0);
        self.server.world.jump_clock(span);
        self.last_clock_jump = self.server.world.now();
        self.conditions.last_clock_jump = Some(self.last_clock_jump);
        self.clock_jump_total += span;
        self.drain_timeout = self.drain_timeout.saturating_add(span);
    }

    /// Advances time if no shard has work now, or if one is stalled.
    fn advance_time(&mut self, now: Instant) -> Result<(), String> {
        let next = self.next_due(now);
        let has_moved = self.server.advance_time(now, next).map_err(|what| self.describe(what))?;
        if !has_moved {
            return Ok(());
        }
        match self.conditions.drain {
            Some((since, _))
                if now > since.after(self.drain_timeout) && !self.server.has_drained() =>
            {
                Err(self.describe("the drain takes too long"))
            }
            None if now.since(Instant::ORIGIN) > TIME_MAX + self.clock_jump_total => {
                Err(self.describe("the run takes too long"))
            }
            _ => Ok(()),
        }
    }

    /// Returns when the test itself has something due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let command = self.scheduled_commands.front().map(|&(at, _)| at);
        let drain = self.scenario.drain_at.filter(|_| !self.is_draining);
        let jump = self.clock_jumps.front().map(|&(after, _)| self.last_clock_jump.after(after));
        let jump = jump.map(|at| at.since(Instant::ORIGIN));
        let outside = [arrival, command, drain, jump].into_iter().flatten();
        let outside = outside.map(|at| Instant::ORIGIN.after(at));
        let outside = outside.filter(|_| !self.server.is_any_shard_stalled(now));
        let clients = self.clients.iter().filter_map(LineClient::next_action);
        outside.chain(clients).min()
    }

    fn has_finished_clients(&self) -> bool {
        self.arrivals.is_empty() && self.clients.iter().all(LineClient::is_over)
    }

    /// Checks what must hold over the whole run.
    fn finish(mut self, rounds: usize) -> Result<Report, String> {
        self.server.check_released()?;
        self.check_messages_read()?;
        for shard in &self.server.shards {
            let checked = self.commands.check(shard.shard_messages(), self.scenario.is_piped);
            checked.map_err(|reason| format!("shard {}: {reason}", shard.number()))?;
        }
        let mut digest = 0_u64;
        for client in &self.clients {
            self.totals = self.totals.plus(client.totals());
            if self.scenario.may_exhaust_memory() && !client.may_exhaust_memory() {
                self.totals.small_client_responses += client.totals().responses;
            }
            digest = digest.rotate_left(7) ^ client.digest();
        }
        let ends = self.clients.iter().filter_map(LineClient::ended_at).collect();
        Ok(Report {
            totals: self.totals,
            digest,
            rounds,
            client_ends: ends,
            drained_at: self.server.world.now(),
        })
    }

    /// Checks that no shard has read more messages than its clients sent.
    fn check_messages_read(&self) -> Result<(), String> {
        let places = self.server.accepted.borrow();
        for shard in &self.server.shards {
            let is_here = |client: &&LineClient| {
                self.scenario.is_piped || places.get(&client.address()) == Some(&shard.number())
            };
            let here = self.clients.iter().filter(is_here);
            let sent: u64 = here.map(|client| client.checker.sent()).sum();
            if shard.messages() > sent {
                let (number, read) = (shard.number(), shard.messages());
                return Err(format!("shard {number} has read {read} messages, not {sent}"));
            }
        }
        Ok(())
    }

    fn describe(&self, what: &str) -> String {
        let waiting = self.clients.iter().filter(|client| !client.is_over());
        self.server.describe(what, waiting.map(LineClient::describe))
    }
}

/// The demo tools, one that reports progress badly and one that requests roots, under `version`.
fn build_catalog(version: u64) -> Result<Catalog, CatalogError> {
    let stutter =
        Tool::new("stutter").local(|Stutter { steps, step_ms }, ctx: RequestContext| async move {
            for done in 1..=steps {
                ctx.sleep(Duration::from_millis(step_ms.into())).await?;
                // Progress that does not increase is not sent.
                for progress in [done, done, done - 1] {
                    ctx.progress(progress.into(), Some(steps.into()), None);
                }
            }
            Ok(CallToolResult::text(format!("took {steps} steps of {step_ms} ms")))
        });
    let ask = Tool::new("ask").local(|_: NoArguments, ctx: RequestContext| async move {
        let roots = ctx.list_roots("roots").await?;
        Ok(CallToolResult::text(format!("{} roots", roots.len())))
    });
    Catalog::builder(Implementation::new("sim", format!("1.0.{version}")))
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

/// Distinguishes the order of shards from other random streams of the same seed.
const ORDER_SALT: u64 = 0x004F_5244_4552;
/// Limit of rounds per run.
const ROUNDS_MAX: usize = 400_000;
/// Limit of simulated time before the drain: several idle timeouts.
const TIME_MAX: Duration = Duration::from_hours(1);
/// How long a drain may take when every client has left: a last call and the close of a connection
/// whose client does not respond.
const CLOSE_MAX: Duration = Duration::from_millis(1_600);
/// How late an event may be: timer ticks, stalls, delays.
const LATE_MAX: Duration = Duration::from_millis(50);
