//! A run: clients make calls while everything fails, then all faults end, every client makes one
//! more call, and is closed.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane::client::{CachePolicy, Client, ClientError, ProxyOptions};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::{Faults, World};

use super::call::{CallFuture, CallKind, PlannedCall, start};
use super::call_model::CallModel;
use super::catalog::{Executions, answer};
use super::cut_proxy::{CutProxy, proxy_address};
use super::io_thread::SimIoThread;
use super::plan::{ClientPlan, ClientSetup, ClientTransport, FAULT_TIME, Mutation};
use super::server_host::{ServerEnd, ServerHost};
use crate::harness::server::{ROUNDS_MAX, SimServer};
use crate::totals::Totals;

/// Time after the faults in which every client must have made a call.
const RECOVERY_TIME_MAX: Duration = Duration::from_mins(1);
/// Timeout of the calls after the faults.
const LAST_CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause of a client after such a call has failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Time in which closed clients release everything, and in which the server drains.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);
/// Distinguishes the order of shards from other random streams of the same seed.
const ORDER_SALT: u64 = 0x434C_4F52_4452;

/// What is being done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Calls are made, and faults occur.
    Faulty,
    /// The faults have ended; every client makes one more call.
    Recovering,
    /// The clients are closed.
    Closing,
    /// The server drains.
    Draining,
}

/// A call in progress.
struct PendingCall {
    number: usize,
    future: CallFuture,
    cancelled_at: Option<Instant>,
}

/// The last call of a client.
struct LastCall {
    client: usize,
    future: Option<CallFuture>,
    not_before: Instant,
    is_done: bool,
    last_error: Option<ClientError>,
}

/// State of a run.
struct ClientSimulation<'a> {
    plan: &'a ClientPlan,
    random: Random,
    host: ServerHost,
    proxy: CutProxy,
    io_threads: Vec<SimIoThread>,
    clients: Vec<Client>,
    planned: VecDeque<PlannedCall>,
    server_ends: VecDeque<(Duration, ServerEnd, Duration)>,
    pending: Vec<PendingCall>,
    last_calls: Vec<LastCall>,
    closing: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    model: CallModel,
    executions: Executions,
    /// The current stage, and when it began.
    stage: (Stage, Instant),
    totals: Totals,
    mutation: Option<Mutation>,
}

/// Runs a plan to its end; returns its counts and the time.
///
/// # Errors
///
/// Describes the violated rule.
pub(crate) fn run(plan: &ClientPlan) -> Result<(Totals, Instant), String> {
    let mut simulation = ClientSimulation::new(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = simulation.host.server.world.now();
        let turned = simulation.turn(now);
        if turned.map_err(|what| simulation.describe(&what))? {
            return simulation.finish(now);
        }
        simulation.advance_time(now).map_err(|what| simulation.describe(&what))?;
    }
    Err(simulation.describe("the run does not end"))
}

impl<'a> ClientSimulation<'a> {
    fn new(plan: &'a ClientPlan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(13) ^ ORDER_SALT);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let is_doubled = plan.mutation == Some(Mutation::ExecutesTwice);
        let first_tool = plan.calls.iter().position(|call| call.kind.is_tool_call());
        let last_calls = plan.calls.len()..plan.calls.len() + plan.clients.len();
        let executions = Executions::new(last_calls.end, first_tool.filter(|_| is_doubled));
        let host = ServerHost::new(world.clone(), plan.server.clone(), executions.clone())?;
        let io_threads = plan.io_threads.iter();
        let io_threads = io_threads
            .map(|options| SimIoThread::new(&world, *options, random.next_u64()))
            .collect::<Result<Vec<_>, _>>()?;
        let clients = plan.clients.iter();
        let clients = clients
            .map(|setup| open_client(setup, plan.transport, &io_threads[setup.thread]))
            .collect::<Result<_, _>>()?;
        let cut_random = Random::seeded(random.next_u64());
        Ok(Self {
            plan,
            random,
            host,
            proxy: CutProxy::new(&world, plan.cut_chance, cut_random),
            io_threads,
            clients,
            planned: plan.calls.clone().into(),
            server_ends: plan.server_ends.clone().into(),
            pending: Vec::new(),
            last_calls: Vec::new(),
            closing: Vec::new(),
            model: CallModel::new(&plan.calls, plan.server.options.http.session_idle_timeout),
            executions,
            stage: (Stage::Faulty, Instant::ORIGIN),
            totals: Totals::default(),
            mutation: plan.mutation,
        })
    }

    /// Lets everything act that can. Returns whether the run is over.
    fn turn(&mut self, now: Instant) -> Result<bool, String> {
        let ended = self.host.turn(now, &mut self.random)?;
        self.totals = self.totals.plus(ended);
        for thread in &mut self.io_threads {
            thread.turn()?;
        }
        self.proxy.turn(now);
        self.poll_calls(now)?;
        self.model.check_pending(now)?;
        if !self.host.server.is_any_shard_stalled(now) {
            self.apply_due_events(now);
        }
        self.advance_stage(now)
    }

    /// Polls the calls in progress, and drops those that are cancelled.
    fn poll_calls(&mut self, now: Instant) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut index = 0;
        while index < self.pending.len() {
            let call = &mut self.pending[index];
            let number = call.number;
            if let Poll::Ready(outcome) = call.future.as_mut().poll(&mut context) {
                drop(self.pending.swap_remove(index));
                self.complete(number, outcome, now)?;
            } else if call.cancelled_at.is_some_and(|at| at <= now) {
                drop(self.pending.swap_remove(index));
                self.model.cancel(number);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Passes an outcome to the model, as a wrong client would if the plan has a mutation.
    fn complete(
        &mut self,
        number: usize,
        mut outcome: Result<String, ClientError>,
        now: Instant,
    ) -> Result<(), String> {
        let is_numbered = self.plan.calls[number].kind.is_numbered();
        if outcome.is_ok() && is_numbered {
            match self.mutation {
                Some(Mutation::CompletesTwice) => {
                    self.mutation = None;
                    self.model.complete(number, &outcome, now)?;
                }
                Some(Mutation::SwapsAnswers) => {
                    outcome = Ok(answer(number + 1));
                }
                Some(Mutation::LosesOutcome) => {
                    self.mutation = None;
                    return Ok(());
                }
                _ => {}
            }
        }
        self.model.complete(number, &outcome, now)
    }

    /// Makes the calls that are due, and ends the server.
    fn apply_due_events(&mut self, now: Instant) {
        let elapsed = now.since(Instant::ORIGIN);
        while let Some(call) = self.planned.pop_front_if(|call| call.at <= elapsed) {
            self.model.begin(call.number, now);
            self.pending.push(PendingCall {
                number: call.number,
                future: start(&self.clients[call.client], &call),
                cancelled_at: call.cancelled_after.map(|after| now.after(after)),
            });
        }
        while let Some((_, how, pause)) = self.server_ends.pop_front_if(|end| end.0 <= elapsed) {
            self.totals.server_restarts += u64::from(self.host.is_up());
            self.model.end_server(now);
            self.host.end(how, pause, now);
        }
    }

    /// Begins the next stage if the current one is over. Returns whether the run is over.
    fn advance_stage(&mut self, now: Instant) -> Result<bool, String> {
        let (stage, since) = self.stage;
        match stage {
            Stage::Faulty => {
                let are_made = self.planned.is_empty() && self.server_ends.is_empty();
                if are_made && now.since(Instant::ORIGIN) >= FAULT_TIME && self.host.is_up() {
                    self.host.server.world.set_faults(Faults::NONE);
                    self.proxy.end_faults(now);
                    let last_call = |client| LastCall {
                        client,
                        future: None,
                        not_before: now,
                        is_done: false,
                        last_error: None,
                    };
                    self.last_calls = (0..self.clients.len()).map(last_call).collect();
                    self.stage = (Stage::Recovering, now);
                }
            }
            Stage::Recovering => {
                self.poll_last_calls(now)?;
                if self.pending.is_empty() && self.last_calls.iter().all(|call| call.is_done) {
                    let clients = self.clients.drain(..);
                    self.closing = clients.map(|client| Box::pin(client.close()) as _).collect();
                    self.stage = (Stage::Closing, now);
                } else if now > since.after(RECOVERY_TIME_MAX) {
                    let errors: Vec<_> = self.last_calls.iter().map(|it| &it.last_error).collect();
                    return Err(format!("not every client works again: {errors:?}"));
                }
            }
            Stage::Closing => {
                let mut context = Context::from_waker(Waker::noop());
                self.closing.retain_mut(|client| client.as_mut().poll(&mut context).is_pending());
                let are_idle = self.io_threads.iter().all(SimIoThread::is_idle);
                if self.closing.is_empty() && are_idle && self.proxy.open_links() == 0 {
                    self.io_threads.iter_mut().for_each(SimIoThread::stop);
                    self.host.drain();
                    self.stage = (Stage::Draining, now);
                } else if now > since.after(CLOSE_TIME_MAX) {
                    return Err("the closed clients do not release everything".to_owned());
                }
            }
            Stage::Draining => {
                let have_ended = self.io_threads.iter().all(SimIoThread::has_ended);
                if have_ended && self.host.server.has_drained() {
                    return Ok(true);
                }
                if now > since.after(CLOSE_TIME_MAX) {
                    return Err("server and I/O threads do not end".to_owned());
                }
            }
        }
        Ok(false)
    }

    fn poll_last_calls(&mut self, now: Instant) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        let skipped = self.skipped_client();
        for last in &mut self.last_calls {
            let is_skipped = skipped == Some(last.client);
            if last.is_done || is_skipped {
                continue;
            }
            let number = self.plan.calls.len() + last.client;
            if last.future.is_none() && last.not_before <= now {
                let call = PlannedCall {
                    number,
                    client: last.client,
                    at: Duration::ZERO,
                    kind: CallKind::Run { padding: 0 },
                    timeout: LAST_CALL_TIMEOUT,
                    cancelled_after: None,
                };
                last.future = Some(start(&self.clients[last.client], &call));
            }
            let Some(future) = &mut last.future else { continue };
            let Poll::Ready(outcome) = future.as_mut().poll(&mut context) else { continue };
            last.future = None;
            match outcome {
                Ok(text) if text == answer(number) => last.is_done = true,
                Ok(text) => return Err(format!("a last call has the answer of another: {text}")),
                Err(error) => {
                    last.last_error = Some(error);
                    last.not_before = now.after(RETRY_PAUSE);
                    self.totals.client_calls_repeated += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns the client that makes no last call.
    fn skipped_client(&self) -> Option<usize> {
        (self.mutation == Some(Mutation::StaysDisconnected)).then_some(0)
    }

    /// Advances time if nothing has work now.
    fn advance_time(&mut self, now: Instant) -> Result<(), String> {
        let next = self.next_due(now);
        let server: &mut SimServer = &mut self.host.server;
        server.advance_time(now, next).map(drop).map_err(str::to_owned)
    }

    /// Returns when the test itself has something due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let call = self.planned.front().map(|call| call.at);
        let end = self.server_ends.front().map(|end| end.0);
        let faults = (self.stage.0 == Stage::Faulty).then_some(FAULT_TIME);
        let events = [call, end, faults].into_iter().flatten();
        let events = events.map(|at| Instant::ORIGIN.after(at)).filter(|at| *at > now);
        let cancelled = self.pending.iter().filter_map(|call| call.cancelled_at);
        let skipped = self.skipped_client();
        let is_waiting = |last: &&LastCall| !last.is_done && skipped != Some(last.client);
        let repeated = self.last_calls.iter().filter(is_waiting);
        let repeated = repeated.filter(|last| last.future.is_none()).map(|last| last.not_before);
        let limit = (self.stage.0 != Stage::Faulty).then(|| now.after(Duration::from_secs(1)));
        let others = self.proxy.next_due().into_iter().chain(self.host.next_due()).chain(limit);
        events.chain(cancelled).chain(repeated).chain(others).min()
    }

    /// Checks what must hold over the whole run.
    fn finish(mut self, now: Instant) -> Result<(Totals, Instant), String> {
        self.model.check_end(&self.executions)?;
        for number in self.plan.calls.len()..self.plan.calls.len() + self.plan.clients.len() {
            if self.executions.count(number) == 0 {
                return Err("a last call was answered and not executed".to_owned());
            }
        }
        self.totals.connections_cut += self.proxy.cuts;
        Ok((self.totals.plus(self.model.totals), now))
    }

    fn describe(&self, what: &str) -> String {
        let threads = self.io_threads.iter().map(SimIoThread::describe);
        let pending: Vec<usize> = self.pending.iter().map(|call| call.number).collect();
        let state = format!(
            "{:?}, calls in progress: {pending:?}, {} connections through the proxy",
            self.stage,
            self.proxy.open_links()
        );
        self.host.server.describe(what, threads.chain([state]))
    }
}

/// Opens a client whose connections pass through the proxy.
fn open_client(
    setup: &ClientSetup,
    transport: ClientTransport,
    thread: &SimIoThread,
) -> Result<Client, Box<dyn Error>> {
    let address = proxy_address();
    let target = match transport {
        ClientTransport::Lines => format!("tcp://{address}"),
        ClientTransport::Http => format!("http://{address}/mcp"),
        ClientTransport::WebSocket => format!("ws://{address}/mcp/ws"),
    };
    let thread = thread.handle().ok_or("the I/O thread is stopped")?;
    let client = Client::builder(&*target)
        .era(setup.era)
        .request_timeout(setup.request_timeout)
        .connect_timeout(Duration::from_millis(500))
        .proxy(ProxyOptions::none())
        .cache(CachePolicy::Off)
        .reconnect(setup.reconnect.clone())
        .io_thread(thread)
        .connect_lazy()?;
    Ok(client)
}
