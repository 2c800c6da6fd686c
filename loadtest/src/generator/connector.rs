//! Decides which connections are opened when, and counts those that are open.
//!
//! Invariants: a connection waits to be connected, is connecting, is open, or ends and then waits
//! again. Connects keep the limits of rate and concurrency.

use std::collections::VecDeque;

use corelane_base::time::Instant;

use super::connect_rate::ConnectRate;
use super::connection::{Connection, ConnectionState};
use super::context::{RunContext, RunPhase};
use super::processes::Processes;
use super::run_config::{Route, RunLimits};
use crate::children::ChildEvent;
use crate::schedule::Share;

/// TLS handshakes that may fail before any has succeeded.
const HANDSHAKES_FAILED_MAX: usize = 16;

/// Connects of one load thread.
#[derive(Debug)]
pub(super) struct Connector {
    /// Connections that wait to be connected.
    disconnected: VecDeque<u32>,
    connecting: usize,
    open: u64,
    /// Pairs of local and server addresses.
    routes: Vec<Route>,
    rate: ConnectRate,
    /// Child processes, if connections are over stdio.
    processes: Option<Processes>,
    /// Number of failed TLS handshakes.
    tls_failures: usize,
}

impl Connector {
    /// Creates the connector of `total` connections, none of them open.
    pub(super) fn new(ctx: &RunContext, total: usize, processes: Option<Processes>) -> Self {
        Self {
            disconnected: (0..).take(total).collect(),
            connecting: 0,
            open: 0,
            routes: ctx.config.routes(),
            rate: ConnectRate::new(ctx.config.connect.rate, ctx.share, ctx.now),
            processes,
            tls_failures: 0,
        }
    }

    /// Returns the number of open connections.
    pub(super) const fn open_count(&self) -> u64 {
        self.open
    }

    /// Returns whether no connection can open any more before the run begins. A rejected
    /// certificate stays rejected, whereas a server that is not listening yet may come up.
    pub(super) fn is_settled(&self, total: usize) -> bool {
        let abandoned = self.processes.as_ref().map_or(0, Processes::abandoned_count);
        let is_unreachable =
            self.open == 0 && self.tls_failures >= total.min(HANDSHAKES_FAILED_MAX);
        self.open + abandoned >= total as u64 || is_unreachable
    }

    /// Takes the next connection whose connect may start now.
    #[inline]
    pub(super) fn take_due(
        &mut self,
        connections: &[Connection],
        limits: &RunLimits,
        now: Instant,
    ) -> Option<u32> {
        if self.connecting >= limits.connecting_max {
            return None;
        }
        let &index = self.disconnected.front()?;
        let state = &connections[index as usize].state;
        let is_early =
            matches!(state, ConnectionState::Disconnected { retry_at } if *retry_at > now);
        if is_early || !self.rate.try_start(now) {
            return None;
        }
        self.disconnected.pop_front()
    }

    /// Returns when the next connect may start, or `None` if it does not wait for a time.
    #[inline]
    pub(super) fn next_connect_at(
        &self,
        connections: &[Connection],
        limits: &RunLimits,
    ) -> Option<Instant> {
        let &index = self.disconnected.front()?;
        if self.connecting >= limits.connecting_max {
            return None;
        }
        let ConnectionState::Disconnected { retry_at } = connections[index as usize].state else {
            return None;
        };
        Some(self.rate.next_at().map_or(retry_at, |next| next.max(retry_at)))
    }

    /// Begins a connect. Starts the connection's process, or returns the route to connect over.
    pub(super) fn begin(&mut self, index: u32, share: Share) -> Option<Route> {
        self.connecting += 1;
        if let Some(processes) = &self.processes {
            processes.start(index);
            return None;
        }
        // All connections of all load threads share the routes round-robin.
        let number = index as usize * share.threads.max(1) as usize + share.thread as usize;
        Some(self.routes[number % self.routes.len()])
    }

    /// Counts a connecting connection as open.
    pub(super) const fn count_opened(&mut self) {
        self.connecting -= 1;
        self.open += 1;
    }

    /// Counts a connection that was opened again and has counted as open in the meantime.
    pub(super) const fn count_reopened(&mut self) {
        self.connecting -= 1;
    }

    /// Counts a connection that failed to open.
    pub(super) const fn count_failed(&mut self) {
        self.connecting -= 1;
    }

    /// Counts a connection that failed in the TLS handshake.
    pub(super) const fn count_tls_failed(&mut self) {
        self.tls_failures += 1;
    }

    /// Counts an open connection as closed.
    pub(super) const fn count_closed(&mut self) {
        self.open -= 1;
    }

    /// Queues a disconnected connection to be connected again.
    pub(super) fn queue_retry(&mut self, index: usize, phase: RunPhase) {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        match &mut self.processes {
            Some(processes) if phase == RunPhase::Connecting => processes.abandon(index),
            _ => self.disconnected.push_back(index),
        }
    }

    /// Retries the connections that were abandoned before the run.
    pub(super) fn retry_abandoned(&mut self) {
        if let Some(processes) = &mut self.processes {
            self.disconnected.extend(processes.take_abandoned());
        }
    }

    /// Returns whether connections are over stdio.
    pub(super) const fn has_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// Stops the process of a connection whose pipes are closed; returns whether it has one.
    pub(super) fn stop_process(&self, index: usize) -> bool {
        if let Some(processes) = &self.processes {
            processes.stop(index);
        }
        self.has_processes()
    }

    /// Returns the next event of a child process.
    #[inline]
    pub(super) fn next_child_event(&self) -> Option<ChildEvent> {
        self.processes.as_ref()?.next_child_event()
    }
}
