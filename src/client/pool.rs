//! Clients of many servers, by their targets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;

use super::error::{ClientError, ClientErrorKind};
use super::handle::{Client, ClientBuilder};
use super::io::{IoThread, ShardIo};
use super::reconnect::{ReconnectMode, ReconnectOptions};
use super::request::Request;
use super::results::CallToolResult;
use super::session::ServerInfo;
use super::target::{IntoTarget, Target};
use corelane_engine::driver_pair::{AttachedIo, DriverFactory};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Sets the options of each client of a pool.
type Configure = Box<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>;

/// Clients of many servers, on one I/O thread or on the shards of a server. A server is connected
/// to by its first request; requests that come meanwhile wait for the same handshake.
///
/// ```no_run
/// use corelane::client::ClientPool;
/// use serde_json::json;
///
/// # async fn run() -> Result<(), corelane::client::ClientError> {
/// let pool = ClientPool::new()?;
/// let result = pool.call_tool("tcp://127.0.0.1:8888", "echo", &json!({ "message": "hi" })).await?;
/// assert_eq!(result.text(), "hi");
/// # Ok(())
/// # }
/// ```
pub struct ClientPool {
    /// For a pool on shards: started by its first use elsewhere.
    thread: OnceLock<IoThread>,
    /// Names the pool on the shards, if it is on shards.
    shards: Option<Arc<()>>,
    configure: Configure,
    servers_max: usize,
    /// The clients on `thread`.
    clients: Mutex<Clients>,
}

thread_local! {
    /// The clients of each pool on the shard of this thread.
    static SHARD_CLIENTS: RefCell<Vec<(Weak<()>, Clients)>> = const { RefCell::new(Vec::new()) };
}

/// The clients and the order of their use.
#[derive(Debug, Default)]
struct Clients {
    by_target: HashMap<Target, PoolEntry>,
    /// Number of uses so far.
    uses: u64,
}

#[derive(Debug)]
struct PoolEntry {
    client: Client,
    /// The number of its last use.
    last_use: u64,
}

/// Servers of a pool by default.
const SERVERS_MAX: usize = 1_024;
/// Time after which an idle connection is closed by default.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

impl ClientPool {
    /// Creates a pool of up to 1,024 servers with the default options.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Connect`] if the system grants no thread.
    pub fn new() -> Result<Self, ClientError> {
        let pool = Self::with_shards(None);
        pool.thread()?;
        Ok(pool)
    }

    /// Creates a pool for the handlers of a server, which is passed to
    /// `Server::client_pool`: inline and local handlers, and the
    /// functions that create the state of a shard, get clients whose I/O happens on their shard.
    /// So a call crosses no thread; up to 8 helper threads of each shard resolve names and open
    /// connections. Each shard has connections of its own, up to the number of servers of the pool.
    /// Blocking and tokio handlers, and all other threads, get clients of one more I/O thread,
    /// which starts with the first of them.
    ///
    /// A client that a handler has got works on other threads too. On its shard it must be awaited:
    /// [`Request::wait`] fails there.
    pub fn on_shards() -> Self {
        Self::with_shards(Some(Arc::default()))
    }

    fn with_shards(shards: Option<Arc<()>>) -> Self {
        Self {
            thread: OnceLock::new(),
            shards,
            configure: Box::new(|client| client),
            servers_max: SERVERS_MAX,
            clients: Mutex::default(),
        }
    }

    /// Returns the I/O thread, started if it does not run.
    fn thread(&self) -> Result<&IoThread, ClientError> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread);
        }
        let thread = IoThread::start().map_err(|error| {
            let text = format!("the I/O thread cannot be started: {error}");
            ClientError::with_source(ClientErrorKind::Connect, text, error)
        })?;
        Ok(self.thread.get_or_init(|| thread))
    }

    /// Sets the options of each client, such as timeouts. Those of reconnection are the default
    /// ones, but a lost connection is opened again only when a request needs it, and one that was
    /// idle for 5 minutes is closed. When a server is gone during the handshake, all requests that
    /// wait for it fail, or wait for further attempts
    /// ([`ReconnectOptions::retry_first`]).
    #[must_use]
    pub fn configure(
        self,
        configure: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        Self { configure: Box::new(configure), ..self }
    }

    /// Sets the number of servers, at least one. One more takes the place of the server that was
    /// not used for the longest time: its connection is closed after its last request. Default
    /// 1,024; cost: about 2 KiB each while connected.
    #[must_use]
    pub fn servers_max(self, servers_max: usize) -> Self {
        Self { servers_max: servers_max.max(1), ..self }
    }

    /// Returns the client of a server.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target.
    pub fn client(&self, target: impl IntoTarget) -> Result<Client, ClientError> {
        let target = target.into_target()?;
        if let Some(client) = self.with_clients(|clients| clients.find(&target)) {
            return Ok(client);
        }
        let io = match self.shard() {
            Some(shard) => shard,
            None => self.thread()?.clone(),
        };
        let reconnect = ReconnectOptions {
            mode: ReconnectMode::OnDemand,
            idle_timeout: Some(IDLE_TIMEOUT),
            ..Default::default()
        };
        let builder = Client::builder(target.clone()).io_thread(&io).reconnect(reconnect);
        let client = (self.configure)(builder).connect_lazy()?;
        Ok(self.with_clients(|clients| clients.insert(target, client, self.servers_max)))
    }

    /// Calls a tool of a server, see [`Client::call_tool`].
    pub fn call_tool(
        &self,
        target: impl IntoTarget,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Request<CallToolResult> {
        match self.client(target) {
            Ok(client) => client.call_tool(name, arguments),
            Err(error) => Request::failed(error),
        }
    }

    /// Returns what a server declared in the handshake, and connects if it is not connected; see
    /// [`Client::server`].
    ///
    /// # Errors
    ///
    /// Those of [`ClientPool::client`] and of the handshake.
    pub async fn server(&self, target: impl IntoTarget) -> Result<Arc<ServerInfo>, ClientError> {
        self.client(target)?.server().await
    }

    /// Returns the number of servers; of a pool on shards, those of the shard of the caller.
    pub fn servers(&self) -> usize {
        self.with_clients(|clients| clients.by_target.len())
    }

    /// Returns the shard of the caller, if the pool is on shards.
    fn shard(&self) -> Option<IoThread> {
        self.shards.as_ref().and_then(|_| IoThread::current_shard())
    }

    /// Runs `act` with the clients of the shard of the caller, or with those of the I/O thread.
    fn with_clients<O>(&self, act: impl FnOnce(&mut Clients) -> O) -> O {
        match &self.shards {
            Some(pool) if IoThread::current_shard().is_some() => {
                SHARD_CLIENTS.with_borrow_mut(|pools| act(clients_of(pools, pool)))
            }
            _ => act(&mut self.lock()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the clients of a pool. Those of pools that were dropped are removed when one is added.
fn clients_of<'a>(pools: &'a mut Vec<(Weak<()>, Clients)>, pool: &Arc<()>) -> &'a mut Clients {
    let found = pools.iter().position(|(known, _)| known.as_ptr() == Arc::as_ptr(pool));
    let index = found.unwrap_or_else(|| {
        pools.retain(|(known, _)| known.strong_count() > 0);
        pools.push((Arc::downgrade(pool), Clients::default()));
        pools.len() - 1
    });
    &mut pools[index].1
}

impl AttachedIo for ClientPool {
    fn driver_factory(&self) -> Option<Arc<dyn DriverFactory>> {
        self.shards.as_ref().map(|_| -> Arc<dyn DriverFactory> { Arc::new(ShardIo) })
    }
}

impl Clients {
    /// Returns the client of a server, which is now the one used last.
    fn find(&mut self, target: &Target) -> Option<Client> {
        let entry = self.by_target.get_mut(target)?;
        self.uses += 1;
        entry.last_use = self.uses;
        Some(entry.client.clone())
    }

    /// Adds a client. Returns that of another thread that was first.
    fn insert(&mut self, target: Target, client: Client, servers_max: usize) -> Client {
        if let Some(first) = self.find(&target) {
            return first;
        }
        if self.by_target.len() >= servers_max {
            self.remove_least_used();
        }
        self.uses += 1;
        let entry = PoolEntry { client: client.clone(), last_use: self.uses };
        self.by_target.insert(target, entry);
        client
    }

    /// Removes the client that was not used for the longest time.
    fn remove_least_used(&mut self) {
        let least = self.by_target.iter().min_by_key(|(_, entry)| entry.last_use);
        if let Some(target) = least.map(|(target, _)| target.clone()) {
            self.by_target.remove(&target);
        }
    }
}

impl fmt::Debug for ClientPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("ClientPool");
        text.field("servers_max", &self.servers_max).finish_non_exhaustive()
    }
}
