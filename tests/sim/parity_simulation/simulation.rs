//! A run: clients of the dialect on several shards in one thread.
//!
//! When the last client has left, the server runs on until it holds nothing on their behalf. Only
//! then is it drained. In some runs it is drained before.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use corelane::options::CapabilitiesTimeoutPolicy;
use corelane::{Server, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::World;

use super::link::Link;
use super::peer::Peer;
use super::plan::ParityPlan;
use super::request_model::Rules;
use super::server::{HTTP_ADDRESS, ORIGIN_UNIX_MS, TCP_ADDRESS, Tokens, build_catalog};
use super::totals::ParityTotals;
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{CLOSE_MAX, ROUNDS_MAX, SimServer, TIME_MAX};
use crate::harness::shard::{STALL_MAX, SimShard};

/// Result of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ParityReport {
    pub(crate) totals: ParityTotals,
    /// Hash of what all clients received and when; equal for equal runs.
    pub(crate) digest: u64,
}

/// State of a run.
struct ParitySimulation<'a> {
    plan: &'a ParityPlan,
    random: Random,
    server: SimServer,
    commands: CommandQueue,
    arrivals: VecDeque<(Duration, usize)>,
    peers: Vec<Peer>,
    /// The only connection of a run over pipes.
    pipes: Option<Link>,
    storm_at: Option<Duration>,
    last_peer_left: Option<Instant>,
    is_released: bool,
    is_draining: bool,
}

/// Runs a plan to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &ParityPlan) -> Result<ParityReport, String> {
    let mut simulation = ParitySimulation::new(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = simulation.server.world.now();
        simulation.server.turn(now, &mut simulation.random)?;
        let rules = simulation.rules(now);
        for peer in &mut simulation.peers {
            let turned = peer.turn(&simulation.server.world, plan, rules);
            turned.map_err(|problem| format!("{problem}, at {now:?}"))?;
        }
        simulation.apply_due_events(now)?;
        if simulation.last_peer_left.is_some() && simulation.server.has_drained() {
            return simulation.finish();
        }
        simulation.advance_time(now)?;
    }
    Err(simulation.describe("the run does not end"))
}

impl<'a> ParitySimulation<'a> {
    fn new(plan: &'a ParityPlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(11) ^ ORDER_SALT);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let origin = Entropy { secret: [7; 32], unix_ms: ORIGIN_UNIX_MS };
        let mut server = Server::builder(build_catalog()?).options(plan.options.clone());
        if plan.has_tokens {
            server = server.token_verifier(Tokens);
        }
        let (builders, handle) = server.entropy(origin).shard_builders(plan.shards)?;
        let places = ShardByClient::default();
        let listeners = [(Transport::Tcp, TCP_ADDRESS), (Transport::Http, HTTP_ADDRESS)];
        let (mut shards, mut pipes) = (Vec::new(), None);
        for builder in builders {
            if plan.is_piped {
                let (shard, socket) = SimShard::serve_pipes(&world, builder, &places)?;
                pipes = Some(Link::of_lines(socket));
                shards.push(shard);
            } else {
                shards.push(SimShard::listen_all(&world, builder, &listeners, &places)?);
            }
        }
        let peers = plan.peers.iter().enumerate();
        let mut arrivals: Vec<_> = peers.map(|(index, peer)| (peer.0, index)).collect();
        arrivals.sort_unstable();
        Ok(Self {
            plan,
            random,
            server: SimServer::new(world, shards, places, plan.stall_chance),
            commands: CommandQueue::new(handle),
            arrivals: arrivals.into(),
            peers: Vec::new(),
            pipes,
            storm_at: plan.storm_at,
            last_peer_left: None,
            is_released: false,
            is_draining: false,
        })
    }

    fn rules(&self, now: Instant) -> Rules {
        let (plan, options) = (self.plan, &self.plan.options);
        let timeouts = &options.parity.timeouts;
        let continues = timeouts.capabilities_policy == CapabilitiesTimeoutPolicy::Continue;
        Rules {
            now,
            is_draining: self.is_draining,
            request_timeout: options.limits.request_timeout,
            lag_max: plan.stall_chance.map_or(Duration::ZERO, |_| STALLS_MAX * STALL_MAX),
            capabilities_timeout: (timeouts.capabilities, continues),
            streams_max: options.parity.streams_max as usize,
            may_idle_out: plan.may_idle_out(),
            window: options.parity.resume_window,
            may_break: plan.may_break(),
            may_time_out_handshake: timeouts.handshake < Duration::from_secs(1),
            has_tokens: plan.has_tokens,
        }
    }

    /// Applies due events from outside: clients, the storm, the drain.
    fn apply_due_events(&mut self, now: Instant) -> Result<(), String> {
        if self.server.is_any_shard_stalled(now) {
            return Ok(());
        }
        let elapsed = now.since(Instant::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            let random = Random::seeded(self.random.next_u64());
            let peer = Peer::new(self.plan, index, random, now);
            self.peers.push(match self.pipes.take() {
                Some(pipes) => peer.with_link(pipes),
                None => peer,
            });
        }
        if self.storm_at.is_some_and(|at| at <= elapsed) {
            self.storm_at = None;
            for peer in &mut self.peers {
                peer.storm(now);
            }
        }
        if self.arrivals.is_empty() && self.peers.iter().all(Peer::is_over) {
            self.check_released(now)?;
        }
        let is_due = self.plan.drain_at.is_some_and(|at| at <= elapsed) || self.is_released;
        if is_due && !self.is_draining {
            self.is_draining = true;
            self.commands.push_front(ServerCommand::Drain);
        }
        self.commands.send_pending();
        Ok(())
    }

    /// All clients have left: checks that the server releases everything in time.
    fn check_released(&mut self, now: Instant) -> Result<(), String> {
        let alone = *self.last_peer_left.get_or_insert(now);
        let parity = &self.plan.options.parity;
        let silent_max = parity.timeouts.keepalive + parity.timeouts.idle;
        let left_max = parity.resume_window.max(silent_max)
            + self.plan.options.limits.request_timeout
            + parity.timeouts.handshake.max(parity.timeouts.capabilities)
            + CLOSE_MAX;
        if self.server.held_objects() == 0 {
            self.is_released = true;
        } else if now > alone.after(left_max) && !self.is_draining {
            return Err(self.describe("the server still holds objects of clients"));
        }
        Ok(())
    }

    /// Advances time if no shard has work now, or if one is stalled.
    fn advance_time(&mut self, now: Instant) -> Result<(), String> {
        let next = self.next_due(now);
        let has_moved = self.server.advance_time(now, next).map_err(|what| self.describe(what))?;
        if has_moved && now.since(Instant::ORIGIN) > TIME_MAX {
            return Err(self.describe("the run takes too long"));
        }
        Ok(())
    }

    /// Returns when the test itself has something due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let drain = self.plan.drain_at.filter(|_| !self.is_draining);
        let outside = [arrival, drain, self.storm_at].into_iter().flatten();
        let outside = outside.map(|at| Instant::ORIGIN.after(at));
        let outside = outside.filter(|_| !self.server.is_any_shard_stalled(now));
        let rest = self.last_peer_left.filter(|_| !self.is_draining);
        let rest = rest.map(|_| now.after(REST_CHECK_INTERVAL));
        outside.chain(rest).chain(self.peers.iter().filter_map(Peer::next_due)).min()
    }

    /// Checks what must hold over the whole run.
    fn finish(self) -> Result<ParityReport, String> {
        self.server.check_released()?;
        let mut report = ParityReport { totals: ParityTotals::default(), digest: 0 };
        for peer in &self.peers {
            report.totals = report.totals.plus(peer.totals());
            report.digest = report.digest.rotate_left(7) ^ peer.digest();
        }
        report.totals.drains += u64::from(self.plan.drain_at.is_some());
        Ok(report)
    }

    fn describe(&self, what: &str) -> String {
        let here = self.peers.iter().filter(|peer| !peer.is_over());
        self.server.describe(what, here.map(Peer::describe))
    }
}

/// Longest row of stalls of one shard.
const STALLS_MAX: u32 = 10;

/// Interval at which a server without clients is checked.
const REST_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Distinguishes the order of shards from other random streams of the same seed.
const ORDER_SALT: u64 = 0x0050_4152_4954;
