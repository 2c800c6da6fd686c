//! Handshakes in progress: whose turn is next, and which have no time left.

use std::collections::VecDeque;

use corelane_base::time::Instant;
use corelane_engine::ring::Socket;

/// The handshakes of a ring, each with the number of its connection.
#[derive(Debug, Default)]
pub(super) struct PendingHandshakes {
    /// Sockets with input, in order of arrival.
    ready: VecDeque<(Socket, u64)>,
    /// In order of the deadlines, since all have the same time. Some are complete.
    deadlines: VecDeque<(Instant, Socket, u64)>,
}

impl PendingHandshakes {
    /// Adds a handshake that begins.
    pub(super) fn begin(&mut self, deadline: Instant, socket: Socket, connection: u64) {
        self.deadlines.push_back((deadline, socket, connection));
    }

    /// Adds a handshake that has input.
    pub(super) fn push_ready(&mut self, socket: Socket, connection: u64) {
        self.ready.push_back((socket, connection));
    }

    /// Takes the handshake whose turn is next.
    pub(super) fn pop_ready(&mut self) -> Option<(Socket, u64)> {
        self.ready.pop_front()
    }

    /// Takes a handshake whose time is over at `now`. It may be complete.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<(Socket, u64)> {
        let (_, socket, connection) = self.deadlines.pop_front_if(|(due, ..)| *due <= now)?;
        Some((socket, connection))
    }

    /// Returns whether a handshake waits for its turn.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(due, ..)| *due)
    }
}
