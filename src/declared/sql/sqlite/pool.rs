//! Open connections to a file, with their prepared statements.
//!
//! Invariants: a file is never created. A connection belongs to the file that has the path now: one
//! that was replaced or removed is not read any more.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use corelane_engine::clock::Clock;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::declared::sql::sqlite::authorizer::Access;
use crate::declared::sql::sqlite::watch::CallWatch;

#[expect(clippy::disallowed_types, reason = "locked to push or pop a connection")]
type Mutex<T> = std::sync::Mutex<T>;

/// Connections that are kept while no call uses them.
const IDLE_MAX: usize = 16;
/// Prepared statements of a connection.
const STATEMENTS_MAX: usize = 256;
/// Steps of SQLite's machine between two looks at the clock; about 20 µs.
const STEPS: i32 = 1000;
/// How long SQLite itself waits for a lock before the call looks whether it is cancelled.
const LOCK_SLICE: Duration = Duration::from_millis(50);
/// Bytes of a text or blob in a statement that a client writes.
const EXPLORE_VALUE_BYTES_MAX: i32 = 64 << 20;
/// Bytes of a statement that a client writes.
const EXPLORE_STATEMENT_BYTES_MAX: i32 = 100_000;

/// An open connection.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    /// The connection.
    pub(crate) connection: Connection,
    /// What it asks while a statement runs.
    pub(crate) watch: Arc<CallWatch>,
    file: FileId,
}

/// The file behind a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The path has no file, or cannot be looked up.
    File(io::Error),
    /// SQLite does not open it.
    Sqlite(rusqlite::Error),
}

/// Connections to one file with one kind of access.
#[derive(Debug)]
pub(crate) struct SqlitePool {
    path: PathBuf,
    access: Access,
    clock: Clock,
    idle: Mutex<Vec<PooledConnection>>,
}

impl SqlitePool {
    /// A pool without connections.
    pub(crate) fn new(path: PathBuf, access: Access, clock: Clock) -> Self {
        Self { path, access, clock, idle: Mutex::default() }
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the statements may do.
    pub(crate) const fn access(&self) -> &Access {
        &self.access
    }

    /// The clock of the time limits.
    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes an idle connection, or opens one.
    pub(crate) fn take(&self) -> Result<PooledConnection, OpenError> {
        let metadata = std::fs::metadata(&self.path).map_err(OpenError::File)?;
        let file = FileId { device: metadata.dev(), inode: metadata.ino() };
        loop {
            // In a statement of its own: the lock is released before a connection closes.
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(pooled) if pooled.file == file => return Ok(pooled),
                Some(_) => {}
                None => return self.open(file).map_err(OpenError::Sqlite),
            }
        }
    }

    /// Keeps a connection for the next call.
    pub(crate) fn put(&self, pooled: PooledConnection) {
        // One that is left inside of a transaction would hold its locks.
        if !pooled.connection.is_autocommit() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(pooled);
        }
    }

    fn open(&self, file: FileId) -> rusqlite::Result<PooledConnection> {
        let access = if self.access.is_write() {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        } else {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(LOCK_SLICE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        if !self.access.is_write() {
            connection.pragma_update(None, "query_only", true)?;
        }
        if let Access::Explore(_) = &self.access {
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, EXPLORE_VALUE_BYTES_MAX)?;
            connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, EXPLORE_STATEMENT_BYTES_MAX)?;
        }
        let watch = Arc::new(CallWatch::new(self.clock));
        let (asked, authorizer) = (Arc::clone(&watch), Arc::clone(&watch));
        connection.progress_handler(STEPS, Some(move || asked.must_end()))?;
        let access = self.access.clone();
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            authorizer.authorize(&access, &context)
        }))?;
        Ok(PooledConnection { connection, watch, file })
    }
}

/// Names of the views of a database.
pub(crate) fn view_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("select name from sqlite_schema where type = 'view'")?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}
