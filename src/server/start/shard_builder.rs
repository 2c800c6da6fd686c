//! The builder of a shard: made where the server starts, built on the shard's thread.
//!
//! A builder holds the catalog and the options. The ring and the executor come from the code that
//! runs the shard: the threads of the server, an existing glommio executor, or the simulator.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use corelane_base::time::WallClock;
use corelane_engine::driver_pair::DriverFactory;
use corelane_engine::executor::Executor;
use corelane_engine::mesh::{Endpoint, Sender, ShardId, SharedCounter};
use corelane_engine::process::Entropy;
use corelane_engine::ring::{Listener, Ring, Socket, Waker};
use corelane_engine::shard_loop::ShardLoop;
use corelane_protocol::json::Parser;
use corelane_transport::http::checks::{CheckProfile, EndpointPaths, OperatorEndpoints};
use corelane_transport::websocket::handshake::HandshakeOptions;
#[cfg(all(feature = "tokio", feature = "signals"))]
use tokio::runtime::RuntimeFlavor;

use super::guards::RequestGuards;
use super::limits::{connections_max, shard_limits};
use crate::connection::{Codec, Connections, SocketPair};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::server::acceptance::{
    Acceptor, ConnectionCounts, ListenerEntry, ListenerKind, ProxyRules,
};
use crate::server::audit::AuditLog;
use crate::server::auth::{Authentication, Credential, ProofReport};
use crate::server::blocking_jobs::BlockingPool;
use crate::server::calls::CallTable;
use crate::server::catalog_updates::{CatalogWriter, PendingUpdates, StateFactory, UpdateExecutor};
use crate::server::client_requests::ClientRequests;
use crate::server::client_requests::request_state::RequestStates;
use crate::server::connection_state::{ConnectionState, FactsMemory, Standing};
use crate::server::dispatch::{DeferredWork, Dispatcher, Handlers, ServedDialects};
use crate::server::handlers::HandlerQueue;
use crate::server::handlers::reports::{HandlerFailures, SlowHandlers};
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_handlers::TokioCalls;
use crate::server::http::{HttpParts, HttpTransport, RequestChecks, SharedGauges};
use crate::server::memory::HolderSearch;
use crate::server::memory::handler_memory::{HandlerMemory, ResultMemory};
use crate::server::memory::input_pool::InputPool;
use crate::server::options::{Options, ParityMode};
use crate::server::outbox::Outbox;
use crate::server::overload::{Overload, OverloadRules, RunningCalls};
use crate::server::owner_id::{OwnerIds, ShardSet};
use crate::server::parity::{ParitySessions, ParitySettings, ResumeTokens};
use crate::server::parse_threads::{LargeMessages, ParseThreads};
use crate::server::rate::RateSource;
use crate::server::session_store::SessionStore;
use crate::server::shard::{HalfClosed, LargeWork, Shard, Transports};
use crate::server::shard_message::{ShardLimits, ShardMessage, send_blocking};
use crate::server::shared_states::SharedStates;
use crate::server::subscriptions::{ResourceWatch, SubscriptionRegistry};
use crate::server::tasks::{TaskTable, Tasks};
use crate::server::traces::TraceSource;
use crate::server::upstreams::UpstreamDirectory;
use crate::server::waiting_requests::{HeldMessages, WaitingRequests};
use crate::server::websocket::WebSocketTransport;
use crate::service::Catalog;
#[cfg(feature = "tokio")]
use crate::service::CatalogError;
use crate::telemetry::label::Transport;

/// What the server offers, and the state that its handlers read.
#[derive(Clone, Debug)]
pub struct Services {
    pub catalog: Arc<Catalog>,
    pub state_factory: StateFactory,
    /// The runtime of tokio handlers.
    #[cfg(feature = "tokio")]
    pub tokio: Option<tokio::runtime::Handle>,
    /// Creates the driver that shares the ring of each shard thread.
    pub attached: Option<Arc<dyn DriverFactory>>,
    /// Bytes that calls outside of the shards have read for their results.
    pub outside_results: Arc<SharedCounter>,
    /// Legacy sessions have a value of the program.
    pub keeps_session_slots: bool,
    /// Called for the resources that have subscribers.
    pub resource_watch: Option<ResourceWatch>,
    /// The servers behind this one.
    pub upstreams: Option<Arc<dyn UpstreamDirectory>>,
}

#[cfg(feature = "tokio")]
impl Services {
    /// Fails if a handler needs a runtime that the server does not have. Without a runtime, the
    /// current one is taken.
    pub(super) fn find_runtime(&mut self) -> Result<(), CatalogError> {
        self.tokio = self.tokio.take().or_else(|| tokio::runtime::Handle::try_current().ok());
        let mut tools = self.catalog.tools();
        if self.tokio.is_none()
            && let Some(tool) = tools.find(|tool| tool.needs_tokio())
        {
            let problem = "its handler needs a tokio runtime; start the server inside one, or \
                           pass it to Server::tokio";
            let (name, problem) = (tool.name().into(), problem.into());
            return Err(CatalogError::InvalidEntry { kind: "tool", name, problem });
        }
        Ok(())
    }
}

#[cfg(all(feature = "tokio", feature = "signals"))]
impl Services {
    /// Fails if a server that blocks this thread would keep its tokio handlers from running: those
    /// of a runtime of this thread only.
    pub(super) fn check_blocking(&self) -> Result<(), CatalogError> {
        let current = tokio::runtime::Handle::try_current().ok();
        let is_blocked = self.tokio.is_none()
            && current.is_some_and(|it| it.runtime_flavor() == RuntimeFlavor::CurrentThread);
        match self.catalog.tools().find(|tool| is_blocked && tool.needs_tokio()) {
            None => Ok(()),
            Some(tool) => {
                let problem = "its handler would never run: `serve` and `stdio` block the only \
                               thread of the runtime; use `start` or `start_stdio` and `wait`";
                let (name, problem) = (tool.name().into(), problem.into());
                Err(CatalogError::InvalidEntry { kind: "tool", name, problem })
            }
        }
    }
}

/// Everything that a shard is built from.
#[derive(Debug)]
pub struct ShardBuilder {
    pub(in crate::server) options: Arc<Options>,
    pub(in crate::server) entropy: Entropy,
    pub(super) states: SharedStates,
    pub(in crate::server) services: Services,
    /// What requests over HTTP are checked with.
    pub(in crate::server) guards: RequestGuards,
    pub(in crate::server) endpoint: Endpoint<ShardMessage>,
    pub(in crate::server) sender: Sender<ShardMessage>,
    pub(in crate::server) connections: ConnectionCounts,
    /// Half-closed connections of all shards that wait for their calls.
    pub(in crate::server) half_closed: Arc<SharedCounter>,
    pub(in crate::server) gauges: SharedGauges,
    pub(in crate::server) blocking_pool: Arc<BlockingPool>,
    pub(super) parse_threads: ParseThreads,
    pub(in crate::server) update_executor: UpdateExecutor,
    pub(in crate::server) catalog_writer: Arc<CatalogWriter>,
    pub(in crate::server) auth: Authentication,
    /// Where audited calls are logged.
    pub(in crate::server) audit: Arc<AuditLog>,
    /// Running calls of all shards.
    pub(in crate::server) running: RunningCalls,
    pub(in crate::server) rate: Arc<RateSource>,
    pub(in crate::server) proxies: ProxyRules,
    pub(in crate::server) traces: Arc<TraceSource>,
    /// The credential of the client over standard input, not verified yet.
    pub(in crate::server) stdio_credential: Option<Credential>,
}

/// A source of connections, registered with the ring of the shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShardInput {
    /// A listener that accepts connections.
    Listener {
        /// The listener's handle on the ring.
        listener: Listener,
        /// The transport of its connections.
        transport: Transport,
    },
    /// The listener of operators (`admin.address`).
    AdminListener {
        /// The listener's handle on the ring.
        listener: Listener,
    },
    /// Two streams that are the only connection of the shard, which ends with it.
    OnlyConnection {
        /// The ring's handle of the stream that is read.
        input: Socket,
        /// The ring's handle of the stream that is written.
        output: Socket,
        /// The transport of its messages.
        transport: Transport,
    },
}

impl ShardBuilder {
    /// The id of the shard.
    pub const fn shard_id(&self) -> ShardId {
        self.endpoint.shard()
    }

    /// The options of the server.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns what creates the driver that is attached to the shard. Its caller attaches it.
    pub(super) const fn attached(&self) -> Option<&Arc<dyn DriverFactory>> {
        self.services.attached.as_ref()
    }

    /// Builds the shard on `ring`, with local handlers run by `executor` and connections from
    /// `inputs`. Must be called on the thread that runs the shard.
    ///
    /// # Errors
    ///
    /// If there are more connections than the shard may have.
    pub fn build<R: Ring>(
        self,
        ring: R,
        executor: Rc<dyn Executor>,
        inputs: &[ShardInput],
    ) -> io::Result<ShardLoop<R, Shard>> {
        let unix_ms = self.entropy.unix_ms;
        let mut credential = self.stdio_credential.clone().filter(|_| self.auth.verifies_tokens());
        let driver = self.build_shard(&ring, executor);
        let mut shard = ShardLoop::new(ring, driver);
        let now = shard.now();
        let (ring, driver) = shard.ring_and_driver_mut();
        driver.set_wall_clock(WallClock::at(now, unix_ms));
        for shard_input in inputs {
            match *shard_input {
                ShardInput::Listener { listener, transport } => {
                    let (kind, codec) = (ListenerKind::Clients(transport), codec_of(transport));
                    let entry = ListenerEntry { listener, kind, codec };
                    driver.transports.acceptor.listen(ring, entry);
                }
                ShardInput::AdminListener { listener } => {
                    let (kind, codec) = (ListenerKind::Operators, Codec::Http);
                    let entry = ListenerEntry { listener, kind, codec };
                    driver.transports.acceptor.listen(ring, entry);
                }
                ShardInput::OnlyConnection { input, output, transport } => {
                    let mut state = ConnectionState::new(transport, None, Standing::Rejected);
                    driver.dispatcher.require_handshake(&mut state);
                    driver.dispatcher.facts.keep_credential(&mut state, credential.take());
                    let stream = SocketPair {
                        receive: input,
                        send: output,
                        peer: None,
                        codec: Codec::Ndjson,
                    };
                    let opened =
                        driver.transports.connections.open_connection(ring, stream, state, now);
                    let key =
                        opened.map_err(|_| io::Error::other("the connection limit is reached"))?;
                    if transport == Transport::Stdio {
                        driver.transports.connections.table.end_lines_at_carriage_returns(key);
                    }
                    driver.parity_path().begin(key);
                    driver.phase.end_with_input();
                }
            }
        }
        Ok(shard)
    }

    fn build_shard<R: Ring>(self, ring: &R, executor: Rc<dyn Executor>) -> Shard {
        let limits = shard_limits(&self.options, self.sender.shards().count());
        let parser = Parser::new(self.parse_threads.limits());
        let shards = u16::try_from(self.sender.shards().count()).unwrap_or(u16::MAX);
        let Self { catalog_writer, blocking_pool: blocking, sender, .. } = self;
        let (shard, states, running) = (self.endpoint.shard(), self.states, self.running);
        let (writer, executing) = (Arc::clone(&catalog_writer), self.update_executor);
        let pending_updates = PendingUpdates::new(writer, executing, sender.clone(), shard);
        let memory = Rc::new(HandlerMemory::new(limits.memory));
        let upstreams = self.services.upstreams;
        let checks = request_checks(&self.options, &self.auth, self.guards, upstreams.is_some());
        let ids = owner_ids(&self.entropy, Purpose::SessionIds, shard, shards);
        let http =
            HttpParts { upstreams, ..http_parts(checks, ids, &self.entropy, self.gauges, &limits) };
        let results = ResultMemory::new(self.services.outside_results, shards);
        let dispatcher = Dispatcher {
            catalog: self.services.catalog,
            subscriptions: subscriptions(&limits, self.services.resource_watch),
            deferred: deferred_work(&self.options, &self.entropy, states, running, shard, shards),
            handlers: Handlers {
                slow_poll_cycles_min: slow_poll_cycles_min(&self.options),
                queue: handler_queue(ring.waker(), &limits, &memory),
                pending_updates,
                catalog_writer,
                executor,
                #[cfg(feature = "tokio")]
                tokio: Rc::new(TokioCalls::new(self.services.tokio, results.account())),
                shard_state: self.services.state_factory.create(shard),
                failures: handler_failures(&self.options, shard, shards),
                results,
                blocking_pool: blocking,
                memory,
                shard,
                sender: sender.clone(),
            },
            slow_handlers: slow_handlers(&self.options, shard),
            waiting: WaitingRequests::new(self.options.stdio.sequential, (&limits).into()),
            held: HeldMessages::default(),
            dialects: served_dialects(&self.options),
            facts: FactsMemory::new(self.services.keeps_session_slots),
            auth: authentication(self.auth, proof_report(sender.clone(), shard), &limits),
            audit: self.audit,
            rate: self.rate.shard_part(shard, shards, &self.proxies.trusted),
            shard_count: shards,
        };
        let transports = Transports {
            connections: Connections::new(limits.connections),
            acceptor: Acceptor::new(shard, self.connections, self.rate, self.proxies, &limits),
            half_closed: HalfClosed::new(limits.half_close, self.half_closed),
            http: HttpTransport::new(http, shard, shards),
            websockets: websockets(&self.options, &limits),
            tls_bytes: 0,
            holder_search: HolderSearch::default(),
            large_work: LargeWork::default(),
            large_messages: LargeMessages::new(self.parse_threads, sender, shard),
            input_pool: InputPool::new(limits.input),
            late_completions: VecDeque::new(),
            parity: parity_sessions(&self.options, &self.entropy, shard, shards),
        };
        let inbox = self.endpoint.open(ring.waker());
        let outbox = Outbox::with_tracer(self.traces.tracer(&self.entropy, shard));
        Shard::new(shard, transports, dispatcher, parser, Arc::new(limits), inbox, outbox)
    }
}

/// Returns the codec of the connections of a listener.
const fn codec_of(transport: Transport) -> Codec {
    match transport {
        Transport::Http | Transport::WebSocket => Codec::Http,
        Transport::InProcess | Transport::Stdio | Transport::Tcp => Codec::Ndjson,
    }
}

fn authentication(
    mut auth: Authentication,
    report: ProofReport,
    limits: &ShardLimits,
) -> Authentication {
    auth.limit_bytes(limits.memory.tokens());
    auth.verifying_for(report)
}

fn subscriptions(limits: &ShardLimits, watch: Option<ResourceWatch>) -> SubscriptionRegistry {
    SubscriptionRegistry::new(limits.subscriptions).watched_by(watch)
}

fn served_dialects(options: &Options) -> ServedDialects {
    let http_revision = options.http.only_revision().map(|(revision, _)| revision);
    ServedDialects { http_revision, parity: options.parity.mode }
}

fn http_parts(
    [checks, operator_checks]: [RequestChecks; 2],
    session_ids: OwnerIds,
    entropy: &Entropy,
    gauges: SharedGauges,
    limits: &ShardLimits,
) -> HttpParts {
    let sessions = SessionStore::new(limits.sessions, session_ids);
    let (limits, timeouts) = (limits.http_request, limits.http_timeouts);
    let mut rng = SecureRng::new(&entropy.secret, Purpose::RequestIds);
    let request_ids = rng.next_u128().unwrap_or_default();
    let upstreams = None;
    HttpParts {
        checks,
        operator_checks,
        limits,
        timeouts,
        sessions,
        request_ids,
        gauges,
        upstreams,
    }
}

fn websockets(options: &Options, limits: &ShardLimits) -> WebSocketTransport {
    let accepts = HandshakeOptions { deflate: options.websocket.deflate };
    WebSocketTransport::new(limits.websocket, accepts)
}

fn slow_handlers(options: &Options, ShardId(shard): ShardId) -> SlowHandlers {
    SlowHandlers::new(shard, options.service.slow_handler_threshold)
}

/// Creates the queue of local handlers.
fn handler_queue(
    waker: Waker,
    limits: &ShardLimits,
    memory: &Rc<HandlerMemory>,
) -> Rc<HandlerQueue> {
    let sleeps_max = calls_max(limits).saturating_add(limits.tasks.tasks_max);
    Rc::new(HandlerQueue::new(waker, sleeps_max, memory))
}

/// Returns the number of cycles below which a poll of a local handler is not slow.
const fn slow_poll_cycles_min(options: &Options) -> u64 {
    SlowHandlers::cycles_min(options.service.slow_handler_threshold)
}

fn handler_failures(options: &Options, shard: ShardId, shards: u16) -> HandlerFailures {
    HandlerFailures::new(shard, shards, options.service.expose_errors)
}

/// Creates the calls, tasks and client requests of `shard`, one of `shards`.
fn deferred_work(
    options: &Options,
    entropy: &Entropy,
    states: SharedStates,
    running: RunningCalls,
    shard: ShardId,
    shards: u16,
) -> DeferredWork {
    let limits = shard_limits(options, usize::from(shards));
    let task_ids = owner_ids(entropy, Purpose::TaskIds, shard, shards);
    let messages_max = options.engine.mesh.channel_messages_max as usize;
    let shard_set = ShardSet::new(shard, shards, messages_max);
    let ttl = limits.request_state_ttl;
    let rules = Arc::new(OverloadRules::new(&options.overload));
    DeferredWork {
        calls: CallTable::new(calls_max(&limits)),
        tasks: Tasks::new(TaskTable::new(limits.tasks, task_ids), shard_set),
        client_requests: ClientRequests::new(shard.0, limits.client_request_timeout),
        request_states: RequestStates::new(states, ttl),
        request_timeout: limits.request_timeout,
        requests_in_flight_max: limits.requests_in_flight_max,
        wall_clock: WallClock::default(),
        overload: Overload::new(shard, rules, running),
    }
}

/// Creates the sessions of the parity dialect of `shard`, one of `shards`.
fn parity_sessions(
    options: &Options,
    entropy: &Entropy,
    shard: ShardId,
    shards: u16,
) -> ParitySessions {
    let connections_max = connections_max(options) as usize;
    let settings = ParitySettings::new(options, connections_max, &entropy.secret);
    let ids = owner_ids(entropy, Purpose::ParityIds, shard, shards);
    ParitySessions::new(&settings, ids, ResumeTokens::new(&entropy.secret, shard))
}

/// Maximum calls of a shard.
const fn calls_max(limits: &ShardLimits) -> usize {
    limits.connections.connections_max.saturating_mul(limits.requests_in_flight_max)
}

/// Creates a generator of ids of a shard from a random stream of its own: session ids reveal
/// nothing about task ids.
fn owner_ids(entropy: &Entropy, purpose: Purpose, shard: ShardId, shards: u16) -> OwnerIds {
    let mut rng = SecureRng::of_shard(&entropy.secret, purpose, shard.0);
    OwnerIds::new(shard, shards, Box::new(move || rng.next_u128()))
}

/// Returns how threads send to a shard what they find out about proofs.
fn proof_report(sender: Sender<ShardMessage>, shard: ShardId) -> ProofReport {
    ProofReport::new(move |verified| {
        send_blocking(&sender, shard, ShardMessage::ProofVerified(Box::new(verified)));
    })
}

/// Returns the checks of requests of clients, and of operators.
fn request_checks(
    options: &Options,
    auth: &Authentication,
    RequestGuards { clients, operators, operator_token, card }: RequestGuards,
    upstreams: bool,
) -> [RequestChecks; 2] {
    let resource_metadata = auth.metadata().is_some();
    let server_card = card.is_some();
    let profile = CheckProfile { resource_metadata, server_card, ..check_profile(options) };
    let [mut clients, operators] =
        [(profile, clients), (operator_profile(), operators)].map(|(profile, guard)| {
            RequestChecks::new(CheckProfile { upstreams, ..profile }, guard, operator_token)
        });
    clients.card = card;
    [clients, operators]
}

fn check_profile(options: &Options) -> CheckProfile {
    let only = options.http.only_revision();
    CheckProfile {
        strict: only.map(|(revision, _)| revision),
        pins_initialize: only.is_some_and(|(_, pins_initialize)| pins_initialize),
        legacy: options.http.legacy,
        legacy_sse: options.http.legacy_sse,
        session_id_query: options.http.session_id_query,
        paths: match options.parity.mode {
            ParityMode::Only => EndpointPaths::none(),
            ParityMode::On | ParityMode::Off => EndpointPaths::new(
                &options.http.path,
                &options.http.legacy_sse_path,
                &options.http.legacy_messages_path,
            ),
        },
        websocket: options.websocket.path.as_deref().map(Rc::from),
        parity: (options.parity.mode != ParityMode::Off)
            .then(|| options.parity.path.as_str().into()),
        resource_metadata: false,
        server_card: false,
        upstreams: false,
        operators: match (options.admin.address, options.http.address) {
            (Some(_), _) => OperatorEndpoints::None,
            (None, Some(address)) if address.ip().is_loopback() => OperatorEndpoints::All,
            (None, _) => OperatorEndpoints::Monitoring,
        },
    }
}

/// Returns the profile of the listener of operators.
fn operator_profile() -> CheckProfile {
    CheckProfile { operators: OperatorEndpoints::Only, ..CheckProfile::default() }
}
