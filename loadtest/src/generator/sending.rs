//! What leaves: requests that are due, over lanes that have room.

use std::io;

use corelane::base::time::Moment;
use corelane::engine::ring::{Operation, Ring, Socket};

use super::job::Drive;
use super::lane::State;
use super::worker::{Stage, Worker};
use crate::measure::outcome::Failure;

/// Requests that leave in one turn. What they were written in is used again by the next, so it has
/// to stay in the nearest cache; and a server has something to do before the last of many is sent.
const BATCH_MAX: usize = 64;

impl<R: Ring> Worker<R> {
    /// Sends what is due and finds a lane, a batch of it; whether there is more to look at.
    pub(super) fn send_due(&mut self) -> bool {
        let is_more_due = self.take_due();
        for _ in 0..BATCH_MAX {
            let intended = match self.job.drive {
                Drive::Open { .. } => self.due.front().copied(),
                Drive::Closed { .. } => (self.stage == Stage::Driving).then_some(self.now),
                Drive::Hold { .. } => None,
            };
            let Some(intended) = intended else { return is_more_due };
            let Some(index) = self.next_free() else { return is_more_due };
            self.due.pop_front();
            self.ask(index, intended);
        }
        true
    }

    /// Takes what has become due off the schedule, a batch of it; whether there may be more. What
    /// is taken later is late by that, and counted so.
    #[inline]
    fn take_due(&mut self) -> bool {
        let Some(arrivals) = &mut self.arrivals else { return false };
        for _ in 0..BATCH_MAX {
            let Some(intended) = arrivals.next_if(|intended| *intended <= self.now) else {
                return false;
            };
            let is_measured = intended >= self.tally.measured_from;
            let period = &mut self.tally.period;
            if is_measured {
                period.due += 1;
                let lag = self.now.since(intended).as_nanos();
                period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
            }
            if self.due.len() < self.job.limits.due_max {
                self.due.push_back(intended);
            } else if is_measured {
                period.outcomes.fail(Failure::Unsent);
            }
        }
        true
    }

    /// The lane with room that has waited longest.
    #[inline]
    fn next_free(&mut self) -> Option<usize> {
        while let Some(index) = self.free.pop_front() {
            let index = index as usize;
            let lane = &mut self.lanes[index];
            lane.is_listed = false;
            if lane.has_room(self.job.depth) {
                return Some(index);
            }
        }
        None
    }

    /// Puts a lane among those with room, where it has some.
    #[inline]
    pub(super) fn list(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if !lane.is_listed && lane.has_room(self.job.depth) {
            lane.is_listed = true;
            self.free.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Asks one request over a lane that has room.
    #[inline]
    fn ask(&mut self, index: usize, intended: Moment) {
        let call = self.choose();
        let lane = &mut self.lanes[index];
        let State::Open(books) = &mut lane.state else { return };
        if lane.outgoing.capacity() == 0 {
            lane.outgoing = self.spare.pop().unwrap_or_default();
        }
        books.ask(&self.calls, call, (intended, self.now), &mut lane.outgoing);
        let is_measured = intended >= self.tally.measured_from;
        self.tally.period.sent += u64::from(is_measured);
        if !matches!(self.job.drive, Drive::Open { .. }) {
            self.tally.period.due += u64::from(is_measured);
        }
        self.cork(index);
        self.list(index);
    }

    /// Writes bytes behind what a lane has to send, in a buffer of those that are spare.
    pub(super) fn say(&mut self, index: usize, words: &[u8]) {
        let lane = &mut self.lanes[index];
        if lane.outgoing.capacity() == 0 && !words.is_empty() {
            lane.outgoing = self.spare.pop().unwrap_or_default();
        }
        lane.outgoing.extend_from_slice(words);
    }

    /// Draws one of the kinds of requests by their weights.
    #[inline]
    pub(super) fn choose(&mut self) -> u16 {
        let [.., all] = self.weights[..] else { return 0 };
        if self.weights.len() == 1 {
            return 0;
        }
        let drawn = self.random.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
        let place = self.weights.partition_point(|sum| *sum <= drawn);
        u16::try_from(place).unwrap_or_default()
    }

    /// Has a lane send at the end of the turn.
    #[inline]
    pub(super) fn cork(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if !lane.is_corked {
            lane.is_corked = true;
            self.corked.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Hands what lanes have to send to the ring: one send each.
    pub(super) fn flush(&mut self) {
        let mut corked = std::mem::take(&mut self.corked);
        for index in corked.drain(..) {
            let lane = &mut self.lanes[index as usize];
            lane.is_corked = false;
            if lane.is_sending || !lane.owes() {
                continue;
            }
            let Some(socket) = lane.says else { continue };
            lane.is_sending = true;
            let mut buffer = std::mem::take(&mut lane.outgoing);
            if lane.filter.is_some() && !self.seal(index as usize, &mut buffer) {
                continue;
            }
            self.ring.submit(Operation::Send { socket, buffer, from: 0 });
        }
        self.corked = corked;
    }

    /// A send is over.
    #[inline]
    pub(super) fn sent(&mut self, socket: Socket, mut buffer: Vec<u8>, result: io::Result<usize>) {
        let Some(index) = self.lane_of(socket) else { return self.keep(buffer) };
        let lane = &mut self.lanes[index];
        let taken = result.unwrap_or_default();
        if taken < buffer.len() {
            if taken > 0 && !matches!(lane.state, State::Closing) {
                // A pipe takes what it has room for.
                buffer.drain(..taken);
                return self.ring.submit(Operation::Send { socket, buffer, from: 0 });
            }
            lane.is_sending = false;
            self.keep(buffer);
            return self.end(index, Failure::Closed);
        }
        lane.is_sending = false;
        self.keep(buffer);
        if self.lanes[index].owes() {
            self.cork(index);
        }
    }

    /// Keeps a buffer for the next send.
    #[inline]
    fn keep(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }
}
