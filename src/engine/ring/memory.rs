//! The backend without a kernel: one connection in memory, whose peer is the caller on the thread
//! of the shard.
//!
//! The peer's bytes are passed in, and the output is read in place, from the buffer of the send,
//! which completes when all of it is read. So a peer that does not read stops the shard's reading
//! of the connection, as over a socket. A park never waits: the caller decides when the shard runs
//! next, and learns of wake-ups by the [`Waker`] that the ring was created with.

use std::io;

use crate::buffer::PADDING;
use crate::clock::Clock;
use crate::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source, Waker,
};
use corelane_base::time::Instant;

/// Most bytes of one receive.
const RECEIVE_BYTES_MAX: usize = 1 << 30;

/// A ring with one connection in memory.
#[derive(Debug)]
pub struct MemoryRing {
    clock: Clock,
    waker: Waker,
    input: Input,
    output: Output,
    completed: Vec<Completion>,
}

/// What the peer has sent.
#[derive(Debug, Default)]
struct Input {
    /// Bytes that the shard has not received.
    queued: Vec<u8>,
    /// The bytes of the receive buffer, and their padding.
    received: Vec<u8>,
    /// The shard holds the receive buffer.
    is_held: bool,
    is_receiving: bool,
}

/// What the shard has sent.
#[derive(Debug, Default)]
struct Output {
    buffer: Vec<u8>,
    /// Start of the bytes that the peer has not read.
    unread_from: usize,
    /// Bytes of the send in flight; its buffer is `buffer`.
    sending_bytes: Option<usize>,
}

impl MemoryRing {
    /// The socket of the peer's bytes.
    pub const INPUT: Socket = Socket(0);
    /// The socket of the bytes for the peer.
    pub const OUTPUT: Socket = Socket(1);

    /// Creates a ring whose connection is open. `waker` is what [`Ring::waker`] returns.
    pub fn new(clock: Clock, waker: Waker) -> Self {
        Self {
            clock,
            waker,
            input: Input::default(),
            output: Output::default(),
            completed: Vec::new(),
        }
    }

    /// Passes a line of the peer to the shard, which receives it in its next turn. Its terminator
    /// is added.
    pub fn push_line(&mut self, line: &[u8]) {
        self.input.queued.extend_from_slice(line);
        self.input.queued.push(b'\n');
    }

    /// Returns whether [`MemoryRing::next_line`] returns a line.
    #[inline]
    pub fn has_line(&self) -> bool {
        memchr::memchr(b'\n', self.output.unread()).is_some()
    }

    /// Reads the next line of the shard, without its terminator.
    #[inline]
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let Output { buffer, unread_from, .. } = &mut self.output;
        let start = *unread_from;
        let end = start + memchr::memchr(b'\n', &buffer[start..])?;
        *unread_from = end + 1;
        Some(&buffer[start..end])
    }

    /// Returns whether the next turn has a completion to handle.
    pub fn has_completions(&self) -> bool {
        !self.completed.is_empty() || self.input.is_ready() || self.output.is_read()
    }

    /// Ends the connection, as a reset by its peer does.
    pub fn disconnect(&mut self) {
        self.input.is_receiving = false;
        let result = Err(io::ErrorKind::ConnectionReset.into());
        self.completed.push(Completion::EndOfStream { socket: Self::INPUT, result });
    }

    /// Closes a socket. What was sent can still be read, unless it `is_reset`.
    fn close(&mut self, socket: Socket, is_reset: bool) {
        if socket == Self::INPUT {
            self.input.is_receiving = false;
        } else if self.output.sending_bytes.is_some() {
            let unread = if is_reset { Vec::new() } else { self.output.unread().to_vec() };
            self.complete_send();
            self.output = Output { buffer: unread, ..Output::default() };
        }
        self.completed.push(Completion::Closed { socket });
    }

    fn complete_send(&mut self) {
        let Output { buffer, sending_bytes, .. } = std::mem::take(&mut self.output);
        if let Some(bytes) = sending_bytes {
            let socket = Self::OUTPUT;
            self.completed.push(Completion::Sent { socket, buffer, result: Ok(bytes) });
        }
    }
}

impl Input {
    const fn is_ready(&self) -> bool {
        self.is_receiving && !self.is_held && !self.queued.is_empty()
    }

    /// Fills the receive buffer. The two buffers change places, so that nothing is copied.
    fn receive(&mut self) -> Completion {
        std::mem::swap(&mut self.queued, &mut self.received);
        self.queued.clear();
        if self.received.len() > RECEIVE_BYTES_MAX {
            self.queued = self.received.split_off(RECEIVE_BYTES_MAX);
        }
        let len = u32::try_from(self.received.len()).unwrap_or(u32::MAX);
        self.received.resize(self.received.len() + PADDING, 0);
        self.is_held = true;
        let buffer = ReceiveBuffer { index: 0, len };
        Completion::Received { socket: MemoryRing::INPUT, buffer }
    }
}

impl Output {
    fn unread(&self) -> &[u8] {
        &self.buffer[self.unread_from..]
    }

    /// Returns whether the peer has read all of the send in flight.
    const fn is_read(&self) -> bool {
        self.sending_bytes.is_some() && self.unread_from == self.buffer.len()
    }
}

impl Ring for MemoryRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Receive(_) => self.input.is_receiving = true,
            Operation::StopReceive(_) => self.input.is_receiving = false,
            Operation::Send { buffer, offset, .. } => {
                let sending_bytes = Some(buffer.len() - offset);
                self.output = Output { buffer, unread_from: offset, sending_bytes };
            }
            Operation::Close(socket) => self.close(socket, false),
            Operation::Reset(socket) => self.close(socket, true),
            // There are no listeners, and nothing waits for the end of the output.
            Operation::Accept(_)
            | Operation::CloseListener(_)
            | Operation::Connect { .. }
            | Operation::ShutdownWrite(_) => {}
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    fn park(&mut self, _: ParkTimeout) -> Instant {
        if self.output.is_read() {
            self.complete_send();
        }
        if self.input.is_ready() {
            let received = self.input.receive();
            self.completed.push(received);
        }
        self.clock.now()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn bytes(&mut self, _: &ReceiveBuffer) -> &mut [u8] {
        &mut self.input.received
    }

    fn release(&mut self, _: ReceiveBuffer) {
        self.input.received.clear();
        self.input.is_held = false;
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> MemoryRing {
        let mut ring = MemoryRing::new(Clock::start(), Waker::new(|| {}));
        ring.submit(Operation::Receive(MemoryRing::INPUT));
        ring
    }

    fn completions(ring: &mut MemoryRing) -> Vec<Completion> {
        let mut completions = Vec::new();
        ring.park(ParkTimeout::Infinite);
        ring.reap(&mut completions);
        completions
    }

    fn send(ring: &mut MemoryRing, text: &str) {
        let (socket, buffer) = (MemoryRing::OUTPUT, text.as_bytes().to_vec());
        ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    #[test]
    fn lines_are_received_once_reading_resumes() {
        let mut ring = ring();
        ring.submit(Operation::StopReceive(MemoryRing::INPUT));
        ring.push_line(b"one");
        ring.push_line(b"two");
        assert!(completions(&mut ring).is_empty() && !ring.has_completions());
        ring.submit(Operation::Receive(MemoryRing::INPUT));
        assert!(ring.has_completions());
        let received = completions(&mut ring).pop();
        let Some(Completion::Received { buffer, .. }) = received else { panic!("{received:?}") };
        assert_eq!(ring.bytes(&buffer)[..buffer.len as usize], *b"one\ntwo\n");
        assert_eq!(ring.bytes(&buffer).len(), buffer.len as usize + PADDING);
        ring.push_line(b"three");
        assert!(completions(&mut ring).is_empty(), "the buffer is held");
        ring.release(buffer);
        assert_eq!(completions(&mut ring).len(), 1);
    }

    #[test]
    fn send_completes_when_output_is_read() {
        let mut ring = ring();
        send(&mut ring, "one\ntwo\n");
        assert_eq!(ring.next_line(), Some(&b"one"[..]));
        assert!(completions(&mut ring).is_empty() && ring.has_line());
        assert_eq!(ring.next_line(), Some(&b"two"[..]));
        assert_eq!(ring.next_line(), None);
        let sent = completions(&mut ring).pop();
        let Some(Completion::Sent { buffer, result: Ok(8), .. }) = sent else { panic!("{sent:?}") };
        assert_eq!(buffer, b"one\ntwo\n");
        assert!(!ring.has_completions());
    }

    #[test]
    fn output_stays_readable_after_close() {
        for (operation, line) in [
            (Operation::Close(MemoryRing::OUTPUT), Some(&b"late"[..])),
            (Operation::Reset(MemoryRing::OUTPUT), None),
        ] {
            let mut ring = ring();
            send(&mut ring, "late\n");
            ring.submit(operation);
            let ended = completions(&mut ring);
            assert!(
                matches!(
                    ended[..],
                    [Completion::Sent { result: Ok(5), .. }, Completion::Closed { .. }]
                ),
                "{ended:?}"
            );
            assert_eq!(ring.next_line(), line);
            assert!(completions(&mut ring).is_empty());
        }
    }
}
