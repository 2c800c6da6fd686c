//! One run: clients send `ping` over connections to all shards, and count what is admitted.
//!
//! Checks that in no time the shards together admit more than the limit and the burst, and that a
//! shard with all of the demand gets the limit of all.

use std::error::Error;

use corelane::Server;
use corelane::internal::demo;
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::World;
use corelane_protocol::model::Implementation;

use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{ROUNDS_MAX, SimServer, listen_address};
use crate::harness::shard::SimShard;
use crate::harness::socket::ClientSocket;
use crate::rate_simulation::plan::{Demand, RatePlan};
use crate::totals::Totals;

/// Connections.
const CLIENTS: usize = 24;
/// Milliseconds between two steps of the clients.
const STEP_MS: u64 = 5;
/// Steps of a run: four seconds.
const STEPS: u64 = 800;
/// Steps until shares have moved to the shard with the demand.
const WARM_UP_STEPS: u64 = 200;
/// Requests of a client that are not answered.
const IN_FLIGHT_MAX: usize = 64;

/// A connection.
struct Client {
    socket: ClientSocket,
    received: Vec<u8>,
    in_flight: usize,
}

/// State of a run.
struct RateSimulation<'a> {
    plan: &'a RatePlan,
    random: Random,
    server: SimServer,
    commands: CommandQueue,
    clients: Vec<Client>,
    /// The shard of the demand; it changes with [`Demand::Moving`].
    hot: usize,
    steps: u64,
    is_draining: bool,
    /// When the response of each admitted request arrived.
    admitted: Vec<Instant>,
    refused: u64,
    totals: Totals,
}

/// Runs a plan to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &RatePlan) -> Result<Totals, String> {
    let mut run = RateSimulation::new(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = run.server.world.now();
        let ended = run.server.turn(now, &mut run.random)?;
        run.totals = run.totals.plus(ended);
        run.read_responses(now)?;
        if run.server.has_drained() {
            run.server.check_released()?;
            return run.check();
        }
        run.act(now);
        // Nothing is sent while a shard is stalled.
        let is_due = !run.is_draining && !run.server.is_any_shard_stalled(now);
        let next = is_due.then(|| run.next_step());
        let moved = run.server.advance_time(now, next);
        moved.map_err(|what| run.server.describe(what, std::iter::empty()))?;
    }
    Err("the run does not end".to_owned())
}

impl<'a> RateSimulation<'a> {
    fn new(plan: &'a RatePlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let catalog = demo::catalog(Implementation::new("sim", "1.0.0"))?;
        let entropy = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::builder(catalog).options(plan.options.clone()).entropy(entropy);
        let (builders, handle) = server.shard_builders(plan.shards)?;
        let places = ShardByClient::default();
        let shards = builders
            .into_iter()
            .map(|builder| SimShard::listen_tcp(&world, builder, listen_address(), &places))
            .collect::<Result<_, _>>()?;
        let clients = (0..CLIENTS).map(|_| Client {
            socket: ClientSocket::stream(world.connect(listen_address())),
            received: Vec::new(),
            in_flight: 0,
        });
        let clients = clients.collect();
        Ok(Self {
            plan,
            random,
            server: SimServer::new(world, shards, places, plan.stall_chance),
            commands: CommandQueue::new(handle),
            clients,
            hot: 0,
            steps: 0,
            is_draining: false,
            admitted: Vec::new(),
            refused: 0,
            totals: Totals::default(),
        })
    }

    fn next_step(&self) -> Instant {
        at_step(self.steps + 1)
    }

    /// Sends what is due, and ends the run after its last step.
    fn act(&mut self, now: Instant) {
        if self.server.is_any_shard_stalled(now) {
            return;
        }
        if !self.is_draining && now >= self.next_step() {
            self.steps += 1;
            self.send_requests();
            if self.steps == STEPS {
                self.is_draining = true;
                self.clients.iter().for_each(|client| client.socket.shut_down_write());
                self.commands.push(ServerCommand::Drain);
            }
        }
        self.commands.send_pending();
    }

    fn send_requests(&mut self) {
        let places: Vec<usize> = {
            let accepted = self.server.accepted.borrow();
            let place = |client: &Client| accepted.get(&client.socket.address()).copied();
            self.clients.iter().map(|client| place(client).unwrap_or(usize::MAX)).collect()
        };
        if self.steps == 1 {
            self.hot = places[0];
        }
        let is_moving = self.plan.demand == Demand::Moving;
        if is_moving && self.steps.is_multiple_of(40) {
            self.hot = places[self.random.below(CLIENTS)];
        }
        // Three steps in eight of moving demand are pauses, others are on all shards.
        let phase = self.steps / 40 % 8;
        let is_pause = is_moving && phase >= 5;
        let is_everywhere = is_moving && phase.is_multiple_of(2);
        let senders: Vec<usize> =
            (0..CLIENTS).filter(|index| is_everywhere || places[*index] == self.hot).collect();
        let per_step = self.plan.limit * 2 * STEP_MS / 1_000 + 1;
        for _ in 0..if is_pause { 0 } else { per_step } {
            let client = &mut self.clients[senders[self.random.below(senders.len())]];
            if client.in_flight < IN_FLIGHT_MAX {
                client.in_flight += 1;
                client.socket.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
            }
        }
    }

    fn read_responses(&mut self, now: Instant) -> Result<(), String> {
        for client in &mut self.clients {
            client.received.extend(client.socket.take_received());
            if client.socket.has_ended() {
                client.socket.close();
            }
            while let Some(end) = client.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = client.received.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                client.in_flight -= 1;
                if line.contains("\"result\":{}") {
                    self.admitted.push(now);
                } else if line.contains("\"code\":1002") && line.contains("\"retryAfterMs\":") {
                    self.refused += 1;
                } else {
                    return Err(format!("unexpected response {line}"));
                }
            }
        }
        Ok(())
    }

    /// Checks the whole run.
    fn check(self) -> Result<Totals, String> {
        let Self { plan: RatePlan { limit, burst, demand, .. }, admitted, refused, .. } = &self;
        let plan = format!("{:?}, {} shards, {limit}/s, burst {burst}", demand, self.plan.shards);
        for (first, from) in admitted.iter().enumerate().step_by(7) {
            for (last, to) in admitted.iter().enumerate().skip(first).step_by(7) {
                let count = (last - first + 1) as u64;
                let nanoseconds = to.nanoseconds() - from.nanoseconds();
                let most = burst + limit * nanoseconds / 1_000_000_000;
                // Of what was admitted, 5 % for messages that are under way.
                if count > most + most / 20 + 1 {
                    return Err(format!("{plan}: {count} of {most} admitted in {nanoseconds} ns"));
                }
            }
        }
        if *demand == Demand::OneShard {
            let from = at_step(WARM_UP_STEPS);
            let to = at_step(STEPS);
            let count = admitted.iter().filter(|at| (from..to).contains(at)).count() as u64;
            let expected = limit * (STEPS - WARM_UP_STEPS) * STEP_MS / 1_000;
            if count * 100 < expected * 95 {
                return Err(format!("{plan}: {count} of {expected} admitted on one shard"));
            }
        }
        let responses = admitted.len() as u64 + refused;
        Ok(Totals { responses, rate_limit_errors: *refused, ..self.totals })
    }
}

/// Returns when a step is due.
const fn at_step(step: u64) -> Instant {
    Instant::from_milliseconds(step * STEP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_rate_plan_gives_same_run() {
        let plan = RatePlan::draw(Demand::Moving, 3);
        let first = run(&plan);
        assert!(first.is_ok(), "{first:?}");
        assert_eq!(first, run(&plan));
    }
}
