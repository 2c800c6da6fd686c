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

use corelane_base::time::Instant;

use super::connection::{Connection, ConnectionState, Replacement};
use super::context::RunContext;
use crate::schedule::{ReconnectReason, ReconnectSchedule};

/// Connections of one load thread that are being replaced.
#[derive(Debug, Default)]
pub(super) struct Churn {
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
    /// Due time of a storm and the number of connections that it has still to replace.
    storm: Option<(Instant, usize)>,
}

impl Churn {
    /// Starts the schedule at the beginning of the run.
    pub(super) fn start(&mut self, ctx: &RunContext, begin: Instant) {
        if let Some(churn) = &ctx.config.roles.churn {
            let times = (begin, ctx.config.mode.span());
            self.schedule =
                Some(ReconnectSchedule::new((churn.rate, churn.storm), ctx.share, times));
        }
    }

    /// Returns when the next replacement is due.
    pub(super) fn next_at(&mut self) -> Option<Instant> {
        self.schedule.as_mut()?.next_at()
    }

    /// Returns whether no replacement is due or in progress.
    pub(super) fn is_idle(&mut self) -> bool {
        self.replacing == 0 && self.overdue.is_empty() && self.next_at().is_none()
    }

    /// Returns the next connection to replace now and its replacement, which counts as in progress
    /// from then on. Returns `None` if none is due or no connection can be replaced.
    #[cold]
    pub(super) fn next_replacement(
        &mut self,
        connections: &[Connection],
        ctx: &mut RunContext,
    ) -> Option<(usize, Replacement)> {
        let (index, intended, reason) = self.next_due(connections, ctx)?;
        self.replacing += 1;
        Some((index, Replacement { intended, reason, closing_since: ctx.now }))
    }

    fn next_due(
        &mut self,
        connections: &[Connection],
        ctx: &mut RunContext,
    ) -> Option<(usize, Instant, ReconnectReason)> {
        loop {
            // A storm replaces only connections that are open.
            if let Some((intended, count)) = self.storm.take_if(|(_, count)| *count > 0)
                && let Some(index) = self.oldest_replaceable(connections)
            {
                self.storm = Some((intended, count - 1));
                return Some((index, intended, ReconnectReason::Storm));
            }
            let Some(due) = self.schedule.as_mut().and_then(|all| all.take_due(ctx.now)) else {
                break;
            };
            match due.reason {
                ReconnectReason::Churn if self.overdue.len() < ctx.config.limits.queued_max => {
                    self.overdue.push_back(due.at);
                }
                ReconnectReason::Churn => ctx.recorder.period.connects.not_reopened += 1,
                // It is due when a user ends, not by a schedule.
                ReconnectReason::Leave => {}
                ReconnectReason::Storm => self.storm = Some((due.at, due.connections)),
            }
        }
        let intended = *self.overdue.front()?;
        let index = self.oldest_replaceable(connections)?;
        self.overdue.pop_front();
        Some((index, intended, ReconnectReason::Churn))
    }

    /// Returns the oldest open connection that is not being replaced.
    fn oldest_replaceable(&mut self, connections: &[Connection]) -> Option<usize> {
        while let Some((index, began)) = self.by_age.pop_front() {
            let conn = &connections[index as usize];
            if conn.connect_started == began
                && !conn.is_draining
                && matches!(conn.state, ConnectionState::Open(_))
            {
                return Some(index as usize);
            }
        }
        None
    }

    /// Counts a replaced connection as open again.
    pub(super) const fn complete_replacement(&mut self) {
        self.replacing -= 1;
    }

    /// Adds a connection that opened to those that may be replaced.
    pub(super) fn add_opened(&mut self, index: usize, connections: &[Connection]) {
        let began = connections[index].connect_started;
        self.by_age.push_back((u32::try_from(index).unwrap_or(u32::MAX), began));
        // A lost connection that reconnected has left a stale entry.
        if self.by_age.len() > 2 * connections.len() {
            self.by_age
                .retain(|(index, began)| connections[*index as usize].connect_started == *began);
        }
    }

    /// Queues a closed connection for reconnect if it was being replaced; returns whether it was.
    pub(super) fn queue_reconnect(&mut self, index: usize, conn: &Connection) -> bool {
        // `is_draining` is already false if the new connection failed.
        let comes_back = conn.is_draining && conn.replacement.is_some();
        if comes_back {
            self.reconnecting.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
        comes_back
    }

    /// Takes the next connection to reconnect.
    pub(super) fn take_reconnect(&mut self) -> Option<u32> {
        self.reconnecting.pop_front()
    }

    /// Returns the number of measured replacements that are due and not open again at the end of
    /// the run.
    pub(super) fn count_unfinished(&mut self, connections: &[Connection], from: Instant) -> u64 {
        let pending = connections.iter().filter_map(|conn| conn.replacement.as_ref());
        let pending = pending.map(|replacement| replacement.intended).chain(self.overdue.drain(..));
        let mut count = pending.filter(|intended| *intended >= from).count();
        // Replacements that the generator never began.
        let ever = Instant::from_nanoseconds(u64::MAX);
        while let Some(due) = self.schedule.as_mut().and_then(|all| all.take_due(ever)) {
            count += due.connections;
        }
        count as u64
    }
}
