//! Lanes that read slowly: what they ask, when they read, and whether they are put up with.
//!
//! They ask in a closed loop of their own and stay away from the schedule: nothing of theirs is in
//! the figures of the others. When no request leaves any more they read all that is left, so that
//! what a server had kept for them is seen to come, and what it had closed is seen to be closed.

use corelane::base::time::Moment;
use corelane::engine::ring::{Operation, Ring};

use super::lane::State;
use super::reading::{Pacer, Reading};
use super::worker::{Stage, Worker};
use crate::dialogue::{Books, Event, judge};
use crate::measure::outcome::Failure;

impl<R: Ring> Worker<R> {
    /// A lane that is to read slowly is open.
    pub(super) fn begin_reading(&mut self, index: usize, books: Books) {
        let rate = self.job.readers.map_or(0, |readers| readers.bytes_per_second);
        let reading = Reading { books, pacer: Pacer::new(rate), is_paused: false };
        self.lanes[index].state = State::Slow(Box::new(reading));
    }

    /// Has slow lanes ask for more than they read, and read where they may.
    #[cold]
    pub(super) fn tend_readers(&mut self) {
        for index in 0..self.slow_lanes {
            match self.stage {
                Stage::Connecting => {}
                Stage::Driving => self.tend_reader(index),
                Stage::Draining => self.read_on(index, |_, _| true),
            }
        }
    }

    /// Whether they are slow by now.
    fn is_slow(&self) -> bool {
        self.stage == Stage::Driving && self.now >= self.slow_from
    }

    fn tend_reader(&mut self, index: usize) {
        let Some(readers) = self.job.readers.filter(|_| self.is_slow()) else { return };
        let Some(socket) = self.lanes[index].hears else { return };
        let State::Slow(reading) = &mut self.lanes[index].state else { return };
        if readers.bytes_per_second == 0 && !reading.is_paused {
            reading.is_paused = true;
            self.ring.submit(Operation::Pause(socket));
        }
        self.read_on(index, Pacer::may_read);
        loop {
            let call = readers.call.unwrap_or_else(|| self.choose());
            let lane = &mut self.lanes[index];
            let State::Slow(reading) = &mut lane.state else { return };
            if reading.books.in_flight() >= readers.depth {
                return;
            }
            let at = (self.now, self.now);
            reading.books.ask(&self.calls, call, at, &mut lane.outgoing);
            self.tally.period.slow.asked += 1;
            self.cork(index);
        }
    }

    fn read_on(&mut self, index: usize, may_read: impl FnOnce(&Pacer, Moment) -> bool) {
        let lane = &mut self.lanes[index];
        if let (State::Slow(reading), Some(socket)) = (&mut lane.state, lane.hears)
            && reading.is_paused
            && may_read(&reading.pacer, self.now)
        {
            reading.is_paused = false;
            self.ring.submit(Operation::Receive(socket));
        }
    }

    /// Bytes have come for a lane that reads slowly.
    #[cold]
    pub(super) fn hear_slowly(&mut self, index: usize, bytes: &[u8]) {
        let is_slow = self.is_slow();
        let lane = &mut self.lanes[index];
        let (State::Slow(reading), Some(socket)) = (&mut lane.state, lane.hears) else { return };
        if is_slow {
            reading.pacer.note(bytes.len(), self.now);
            if !reading.is_paused {
                reading.is_paused = true;
                self.ring.submit(Operation::Pause(socket));
            }
        }
        let (period, mut is_closing) = (&mut self.tally.period, false);
        let (speech, outgoing) = (&self.job.speech, &mut lane.outgoing);
        let heard = reading.books.hear(&mut self.calls, bytes, |event| match event {
            Event::Concluded(concluded) if concluded.failure.is_none() => period.slow.answered += 1,
            Event::Concluded(_) => period.slow.failed += 1,
            Event::Unasked => period.outcomes.unasked += 1,
            Event::Notice | Event::Streamed => {}
            Event::Asked { id, is_ping } => {
                outgoing.extend_from_slice(&speech.frame(&judge::answer(&id, is_ping)));
            }
            Event::Say(words) => outgoing.extend_from_slice(&words),
            Event::Closing => is_closing = true,
        });
        if heard.is_err() {
            return self.end(index, Failure::Garbage);
        }
        if !self.lanes[index].outgoing.is_empty() {
            self.cork(index);
        }
        if is_closing {
            self.end(index, Failure::Closed);
        }
    }
}
