//! One run: hostile clients take places, honest ones do calls, newcomers come after the attack, and
//! then all leave.

use std::error::Error;
use std::io;
use std::time::Duration;

use corelane::{Server, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::World;

use crate::fairness_simulation::checker::{FairnessChecker, PlaceLimits, RECOVERY_TIME_MAX};
use crate::fairness_simulation::honest::HonestClient;
use crate::fairness_simulation::hostile::HostileClients;
use crate::fairness_simulation::plan::FairnessPlan;
use crate::fairness_simulation::server::{HTTP_ADDRESS, TCP_ADDRESS, Tokens, build_catalog};
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{CLOSE_MAX, IDLE_CHECK_INTERVAL, ROUNDS_MAX, SimServer};
use crate::harness::shard::{ShardChecks, SimShard};
use crate::totals::Totals;

/// Result of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FairnessReport {
    pub(crate) totals: Totals,
    /// The longest time of an honest call.
    pub(crate) slowest: Duration,
}

/// State of a run.
struct FairnessSimulation<'a> {
    plan: &'a FairnessPlan,
    random: Random,
    server: SimServer,
    commands: CommandQueue,
    hostile: HostileClients<'a>,
    honest: Vec<HonestClient<'a>>,
    checker: FairnessChecker,
    phase: Phase,
    places_checked: Instant,
    totals: Totals,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Attack,
    /// The attack has ended.
    Recovery,
    /// All clients have left, at this time.
    Empty(Instant),
    Drain,
}

/// Runs a plan to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &FairnessPlan) -> Result<FairnessReport, String> {
    let mut run = FairnessSimulation::new(plan).map_err(|error| error.to_string())?;
    // Prefixes of hostile clients are many connections.
    for _ in 0..8 * ROUNDS_MAX {
        let now = run.server.world.now();
        let ended = run.server.turn(now, &mut run.random).map_err(|what| run.describe(&what))?;
        run.totals = run.totals.plus(ended);
        if run.server.has_drained() {
            run.server.check_released()?;
            let slowest = run.checker.slowest;
            return Ok(FairnessReport { totals: run.totals, slowest });
        }
        run.act(now).map_err(|what| run.describe(&what))?;
        let next = run.next_due(now);
        run.server.advance_time(now, next).map_err(|what| run.describe(what))?;
    }
    Err(run.describe("the run does not end"))
}

impl<'a> FairnessSimulation<'a> {
    fn new(plan: &'a FairnessPlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let entropy = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let mut server = Server::builder(build_catalog()?).options(plan.options.clone());
        if plan.has_tokens {
            server = server.token_verifier(Tokens);
        }
        let (builders, handle) = server.entropy(entropy).shard_builders(plan.shards)?;
        let places = ShardByClient::default();
        let listeners = [(Transport::Tcp, TCP_ADDRESS), (Transport::Http, HTTP_ADDRESS)];
        let shards = builders
            .into_iter()
            .map(|builder| {
                let shard = SimShard::listen_all(&world, builder, &listeners, &places)?;
                Ok(shard.with_checks(CHECKS))
            })
            .collect::<io::Result<_>>()?;
        let honest = plan.honest.iter().map(|it| (it, false));
        let honest = honest.chain(plan.newcomers.iter().map(|it| (it, true)));
        let honest = honest.map(|(it, is_newcomer)| {
            HonestClient::new(it, is_newcomer, Random::seeded(random.next_u64()))
        });
        let honest = honest.collect();
        let hostile = HostileClients::new(&plan.hostile, Random::seeded(random.next_u64()));
        Ok(Self {
            plan,
            random,
            server: SimServer::new(world, shards, places, None),
            commands: CommandQueue::new(handle),
            hostile,
            honest,
            checker: FairnessChecker::new(PlaceLimits::new(&plan.options)),
            phase: Phase::Attack,
            places_checked: Instant::ORIGIN,
            totals: Totals::default(),
        })
    }

    fn attack_ends_at(&self) -> Instant {
        Instant::ORIGIN.after(self.plan.hostile.ends_at)
    }

    /// Does what is due.
    fn act(&mut self, now: Instant) -> Result<(), String> {
        if matches!(self.phase, Phase::Attack | Phase::Recovery) {
            self.check_places(now)?;
            for client in &mut self.honest {
                let turned = client.turn(&self.server.world, &mut self.checker, now);
                turned.map_err(|what| format!("{what}\n{}", client.describe()))?;
            }
            self.hostile.turn(&self.server.world, now);
        }
        match self.phase {
            Phase::Attack if now >= self.attack_ends_at() => {
                self.hostile.stop();
                self.phase = Phase::Recovery;
            }
            Phase::Recovery if self.is_recovered(now) => {
                self.hostile.close_all();
                for client in &mut self.honest {
                    client.leave();
                    self.totals.responses += client.calls;
                    self.totals.calls_begun_again += client.begun_again;
                }
                self.phase = Phase::Empty(now);
            }
            Phase::Empty(since) => self.check_empty(since, now)?,
            _ => {}
        }
        self.commands.send_pending();
        Ok(())
    }

    fn is_recovered(&self, now: Instant) -> bool {
        now >= self.attack_ends_at().after(RECOVERY_TIME_MAX)
            && !self.honest.iter().any(HonestClient::is_calling)
    }

    fn check_places(&mut self, now: Instant) -> Result<(), String> {
        if self.places_checked.after(PLACE_CHECK_INTERVAL) > now {
            return Ok(());
        }
        self.places_checked = now;
        let places: Vec<_> = self.server.shards.iter().flat_map(SimShard::held_places).collect();
        self.checker.record_places(&places)
    }

    /// Checks that nothing is held of clients that have left for as long as their sessions and
    /// tasks are kept.
    fn check_empty(&mut self, since: Instant, now: Instant) -> Result<(), String> {
        let options = &self.plan.options;
        let kept_max = options.http.session_idle_timeout
            + options.parity.resume_window
            + options.parity.timeouts.idle
            + options.limits.request_timeout
            + options.limits.task_ttl_max
            + CLOSE_MAX;
        if self.server.held_objects() == 0 {
            self.commands.push(ServerCommand::Drain);
            self.phase = Phase::Drain;
        } else if now > since.after(kept_max) {
            return Err("the server still holds objects of clients".to_owned());
        }
        Ok(())
    }

    /// Returns when something is due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Attack | Phase::Recovery => {
                let honest = self.honest.iter().filter_map(HonestClient::next_due);
                let check = self.places_checked.after(PLACE_CHECK_INTERVAL);
                honest.chain([self.hostile.next_due(), check]).min()
            }
            Phase::Empty(_) => Some(now.after(IDLE_CHECK_INTERVAL)),
            Phase::Drain => None,
        }
    }

    fn describe(&self, what: &str) -> String {
        let FairnessPlan { origin, hostile, options, has_tokens, faults, .. } = self.plan;
        let places = options.tcp.connections_max;
        let about = format!(
            "{what}\n{origin:?} with {:?}, {places} places, tokens {has_tokens}, {faults:?}, \
             at most {} connections, {} firm",
            hostile.kinds, hostile.connections_max, hostile.firm_max,
        );
        self.server.describe(&about, self.honest.iter().map(HonestClient::describe))
    }
}

/// A check of the memory account looks at everything that is held.
const CHECKS: ShardChecks = ShardChecks { memory_interval: 16, has_undecided: true };

/// Time between two checks of places.
const PLACE_CHECK_INTERVAL: Duration = Duration::from_millis(5);
