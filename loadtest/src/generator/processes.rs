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

use corelane::engine::ring::{Operation, Registered, Ring, Source, Waker};

use super::connection::ConnectionState;
use super::load_thread::LoadThread;
use crate::children::{ChildEvent, ProcessPool};
use crate::mcp::ConnectError;
use crate::metrics::outcome::Failure;

/// Child processes of one load thread.
#[derive(Debug)]
pub(super) struct Processes {
    pool: ProcessPool,
    /// Connections whose program failed before the first request.
    abandoned: Vec<u32>,
}

impl Processes {
    /// Uses the children of `keeper`, which wakes the ring of the load thread.
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
}

impl<R: Ring> LoadThread<R> {
    /// Returns the number of connections that are not retried before the run begins.
    pub(super) fn abandoned_count(&self) -> u64 {
        self.processes.as_ref().map_or(0, |processes| processes.abandoned.len() as u64)
    }

    /// Retries the abandoned connections from now on.
    pub(super) fn retry_abandoned(&mut self) {
        if let Some(processes) = &mut self.processes {
            self.disconnected.extend(processes.abandoned.drain(..));
        }
    }

    /// Processes the events of child processes.
    pub(super) fn handle_child_events(&mut self) {
        while let Some(event) = self.processes.as_ref().and_then(|own| own.pool.next_event()) {
            match event {
                ChildEvent::Started { connection, stdin, stdout } => {
                    let connection = connection as usize;
                    let ends = [Source::Pipe(stdout), Source::Pipe(stdin)];
                    let ends = ends.map(|end| self.ring.register(end));
                    match ends {
                        [Ok(Registered::Socket(read)), Ok(Registered::Socket(write))] => {
                            self.attach_sockets(connection, (read, write));
                        }
                        ends => self.close_pipe_ends(connection, ends),
                    }
                }
                ChildEvent::Failed { connection, message } => {
                    self.connecting -= 1;
                    self.recorder.period.connects.record_failure(Failure::Connect);
                    self.recorder.period.last_error = Some(message);
                    self.schedule_retry(connection as usize);
                }
                ChildEvent::Exited { connection, message } => {
                    if self.connections[connection as usize].is_lost {
                        self.recorder.period.last_error = Some(message);
                    }
                    self.reconnect(connection as usize);
                }
            }
        }
    }

    /// Ends a connection for which the ring has no room for both pipes.
    #[cold]
    fn close_pipe_ends(&mut self, index: usize, ends: [std::io::Result<Registered>; 2]) {
        self.connecting -= 1;
        let conn = &mut self.connections[index];
        (conn.state, conn.is_lost) = (ConnectionState::Closing, false);
        for end in ends {
            match end {
                Ok(Registered::Socket(socket)) => self.ring.submit(Operation::Close(socket)),
                Ok(Registered::Listener(_)) => {}
                Err(error) => {
                    let message = error.to_string();
                    self.record_connect_error(ConnectError { failure: Failure::Connect, message });
                }
            }
        }
        if let Some(processes) = &self.processes {
            processes.stop(index);
        }
    }
}
