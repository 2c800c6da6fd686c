//! Connections over stdio: each has its own child process and uses the child's pipes.
//!
//! ```text
//!  Disconnected ─ start ─▶ Connecting ─ Started ─▶ Handshake ─▶ Open ─ end of output ─▶ Closing
//!    ▲                         │ Failed                                                   │ both
//!    └─────────────────────────┴─────────────────── Exited ◀─── stop ◀────────────────────┘ closed
//! ```
//!
//! A program that fails before the first request is not restarted until the run begins, so that a
//! wrong command is reported at once instead of after the connect timeout. During the run it is
//! restarted like a lost connection.

use corelane_engine::ring::Waker;

use crate::children::{ChildEvent, ProcessPool};

/// Child processes of one load thread.
#[derive(Debug)]
pub(super) struct Processes {
    pool: ProcessPool,
    /// Connections whose program failed before the first request.
    abandoned: Vec<u32>,
}

impl Processes {
    /// Uses the children of `pool`, which wakes the ring of the load thread.
    pub(super) fn new(pool: ProcessPool, waker: Waker) -> Self {
        pool.set_waker(waker);
        Self { pool, abandoned: Vec::new() }
    }

    /// Starts the process of a connection.
    pub(super) fn start(&self, connection: u32) {
        self.pool.start(connection);
    }

    /// Stops the process of a connection whose pipes have been closed.
    pub(super) fn stop(&self, connection: usize) {
        self.pool.stop(u32::try_from(connection).unwrap_or(u32::MAX));
    }

    /// Keeps a connection disconnected until the run begins.
    pub(super) fn abandon(&mut self, connection: u32) {
        self.abandoned.push(connection);
    }

    /// Returns the number of connections that are not retried before the run begins.
    pub(super) const fn abandoned_count(&self) -> u64 {
        self.abandoned.len() as u64
    }

    /// Takes the connections that are disconnected until the run begins.
    pub(super) fn take_abandoned(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.abandoned)
    }

    /// Returns the next event of a child process.
    pub(super) fn next_child_event(&self) -> Option<ChildEvent> {
        self.pool.next_event()
    }
}
