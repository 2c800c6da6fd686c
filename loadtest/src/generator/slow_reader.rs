//! Slow reader: a connection that reads at a limited rate.
//!
//! Invariants: over its whole life it reads no faster than its rate. Data that the kernel delivers
//! beyond the rate is compensated by a longer pause.

use std::time::Duration;

use corelane_base::time::Instant;

use super::period::Period;
use crate::mcp::{ReceiveEvent, RequestLog, RequestSettings, RequestTemplates};
use crate::wire::FramingError;

#[derive(Debug)]
pub(super) struct SlowReader {
    log: RequestLog,
    pacer: ReadPacer,
    /// Whether the ring has stopped receiving for it.
    is_paused: bool,
}

impl SlowReader {
    /// Creates a slow reader of `bytes_per_second`; a rate of 0 never reads.
    pub(super) const fn new(log: RequestLog, bytes_per_second: u64) -> Self {
        Self { log, pacer: ReadPacer::new(bytes_per_second), is_paused: false }
    }

    /// Returns whether it has a session over HTTP.
    pub(super) const fn has_session(&self) -> bool {
        self.log.has_session()
    }

    /// Returns the number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.log.in_flight()
    }

    /// Pauses reading if it never reads; returns whether the ring has to stop receiving.
    pub(super) fn pause_forever(&mut self) -> bool {
        self.pacer.bytes_per_second == 0 && self.pause()
    }

    /// Pauses reading after `bytes` were read; returns whether the ring has to stop receiving.
    pub(super) fn pause_after(&mut self, bytes: usize, now: Instant) -> bool {
        self.pacer.record_read(bytes, now);
        self.pause()
    }

    fn pause(&mut self) -> bool {
        !std::mem::replace(&mut self.is_paused, true)
    }

    /// Resumes reading if its rate allows it; returns whether the ring has to receive again.
    pub(super) fn resume(&mut self, now: Instant) -> bool {
        self.pacer.may_read(now) && self.resume_unlimited()
    }

    /// Resumes reading at any rate; returns whether the ring has to receive again.
    pub(super) const fn resume_unlimited(&mut self) -> bool {
        std::mem::replace(&mut self.is_paused, false)
    }

    /// Appends a request to `output`.
    pub(super) fn write_request(
        &mut self,
        templates: &RequestTemplates,
        call: u16,
        now: Instant,
        output: &mut Vec<u8>,
    ) {
        self.log.write_request(templates, call, now, now, output);
    }

    /// Processes received data; appends what is to be sent to `output`. Returns whether the server
    /// closes the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is not correctly framed.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        templates: &mut RequestTemplates,
        settings: &RequestSettings,
        period: &mut Period,
        output: &mut Vec<u8>,
    ) -> Result<bool, FramingError> {
        let mut is_closing = false;
        self.log.receive(templates, bytes, |event| match event {
            ReceiveEvent::Completed(completed) if completed.failure.is_none() => {
                period.slow_readers.answered += 1;
            }
            ReceiveEvent::Completed(_) => period.slow_readers.failed += 1,
            ReceiveEvent::Unsolicited => period.outcomes.unsolicited += 1,
            ReceiveEvent::Failed { .. }
            | ReceiveEvent::Late
            | ReceiveEvent::Notification
            | ReceiveEvent::FirstEvent { .. }
            | ReceiveEvent::FirstProgress { .. }
            | ReceiveEvent::Chunk
            | ReceiveEvent::Result(_)
            | ReceiveEvent::InputRequired(_)
            | ReceiveEvent::Streamed => {}
            ReceiveEvent::Keepalive(hint) => {
                output.extend_from_slice(&settings.keepalive(hint.unwrap_or_default()));
            }
            ReceiveEvent::ServerRequest { id, method } => {
                let response = settings.answers().response(&id, &method);
                output.extend_from_slice(&settings.frame(response.as_bytes()));
            }
            ReceiveEvent::Send(bytes) => output.extend_from_slice(&bytes),
            ReceiveEvent::Closing => is_closing = true,
        })?;
        Ok(is_closing)
    }
}

/// Rate limit of a slow reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ReadPacer {
    bytes_per_second: u64,
    next_read_at: Instant,
}

impl ReadPacer {
    /// Creates a pacer; a rate of 0 never reads.
    const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, next_read_at: Instant::ORIGIN }
    }

    /// Records that `bytes` were read at `now`.
    fn record_read(&mut self, bytes: usize, now: Instant) {
        let nanoseconds =
            (bytes as u128 * 1_000_000_000) / u128::from(self.bytes_per_second.max(1));
        let pause = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.next_read_at = self.next_read_at.max(now).after(pause);
    }

    /// Returns whether it may read now.
    fn may_read(&self, now: Instant) -> bool {
        self.bytes_per_second > 0 && now >= self.next_read_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Instant = Instant::from_milliseconds;

    #[test]
    fn slow_reader_pauses_after_read() {
        let mut pacer = ReadPacer::new(1_000);
        assert!(pacer.may_read(AT(5)));
        pacer.record_read(100, AT(5));
        assert!(!pacer.may_read(AT(104)));
        assert!(pacer.may_read(AT(105)));
    }

    #[test]
    fn slow_reader_makes_up_for_excess() {
        let mut pacer = ReadPacer::new(1_000);
        for _ in 0..4 {
            pacer.record_read(4_096, AT(0));
        }
        assert!(!pacer.may_read(AT(16_383)));
        assert!(pacer.may_read(AT(16_384)));
        // A longer pause than required is no credit.
        pacer.record_read(1_000, AT(60_000));
        assert!(!pacer.may_read(AT(60_999)));
    }

    #[test]
    fn slow_reader_with_zero_rate_never_reads() {
        assert!(!ReadPacer::new(0).may_read(AT(u64::from(u32::MAX))));
    }
}
