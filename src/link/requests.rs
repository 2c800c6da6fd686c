//! What arrives over HTTP: from bytes to requests, one at a time.
//!
//! What it keeps true: while a connection is held nothing of it is read: what arrives waits, up to
//! the bound of one message, and behind that the peer waits. The end of the stream is heard of at
//! once all the same, because it may mean that nobody waits for the answer.

use super::connection::{Framing, Reader};
use super::{Link, Next};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::{Operation, Ring};
use crate::transport::http::head::Head;
use crate::transport::http::limits::Limits;
use crate::transport::http::reader::{self, Assembled};

impl<S> Link<S> {
    /// Looks for the next request of a connection in `arrival[*from..]`; see
    /// [`reader::RequestReader::next`]. [`reader::Next::NeedMore`] also where the connection is not
    /// to be read at present: `from` then tells how far it came.
    #[inline]
    pub fn next_request(
        &mut self,
        key: Key,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
        now: Moment,
    ) -> reader::Next {
        let Some(connection) = self.connections.get_mut(key) else {
            *from = arrival.len();
            return reader::Next::NeedMore;
        };
        if !connection.is_read() {
            if connection.is_discarding() {
                *from = arrival.len();
            }
            return reader::Next::NeedMore;
        }
        let Reader::Requests(requests) = &mut connection.reader else {
            // Adopted: what is left of the arrival is something else.
            return reader::Next::NeedMore;
        };
        let was_inside = requests.is_inside_request();
        let pool = &mut self.pool;
        let next = requests.next(arrival, from, limits, || pool.take());
        if !matches!(next, reader::Next::NeedMore) {
            connection.hear(now, pool);
            if connection.cork() {
                self.corked.push(key);
            }
        } else if !was_inside && requests.is_inside_request() {
            // From here on it has to be complete within the lease.
            connection.active = now;
        }
        next
    }

    /// What the bytes of a connection are.
    #[inline]
    pub fn framing(&self, key: Key) -> Framing {
        let connection = self.connections.get(key);
        connection.map_or(Framing::Lines, |connection| match connection.reader {
            Reader::Lines(_) => Framing::Lines,
            Reader::Requests(_) => Framing::Requests,
            Reader::Frames(_) => Framing::Frames,
        })
    }

    /// The request announced by [`reader::Next::Assembled`]. Give its buffer back to the pool.
    pub fn take_request(&mut self, key: Key) -> Option<Assembled> {
        match &mut self.connections.get_mut(key)?.reader {
            Reader::Requests(requests) => Some(requests.take()),
            Reader::Lines(_) | Reader::Frames(_) => None,
        }
    }

    /// The head announced by [`reader::Next::Announced`].
    pub fn announced(&self, key: Key) -> Option<(&Head, &[u8])> {
        match &self.connections.get(key)?.reader {
            Reader::Requests(requests) => Some(requests.announced()),
            Reader::Lines(_) | Reader::Frames(_) => None,
        }
    }

    /// Reads nothing more of a connection before [`Link::release`].
    pub fn hold(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.held = true;
        }
    }

    /// Reads a held connection again: follow what this returns.
    pub fn release(&mut self, key: Key) -> Next {
        let Some(connection) = self.connections.get_mut(key) else { return Next::Nothing };
        connection.held = false;
        self.try_resume(key)
    }

    /// Asks the ring for no more where a held connection has sent as much as one message may have.
    pub fn bound_stash<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let bytes_max = self.options.message_bytes_max;
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.held && !connection.paused && connection.stash.len() > bytes_max {
            connection.paused = true;
            self.statistics.paused += 1;
            ring.submit(Operation::Pause(connection.receive));
        }
    }
}
