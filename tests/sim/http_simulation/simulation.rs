//! A run over HTTP: clients on several shards in one thread.
//!
//! When the last client has left, the server runs on until it holds nothing on their behalf: calls,
//! client requests and sessions expire. Only then is it drained. In some runs it is drained before.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use corelane::{Server, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::{Fault, World};

use super::catalog;
use super::plan::HttpPlan;
use crate::feature_simulation::catalog_versions::CatalogUpdates;
use crate::feature_simulation::shared_model::SharedModel;
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{
    CLOSE_MAX, IDLE_CHECK_INTERVAL, ROUNDS_MAX, SimServer, TIME_MAX, listen_address,
};
use crate::harness::shard::SimShard;
use crate::http_simulation::checks::session_checker::SessionChecker;
use crate::http_simulation::checks::shared_model::HttpSharedModel;
use crate::http_simulation::client::http_client::{HttpClient, RunConditions};
use crate::http_simulation::hostile::fault_proxy::HttpFaultProxy;
use crate::totals::Totals;

/// Result of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HttpReport {
    pub(crate) totals: Totals,
    /// Hash of what all clients received and when; equal for equal runs.
    pub(crate) digest: u64,
    /// When the server held nothing of any client, if it was not drained before.
    pub(crate) released_at: Option<Instant>,
}

/// State of a run.
struct HttpSimulation<'a> {
    plan: &'a HttpPlan,
    random: Random,
    server: SimServer,
    commands: CommandQueue,
    /// Declared after the shards, which a dropped update still notifies.
    catalog_updates: CatalogUpdates,
    shared_model: Rc<RefCell<HttpSharedModel>>,
    proxy: Rc<RefCell<HttpFaultProxy>>,
    arrivals: VecDeque<(Duration, usize)>,
    clients: Vec<HttpClient>,
    /// When the last client had left.
    last_client_left: Option<Instant>,
    released_at: Option<Instant>,
    is_draining: bool,
    totals: Totals,
}

/// Runs a plan to its end.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &HttpPlan) -> Result<HttpReport, String> {
    let mut simulation = HttpSimulation::new(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = simulation.server.world.now();
        let ended = simulation.server.turn(now, &mut simulation.random)?;
        simulation.totals = simulation.totals.plus(ended);
        let facts = simulation.conditions();
        for client in &mut simulation.clients {
            let turned = client.turn(&simulation.server.world, now, facts);
            turned.map_err(|what| format!("{what}, at {now:?}"))?;
        }
        simulation.apply_due_events(now)?;
        if simulation.last_client_left.is_some() && simulation.server.has_drained() {
            return simulation.finish();
        }
        simulation.advance_time(now)?;
    }
    Err(simulation.describe("the run does not end"))
}

impl<'a> HttpSimulation<'a> {
    fn new(plan: &'a HttpPlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(7) ^ ORDER_SALT);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let origin = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let (made, (edits, asked)) = (Arc::<AtomicU64>::default(), mpsc::channel());
        let server = Server::builder(catalog::build_catalog(&made)?).options(plan.options.clone());
        let (seeds, handle) =
            server.entropy(origin).send_updates_to(edits).shard_builders(plan.shards)?;
        let places = ShardByClient::default();
        let shards = seeds
            .into_iter()
            .map(|seed| SimShard::listen(Transport::Http, &world, seed, listen_address(), &places));
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
            shared_model: Rc::new(RefCell::new(HttpSharedModel::new(
                SharedModel::new(plan.options.limits.request_state_ttl)
                    .with_memory_limit(plan.may_exhaust_memory()),
            ))),
            proxy: Rc::new(RefCell::new(HttpFaultProxy::new(plan.server_fault))),
            arrivals: arrivals.into(),
            clients: Vec::new(),
            last_client_left: None,
            released_at: None,
            is_draining: false,
            totals: Totals::default(),
        })
    }

    fn conditions(&self) -> RunConditions {
        let (plan, http) = (self.plan, &self.plan.options.http);
        let may_exhaust_memory = plan.may_exhaust_memory();
        let may_break = plan.faults.has(Fault::Reset)
            || plan.faults.has(Fault::AcceptFailure)
            || may_exhaust_memory;
        RunConditions {
            session_ttl: Some(http.session_idle_timeout).filter(|_| !plan.may_evict_sessions()),
            has_small_buffers: plan.has_small_buffers(),
            may_drop_events: plan.may_drop_events(),
            second_stream: plan.options.http.second_stream,
            may_exceed_in_flight: plan.options.limits.requests_in_flight_max < 10,
            may_exhaust_memory,
            may_break,
            is_draining: self.is_draining,
            strict_revision: http.strict,
        }
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
            let is_slow = self.plan.faults.has(Fault::SlowReader) && self.random.chance(1, 2);
            let random = Random::seeded(self.random.next_u64());
            let actions = self.plan.clients[index].1.clone();
            let (model, proxy) = (Rc::clone(&self.shared_model), Rc::clone(&self.proxy));
            let client = HttpClient::new(index as u32, actions, is_slow, random, model, proxy, now);
            self.clients.push(client);
        }
        self.catalog_updates.apply_due(now, &mut self.random);
        self.shared_model.borrow_mut().versions_made = self.catalog_updates.versions_made();
        if self.arrivals.is_empty() && self.clients.iter().all(HttpClient::is_over) {
            self.check_released(now)?;
        }
        let is_due =
            self.plan.drain_at.is_some_and(|at| at <= elapsed) || self.released_at.is_some();
        if is_due && !self.is_draining {
            self.is_draining = true;
            self.commands.push_front(ServerCommand::Drain);
        }
        self.commands.send_pending();
        Ok(())
    }

    /// All clients have left: checks that the server releases everything in time.
    fn check_released(&mut self, now: Instant) -> Result<(), String> {
        let alone = *self.last_client_left.get_or_insert(now);
        let options = &self.plan.options;
        let left_max =
            options.http.session_idle_timeout + options.limits.request_timeout + CLOSE_MAX;
        let left_max =
            left_max + options.limits.task_ttl_max + options.limits.client_request_timeout;
        if self.is_draining {
            return Ok(());
        }
        if self.server.held_objects() == 0 {
            self.released_at.get_or_insert(now);
        } else if now > alone.after(left_max) {
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
        let outside = [arrival, drain].into_iter().flatten().map(|at| Instant::ORIGIN.after(at));
        let outside = outside.chain(self.catalog_updates.next_due());
        let outside = outside.filter(|_| !self.server.is_any_shard_stalled(now));
        let rest = self
            .last_client_left
            .filter(|_| !self.is_draining)
            .map(|_| now.after(IDLE_CHECK_INTERVAL));
        let actions = self.clients.iter().filter_map(HttpClient::next_action);
        outside.chain(rest).chain(actions).min()
    }

    /// Checks what must hold over the whole run.
    fn finish(mut self) -> Result<HttpReport, String> {
        self.server.check_released()?;
        self.shared_model.borrow().shared.check_end(self.catalog_updates.versions_made())?;
        self.shared_model.borrow().shared.check_evicted(self.totals.tasks_evicted)?;
        self.check_task_notifications()?;
        self.totals.catalog_updates += self.catalog_updates.versions_made();
        self.totals = self.totals.plus(self.shared_model.borrow().shared.totals);
        let mut digest = 0_u64;
        for client in &self.clients {
            self.totals = self.totals.plus(client.totals());
            digest = digest.rotate_left(7) ^ client.digest();
        }
        Ok(HttpReport { totals: self.totals, digest, released_at: self.released_at })
    }

    /// Checks that no session was notified of a task of another session.
    fn check_task_notifications(&self) -> Result<(), String> {
        let checkers: Vec<&SessionChecker> =
            self.clients.iter().flat_map(HttpClient::sessions).collect();
        for (place, checker) in checkers.iter().enumerate() {
            let others = checkers.iter().enumerate().filter(|(other, _)| *other != place);
            for (_, other) in others {
                if let Some(task) = checker.notified_tasks.intersection(&other.created_tasks).next()
                {
                    let (id, other) = (&checker.id, &other.id);
                    return Err(format!("session {id} was notified of task {task} of {other}"));
                }
            }
        }
        Ok(())
    }

    fn describe(&self, what: &str) -> String {
        let here = self.clients.iter().filter(|client| !client.is_over());
        self.server.describe(what, here.map(HttpClient::describe))
    }
}

/// Distinguishes the order of shards from other random streams of the same seed.
const ORDER_SALT: u64 = 0x0045_5645_4E49;
