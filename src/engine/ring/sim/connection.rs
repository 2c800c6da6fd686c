//! A simulated connection: two ends and the segments in flight between them.
//!
//! Invariants: segments arrive in the order in which they were sent, and the bytes of an end,
//! received and in flight, never exceed its window.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::ring::Socket;
use corelane_base::time::Instant;

#[derive(Debug)]
pub(super) struct Connection {
    /// The connecting end, then the accepting one.
    pub(super) ends: [ConnectionEnd; 2],
}

/// Identifies one end of a connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct EndId {
    pub(super) connection: usize,
    pub(super) end: usize,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct ConnectionEnd {
    pub(super) address: SocketAddr,
    pub(super) owner: Owner,
    /// Segments in flight to this end, with their time of arrival.
    pub(super) in_flight: VecDeque<(Instant, Segment)>,
    /// Received bytes that have not been read.
    pub(super) received: VecDeque<u8>,
    /// The greatest number of bytes of this end, received and in flight.
    pub(super) window: usize,
    pub(super) read_side: ReadSide,
    pub(super) write_side: WriteSide,
}

/// The read side of an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadSide {
    /// The peer has shut down writing.
    AtEnd,
    /// More bytes may arrive.
    Open,
    /// The connection was reset or refused.
    Reset,
}

/// The write side of an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteSide {
    /// The end is closed.
    Closed,
    /// Writing was shut down.
    ShutDown,
    /// More bytes may be sent.
    Open,
}

/// The owner of an end.
#[derive(Debug)]
pub(super) enum Owner {
    /// A client of the test.
    Client(SimPeer),
    /// None: the connection waits in a backlog, or the end is closed.
    None,
    /// A socket of a ring.
    Ring {
        /// The index of the ring.
        ring: usize,
        /// The socket.
        socket: Socket,
    },
}

/// The state of a client of the test.
#[derive(Debug)]
pub(super) struct SimPeer {
    /// Written bytes that exceed the peer's window.
    pub(super) unsent: VecDeque<u8>,
    /// Writing is to be shut down after the unsent bytes.
    pub(super) shutdown_pending: bool,
    /// Bytes that were read and not yet taken by the test.
    pub(super) received: Vec<u8>,
    pub(super) read_mode: ReadMode,
    /// A slow read is scheduled.
    pub(super) is_read_scheduled: bool,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadMode {
    /// Everything, at once.
    Eager,
    /// At most `bytes`, at intervals.
    Slow { bytes: usize, every: Duration },
    /// Not at all.
    Stopped,
}

/// A unit of transmission.
#[derive(Debug)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

impl Connection {
    /// Creates a connection between two addresses; the accepting end has no owner yet.
    pub(super) fn new(addresses: [SocketAddr; 2], owner: Owner, window: usize) -> Self {
        let end = |address, owner| ConnectionEnd {
            address,
            owner,
            in_flight: VecDeque::new(),
            received: VecDeque::new(),
            window,
            read_side: ReadSide::Open,
            write_side: WriteSide::Open,
        };
        Self { ends: [end(addresses[0], owner), end(addresses[1], Owner::None)] }
    }
}

impl EndId {
    /// Returns the other end of the connection.
    pub(super) const fn opposite(self) -> Self {
        Self { connection: self.connection, end: 1 - self.end }
    }
}

impl ConnectionEnd {
    /// Returns the number of bytes that may still be sent to this end.
    pub(super) fn window_left(&self) -> usize {
        let underway: usize = self.in_flight.iter().map(|(_, segment)| segment.len()).sum();
        self.window.saturating_sub(self.received.len() + underway)
    }

    /// Returns whether the connection was reset.
    pub(super) fn is_reset(&self) -> bool {
        self.read_side == ReadSide::Reset
    }

    /// Returns whether this end is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.write_side == WriteSide::Closed
    }

    /// Returns whether bytes can be sent from this end.
    pub(super) fn can_send(&self) -> bool {
        self.write_side == WriteSide::Open && !self.is_reset()
    }

    /// Returns when a segment that would arrive at `time` arrives: not before earlier ones.
    pub(super) fn earliest_arrival(&self, time: Instant) -> Instant {
        self.in_flight.back().map_or(time, |&(last, _)| last.max(time))
    }

    /// Receives a segment that has arrived.
    pub(super) fn receive(&mut self, segment: Segment) {
        match segment {
            Segment::Bytes(bytes) => self.received.extend(bytes),
            Segment::Fin => self.read_side = ReadSide::AtEnd,
            Segment::Reset => self.reset(),
        }
    }

    /// Resets the end: bytes that arrived before can still be read.
    pub(super) fn reset(&mut self) {
        self.read_side = ReadSide::Reset;
        self.in_flight.clear();
    }

    /// Discards unread and unsent bytes of a closed end.
    pub(super) fn clear(&mut self) {
        self.received = VecDeque::new();
        if let Owner::Client(peer) = &mut self.owner {
            peer.unsent = VecDeque::new();
        }
    }

    /// Takes the first `count` received bytes.
    pub(super) fn take_received(&mut self, count: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        move_bytes(&mut self.received, count, &mut taken);
        taken
    }
}

impl Segment {
    const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Fin | Self::Reset => 0,
        }
    }
}

impl SimPeer {
    /// Creates a client that reads at once.
    pub(super) const fn new() -> Self {
        Self {
            unsent: VecDeque::new(),
            shutdown_pending: false,
            received: Vec::new(),
            read_mode: ReadMode::Eager,
            is_read_scheduled: false,
        }
    }
}

/// Moves the first `count` bytes of a queue, or all if there are fewer, with two copies at most:
/// unoptimized tests spend most of their time moving bytes.
pub(super) fn move_bytes(queue: &mut VecDeque<u8>, count: usize, to: &mut Vec<u8>) {
    let count = count.min(queue.len());
    let (front, back) = queue.as_slices();
    let (front_count, back_count) = (count.min(front.len()), count.saturating_sub(front.len()));
    to.extend_from_slice(&front[..front_count]);
    to.extend_from_slice(&back[..back_count]);
    queue.drain(..count);
}
