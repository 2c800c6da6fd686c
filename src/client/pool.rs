//! Clients of many servers, by their targets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::error::{ClientError, ClientErrorKind};
use super::handle::{Client, ClientBuilder};
use super::io::IoThread;
use super::reconnect::{ReconnectMode, ReconnectOptions};
use super::request::Request;
use super::results::CallToolResult;
use super::session::ServerInfo;
use super::target::{IntoTarget, Target};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Sets the options of each client of a pool.
type Configure = Box<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>;

/// Clients of many servers on one I/O thread. A server is connected to by its first request;
/// requests that come meanwhile wait for the same handshake.
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
    thread: IoThread,
    configure: Configure,
    servers_max: usize,
    clients: Mutex<Clients>,
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
        let thread = IoThread::start().map_err(|error| {
            let text = format!("the I/O thread cannot be started: {error}");
            ClientError::with_source(ClientErrorKind::Connect, text, error)
        })?;
        let clients = Mutex::default();
        Ok(Self { thread, configure: Box::new(|client| client), servers_max: SERVERS_MAX, clients })
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
        let mut clients = self.lock();
        clients.uses += 1;
        let last_use = clients.uses;
        if let Some(entry) = clients.by_target.get_mut(&target) {
            entry.last_use = last_use;
            return Ok(entry.client.clone());
        }
        let reconnect = ReconnectOptions {
            mode: ReconnectMode::OnDemand,
            idle_timeout: Some(IDLE_TIMEOUT),
            ..Default::default()
        };
        let builder = Client::builder(target.clone()).io_thread(&self.thread).reconnect(reconnect);
        let client = (self.configure)(builder).connect_lazy()?;
        if clients.by_target.len() >= self.servers_max {
            clients.remove_least_used();
        }
        clients.by_target.insert(target, PoolEntry { client: client.clone(), last_use });
        Ok(client)
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

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.lock().by_target.len()
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clients {
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
