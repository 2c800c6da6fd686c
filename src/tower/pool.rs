//! The connections to the shards that are open and unused.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::connection::{BoxError, Connection};
use crate::server::Handle;

/// Unused connections of one service that stay open.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Locked to take or return a connection.
#[expect(clippy::disallowed_types, reason = "the threads of the host's runtime share it")]
type Mutex<T> = std::sync::Mutex<T>;

/// The connections of one service.
///
/// Invariants: a connection serves one request at a time; at most [`IDLE_CONNECTIONS_MAX`] are open
/// without one.
pub(super) struct Pool {
    handle: Handle,
    /// Connections opened so far; each is opened to the next shard.
    opened: AtomicUsize,
    /// The one used last is taken first.
    #[expect(clippy::vec_box, reason = "a connection is moved several times for each request")]
    idle: Mutex<Vec<Box<Connection>>>,
}

impl Pool {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle, opened: AtomicUsize::new(0), idle: Mutex::default() }
    }

    /// The server of the connections.
    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Takes an unused connection, or opens one.
    ///
    /// # Errors
    ///
    /// That of [`Handle::connect_http`].
    pub(super) async fn take(&self) -> Result<Box<Connection>, BoxError> {
        while let Some(mut connection) = self.take_idle() {
            if connection.is_ready() {
                return Ok(connection);
            }
        }
        let index = self.opened.fetch_add(1, Ordering::Relaxed);
        let (stream, extensions) = self.handle.connect_http(index)?;
        let mut connection = Box::new(Connection::open(stream, extensions).await?);
        if !connection.is_ready() {
            return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        Ok(connection)
    }

    /// Returns a connection whose response is complete. It is closed if it cannot be used again, or
    /// if too many are unused.
    pub(super) fn put(&self, mut connection: Box<Connection>) {
        if connection.is_ready() {
            connection.set_extensions(None);
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_CONNECTIONS_MAX {
                connection.is_reused = true;
                idle.push(connection);
            }
        }
    }

    fn take_idle(&self) -> Option<Box<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
