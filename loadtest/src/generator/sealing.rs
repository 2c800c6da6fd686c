//! Lanes that are encrypted: what arrives is opened, what leaves is sealed.
//!
//! A lane without a filter pays one test a receive and one a send for this.

use corelane::engine::ring::{Operation, Ring, Socket};

use super::lane::State;
use super::worker::Worker;
use crate::dialogue::Refused;
use crate::measure::outcome::Failure;
use crate::wire::tls::TlsFilter;
use crate::wire::unsealed::Unsealed;

/// Handshakes that may fail before any has succeeded.
const HANDSHAKES_FAILED_MAX: usize = 16;

impl<R: Ring> Worker<R> {
    /// Begins the handshake of a lane that was connected. Its dialogue begins when that is over.
    #[cold]
    pub(super) fn begin_handshake(&mut self, index: usize) {
        let Some(client) = &self.job.tls else { return };
        match TlsFilter::new(client) {
            Ok(filter) => {
                self.lanes[index].filter = Some(Box::new(filter));
                self.cork(index);
            }
            Err(unsealed) => self.unseal(index, unsealed),
        }
    }

    /// Hears what a filter made of what arrived: `plain`, and how that went.
    pub(super) fn hear_plain(
        &mut self,
        index: usize,
        (was_opening, heard): (bool, Result<(), Unsealed>),
        plain: &[u8],
    ) {
        let Some(filter) = &self.lanes[index].filter else { return };
        let (is_open, is_ended, owes) = (filter.is_open(), filter.is_ended(), filter.owes());
        if was_opening && is_open {
            self.begin_dialogue(index);
        }
        if !plain.is_empty() {
            self.hear(index, plain);
        }
        match heard {
            Err(unsealed) => self.unseal(index, unsealed),
            Ok(()) if is_ended => self.end(index, Failure::Closed),
            Ok(()) if owes => self.cork(index),
            Ok(()) => {}
        }
    }

    /// The encryption of a lane did not come about, or has broken: the lane is over.
    #[cold]
    pub(super) fn unseal(&mut self, index: usize, unsealed: Unsealed) {
        let Unsealed { said, is_alert } = unsealed;
        let failure = match &self.lanes[index].state {
            State::Opening(_) => {
                self.unsealed += 1;
                return self.break_off(index, Refused { failure: Failure::Connect, said });
            }
            State::Away { .. } | State::Connecting | State::Closing => return,
            _ if is_alert => Failure::Closed,
            _ => Failure::Garbage,
        };
        self.tell(Refused { failure, said });
        self.end(index, failure);
    }

    /// Puts what a lane has to say into ciphertext, with what its encryption has to say; whether
    /// there is something to send.
    #[inline]
    pub(super) fn seal(&mut self, index: usize, words: &mut Vec<u8>) -> bool {
        let lane = &mut self.lanes[index];
        let Some(filter) = &mut lane.filter else { return true };
        let mut sealed = self.spare.pop().unwrap_or_default();
        let outcome = filter.seal(words, &mut sealed);
        words.clear();
        let plain = std::mem::replace(words, sealed);
        if plain.capacity() > 0 {
            self.spare.push(plain);
        }
        if let Err(unsealed) = outcome {
            lane.is_sending = false;
            self.unseal(index, unsealed);
            return false;
        }
        true
    }

    /// Has an encrypted lane say its last words, as far as the socket takes them before it goes.
    pub(super) fn take_leave(&mut self, index: usize, socket: Socket) {
        let lane = &mut self.lanes[index];
        // Whatever comes behind this is of no interest.
        let Some(mut filter) = lane.filter.take().filter(|_| !lane.is_sending) else { return };
        let mut buffer = self.spare.pop().unwrap_or_default();
        filter.part(&mut buffer);
        if buffer.is_empty() {
            return self.spare.push(buffer);
        }
        lane.is_sending = true;
        self.ring.submit(Operation::Send { socket, buffer, from: 0 });
    }

    /// Whether opening connections is not worth going on with: no certificate becomes better by
    /// being shown again, while a server that is not there yet may come.
    pub(super) fn is_hopeless(&self) -> bool {
        self.open == 0 && self.unsealed >= self.lanes.len().min(HANDSHAKES_FAILED_MAX)
    }

    /// Why lanes are not open when the time for it is over, where nothing has said so: a server
    /// that waits for words that it understands.
    #[cold]
    pub(super) fn note_silence(&mut self) {
        let shaking = self.lanes.iter().find(|lane| lane.is_shaking_hands());
        if let (None, Some(lane)) = (&self.tally.period.refused, shaking) {
            self.tally.period.refused = Some(lane.given_up().said);
        }
    }
}
