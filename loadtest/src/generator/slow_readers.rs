//! Slow readers: connections that read at a limited rate, and whether the server closes them.
//!
//! They send requests in a closed loop, independent of the schedule, and are excluded from the
//! figures of other connections. During the drain they read everything that is left, so that
//! responses the server buffered and closes of the server are observed.

use corelane_base::time::Instant;
use corelane_engine::ring::Ring;

use super::connection::ConnectionState;
use super::connection_io::ConnectionIo;
use super::context::{RunContext, RunPhase};
use super::request_schedule::RequestSchedule;
use super::run_config::SlowReaderConfig;
use super::slow_reader::SlowReader;
use crate::mcp::RequestLog;
use crate::metrics::outcome::Failure;

/// Slow readers of one load thread, which are its first connections.
#[derive(Debug)]
pub(super) struct SlowReaders {
    config: Option<SlowReaderConfig>,
    count: usize,
    /// Start of slow reading.
    from: Instant,
}

impl SlowReaders {
    /// Creates a load thread's share of the slow readers.
    pub(super) fn new(ctx: &RunContext) -> Self {
        let config = ctx.config.roles.slow_readers;
        let count = config.map_or(0, |readers| ctx.share.part(readers.connections));
        Self { config, count, from: Instant::ORIGIN }
    }

    /// Returns the number of slow readers.
    pub(super) const fn reader_count(&self) -> usize {
        self.count
    }

    /// Starts the run.
    pub(super) fn start(&mut self, begin: Instant) {
        if let Some(readers) = &self.config {
            self.from = begin.after(readers.start_after);
        }
    }

    /// Turns an open connection into a slow reader.
    pub(super) fn reader(&self, log: RequestLog) -> Box<SlowReader> {
        Box::new(SlowReader::new(log, self.config.map_or(0, |readers| readers.bytes_per_second)))
    }

    /// Processes data received by a slow reader. Returns a failure if its connection ends.
    #[cold]
    pub(super) fn receive<R: Ring>(
        &self,
        io: &mut ConnectionIo<R>,
        index: usize,
        bytes: &[u8],
        ctx: &mut RunContext,
    ) -> Option<Failure> {
        let is_slow = self.active(ctx).is_some();
        let conn = &mut io[index];
        let ConnectionState::SlowReader(reader) = &mut conn.state else { return None };
        let had_session = reader.has_session();
        let must_pause = is_slow && reader.pause_after(bytes.len(), ctx.now);
        let settings = &ctx.config.request_settings;
        let (period, output) = (&mut *ctx.recorder.period, &mut conn.send_buffer);
        let received = reader.receive(bytes, &mut ctx.templates, settings, period, output);
        // The server has not closed the connection of a session that has ended.
        let has_ended = had_session && !reader.has_session();
        if must_pause {
            io.stop_receive(index);
        }
        let Ok(is_closing) = received else { return Some(Failure::Garbage) };
        if !io[index].send_buffer.is_empty() {
            io.queue_flush(index);
        }
        io[index].is_draining |= has_ended;
        is_closing.then_some(Failure::Closed)
    }

    /// Sends requests and resumes reads of all slow readers.
    #[cold]
    pub(super) fn drive<R: Ring>(
        &self,
        io: &mut ConnectionIo<R>,
        requests: &mut RequestSchedule,
        ctx: &mut RunContext,
    ) {
        for index in 0..self.count {
            if ctx.phase == RunPhase::Draining {
                if let ConnectionState::SlowReader(reader) = &mut io[index].state
                    && reader.resume_unlimited()
                {
                    io.resume_receive(index);
                }
            } else if let Some(readers) = self.active(ctx) {
                drive_reader(index, &readers, &mut *io, &mut *requests, ctx);
            }
        }
    }

    /// Returns the configuration if slow reading has begun.
    fn active(&self, ctx: &RunContext) -> Option<SlowReaderConfig> {
        self.config.filter(|_| ctx.phase == RunPhase::Sending && ctx.now >= self.from)
    }
}

/// Resumes the reads of a slow reader and sends as many requests as may be in flight.
fn drive_reader<R: Ring>(
    index: usize,
    readers: &SlowReaderConfig,
    io: &mut ConnectionIo<R>,
    requests: &mut RequestSchedule,
    ctx: &mut RunContext,
) {
    let ConnectionState::SlowReader(reader) = &mut io[index].state else { return };
    if reader.pause_forever() {
        io.stop_receive(index);
    } else if reader.resume(ctx.now) {
        io.resume_receive(index);
    }
    loop {
        let call = readers.call.unwrap_or_else(|| requests.draw_call());
        let conn = &mut io[index];
        let ConnectionState::SlowReader(reader) = &mut conn.state else { return };
        if reader.in_flight() >= readers.depth {
            return;
        }
        reader.write_request(&ctx.templates, call, ctx.now, &mut conn.send_buffer);
        ctx.recorder.period.slow_readers.sent += 1;
        io.queue_flush(index);
    }
}
