//! What departs: corked in the turn, sent once at its end.

use std::io;

use super::connection::{Ending, Phase};
use super::framed::Strain;
use super::{Link, Next};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::{Operation, Ring, Socket};

impl<S> Link<S> {
    /// Where to write what must be said to this peer: whole texts with their terminators. Sent at
    /// the end of the turn. `None` when nobody listens any more.
    pub fn outgoing(&mut self, key: Key) -> Option<&mut Vec<u8>> {
        let connection = self.connections.get_mut(key)?;
        if matches!(connection.phase, Phase::Parting | Phase::Lingering | Phase::Closing) {
            return None;
        }
        if connection.outgoing.capacity() == 0 {
            connection.outgoing = self.pool.take();
        }
        if connection.cork() {
            self.corked.push(key);
        }
        Some(&mut connection.outgoing)
    }

    /// Looks at a connection at the end of the turn.
    pub(super) fn cork(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.cork() {
            self.corked.push(key);
        }
    }

    /// Sends what was corked in this turn: one send a connection.
    pub fn flush<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        let mut corked = std::mem::take(&mut self.corked);
        for key in corked.drain(..) {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.corked = false;
                let ends = connection.is_discarding();
                self.depart(ring, key, now);
                if ends {
                    self.advance(ring, key, now);
                }
            }
        }
        self.corked = corked;
    }

    /// Hands the corked bytes of one connection to the ring, unless a send is under way.
    pub(super) fn depart<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.sending_bytes > 0 || connection.phase == Phase::Closing {
            if connection.is_frames() {
                self.strain_behind(ring, key, now);
            }
            return;
        }
        let buffer = std::mem::take(&mut connection.outgoing);
        if buffer.is_empty() {
            self.pool.give(buffer);
            return;
        }
        connection.sending_bytes = buffer.len();
        self.statistics.sends += 1;
        ring.submit(Operation::Send { socket: connection.send, buffer, from: 0 });
    }

    /// A peer whose answers come later may be too slow for them without saying another word. What
    /// counts here is what waits behind the send under way: that one may be as long as it likes.
    fn strain_behind<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let bytes_max = self.options.frames.buffer_bytes_max;
        let Some(connection) = self.connections.get(key) else { return };
        if connection.is_read() && connection.outgoing.len() > bytes_max {
            self.strain(key, now);
            self.pause(ring, key);
        }
    }

    /// The queue has passed its bound: the connection is not read until half of it has drained, and
    /// there is a time for that.
    #[cold]
    pub(super) fn strain(&mut self, key: Key, now: Moment) {
        let options = self.options.frames;
        let Some(connection) = self.connections.get_mut(key) else { return };
        let bounds = connection.queued_bytes() / options.buffer_bytes_max.max(1);
        let bounds = u32::try_from(bounds).unwrap_or(u32::MAX).max(1);
        let span = options.drain_max.saturating_mul(bounds);
        let until = now.after(span.min(options.idle_max.max(options.drain_max)));
        connection.paused = true;
        if let Some(frames) = connection.frames() {
            frames.strain = Some(Strain { since: now, until });
        }
        self.statistics.paused += 1;
        self.arm(key, until);
    }

    /// A send is over: its buffer comes back, and what was corked behind it goes next.
    pub fn sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Moment,
    ) -> Next {
        let key = self.key(socket);
        let Some((key, connection)) =
            key.and_then(|key| Some((key, self.connections.get_mut(key)?)))
        else {
            self.pool.give(buffer);
            return Next::Nothing;
        };
        let pending = connection.sending_bytes;
        match *result {
            // Nothing went and nothing failed: asking again would go on like that for ever.
            Ok(0) if pending > 0 && connection.phase != Phase::Closing => {
                return self.send_failed(ring, key, buffer);
            }
            Ok(bytes) if bytes < pending && connection.phase != Phase::Closing => {
                // The kernel took a part: the rest goes at once, in front of everything else.
                self.statistics.bytes_out += bytes as u64;
                connection.sending_bytes = pending - bytes;
                connection.active = now;
                let from = buffer.len() - (pending - bytes);
                self.statistics.sends += 1;
                ring.submit(Operation::Send { socket, buffer, from });
                return Next::Nothing;
            }
            Ok(bytes) => self.statistics.bytes_out += bytes as u64,
            Err(_) if connection.phase == Phase::Closing => {}
            Err(_) => return self.send_failed(ring, key, buffer),
        }
        connection.sending_bytes = 0;
        connection.active = now;
        self.pool.give(buffer);
        if !connection.outgoing.is_empty() && connection.cork() {
            self.corked.push(key);
        }
        let is_usual = connection.is_read() && connection.stash.is_empty();
        self.weigh(key);
        if is_usual {
            // It neither ends nor waits to be read again.
            return Next::Nothing;
        }
        self.advance(ring, key, now);
        self.try_resume(key)
    }

    fn send_failed<R: Ring>(&mut self, ring: &mut R, key: Key, buffer: Vec<u8>) -> Next {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.sending_bytes = 0;
        }
        self.pool.give(buffer);
        self.close(ring, key, Ending::Failure);
        Next::Abandon(key)
    }
}
