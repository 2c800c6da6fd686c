//! What arrives: from bytes to lines, and what becomes of bytes that must wait.

use std::io;
use std::mem::take;

use super::connection::{Ending, Phase, Reader};
use super::{Link, Next};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::transport::ndjson::Line;

impl<S> Link<S> {
    /// Looks for the next line of a connection in `arrival[*from..]`; see
    /// [`crate::transport::ndjson::LineReader::next`]. [`Line::NeedMore`] also where the connection
    /// is not to be read at present: `from` then tells how far it came.
    #[inline]
    pub fn next_line(&mut self, key: Key, arrival: &[u8], from: &mut usize, now: Moment) -> Line {
        let Some(connection) = self.connections.get_mut(key) else {
            *from = arrival.len();
            return Line::NeedMore;
        };
        if !connection.is_read() {
            if connection.is_discarding() {
                *from = arrival.len();
            }
            return Line::NeedMore;
        }
        let pool = &mut self.pool;
        let bound = self.options.message_bytes_max;
        let Reader::Lines(reader) = &mut connection.reader else {
            *from = arrival.len();
            return Line::NeedMore;
        };
        let line = reader.next(arrival, from, bound, || pool.take());
        if line != Line::NeedMore {
            connection.hear(now, pool);
            if connection.cork() {
                self.corked.push(key);
            }
        }
        line
    }

    /// The line announced by [`Line::Assembled`], with padding, and its length. Give the buffer
    /// back to the pool.
    pub fn take_line(&mut self, key: Key) -> (Vec<u8>, usize) {
        match self.connections.get_mut(key).map(|connection| &mut connection.reader) {
            Some(Reader::Lines(reader)) => reader.take(),
            Some(Reader::Requests(_) | Reader::Frames(_)) | None => (Vec::new(), 0),
        }
    }

    /// Keeps bytes that arrived while the connection was not to be read.
    pub fn stash(&mut self, key: Key, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.is_discarding() {
            return;
        }
        if connection.stash.capacity() == 0 {
            connection.stash = self.pool.take();
        }
        if connection.stash_from > connection.stash.len() / 2 {
            connection.stash.drain(..take(&mut connection.stash_from));
        }
        connection.stash.extend_from_slice(rest);
    }

    /// Whether arrivals must go behind bytes that wait already.
    #[inline]
    pub fn is_stashed(&self, key: Key) -> bool {
        self.connections.get(key).is_some_and(|connection| !connection.stash.is_empty())
    }

    /// Takes the bytes that waited, to be carried down the road now, and where they begin. Put the
    /// buffer back by [`Link::restash`].
    pub fn unstash(&mut self, key: Key) -> (Vec<u8>, usize) {
        self.connections
            .get_mut(key)
            .map(|connection| (take(&mut connection.stash), take(&mut connection.stash_from)))
            .unwrap_or_default()
    }

    /// Puts the bytes that waited back, of which those before `from` have been carried: what could
    /// not be waits on where it is, and is not copied each time that one line more goes.
    pub fn restash(&mut self, key: Key, bytes: Vec<u8>, from: usize) {
        let connection = self.connections.get_mut(key);
        match connection.filter(|connection| !connection.is_discarding() && from < bytes.len()) {
            Some(connection) => (connection.stash, connection.stash_from) = (bytes, from),
            None => self.pool.give(bytes),
        }
    }

    /// Gives up the message that has begun to arrive, the rest of it included; `false` where none
    /// has.
    pub fn skip_line(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let Reader::Lines(reader) = &mut connection.reader else { return false };
        let line = reader.skip();
        line.map(|line| self.pool.give(line)).is_some()
    }

    /// Whether the queues of a connection let another line down the road. Ask after each line:
    /// once the answer is no, [`Link::next_line`] says [`Line::NeedMore`], and what is left of the
    /// arrival goes to [`Link::stash`], and [`Link::pause`] tells the ring. Frames need not ask:
    /// [`Link::next_frame`] looks itself.
    #[inline]
    pub fn balance(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let full = connection.queued_bytes() > self.options.outgoing_bytes_max;
        if full && connection.is_read() && !connection.is_frames() {
            connection.paused = true;
            self.statistics.paused += 1;
        }
    }

    /// Asks the ring for no more where a connection is paused.
    pub fn pause<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Some(connection) = self.connections.get(key) else { return };
        if connection.paused && connection.phase == Phase::Open {
            ring.submit(Operation::Pause(connection.receive));
        }
    }

    /// Whether a connection that was paused or held may be read again; if so it counts as read from
    /// here on, and the caller carries its stash and then calls [`Link::receive_again`].
    pub fn try_resume(&mut self, key: Key) -> Next {
        let Some(connection) = self.connections.get_mut(key) else { return Next::Nothing };
        let drained = connection.is_drained(&self.options);
        let waits = connection.paused || !connection.stash.is_empty();
        if !waits || !drained || connection.held || connection.phase != Phase::Open {
            return Next::Nothing;
        }
        connection.paused = false;
        Next::Resume(key)
    }

    /// Receives again after a pause, unless the stash has filled the queues anew. A connection that
    /// is held is received from too: its end has to be heard of.
    pub fn receive_again<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Some(connection) = self.connections.get(key) else { return };
        let is_open = connection.phase == Phase::Open && !connection.input_ended;
        if is_open && !connection.paused {
            ring.submit(Operation::Receive(connection.receive));
        }
    }

    /// Whether the peer has said its last and everything it said has been read, or will not be
    /// before an exchange is over for which the peer does not wait any more.
    pub fn is_input_over(&self, key: Key) -> bool {
        self.connections.get(key).is_some_and(|connection| {
            let is_read = connection.stash.is_empty() && !connection.paused;
            connection.input_ended && (is_read || connection.held)
        })
    }

    /// The ring says that nothing more will be received.
    pub fn ended<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: &io::Result<()>,
    ) -> Next {
        let Some(key) = self.key(socket) else { return Next::Nothing };
        let Some(connection) = self.connections.get_mut(key) else { return Next::Nothing };
        connection.input_ended = true;
        if result.is_err() {
            self.close(ring, key, Ending::Failure);
            return Next::Abandon(key);
        }
        match connection.phase {
            // A peer that finished may still wait for its answers.
            Phase::Open | Phase::Draining => Next::LastLine(key),
            Phase::Lingering => {
                self.close(ring, key, Ending::Peer);
                Next::Nothing
            }
            Phase::Parting | Phase::Closing => Next::Nothing,
        }
    }

    /// The last line of a stream that ended without a terminator.
    pub fn last_line(&mut self, key: Key) -> Option<(Vec<u8>, usize)> {
        let connection = self.connections.get_mut(key)?;
        if connection.phase != Phase::Open {
            return None;
        }
        match &mut connection.reader {
            Reader::Lines(reader) => reader.finish(),
            // What has not come in full is none.
            Reader::Requests(_) | Reader::Frames(_) => None,
        }
    }
}
