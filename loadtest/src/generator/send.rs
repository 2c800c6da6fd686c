//! Sends due requests over available connections.

use std::io;

use corelane::base::time::Instant;
use corelane::engine::ring::{Operation, Ring, Socket};

use super::connection::ConnectionState;
use super::load_thread::{LoadThread, RunPhase};
use super::run_config::LoadMode;
use crate::metrics::outcome::Failure;

/// Requests sent in one turn. Small, so that the reused buffers stay in the L1 cache and the server
/// receives the first requests before the last are written.
const SEND_BATCH_MAX: usize = 64;

impl<R: Ring> LoadThread<R> {
    /// Sends a batch of queued requests; returns whether there may be more to do.
    pub(super) fn send_due_requests(&mut self) -> bool {
        let is_more_due = self.queue_due_requests();
        for _ in 0..SEND_BATCH_MAX {
            let intended = match self.config.mode {
                LoadMode::Open { .. } => self.queued.front().copied(),
                LoadMode::Closed { .. } => (self.phase == RunPhase::Sending).then_some(self.now),
                LoadMode::Hold { .. } => None,
            };
            let Some(intended) = intended else { return is_more_due };
            let Some(index) = self.next_available() else { return is_more_due };
            self.queued.pop_front();
            self.send_request(index, intended);
        }
        true
    }

    /// Moves a batch of due requests from the schedule to the queue; returns whether there may be
    /// more. Lateness up to here is recorded as lag.
    #[inline]
    fn queue_due_requests(&mut self) -> bool {
        let Some(arrivals) = &mut self.arrivals else { return false };
        for _ in 0..SEND_BATCH_MAX {
            let Some(intended) = arrivals.next_if(|intended| *intended <= self.now) else {
                return false;
            };
            let is_measured = intended >= self.recorder.measured_from;
            let period = &mut self.recorder.period;
            if is_measured {
                period.due += 1;
                let lag = self.now.since(intended).as_nanos();
                period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
            }
            if self.queued.len() < self.config.limits.queued_max {
                self.queued.push_back(intended);
            } else if is_measured {
                period.outcomes.record_failure(Failure::Unsent);
            }
        }
        true
    }

    /// Returns the available connection that has waited longest.
    #[inline]
    fn next_available(&mut self) -> Option<usize> {
        while let Some(index) = self.available.pop_front() {
            let index = index as usize;
            let conn = &mut self.connections[index];
            conn.is_queued = false;
            if conn.has_capacity(self.config.depth) {
                return Some(index);
            }
        }
        None
    }

    /// Adds a connection to the available ones if it has capacity.
    #[inline]
    pub(super) fn queue_available(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        if !conn.is_queued && conn.has_capacity(self.config.depth) {
            conn.is_queued = true;
            self.available.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Writes a request to the send buffer of an available connection.
    #[inline]
    fn send_request(&mut self, index: usize, intended: Instant) {
        let call = self.draw_call();
        let conn = &mut self.connections[index];
        let ConnectionState::Open(log) = &mut conn.state else { return };
        if conn.send_buffer.capacity() == 0 {
            conn.send_buffer = self.spare_buffers.pop().unwrap_or_default();
        }
        log.write_request(&self.calls, call, (intended, self.now), &mut conn.send_buffer);
        let is_measured = intended >= self.recorder.measured_from;
        self.recorder.period.sent += u64::from(is_measured);
        if !matches!(self.config.mode, LoadMode::Open { .. }) {
            self.recorder.period.due += u64::from(is_measured);
        }
        self.queue_flush(index);
        self.queue_available(index);
    }

    /// Appends bytes to the send buffer of a connection.
    pub(super) fn buffer_output(&mut self, index: usize, words: &[u8]) {
        let conn = &mut self.connections[index];
        if conn.send_buffer.capacity() == 0 && !words.is_empty() {
            conn.send_buffer = self.spare_buffers.pop().unwrap_or_default();
        }
        conn.send_buffer.extend_from_slice(words);
    }

    /// Draws a request template by weight.
    #[inline]
    pub(super) fn draw_call(&mut self) -> u16 {
        let [.., all] = self.cumulative_weights[..] else { return 0 };
        if self.cumulative_weights.len() == 1 {
            return 0;
        }
        let drawn = self.random.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
        let place = self.cumulative_weights.partition_point(|sum| *sum <= drawn);
        u16::try_from(place).unwrap_or_default()
    }

    /// Queues a connection for the flush at the end of the turn.
    #[inline]
    pub(super) fn queue_flush(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        if !conn.is_flush_queued {
            conn.is_flush_queued = true;
            self.flush_queue.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Submits one send for each queued connection.
    pub(super) fn flush_output(&mut self) {
        let mut corked = std::mem::take(&mut self.flush_queue);
        for index in corked.drain(..) {
            let conn = &mut self.connections[index as usize];
            conn.is_flush_queued = false;
            if conn.is_sending || !conn.has_output() {
                continue;
            }
            let Some(socket) = conn.write_socket else { continue };
            conn.is_sending = true;
            let mut buffer = std::mem::take(&mut conn.send_buffer);
            if conn.tls.is_some() && !self.encrypt_output(index as usize, &mut buffer) {
                continue;
            }
            self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
        }
        self.flush_queue = corked;
    }

    /// Handles the completion of a send.
    #[inline]
    pub(super) fn handle_sent(
        &mut self,
        socket: Socket,
        mut buffer: Vec<u8>,
        result: io::Result<usize>,
    ) {
        let Some(index) = self.connection_of(socket) else { return self.recycle_buffer(buffer) };
        let conn = &mut self.connections[index];
        let taken = result.unwrap_or_default();
        if taken < buffer.len() {
            if taken > 0 && !matches!(conn.state, ConnectionState::Closing) {
                // A pipe accepts only as much as it has space for.
                buffer.drain(..taken);
                return self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
            }
            conn.is_sending = false;
            self.recycle_buffer(buffer);
            return self.end_connection(index, Failure::Closed);
        }
        conn.is_sending = false;
        self.recycle_buffer(buffer);
        if self.connections[index].has_output() {
            self.queue_flush(index);
        }
    }

    /// Returns a buffer to the spare ones.
    #[inline]
    fn recycle_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > 0 {
            self.spare_buffers.push(buffer);
        }
    }
}
