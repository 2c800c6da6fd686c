//! Streams: sockets of a ring, as their owner sends and receives on them.
//!
//! A [`Sending`] is the send in flight of one socket. [`Streams`] are the sockets whose bytes pass
//! a [`ByteFilter`], such as one of TLS, which this crate does not know.
//!
//! The kernel may take only a part of a send: of a pipe that is nearly full, and of a socket before
//! Linux 5.19, which does not retry it. The rest is sent before anything else.

mod filtered;

mod table;

mod streams;

use std::io;

pub use self::filtered::ByteFilter;
pub use self::streams::{StreamRing, Streams};
use corelane_base::pool::{CAPACITY_UNIT, large_capacity};

use crate::ring::{Operation, Ring, Socket};

/// The send in flight of one socket, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending {
    /// The bytes that are submitted and not yet sent, and above them what the buffer counts for if
    /// it is large, in units: each connection has one of these.
    packed: u64,
}

/// Bits of the bytes.
const BYTES_BITS: u32 = 40;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// The end of a send.
#[derive(Debug)]
pub enum Sent {
    /// The kernel has taken a part; the rest is being sent.
    Part,
    /// All bytes of this buffer are sent.
    All(Vec<u8>),
    /// The rest of this buffer cannot be sent, or is not because the socket is being closed.
    Failed(Vec<u8>),
}

impl Sending {
    /// Returns a send of `bytes` bytes that the owner has submitted itself.
    pub const fn of(bytes: usize) -> Self {
        Self { packed: bytes as u64 & BYTES_MASK }
    }

    /// Returns the send of a buffer.
    #[inline]
    const fn of_buffer(buffer: &Vec<u8>) -> Self {
        let counted = large_capacity(buffer.len(), buffer.capacity()) as u64;
        Self { packed: Self::of(buffer.len()).packed | counted << BYTES_BITS }
    }

    /// Returns the bytes that are submitted and not yet sent.
    #[inline]
    pub const fn bytes(&self) -> usize {
        (self.packed & BYTES_MASK) as usize
    }

    /// Returns the bytes that it counts for: those of the buffer if that is large.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        match (self.packed >> BYTES_BITS) as usize {
            0 => self.bytes(),
            counted => counted * CAPACITY_UNIT,
        }
    }

    /// Records that `bytes` bytes are left.
    #[inline]
    const fn set_bytes(&mut self, bytes: usize) {
        let counted = if bytes == 0 { 0 } else { self.packed & !BYTES_MASK };
        self.packed = Self::of(bytes).packed | counted;
    }

    /// Returns whether no send is in flight.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.bytes() == 0
    }

    /// Sends `buffer`, which is not empty. No send may be in flight.
    #[inline]
    pub fn submit<R: Ring + ?Sized>(&mut self, ring: &mut R, socket: Socket, buffer: Vec<u8>) {
        debug_assert!(self.is_idle() && !buffer.is_empty(), "one send at a time, and not empty");
        *self = Self::of_buffer(&buffer);
        ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    /// Handles the end of a send, and sends what is left of it unless the socket `is_closing`. No
    /// progress without an error counts as a failure, since a retry would go on forever.
    #[inline]
    pub fn handle_sent<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        is_closing: bool,
    ) -> Sent {
        let left = match *result {
            Ok(bytes) if bytes >= self.bytes() => {
                self.set_bytes(0);
                return Sent::All(buffer);
            }
            Ok(bytes) if bytes > 0 && !is_closing => self.bytes() - bytes,
            Ok(_) | Err(_) => {
                self.set_bytes(0);
                return Sent::Failed(buffer);
            }
        };
        self.set_bytes(left);
        let offset = buffer.len().saturating_sub(left);
        ring.submit(Operation::Send { socket, buffer, offset });
        Sent::Part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::{Faults, World};
    use crate::ring::{Completion, ParkTimeout, RingOptions};

    #[test]
    fn rest_of_partial_send_is_sent() {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let (socket, peer) = ring.attach().unwrap();
        let text = b"some text";
        let mut sending = Sending::of(text.len());
        let sent = sending.handle_sent(&mut ring, socket, text.to_vec(), &Ok(4), false);
        assert!(matches!(sent, Sent::Part) && sending.bytes() == 5);
        let (mut completions, mut received) = (Vec::new(), Vec::new());
        while received.len() < 5 {
            ring.park(ParkTimeout::Infinite);
            ring.reap(&mut completions);
            received.extend(peer.take_received());
        }
        assert_eq!(received, b" text");
        let Some(Completion::Sent { buffer, result, .. }) = completions.pop() else { panic!() };
        let sent = sending.handle_sent(&mut ring, socket, buffer, &result, false);
        assert!(matches!(sent, Sent::All(buffer) if buffer == text) && sending.is_idle());
    }

    #[test]
    fn large_buffer_counts_until_it_is_sent() {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let (socket, _peer) = ring.attach().unwrap();
        for (length, held) in [(9, 9), (64 << 10, 64 << 10), (70_001, 25 << 12)] {
            let mut buffer = Vec::with_capacity(100_001);
            buffer.resize(length, b'x');
            let mut sending = Sending::default();
            sending.submit(&mut ring, socket, buffer);
            assert_eq!((sending.bytes(), sending.held_bytes()), (length, held));
            sending.set_bytes(5);
            assert_eq!(sending.held_bytes(), if held > length { held } else { 5 });
            sending.set_bytes(0);
            assert_eq!((sending.is_idle(), sending.held_bytes()), (true, 0));
        }
    }

    #[test]
    fn closing_or_stuck_socket_sends_no_rest() {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let (socket, _peer) = ring.attach().unwrap();
        for (taken, is_closing) in [(1, true), (0, false)] {
            let mut sending = Sending::of(4);
            let text = b"text".to_vec();
            let sent = sending.handle_sent(&mut ring, socket, text, &Ok(taken), is_closing);
            assert!(matches!(sent, Sent::Failed(_)) && sending.is_idle());
        }
    }
}
