//! Slow readers: their requests, their reads, and whether the server closes them.
//!
//! They send requests in a closed loop, independent of the schedule, and are excluded from the
//! figures of other connections. During the drain they read everything that is left, so that
//! responses the server buffered and closes of the server are observed.

use corelane::base::time::Instant;
use corelane::engine::ring::{Operation, Ring};

use super::connection::ConnectionState;
use super::load_thread::{LoadThread, RunPhase};
use super::slow_reader::{ReadPacer, SlowReader};
use crate::mcp::{ReceiveEvent, RequestLog, message_kind};
use crate::metrics::outcome::Failure;

impl<R: Ring> LoadThread<R> {
    /// Turns an open connection into a slow reader.
    pub(super) fn begin_slow_reading(&mut self, index: usize, log: RequestLog) {
        let rate = self.config.slow_readers.map_or(0, |readers| readers.bytes_per_second);
        let reading = SlowReader { log, pacer: ReadPacer::new(rate), is_paused: false };
        self.connections[index].state = ConnectionState::SlowReader(Box::new(reading));
    }

    /// Sends requests and resumes reads of all slow readers.
    #[cold]
    pub(super) fn drive_slow_readers(&mut self) {
        for index in 0..self.slow_reader_count {
            match self.phase {
                RunPhase::Connecting => {}
                RunPhase::Sending => self.drive_slow_reader(index),
                RunPhase::Draining => self.resume_reading(index, |_, _| true),
            }
        }
    }

    /// Returns whether slow reading has begun.
    fn has_slow_reading_begun(&self) -> bool {
        self.phase == RunPhase::Sending && self.now >= self.slow_from
    }

    fn drive_slow_reader(&mut self, index: usize) {
        let Some(readers) = self.config.slow_readers.filter(|_| self.has_slow_reading_begun())
        else {
            return;
        };
        let Some(socket) = self.connections[index].read_socket else { return };
        let ConnectionState::SlowReader(reading) = &mut self.connections[index].state else {
            return;
        };
        if readers.bytes_per_second == 0 && !reading.is_paused {
            reading.is_paused = true;
            self.ring.submit(Operation::StopReceive(socket));
        }
        self.resume_reading(index, ReadPacer::may_read);
        loop {
            let call = readers.call.unwrap_or_else(|| self.draw_call());
            let conn = &mut self.connections[index];
            let ConnectionState::SlowReader(reading) = &mut conn.state else { return };
            if reading.log.in_flight() >= readers.depth {
                return;
            }
            let at = (self.now, self.now);
            reading.log.write_request(&self.calls, call, at, &mut conn.send_buffer);
            self.recorder.period.slow_readers.sent += 1;
            self.queue_flush(index);
        }
    }

    fn resume_reading(&mut self, index: usize, may_read: impl FnOnce(&ReadPacer, Instant) -> bool) {
        let conn = &mut self.connections[index];
        if let (ConnectionState::SlowReader(reading), Some(socket)) =
            (&mut conn.state, conn.read_socket)
            && reading.is_paused
            && may_read(&reading.pacer, self.now)
        {
            reading.is_paused = false;
            self.ring.submit(Operation::Receive(socket));
        }
    }

    /// Processes data received by a slow reader.
    #[cold]
    pub(super) fn receive_slowly(&mut self, index: usize, bytes: &[u8]) {
        let is_slow = self.has_slow_reading_begun();
        let conn = &mut self.connections[index];
        let (ConnectionState::SlowReader(reading), Some(socket)) =
            (&mut conn.state, conn.read_socket)
        else {
            return;
        };
        if is_slow {
            reading.pacer.record_read(bytes.len(), self.now);
            if !reading.is_paused {
                reading.is_paused = true;
                self.ring.submit(Operation::StopReceive(socket));
            }
        }
        let (period, mut is_closing) = (&mut self.recorder.period, false);
        let (settings, outgoing) = (&self.config.request_settings, &mut conn.send_buffer);
        let heard = reading.log.receive(&mut self.calls, bytes, |event| match event {
            ReceiveEvent::Completed(concluded) if concluded.failure.is_none() => {
                period.slow_readers.answered += 1;
            }
            ReceiveEvent::Completed(_) => period.slow_readers.failed += 1,
            ReceiveEvent::Unsolicited => period.outcomes.unsolicited += 1,
            ReceiveEvent::Notification | ReceiveEvent::Streamed => {}
            ReceiveEvent::ServerRequest { id, is_ping } => {
                outgoing
                    .extend_from_slice(&settings.frame(&message_kind::response_text(&id, is_ping)));
            }
            ReceiveEvent::Send(words) => outgoing.extend_from_slice(&words),
            ReceiveEvent::Closing => is_closing = true,
        });
        if heard.is_err() {
            return self.end_connection(index, Failure::Garbage);
        }
        if !self.connections[index].send_buffer.is_empty() {
            self.queue_flush(index);
        }
        if is_closing {
            self.end_connection(index, Failure::Closed);
        }
    }
}
