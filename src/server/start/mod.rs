//! Start-up and shutdown: from options to running shards, and back.
//!
//! Everything that can fail does so before the first connection, with an error that names the
//! cause: listeners are bound before the first thread starts, and the server reports itself as
//! listening after every shard has its ring.

mod limits;
mod proxies;
mod tls;

mod handle;

mod guards;

mod shard_builder;

mod threads;

mod unknown_names;

mod listen;

mod running;

mod in_process;

#[cfg(feature = "signals")]
mod signals;

#[cfg(feature = "cli")]
mod start_probe;

use std::any::Any;
use std::fmt;
use std::io;
#[cfg(feature = "tower")]
use std::net::Ipv4Addr;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use corelane_engine::driver_pair::AttachedIo;
use corelane_engine::mesh::{SharedCounter, build_mesh};
use corelane_engine::placement::Placement;
use corelane_engine::process::Entropy;

use self::guards::RequestGuards;
pub use self::handle::Handle;
pub use self::in_process::InProcessConnection;
#[cfg(all(test, feature = "cli"))]
pub use self::limits::describe_limits;
pub(super) use self::limits::shard_limits;
use self::listen::{Bound, Listen, bind, log_listening};
use self::proxies::ListenerProxies;
pub use self::running::Running;
use self::shard_builder::Services;
pub use self::shard_builder::{ShardBuilder, ShardInput};
#[cfg(feature = "signals")]
use self::signals::{ReloadCallback, SignalLoop, reload_nothing};
#[cfg(feature = "cli")]
pub use self::start_probe::{StartFault, find_start_faults, find_unprotected, probe_ring};
pub use self::threads::StartError;
use self::threads::{InputFds, ShardThreads};
use self::tls::ListenerTls;
#[cfg(feature = "cli")]
pub use self::tls::check_tls;
use self::unknown_names::find_unknown_names;
use super::acceptance::ConnectionCounts;
use super::audit::AuditLog;
use super::auth::{AuthSource, Credential, HostCallers};
use super::blocking_jobs::{BlockingPool, blocking_pool};
use super::catalog_updates::{CatalogWriter, ServerFacts, StateFactory, UpdateExecutor, UpdateJob};
use super::diagnostics::CounterSnapshots;
use super::failure_limit::FailureLimit;
use super::http::SharedGauges;
use super::options::Options;
use super::overload::RunningCalls;
use super::parse_threads::ParseThreads;
use super::rate::RateSource;
use super::secret_file::find_readable_secrets;
use super::shard_message::Broadcast;
use super::shared_states::StateSource;
#[cfg(feature = "gateway")]
use super::subscriptions::ResourceWatch;
use super::traces::TraceSource;
#[cfg(feature = "gateway")]
use super::upstreams::UpstreamDirectory;
use crate::guard::auth::TokenVerifier;
use crate::service::{Catalog, CatalogError};
#[cfg(feature = "signals")]
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::label::{DrainCause, Transport};
use crate::telemetry::lines::LineQueue;

/// A server that has not started: a catalog and options.
///
/// ```no_run
/// use corelane::model::Implementation;
/// use corelane::{Catalog, Options, Server};
///
/// let catalog = Catalog::builder(Implementation::new("demo", "1.0.0")).build()?;
/// Server::builder(catalog).options(Options::default()).serve()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    services: Services,
    options: Options,
    listen: Listen,
    entropy: Option<Entropy>,
    updates: Option<Sender<UpdateJob>>,
    #[cfg(feature = "signals")]
    on_reload_callback: ReloadCallback,
    on_start_callbacks: Vec<StartCallback>,
    tls: Arc<ListenerTls>,
    proxies: ListenerProxies,
    /// How callers are known beside the options.
    host_callers: HostCallers,
    /// The credential of the client over standard input.
    stdio_credential: Option<Credential>,
    /// Logs whose lost lines are in the metrics.
    logs: Vec<(&'static str, Arc<LineQueue>)>,
}

/// The environment variable with the token of the client over standard input.
const STDIO_TOKEN_VARIABLE: &str = "MCP_AUTH_TOKEN";

/// A callback of [`Server::on_start`].
type StartCallback = Box<dyn FnOnce(Handle) -> Guard + Send>;

/// A value that is dropped after the server has ended.
type Guard = Box<dyn Any + Send + Sync>;

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a server that offers `catalog`. Without further calls it has the default options and
    /// listens on their addresses.
    pub fn builder(catalog: Catalog) -> Self {
        Self::with_state(catalog, |_| ())
    }

    /// Returns a server whose inline and local handlers can read a state of their shard; see
    /// [`ToolBuilder::state`](crate::service::ToolBuilder::state). `create` is called once for each
    /// shard, with its number, on the thread of the shard; the state is dropped there when the
    /// shard ends. The server fails to start if a tool needs a state of another type.
    pub fn with_state<S: 'static>(
        catalog: Catalog,
        create: impl Fn(u16) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            services: Services {
                catalog: Arc::new(catalog),
                state_factory: StateFactory::new(create),
                #[cfg(feature = "tokio")]
                tokio: None,
                attached: None,
                outside_results: Arc::default(),
                keeps_session_slots: false,
                resource_watch: None,
                upstreams: None,
            },
            options: Options::default(),
            listen: Listen::default(),
            entropy: None,
            updates: None,
            #[cfg(feature = "signals")]
            on_reload_callback: Box::new(reload_nothing),
            on_start_callbacks: Vec::new(),
            tls: Arc::default(),
            proxies: ListenerProxies::default(),
            host_callers: HostCallers::default(),
            stdio_credential: None,
            logs: Vec::new(),
        }
    }

    /// Listens on `address` for JSON lines over TCP, such as `"127.0.0.1:0"`; the kernel chooses a
    /// free port for 0. A name that resolves to several addresses stands for the first. After a
    /// call of `tcp` or [`Server::http`], the server listens only on the addresses of these calls,
    /// whatever the options say.
    ///
    /// # Errors
    ///
    /// [`Server::start`] returns that an address cannot be resolved.
    #[must_use]
    pub fn tcp(mut self, address: impl ToSocketAddrs + fmt::Debug) -> Self {
        self.listen.tcp = Some(Listen::resolve("Server::tcp", address));
        self
    }

    /// Listens on `address` for HTTP and WebSocket, as [`Server::tcp`].
    #[must_use]
    pub fn http(mut self, address: impl ToSocketAddrs + fmt::Debug) -> Self {
        self.listen.http = Some(Listen::resolve("Server::http", address));
        self
    }

    /// Sends clients the text of internal errors.
    pub(crate) const fn expose_errors(&mut self) {
        self.options.service.expose_errors = true;
    }

    /// Has the metrics count the lines that the log `name` loses.
    #[cfg(feature = "cli")]
    pub(crate) fn count_lost_lines(mut self, name: &'static str, lines: Arc<LineQueue>) -> Self {
        self.logs.push((name, lines));
        self
    }

    /// Sets the options. Default: [`Options::default`].
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Verifies tokens with `verifier`, before API keys and JWT ([`AuthOptions`]). Requests without
    /// a valid token are refused then, unless [`AuthOptions::anonymous`] is set.
    ///
    /// [`AuthOptions`]: crate::server::options::AuthOptions
    /// [`AuthOptions::anonymous`]: crate::server::options::AuthOptions::anonymous
    #[must_use]
    pub fn token_verifier(mut self, verifier: impl TokenVerifier + 'static) -> Self {
        self.host_callers.verifier = Some(Arc::new(verifier));
        self
    }

    /// States that the host program attaches a [`Principal`](crate::auth::Principal) to the
    /// extensions of requests, such as middleware in front of
    /// [`McpService::from_handle`](crate::tower::McpService::from_handle): tools may require scopes
    /// then, and [`AuthOptions::rules`] apply, although the server verifies no tokens. Clients of
    /// its listeners are unknown callers. Not needed for
    /// [`McpService::new`](crate::tower::McpService::new) and [`Server::connect`].
    ///
    /// [`AuthOptions::rules`]: crate::server::options::AuthOptions::rules
    #[must_use]
    #[cfg(feature = "tower")]
    pub const fn principals_from_host(mut self) -> Self {
        self.host_callers.attaches_principals = true;
        self
    }

    /// Sets the runtime on which tokio handlers run. Default: the runtime in which the server is
    /// started.
    #[must_use]
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.services.tokio = Some(runtime);
        self
    }

    /// The runtime of [`Server::tokio`].
    #[cfg(feature = "declared")]
    pub(crate) const fn tokio_handle(&self) -> Option<&tokio::runtime::Handle> {
        self.services.tokio.as_ref()
    }

    /// Counts `held`, the bytes that calls outside of the shards have read, as results.
    #[cfg(feature = "declared")]
    pub(crate) fn count_results(mut self, held: &Arc<SharedCounter>) -> Self {
        self.services.outside_results = Arc::clone(held);
        self
    }

    /// Notifies `watch` of the resources that have subscribers on each shard.
    #[cfg(feature = "gateway")]
    pub(crate) fn watch_resources(mut self, watch: ResourceWatch) -> Self {
        self.services.resource_watch = Some(watch);
        self
    }

    /// Shows `upstreams` to operators.
    #[cfg(feature = "gateway")]
    pub(crate) fn upstreams(mut self, upstreams: Arc<dyn UpstreamDirectory>) -> Self {
        self.services.upstreams = Some(upstreams);
        self
    }

    /// Keeps a value of the program for each legacy session. Cost: about 200 B a session.
    #[cfg(feature = "gateway")]
    pub(crate) fn keep_session_slots(mut self) -> Self {
        self.services.keeps_session_slots = true;
        self
    }

    /// Runs the clients of `pool`, a [`ClientPool::on_shards`], on the shards: handlers call other
    /// servers without another thread. The clients close after the drain, within a second.
    /// [`Server::connect`] ignores the pool. Cost: about 0.4 MB a shard; nothing without a pool.
    ///
    /// [`ClientPool::on_shards`]: corelane_client::ClientPool::on_shards
    #[must_use]
    pub fn client_pool(mut self, pool: &impl AttachedIo) -> Self {
        self.services.attached = pool.driver_factory();
        self
    }

    /// Sets the source of random numbers and of the date, for simulations. Default: the operating
    /// system's, when the server starts.
    #[must_use]
    pub const fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Sends the catalog updates of local handlers ([`crate::service::RequestContext`]) to
    /// `updates`; the receiver runs them, for simulations. Default: the threads for blocking
    /// handlers run them at once.
    #[must_use]
    pub fn send_updates_to(mut self, updates: Sender<UpdateJob>) -> Self {
        self.updates = Some(updates);
        self
    }

    /// Replaces the catalog with the one that `update` builds from it.
    ///
    /// # Errors
    ///
    /// The error of `update`.
    pub fn try_map_catalog(
        mut self,
        update: impl FnOnce(&Catalog) -> Result<Catalog, CatalogError>,
    ) -> Result<Self, CatalogError> {
        self.services.catalog = Arc::new(update(&self.services.catalog)?);
        Ok(self)
    }

    /// Adds a callback that is called once when the server listens, in order of addition. The value
    /// that it returns is dropped after the server has ended: the place to start a thread that uses
    /// the handle, for example to update the catalog, and to return the guard that stops it.
    #[must_use]
    pub fn on_start<T: Send + Sync + 'static>(
        mut self,
        start: impl FnOnce(Handle) -> T + Send + 'static,
    ) -> Self {
        self.on_start_callbacks.push(Box::new(move |handle| Box::new(start(handle))));
        self
    }

    /// Sets the callback that [`Server::serve`] calls on SIGHUP, on a thread of its own: the place
    /// to read the configuration again and pass it to [`Handle::reload_limits`], or to replace the
    /// catalog. An error, which says what is not applied, is logged and counted. Signals that
    /// arrive while it runs call it once more. The end of the server does not wait for it. Default:
    /// an error which says that nothing is reloaded.
    #[must_use]
    #[cfg(feature = "signals")]
    pub fn on_reload(
        mut self,
        reload: impl Fn(&Handle) -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.on_reload_callback = Box::new(reload);
        self
    }

    /// Starts every shard and returns when all of them listen.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound or a ring cannot be created.
    pub fn start(mut self) -> Result<Running, StartError> {
        self.listen.apply_to(&mut self.options)?;
        let endpoints = [
            (Transport::Tcp, self.options.tcp.address),
            (Transport::Http, self.options.http.address),
        ];
        self.start_on(&endpoints)
    }

    /// Starts every shard without a listener for clients: connections come from
    /// [`Handle::connect_http`]. The HTTP address of the options is not bound, but decides the
    /// default of the `Host` and `Origin` check.
    ///
    /// # Errors
    ///
    /// As [`Server::start`].
    #[cfg(feature = "tower")]
    pub(crate) fn start_unbound(mut self) -> Result<Running, StartError> {
        self.listen.apply_to(&mut self.options)?;
        self.host_callers.attaches_principals = true;
        self.options.tcp.address = None;
        self.options.http.address.get_or_insert_with(|| (Ipv4Addr::LOCALHOST, 0).into());
        self.start_on(&[])
    }

    fn start_on(
        mut self,
        endpoints: &[(Transport, Option<SocketAddr>)],
    ) -> Result<Running, StartError> {
        let engine = &self.options.engine;
        let placement = Placement::choose(engine.cpus.as_deref(), engine.shards)?;
        let shards = placement.shard_count();
        self.tls = Arc::new(ListenerTls::load(&self.options).map_err(io::Error::other)?);
        self.tls.warn_of_expiry();
        self.proxies = ListenerProxies::load(&self.options).map_err(io::Error::other)?;
        for warning in find_unknown_names(&self.options, &self.services.catalog) {
            Event::OptionWarning { warning: &warning }.emit();
        }
        for warning in find_readable_secrets(&self.options) {
            Event::OptionWarning { warning: &warning }.emit();
        }
        let Bound { listeners, addresses, admin_address } =
            bind(&self.options, endpoints, shards, &self.tls, &self.proxies)?;
        let sources = listeners.into_iter().map(InputFds::Listeners).collect();
        let (threads, handle) = self.start_threads(&placement, sources)?;
        log_listening(&self.options, &addresses, admin_address, &self.tls);
        let mut guards = self.start_guards(&handle)?;
        guards.extend(handle.watch_tls()?);
        Ok(Running::new(addresses, admin_address, handle, threads, guards))
    }

    /// Starts, serves until SIGTERM or SIGINT, drains and returns the counters. Blocks the thread:
    /// an async program takes [`Server::start`] and [`Running::wait`]. A second SIGTERM or
    /// SIGINT ends the process at once, with exit code 130. SIGHUP calls the callback of
    /// [`Server::on_reload`].
    ///
    /// # Errors
    ///
    /// As [`Server::start`], and if a shard failed.
    #[cfg(feature = "signals")]
    pub fn serve(mut self) -> Result<Counters, StartError> {
        let reload = std::mem::replace(&mut self.on_reload_callback, Box::new(reload_nothing));
        #[cfg(feature = "tokio")]
        self.services.check_blocking()?;
        // Before the server listens: an early signal must find its handler.
        let signals = SignalLoop::register()?;
        signals.join(self.start()?, reload)
    }

    /// Serves one client over standard input and output, until the input ends or a signal arrives.
    /// Standard output carries only MCP: log to standard error. Blocks the thread.
    ///
    /// Calls received before the end of the input are answered: those that do not complete within
    /// the drain timeout are cancelled and get an error. Tasks that still run are dropped at the
    /// end of the input, because their only client is gone. After a signal calls and tasks have the
    /// drain timeout, as with [`Server::serve`]; a signal after the end of the input ends the
    /// server at once.
    ///
    /// # Errors
    ///
    /// If the ring cannot be created.
    #[cfg(feature = "signals")]
    pub fn stdio(mut self) -> Result<Counters, StartError> {
        let reload = std::mem::replace(&mut self.on_reload_callback, Box::new(reload_nothing));
        #[cfg(feature = "tokio")]
        self.services.check_blocking()?;
        let signals = SignalLoop::register()?;
        signals.join(self.start_stdio()?, reload)
    }

    /// Starts the server of one client over standard input and output, as [`Server::stdio`] without
    /// its signals. Ends with the input.
    ///
    /// # Errors
    ///
    /// If the ring cannot be created.
    pub fn start_stdio(mut self) -> Result<Running, StartError> {
        let placement = match &self.options.engine.cpus {
            Some(cpus) => Placement::choose(Some(cpus), Some(1))?,
            None => Placement::unpinned(1),
        };
        let input = rustix::io::dup(rustix::stdio::stdin()).map_err(io::Error::from)?;
        let output = rustix::io::dup(rustix::stdio::stdout()).map_err(io::Error::from)?;
        self.options.engine.mesh = self.options.engine.mesh.with_small_inbox();
        #[expect(clippy::disallowed_methods, reason = "the credential of the one client")]
        let token = std::env::var(STDIO_TOKEN_VARIABLE);
        self.stdio_credential = token.ok().as_deref().map(Credential::unverified);
        let (threads, handle) =
            self.start_threads(&placement, vec![InputFds::Pipes { input, output }])?;
        let guards = self.start_guards(&handle)?;
        Ok(Running::new(Vec::new(), None, handle, threads, guards))
    }

    /// Starts the server on this thread for a client in the same thread, and returns the end of the
    /// client. Listens on no address. For unit tests, and for hosts that call their own tools;
    /// [`crate::testing`] has a client with methods for that.
    ///
    /// # Errors
    ///
    /// If the catalog does not fit the server, or the blocking threads cannot be started.
    pub fn connect(mut self) -> Result<InProcessConnection, StartError> {
        #[cfg(feature = "tokio")]
        self.services.find_runtime()?;
        self.host_callers.attaches_principals = true;
        self.options.engine.mesh = self.options.engine.mesh.with_small_inbox();
        let (builders, handle) = self.build_shards(1)?;
        let builder = builders.into_iter().next();
        let builder = builder.ok_or_else(|| io::Error::other("the server has no shard"))?;
        let mut connection = InProcessConnection::open(builder, handle)?;
        connection.guards = self.start_guards(&connection.handle())?;
        // The shard is dropped before.
        connection.guards.push(AuditLog::flush_on_drop(&connection.handle().audit));
        Ok(connection)
    }

    /// Starts what watches the memory and the keys, and runs the callbacks of the start.
    fn start_guards(&mut self, handle: &Handle) -> Result<Vec<Guard>, StartError> {
        let mut guards = vec![handle.watch_memory()];
        guards.extend(handle.watch_auth()?);
        guards.extend(handle.traces.start()?);
        guards.extend(self.on_start_callbacks.drain(..).map(|start| start(handle.clone())));
        Ok(guards)
    }

    /// Returns the builders of `shards` shards that form one server, and its handle: for programs
    /// with rings and executors of their own. [`Server::start`] does this for all others.
    ///
    /// # Errors
    ///
    /// If the blocking threads cannot be started, or the system has no random source.
    pub fn shard_builders(&self, shards: usize) -> io::Result<(Vec<ShardBuilder>, Handle)> {
        self.build_shards(shards).map_err(io::Error::other)
    }

    /// Reads the rate limits, and applies that of failures to TLS.
    fn load_rate(&self, entropy: &Entropy) -> Result<Arc<RateSource>, String> {
        let rate = RateSource::load(&self.options.rate, &entropy.secret)?;
        if let Some(tls) = self.tls.counters() {
            tls.limit_failures(Arc::<FailureLimit>::clone(rate.failures()));
        }
        Ok(Arc::new(rate))
    }

    /// Returns what runs updates of the catalog: the threads for blocking handlers, unless the
    /// program has its own.
    fn update_executor(&self, blocking: &Arc<BlockingPool>) -> UpdateExecutor {
        let pool = || UpdateExecutor::Pool(Arc::clone(blocking));
        self.updates.clone().map_or_else(pool, UpdateExecutor::Channel)
    }

    fn build_shards(&self, shards: usize) -> Result<(Vec<ShardBuilder>, Handle), StartError> {
        let auth = AuthSource::load(&self.options, self.host_callers.clone()).map(Arc::new);
        let auth = auth.map_err(io::Error::other)?;
        let options = Arc::new(self.options.clone());
        let engine = &options.engine;
        let (endpoints, sender) = build_mesh(shards, &engine.mesh);
        let guards = RequestGuards::load(&options, self.services.catalog.server_info())?;
        let connections = ConnectionCounts::default();
        let (half_closed, running) = (Arc::<SharedCounter>::default(), RunningCalls::default());
        let blocking = Arc::new(blocking_pool(&options));
        let parse_threads = ParseThreads::new(&options);
        let facts = ServerFacts {
            state_type: self.services.state_factory.state_type(),
            knows_callers: auth.knows_callers(),
        };
        facts.check(&self.services.catalog)?;
        let requires_scopes = self.services.catalog.requires_scopes();
        let entropy = self.entropy.map_or_else(Entropy::from_system, Ok)?;
        let rate = self.load_rate(&entropy).map_err(io::Error::other)?;
        let states = StateSource::load(&options, &entropy.secret).map_err(io::Error::other)?;
        let broadcast = Arc::new(Broadcast::new(sender.clone()));
        let catalog = Arc::clone(&self.services.catalog);
        let catalog_writer = Arc::new(CatalogWriter::new(Arc::clone(&broadcast), catalog, facts));
        let update_executor = self.update_executor(&blocking);
        let traces = TraceSource::load(&options.traces, self.services.catalog.server_info());
        let traces = traces.map(Arc::new).map_err(io::Error::other)?;
        let audit = AuditLog::open(&options).map(Arc::new).map_err(io::Error::other)?;
        let gauges = self.gauges(&connections, Arc::clone(&traces), &audit, Arc::clone(&auth));
        let proxies = ListenerProxies::load(&options).map_err(io::Error::other)?;
        let builder = |endpoint| ShardBuilder {
            entropy,
            states: states.at_start.clone(),
            options: Arc::clone(&options),
            services: self.services.clone(),
            endpoint,
            sender: sender.clone(),
            guards: guards.clone(),
            connections: connections.clone(),
            half_closed: Arc::clone(&half_closed),
            gauges: gauges.clone(),
            blocking_pool: Arc::clone(&blocking),
            parse_threads: parse_threads.clone(),
            update_executor: update_executor.clone(),
            catalog_writer: Arc::clone(&catalog_writer),
            auth: auth.shard_part(&entropy.secret, requires_scopes).limited_by(rate.failures()),
            audit: Arc::clone(&audit),
            running: running.clone(),
            rate: Arc::clone(&rate),
            proxies: proxies.rules(&options),
            traces: Arc::clone(&traces),
            stdio_credential: self.stdio_credential.clone(),
        };
        let handle = Handle {
            broadcast,
            catalog_writer: Arc::clone(&catalog_writer),
            snapshots: Arc::new(CounterSnapshots::new(shards)),
            options: Arc::clone(&options),
            is_draining: Arc::default(),
            tls: Arc::clone(&self.tls),
            auth: Arc::clone(&auth),
            audit: Arc::clone(&audit),
            memory: Arc::default(),
            states: Arc::clone(&states),
            rate: Arc::clone(&rate),
            traces: Arc::clone(&traces),
            #[cfg(feature = "signals")]
            reloads: Arc::clone(gauges.config_reloads()),
        };
        Ok((endpoints.into_iter().map(builder).collect(), handle))
    }

    fn gauges(
        &self,
        connections: &ConnectionCounts,
        traces: Arc<TraceSource>,
        audit: &AuditLog,
        auth: Arc<AuthSource>,
    ) -> SharedGauges {
        let counted = [&connections.http, &connections.websocket].map(Arc::clone);
        let audit = audit.lines().map(|lines| ("audit", Arc::clone(lines)));
        let logs = self.logs.iter().cloned().chain(audit).collect();
        let (tls, proxies) = (self.tls.counters().cloned(), self.proxies.counters().cloned());
        SharedGauges::new(counted, tls, proxies, traces, logs, auth)
    }

    fn start_threads(
        &mut self,
        placement: &Placement,
        sources: Vec<InputFds>,
    ) -> Result<(ShardThreads, Handle), StartError> {
        #[cfg(feature = "tokio")]
        self.services.find_runtime()?;
        let (builders, handle) = self.build_shards(sources.len())?;
        let is_piped = sources.iter().any(|it| matches!(it, InputFds::Pipes { .. }));
        let loads = builders.into_iter().zip(sources).collect();
        let of_failure = handle.clone();
        let on_failure = move || of_failure.drain_because(DrainCause::ShardFailed);
        let threads = threads::start(placement, loads, &handle.snapshots, on_failure)?;
        threads.log_started(&self.options, placement, is_piped);
        Ok((threads, handle))
    }
}

#[cfg(test)]
mod tests;
