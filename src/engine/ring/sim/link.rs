//! One simulated connection: two ends and what is under way between them.
//!
//! What it keeps true: bytes, the end and a reset arrive in the order in which they were sent, and
//! an end never holds more bytes, arrived and under way together, than its window.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::base::time::Moment;
use crate::engine::ring::Socket;

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The side that connected, then the side that was connected to.
    pub(super) ends: [End; 2],
}

/// Names one end of one link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) link: usize,
    pub(super) end: usize,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) address: SocketAddr,
    pub(super) owner: Owner,
    /// On the way to this end, with the time of arrival.
    pub(super) underway: VecDeque<(Moment, Segment)>,
    /// Bytes that arrived and were not yet read.
    pub(super) arrived: VecDeque<u8>,
    /// Bytes that this end holds at most, arrived and under way.
    pub(super) window: usize,
    pub(super) hearing: Hearing,
    pub(super) saying: Saying,
}

/// What an end knows of the other one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hearing {
    /// Its end has arrived.
    Ended,
    /// More may come.
    Open,
    /// The connection was reset, or never came about.
    Reset,
}

/// How far an end is with what it says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Saying {
    /// It is gone, and hears nothing any more.
    Closed,
    /// It has said its end.
    Finished,
    /// More may be said.
    Open,
}

/// Who sits at an end.
#[derive(Debug)]
pub(super) enum Owner {
    /// A client that the test drives.
    Client(Visitor),
    /// Nobody: the backlog of a listener, or a side that is gone.
    Nobody,
    /// A socket of a ring.
    Ring {
        /// Which ring.
        ring: usize,
        /// Its name there.
        socket: Socket,
    },
}

/// The test's side of a connection.
#[derive(Debug)]
pub(super) struct Visitor {
    /// Written and not yet under way: the window is full.
    pub(super) unsent: VecDeque<u8>,
    /// The end is to be said after what is unsent.
    pub(super) is_finishing: bool,
    /// Read and not yet looked at by the test.
    pub(super) heard: Vec<u8>,
    pub(super) reading: Reading,
    /// A slow reader has its next visit on the agenda.
    pub(super) is_expected: bool,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reading {
    /// At once, all of it.
    Eager,
    /// At most so many bytes, each time that so long has passed.
    Slow { bytes: usize, every: Duration },
    /// Not at all.
    Stopped,
}

/// What travels.
#[derive(Debug)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    End,
    Reset,
}

impl Link {
    /// A connection between two addresses whose windows hold so many bytes; the far end is free.
    pub(super) fn new(addresses: [SocketAddr; 2], owner: Owner, window: usize) -> Self {
        let end = |address, owner| End {
            address,
            owner,
            underway: VecDeque::new(),
            arrived: VecDeque::new(),
            window,
            hearing: Hearing::Open,
            saying: Saying::Open,
        };
        Self { ends: [end(addresses[0], owner), end(addresses[1], Owner::Nobody)] }
    }
}

impl Place {
    /// The other end of the same link.
    pub(super) const fn opposite(self) -> Self {
        Self { link: self.link, end: 1 - self.end }
    }
}

impl End {
    /// Bytes that may still be sent to this end.
    pub(super) fn room(&self) -> usize {
        let underway: usize = self.underway.iter().map(|(_, segment)| segment.length()).sum();
        self.window.saturating_sub(self.arrived.len() + underway)
    }

    /// Whether the connection was reset.
    pub(super) fn is_reset(&self) -> bool {
        self.hearing == Hearing::Reset
    }

    /// Whether this side is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.saying == Saying::Closed
    }

    /// Whether bytes can still be sent from here, as far as this side knows.
    pub(super) fn is_sending(&self) -> bool {
        self.saying == Saying::Open && !self.is_reset()
    }

    /// When something sent now would arrive at the earliest: not before what was sent earlier.
    pub(super) fn not_before(&self, moment: Moment) -> Moment {
        self.underway.back().map_or(moment, |&(last, _)| last.max(moment))
    }

    /// Its side has gone: what it did not read and had not sent is nobody's.
    pub(super) fn forget(&mut self) {
        self.arrived = VecDeque::new();
        if let Owner::Client(visitor) = &mut self.owner {
            visitor.unsent = VecDeque::new();
        }
    }

    /// Takes the first `count` bytes that arrived.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        shift(&mut self.arrived, count, &mut taken);
        taken
    }
}

impl Segment {
    const fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::End | Self::Reset => 0,
        }
    }
}

impl Visitor {
    /// A client that reads at once.
    pub(super) const fn new() -> Self {
        Self {
            unsent: VecDeque::new(),
            is_finishing: false,
            heard: Vec::new(),
            reading: Reading::Eager,
            is_expected: false,
        }
    }
}

/// Moves the first `count` bytes of a queue, or all there are, in as few copies as it takes: most
/// of what a test without optimizations does is move bytes.
pub(super) fn shift(queue: &mut VecDeque<u8>, count: usize, to: &mut Vec<u8>) {
    let count = count.min(queue.len());
    let (front, back) = queue.as_slices();
    let (front_count, back_count) = (count.min(front.len()), count.saturating_sub(front.len()));
    to.extend_from_slice(&front[..front_count]);
    to.extend_from_slice(&back[..back_count]);
    queue.drain(..count);
}
