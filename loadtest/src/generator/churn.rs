//! Planned replacement of connections: churn and storms.
//!
//! ```text
//!  due ─▶ oldest connection gets no new requests ─▶ its responses arrived ─▶ close ─▶ closed
//!   └──────────────────────────── measured reconnect time ────────────────────────▶ open again
//! ```
//!
//! Invariants: a replacement is measured from the time it was due, even if no connection was
//! available to close or the server refused the new one. A replaced connection does not count as
//! lost.

use std::collections::VecDeque;

use corelane::base::time::Instant;
use corelane::engine::ring::{Operation, Ring};

use super::connection::{ConnectionState, Replacement};
use super::load_thread::LoadThread;
use super::run_config::RunConfig;
use crate::mcp::{CloseAction, Closing};
use crate::metrics::outcome::Failure;
use crate::schedule::{ReconnectReason, ReconnectSchedule, Share};
use crate::target::Transport;

/// Connections of one load thread that are being replaced.
#[derive(Debug)]
pub(super) struct ChurnState {
    schedule: Option<ReconnectSchedule>,
    /// Due times of replacements that wait for a connection that can be closed.
    overdue: VecDeque<Instant>,
    /// Connections by age, oldest first, with the start of their connect. An entry with another
    /// start time is stale.
    by_age: VecDeque<(u32, Instant)>,
    /// Closed connections that reconnect before all others.
    reconnecting: VecDeque<u32>,
    /// Connections that are closing for replacement or not open again yet.
    replacing: usize,
}

impl ChurnState {
    pub(super) const fn new() -> Self {
        Self {
            schedule: None,
            overdue: VecDeque::new(),
            by_age: VecDeque::new(),
            reconnecting: VecDeque::new(),
            replacing: 0,
        }
    }

    /// Starts the schedule at the beginning of the run.
    pub(super) fn start(&mut self, job: &RunConfig, share: Share, begin: Instant) {
        if let Some(churn) = &job.churn {
            let times = (begin, job.mode.span());
            self.schedule = Some(ReconnectSchedule::new((churn.rate, churn.storm), share, times));
        }
    }

    pub(super) fn next_at(&mut self) -> Option<Instant> {
        self.schedule.as_mut()?.next_at()
    }

    /// Returns whether no replacement is due or in progress.
    pub(super) fn is_idle(&mut self) -> bool {
        self.replacing == 0 && self.overdue.is_empty() && self.next_at().is_none()
    }
}

impl<R: Ring> LoadThread<R> {
    /// Begins the replacements that are due.
    #[cold]
    pub(super) fn replace_due_connections(&mut self) {
        while let Some(churn) = &mut self.churn_state
            && let Some(due) = churn.schedule.as_mut().and_then(|all| all.take_due(self.now))
        {
            match due.reason {
                ReconnectReason::Churn if churn.overdue.len() < self.config.limits.queued_max => {
                    churn.overdue.push_back(due.at);
                }
                ReconnectReason::Churn => self.recorder.period.connects.not_reopened += 1,
                // A storm replaces only connections that are open.
                ReconnectReason::Storm => {
                    for _ in 0..due.connections {
                        let Some(index) = self.oldest_replaceable() else { break };
                        self.begin_replacement(index, due.at, ReconnectReason::Storm);
                    }
                }
            }
        }
        while self.churn_state.as_ref().is_some_and(|churn| !churn.overdue.is_empty())
            && let Some(index) = self.oldest_replaceable()
            && let Some(intended) =
                self.churn_state.as_mut().and_then(|churn| churn.overdue.pop_front())
        {
            self.begin_replacement(index, intended, ReconnectReason::Churn);
        }
    }

    /// Returns the oldest open connection that is not being replaced.
    fn oldest_replaceable(&mut self) -> Option<usize> {
        let churn = self.churn_state.as_mut()?;
        while let Some((index, began)) = churn.by_age.pop_front() {
            let conn = &self.connections[index as usize];
            if conn.connect_started == began
                && !conn.is_draining
                && matches!(conn.state, ConnectionState::Open(_))
            {
                return Some(index as usize);
            }
        }
        None
    }

    fn begin_replacement(&mut self, index: usize, intended: Instant, occasion: ReconnectReason) {
        let conn = &mut self.connections[index];
        conn.is_draining = true;
        conn.replacement =
            Some(Box::new(Replacement { intended, reason: occasion, closing_since: self.now }));
        if let Some(churn) = &mut self.churn_state {
            churn.replacing += 1;
        }
        self.close_if_idle(index);
    }

    /// Closes a connection that is being replaced, once it has no request in flight.
    #[cold]
    pub(super) fn close_if_idle(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        let is_idle = matches!(&conn.state, ConnectionState::Open(log) if log.in_flight() == 0);
        let Some(replacement) = conn.replacement.as_mut().filter(|_| is_idle) else { return };
        replacement.closing_since = self.now;
        if self.config.churn.is_some_and(|churn| churn.leaves_sessions) {
            return self.end_connection(index, Failure::Closed);
        }
        let ConnectionState::Open(log) =
            std::mem::replace(&mut conn.state, ConnectionState::Closing)
        else {
            return;
        };
        let (closing, action) = Closing::new(&self.config.request_settings, log.into_drained());
        conn.state = ConnectionState::GracefulClose(Box::new(closing));
        match action {
            CloseAction::Send(bytes) => {
                conn.send_buffer.extend_from_slice(&bytes);
                self.queue_flush(index);
            }
            // Shutting down writing must not overtake unsent data. TLS sends its `close_notify`
            // when both directions are closed. Pipes have no half-close: the program reads the end
            // of its input when both are closed.
            CloseAction::ShutdownWrite
                if conn.send_buffer.is_empty()
                    && conn.tls.is_none()
                    && conn.read_socket == conn.write_socket =>
            {
                if let Some(socket) = conn.write_socket {
                    self.ring.submit(Operation::ShutdownWrite(socket));
                }
            }
            CloseAction::ShutdownWrite | CloseAction::CloseNow => {
                self.end_connection(index, Failure::Closed);
            }
        }
    }

    /// Ends a closing connection: the server confirmed the close, or the timeout passed.
    #[cold]
    pub(super) fn finish_closing(&mut self, index: usize, is_agreed: bool) {
        if !is_agreed && self.config.request_settings.transport == Transport::Http {
            self.recorder.period.connects.sessions_not_deleted += 1;
        }
        self.end_connection(index, Failure::Closed);
    }

    /// Records the connect or reconnect time of a connection that opened.
    #[cold]
    pub(super) fn record_opened(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        let connects = &mut self.recorder.period.connects;
        match conn.replacement.take() {
            None => connects.record_connect(self.now.since(conn.connect_started)),
            Some(replacement) => {
                let Replacement { intended, reason: occasion, .. } = *replacement;
                if intended >= self.recorder.measured_from {
                    connects.record_reconnect(occasion, self.now.since(intended));
                }
                if let Some(churn) = &mut self.churn_state {
                    churn.replacing -= 1;
                }
            }
        }
        let is_beside =
            self.subscribers.as_ref().is_some_and(|subscribers| subscribers.contains(index));
        if let Some(churn) = &mut self.churn_state
            && !is_beside
        {
            churn
                .by_age
                .push_back((u32::try_from(index).unwrap_or(u32::MAX), conn.connect_started));
            // A lost connection that reconnected has left a stale entry.
            if churn.by_age.len() > 2 * self.connections.len() {
                let connections = &self.connections;
                churn.by_age.retain(|(index, began)| {
                    connections[*index as usize].connect_started == *began
                });
            }
        }
    }

    /// Queues a closed connection for reconnect if it was being replaced; returns whether it was.
    pub(super) fn queue_reconnect(&mut self, index: usize) -> bool {
        let conn = &self.connections[index];
        let Some(churn) = &mut self.churn_state else { return false };
        // `is_draining` is already false if the new connection failed.
        let comes_back = conn.is_draining && conn.replacement.is_some();
        if comes_back {
            churn.reconnecting.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
        comes_back
    }

    /// Takes the next connection to reconnect.
    pub(super) fn next_reconnect(&mut self) -> Option<u32> {
        self.churn_state.as_mut()?.reconnecting.pop_front()
    }

    /// Counts the replacements that are due and not open again at the end of the run.
    pub(super) fn finish_churn(&mut self) {
        let from = self.recorder.measured_from;
        let Some(churn) = &mut self.churn_state else { return };
        let gone = self.connections.iter().filter_map(|conn| conn.replacement.as_ref());
        let gone = gone.map(|replacement| replacement.intended).chain(churn.overdue.drain(..));
        let mut gone = gone.filter(|intended| *intended >= from).count();
        // Replacements that the generator never began.
        let ever = Instant::from_nanoseconds(u64::MAX);
        while let Some(due) = churn.schedule.as_mut().and_then(|all| all.take_due(ever)) {
            gone += due.connections;
        }
        self.recorder.period.connects.not_reopened += gone as u64;
    }
}
