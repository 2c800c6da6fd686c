//! The closing handshake of WebSocket (RFC 6455, section 7.1).
//!
//! Whatever ends a connection, its peer is told by a close frame: behind everything that has been
//! written before, and the last thing that is said. Then our half of the stream is closed, and what
//! still arrives is thrown away until the peer closes too.
//!
//! What it keeps true: one close frame a connection; nothing is written behind it. From the moment
//! that it is queued a peer has `linger_max` to take it, and as long again to close; one that never
//! reads is cut.

use super::Link;
use super::connection::{Ending, Phase};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::Fault;
use crate::transport::websocket::writer;

/// What a close frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Farewell {
    /// `None`: nothing, as a peer that said nothing itself is answered.
    pub(super) code: Option<CloseCode>,
    /// For people; may be empty.
    pub(super) reason: &'static str,
}

impl Farewell {
    pub(super) const IDLE: Self = Self::new(CloseCode::NORMAL, "nothing was heard for too long");
    pub(super) const UNDRAINED: Self =
        Self::new(CloseCode::INTERNAL, "what was sent is not being read");
    pub(super) const UNFINISHED: Self =
        Self::new(CloseCode::PROTOCOL, "the message did not become whole in time");

    const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code: Some(code), reason }
    }

    /// What is said where only the ending is known.
    pub(super) const fn of(ending: Ending) -> Self {
        match ending {
            Ending::Drain => Self::new(CloseCode::GOING_AWAY, "the server goes down"),
            Ending::Idle => Self::IDLE,
            Ending::Lease => Self::UNFINISHED,
            Ending::Peer => Self::new(CloseCode::NORMAL, ""),
            Ending::Failure | Ending::Fault | Ending::Refusal => {
                Self::new(CloseCode::INTERNAL, "the connection cannot be kept")
            }
        }
    }
}

impl<S> Link<S> {
    /// Ends a connection of frames for a fault of its peer, or one of ours (the code tells): what
    /// has been written is sent, what is still owed is not. It ends by itself from here on.
    pub fn break_off(&mut self, key: Key, fault: Fault, now: Moment) {
        let Fault { code, reason } = fault;
        self.part(key, Farewell::new(code, reason), Ending::Fault, now);
    }

    /// Queues the close frame of a connection that is to end. Nothing is read any more but a close
    /// frame of the peer's, and nothing more is said.
    pub(super) fn part(&mut self, key: Key, farewell: Farewell, ending: Ending, now: Moment) {
        if self.say_farewell(key, farewell, ending, now) {
            self.cork(key);
        }
    }

    /// Sends the close frame of a connection that owes nothing any more.
    #[cold]
    pub(super) fn part_at_last<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let ending = self.connections.get(key).and_then(|connection| connection.ending);
        let ending = ending.unwrap_or(Ending::Peer);
        if self.say_farewell(key, Farewell::of(ending), ending, now) {
            self.depart(ring, key, now);
        }
    }

    /// Ends a connection whose peer does not read: what waits behind the send under way would not
    /// be read either.
    pub(super) fn part_undrained(&mut self, key: Key, now: Moment) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.sending_bytes > 0 {
            connection.outgoing.clear();
        }
        // Even where it was to go anyway: this is why it does not hear what it is owed.
        connection.ending = Some(Ending::Fault);
        self.statistics.frames.undrained += 1;
        self.part(key, Farewell::UNDRAINED, Ending::Fault, now);
    }

    /// Writes the close frame; `false` where there is nobody to read one.
    #[cold]
    fn say_farewell(&mut self, key: Key, farewell: Farewell, ending: Ending, now: Moment) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if !matches!(connection.phase, Phase::Open | Phase::Draining) {
            return false;
        }
        let Some(frames) = connection.frames() else { return false };
        frames.parted = now;
        connection.end(ending);
        connection.phase = Phase::Parting;
        if connection.outgoing.capacity() == 0 {
            connection.outgoing = self.pool.take();
        }
        writer::close(&mut connection.outgoing, farewell.code, farewell.reason);
        self.statistics.frames.closes_out += 1;
        self.drop_input(key);
        self.arm(key, now.after(self.options.linger_max));
        true
    }
}
