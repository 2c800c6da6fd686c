//! Connections to a PostgreSQL server.
//!
//! Invariants: a connection that is kept has no statement and no transaction. A statement whose
//! call is dropped is cancelled at the server, and its connection closed.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Error, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::declared::problem::Problem;
use crate::declared::sql::postgres::encryption::EncryptedUrl;

#[expect(clippy::disallowed_types, reason = "locked to push or pop a connection")]
type Mutex<T> = std::sync::Mutex<T>;

/// Connections to a server at once; further calls wait.
const CONNECTIONS_MAX: usize = 16;
/// Time for a connection to open, and for a statement to be cancelled.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A server with its open connections.
pub(crate) struct PostgresServer {
    config: Config,
    tls: MakeRustlsConnect,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<OpenClient>>,
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the configuration, which has the password.
        formatter.debug_struct("PostgresServer").finish_non_exhaustive()
    }
}

/// A connection with its prepared statements by text.
struct OpenClient {
    client: Client,
    statements: HashMap<Arc<str>, Statement>,
}

/// A connection that a call uses.
pub(crate) struct UsedClient {
    open: Option<OpenClient>,
    tls: MakeRustlsConnect,
    is_reused: bool,
    _permit: OwnedSemaphorePermit,
}

impl PostgresServer {
    /// The server of `url`, not yet connected to.
    ///
    /// # Errors
    ///
    /// It is no URL of PostgreSQL, or its root certificates cannot be read; relative paths of them
    /// are below `folder`. The problem does not contain it: it may have a password.
    pub(crate) fn new(key: &str, url: &str, folder: &Path) -> Result<Self, Problem> {
        let hint = "write postgres://user:password@host:5432/name, with %40 for @ in the password";
        let problem = |message: &str| Problem::new(key, message, hint);
        let encrypted = EncryptedUrl::parse(url, folder).map_err(|message| problem(&message))?;
        let mut config: Config = encrypted
            .url
            .parse()
            .map_err(|_| problem("is no URL that PostgreSQL's clients read"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(problem("has no host"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        if config.get_application_name().is_none() {
            config.application_name("corelane");
        }
        let tls = encrypted.connector().map_err(|message| problem(&message))?;
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Ok(Self { config, tls, permits, idle: Mutex::default() })
    }

    /// Where the server is, without user and password.
    pub(crate) fn address(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            _ => "host".to_owned(),
        };
        format!("postgres://{host}/{}", self.config.get_dbname().unwrap_or_default())
    }

    /// Takes an idle connection, or opens one. Waits while there are too many.
    pub(crate) async fn take(&self) -> Result<UsedClient, Error> {
        let permit = self.permit().await;
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(open) if open.client.is_closed() => {}
                Some(open) => return Ok(self.used(open, true, permit)),
                None => return Ok(self.used(self.open().await?, false, permit)),
            }
        }
    }

    /// Opens a connection, and does not look for an idle one.
    pub(crate) async fn take_new(&self) -> Result<UsedClient, Error> {
        let permit = self.permit().await;
        Ok(self.used(self.open().await?, false, permit))
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        let permits = Arc::clone(&self.permits);
        permits.acquire_owned().await.expect("the semaphore is never closed")
    }

    fn used(&self, open: OpenClient, is_reused: bool, permit: OwnedSemaphorePermit) -> UsedClient {
        UsedClient { open: Some(open), tls: self.tls.clone(), is_reused, _permit: permit }
    }

    /// Keeps a connection that has neither a statement nor a transaction.
    pub(crate) fn put(&self, mut used: UsedClient) {
        if let Some(open) = used.open.take() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(open);
        }
    }

    async fn open(&self) -> Result<OpenClient, Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        // Ends with the client.
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("set standard_conforming_strings = on").await?;
        Ok(OpenClient { client, statements: HashMap::new() })
    }
}

impl UsedClient {
    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.open.as_ref().expect("it is taken at the end only").client
    }

    /// Whether the connection was open before the call.
    pub(crate) const fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// The prepared statement `text`; `begin` begins a transaction with the limits of the call, as
    /// the server may have to wait for a lock.
    pub(crate) async fn prepare(
        &mut self,
        text: &Arc<str>,
        begin: &str,
    ) -> Result<Statement, Error> {
        let open = self.open.as_mut().expect("it is taken at the end only");
        if let Some(statement) = open.statements.get(text) {
            return Ok(statement.clone());
        }
        open.client.batch_execute(begin).await?;
        let prepared = open.client.prepare(text).await;
        open.client.batch_execute("rollback").await?;
        let statement = prepared?;
        open.statements.insert(Arc::clone(text), statement.clone());
        Ok(statement)
    }

    /// Closes the connection; nothing runs on it.
    pub(crate) fn close(mut self) {
        self.open = None;
    }
}

impl Drop for UsedClient {
    /// Cancels the statement of a call that is dropped.
    fn drop(&mut self) {
        let Some(OpenClient { client, .. }) = self.open.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (token, tls) = (client.cancel_token(), self.tls.clone());
        runtime.spawn(async move {
            // A server that does not take it ends the statement at its time limit.
            drop(tokio::time::timeout(CONNECT_TIME, token.cancel_query(tls)).await);
            drop(client);
        });
    }
}
