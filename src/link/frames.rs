//! What arrives over WebSocket: from bytes to messages, and what the peer never hears of the road.
//!
//! A connection begins as one of HTTP; when an upgrade has been answered it is adopted, and what
//! follows is frames. What it keeps true: a ping is answered in its place, before what comes behind
//! it is read; while a peer does not read nothing of it is read either, its pings included; an idle
//! connection holds no buffer, and beyond the others one box.
//!
//! What it does not do: inflate, split or look into a message. That is the driver's.

use super::Link;
use super::connection::{Connection, Ending, Phase, Reader};
use super::framed::{Frames, Left};
use super::parting::Farewell;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::{Fault, FrameLimits};
use crate::transport::websocket::reader::{FrameReader, Next};
use crate::transport::websocket::writer;

/// What the next bytes of a connection are to its driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frame {
    /// A whole message that came in several frames or arrivals: fetch it with
    /// [`Link::take_message`].
    Assembled {
        /// Whether it has to be inflated.
        is_compressed: bool,
    },
    /// The peer broke the protocol: end the connection by [`Link::break_off`]. Said once.
    Broken(Fault),
    /// The peer has closed, for this reason if it said one, and waits for nothing any more. It is
    /// answered, and the connection ends by itself. Said once.
    Closed(Option<CloseCode>),
    /// A whole message, unmasked inside the arrival itself. Nobody has looked whether it is UTF-8.
    Inside {
        /// Where it begins in the arrival.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Whether it has to be inflated.
        is_compressed: bool,
    },
    /// The arrival is used up, or the connection is not to be read at present: `from` tells.
    NeedMore,
}

impl<S> Link<S> {
    /// Makes a connection of requests one of frames, from the first byte on that has not been read.
    /// The answer to the upgrade has been written already. `false` where it is none of requests, or
    /// is about to end.
    ///
    /// The loop over [`Link::next_request`] ends by it; what is left of the arrival, or of what
    /// waited, is for [`Link::next_frame`].
    pub fn adopt(&mut self, key: Key, reader: FrameReader, now: Moment) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let Reader::Requests(requests) = &mut connection.reader else { return false };
        if connection.phase != Phase::Open {
            return false;
        }
        self.pool.give(requests.give_up());
        connection.reader = Reader::Frames(Box::new(Frames::new(reader, now)));
        connection.held = false;
        connection.active = now;
        let is_paused = connection.paused;
        self.statistics.frames.adopted += 1;
        let options = &self.options.frames;
        self.arm(key, now.after(options.ping_max.min(options.idle_max)));
        if is_paused {
            self.strain(key, now);
        }
        true
    }

    /// Looks for the next message of a connection in `arrival[*from..]`, unmasks it there and moves
    /// `from` behind what was used; see [`FrameReader::next`]. Pings are answered on the way.
    ///
    /// Call it until it says [`Frame::NeedMore`]; what `from` has not reached by then goes to
    /// [`Link::stash`].
    #[inline]
    pub fn next_frame(
        &mut self,
        key: Key,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        now: Moment,
    ) -> Frame {
        loop {
            let Some(connection) = self.connections.get_mut(key) else {
                *from = arrival.len();
                return Frame::NeedMore;
            };
            if connection.phase != Phase::Open {
                return self.skim(key, arrival, from, now);
            }
            if connection.paused {
                return Frame::NeedMore;
            }
            if connection.queued_bytes() > self.options.frames.buffer_bytes_max {
                self.strain(key, now);
                return Frame::NeedMore;
            }
            let Reader::Frames(frames) = &mut connection.reader else {
                return Frame::NeedMore;
            };
            if let Some(strain) = frames.strain {
                frames.relieve(strain, now);
            }
            let pool = &mut self.pool;
            let next = frames.reader.next(arrival, from, limits, || pool.take());
            frames.heard = now;
            match next {
                Next::Inside { start, end, is_compressed } => {
                    self.hear_message(key, now);
                    return Frame::Inside { start, end, is_compressed };
                }
                Next::Assembled { is_compressed } => {
                    frames.began = None;
                    self.hear_message(key, now);
                    return Frame::Assembled { is_compressed };
                }
                Next::Ping => self.answer_ping(key),
                Next::Pong => self.statistics.frames.pongs_in += 1,
                Next::Close(code) => return self.peer_closed(key, code, now),
                Next::Broken(fault) => return Frame::Broken(fault),
                Next::NeedMore => {
                    self.await_rest(key, now);
                    return Frame::NeedMore;
                }
            }
        }
    }

    /// The message announced by [`Frame::Assembled`], with padding, and its length. Give the buffer
    /// back to the pool.
    pub fn take_message(&mut self, key: Key) -> (Vec<u8>, usize) {
        let frames = self.connections.get_mut(key).and_then(Connection::frames);
        frames.map(|frames| frames.reader.take()).unwrap_or_default()
    }

    /// Whether the message that was announced last is binary.
    pub fn is_binary(&mut self, key: Key) -> bool {
        let frames = self.connections.get_mut(key).and_then(Connection::frames);
        frames.is_some_and(|frames| frames.reader.is_binary())
    }

    #[inline]
    fn hear_message(&mut self, key: Key, now: Moment) {
        self.statistics.frames.messages_in += 1;
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.hear(now, &mut self.pool);
        if connection.cork() {
            self.corked.push(key);
        }
    }

    /// The arrival is used up: a message that has begun in it has to become whole in time.
    #[inline]
    fn await_rest(&mut self, key: Key, now: Moment) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(frames) = connection.frames() else { return };
        if !frames.reader.is_inside_message() {
            frames.began = None;
        } else if frames.began.is_none() {
            frames.began = Some(now);
            self.arm(key, now.after(self.options.frames.fragment_max));
        }
    }

    fn answer_ping(&mut self, key: Key) {
        self.statistics.frames.pings_in += 1;
        if self.outgoing(key).is_none() {
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Reader::Frames(frames) = &connection.reader {
            writer::pong(&mut connection.outgoing, frames.reader.control());
        }
    }

    /// What arrives at a connection that is not read any more is thrown away, but for the one frame
    /// that ends the waiting for it.
    #[cold]
    fn skim(&mut self, key: Key, arrival: &mut [u8], from: &mut usize, now: Moment) -> Frame {
        let bytes = &mut arrival[*from..];
        *from += bytes.len();
        let Some(connection) = self.connections.get_mut(key) else { return Frame::NeedMore };
        let left = connection.frames().and_then(|frames| frames.skim(bytes));
        left.map_or(Frame::NeedMore, |Left(code)| self.peer_closed(key, code, now))
    }

    /// The peer has closed: it gets our close frame with its own code, unless it has had one.
    #[cold]
    fn peer_closed(&mut self, key: Key, code: Option<CloseCode>, now: Moment) -> Frame {
        self.statistics.frames.closes_in += 1;
        let Some(connection) = self.connections.get_mut(key) else { return Frame::NeedMore };
        match connection.phase {
            Phase::Open | Phase::Draining => {
                self.part(key, Farewell { code, reason: "" }, Ending::Peer, now);
            }
            Phase::Parting | Phase::Lingering => {
                if let Some(frames) = connection.frames() {
                    frames.is_answered = true;
                }
                self.cork(key);
            }
            Phase::Closing => {}
        }
        Frame::Closed(code)
    }
}
