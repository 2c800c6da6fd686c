//! One stream with a filter: at most one send in flight, of the owner or of the filter itself. The
//! decoded bytes that do not fit the receive buffer of the encoded ones have buffers of their own.
//!
//! Invariant: a long send of the owner is encoded and sent in parts, so that a turn encodes at most
//! [`PART_BYTES_MAX`] for each stream, and the encoded bytes take no more memory.

use std::error::Error;
use std::io;

use super::{Sending, Sent};
use crate::ring::{Completion, Operation, PADDING, ReceiveBuffer, Ring, Socket};
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::pool::BufferPool;

/// Bytes of the owner that are encoded at once: a fraction of a millisecond of TLS. Encoded they
/// are at most what a ring gives to the kernel at once.
const PART_BYTES_MAX: usize = 240 << 10;

/// A stream with a filter.
#[derive(Debug)]
pub(super) struct FilteredStream<F> {
    socket: Socket,
    pub(super) filter: F,
    /// The send of encoded bytes.
    sending: Sending,
    /// What the owner sends with it; `None` if it is the filter's own.
    in_flight: Option<OwnerSend>,
    /// What the owner sends next.
    waiting: Option<OwnerSend>,
    phase: Phase,
    /// The owner has shut down writing.
    has_shut_down: bool,
}

heap_bytes!(
    impl<F: HeapBytes> FilteredStream<F> { filter }
    counted { sending: Self::encoded_bytes }
    inline { socket, phase, has_shut_down }
    // The owner counts what it sends.
    elsewhere { in_flight, waiting }
);

/// A send of the owner, as it is returned to it.
#[derive(Debug)]
struct OwnerSend {
    buffer: Vec<u8>,
    offset: usize,
    /// End of what is encoded.
    encoded: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Open,
    /// The owner knows that nothing more is received.
    Ended,
    /// The owner has closed the socket.
    Closing,
}

impl<F> FilteredStream<F> {
    /// Returns the bytes of the send in flight, which are a copy of those of the owner.
    const fn encoded_bytes(&self) -> usize {
        self.sending.held_bytes()
    }
}

impl<F: ByteFilter> FilteredStream<F> {
    pub(super) const fn new(socket: Socket, filter: F) -> Self {
        Self {
            socket,
            filter,
            sending: Sending::of(0),
            in_flight: None,
            waiting: None,
            phase: Phase::Open,
            has_shut_down: false,
        }
    }

    /// Returns whether the owner does not know of the end of the input.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether the handshake is in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        self.is_open() && !self.filter.is_established()
    }

    /// Notes that the owner knows of the end of the input; returns whether it did not before.
    pub(super) fn end(&mut self) -> bool {
        let is_news = self.is_open();
        if is_news {
            self.phase = Phase::Ended;
        }
        is_news
    }

    /// Sends bytes of the owner, once the handshake is complete. Returns the completion of a send
    /// that fails at once.
    pub(super) fn submit<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        outputs: &mut BufferPool,
        buffer: Vec<u8>,
        offset: usize,
    ) -> Option<Completion> {
        self.waiting = Some(OwnerSend { buffer, offset, encoded: offset });
        if !self.filter.can_send() && !self.is_handshaking() {
            return self.fail_waiting(io::ErrorKind::BrokenPipe.into());
        }
        self.send_waiting(ring, outputs)
    }

    /// Sends what waits for the handshake or for the end of a send, or else what the filter itself
    /// has to send. Returns the completion of a send that fails at once.
    pub(super) fn advance<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        outputs: &mut BufferPool,
    ) -> Option<Completion> {
        let failed = self.send_waiting(ring, outputs);
        if failed.is_some() || !self.sending.is_idle() {
            return failed;
        }
        if self.filter.has_output() {
            let mut output = outputs.take();
            if let Err(error) = self.filter.encode(&[], &mut output) {
                return self.fail_waiting(io::Error::other(error));
            }
            self.sending.submit(ring, self.socket, output);
        }
        self.finish_writing(ring);
        None
    }

    fn send_waiting<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        outputs: &mut BufferPool,
    ) -> Option<Completion> {
        if !self.sending.is_idle() || !self.filter.can_send() {
            return None;
        }
        let OwnerSend { buffer, encoded, .. } = self.waiting.as_mut()?;
        let rest = &buffer[*encoded..];
        let part = &rest[..rest.len().min(PART_BYTES_MAX)];
        *encoded += part.len();
        let mut output = outputs.take();
        if let Err(error) = self.filter.encode(part, &mut output) {
            return self.fail_waiting(io::Error::other(error));
        }
        self.in_flight = self.waiting.take();
        self.sending.submit(ring, self.socket, output);
        None
    }

    /// Sends bytes that are not encoded, the last ones, in place of what the filter has to send.
    pub(super) fn send_plain<R: Ring + ?Sized>(&mut self, ring: &mut R, bytes: &[u8]) {
        if self.sending.is_idle() && !bytes.is_empty() {
            self.filter.discard_output();
            self.sending.submit(ring, self.socket, bytes.to_vec());
        }
    }

    /// Handles the end of a send. Returns the completion for the owner, if the send was its.
    pub(super) fn handle_sent<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        outputs: &mut BufferPool,
        buffer: Vec<u8>,
        result: io::Result<usize>,
    ) -> Option<Completion> {
        let is_closing = self.phase == Phase::Closing;
        let sent = self.sending.handle_sent(ring, self.socket, buffer, &result, is_closing);
        let (buffer, result) = match sent {
            Sent::Part => return None,
            Sent::All(buffer) => (buffer, Ok(())),
            Sent::Failed(buffer) => {
                (buffer, Err(result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into())))
            }
        };
        outputs.put(buffer);
        match self.in_flight.take() {
            Some(send) if send.has_rest() && result.is_ok() => self.continue_send(send),
            Some(send) => Some(send.complete(self.socket, result)),
            // The owner's bytes cannot be sent either.
            None => result.err().and_then(|error| self.fail_waiting(error)),
        }
    }

    /// Has the rest of a send wait for [`FilteredStream::advance`]. Returns its completion if it
    /// cannot be sent.
    #[cold]
    fn continue_send(&mut self, send: OwnerSend) -> Option<Completion> {
        if self.phase == Phase::Closing {
            return Some(send.complete(self.socket, Err(io::ErrorKind::ConnectionAborted.into())));
        }
        if !self.filter.can_send() {
            return Some(send.complete(self.socket, Err(io::ErrorKind::BrokenPipe.into())));
        }
        self.waiting = Some(send);
        None
    }

    fn fail_waiting(&mut self, error: io::Error) -> Option<Completion> {
        self.waiting.take().map(|send| send.complete(self.socket, Err(error)))
    }

    /// The owner sends nothing more.
    pub(super) fn shut_down<R: Ring + ?Sized>(&mut self, ring: &mut R) {
        self.has_shut_down = true;
        self.finish_writing(ring);
    }

    /// Tells the peer that no more bytes follow and shuts the socket down, once nothing is left to
    /// send.
    fn finish_writing<R: Ring + ?Sized>(&mut self, ring: &mut R) {
        if self.has_shut_down && self.sending.is_idle() && self.waiting.is_none() {
            self.has_shut_down = false;
            self.send_end(ring);
            ring.submit(Operation::ShutdownWrite(self.socket));
        }
    }

    fn send_end<R: Ring + ?Sized>(&mut self, ring: &mut R) {
        let mut output = Vec::new();
        if self.filter.can_send() {
            self.filter.close(&mut output);
        }
        if !output.is_empty() {
            self.sending.submit(ring, self.socket, output);
        }
    }

    /// Closes the socket, after the filter's end as far as the socket accepts it. Returns the
    /// completion of what waits.
    pub(super) fn close<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        operation: Operation,
    ) -> Option<Completion> {
        self.phase = Phase::Closing;
        let failed = self.fail_waiting(io::ErrorKind::ConnectionAborted.into());
        if self.sending.is_idle() && matches!(operation, Operation::Close(_)) {
            self.send_end(ring);
        }
        self.filter.discard();
        ring.submit(operation);
        failed
    }
}

impl OwnerSend {
    /// Returns whether a part is not encoded yet.
    const fn has_rest(&self) -> bool {
        self.encoded < self.buffer.len()
    }

    fn complete(self, socket: Socket, result: io::Result<()>) -> Completion {
        let Self { buffer, offset, .. } = self;
        let result = result.map(|()| buffer.len() - offset);
        Completion::Sent { socket, buffer, result }
    }
}

/// The state of one stream whose owner sends and receives decoded bytes, and its socket encoded
/// ones. A filter may send and receive bytes of its own: those of a handshake, or of an alert.
pub trait ByteFilter: HeapBytes {
    /// Why bytes cannot be decoded or encoded.
    type Error: Error + Send + Sync + 'static;

    /// What is wrong with a stream that ends before its decoded bytes have.
    const TRUNCATED: &'static str;

    /// Decodes bytes in place. Returns the number of decoded bytes, which are then at the beginning
    /// of `bytes`, or `None` if they are in `decoded`, because they are more than those. `decoded`
    /// is empty before.
    ///
    /// # Errors
    ///
    /// The bytes are invalid; `decoded` has what came before.
    fn decode(
        &mut self,
        bytes: &mut [u8],
        decoded: &mut Vec<u8>,
    ) -> Result<Option<usize>, Self::Error>;

    /// Appends what the filter itself has to send, and the encoded `bytes`. They must be empty
    /// unless [`ByteFilter::can_send`].
    fn encode(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Appends what tells the peer that no more bytes follow, or why.
    fn close(&mut self, output: &mut Vec<u8>);

    /// Discards what the filter itself has to send.
    fn discard_output(&mut self);

    /// Frees what the filter has buffered: nothing more is decoded or sent.
    fn discard(&mut self);

    /// Returns whether the filter itself has something to send.
    fn has_output(&self) -> bool;

    /// Returns whether the handshake is complete, even if the stream has ended since.
    fn is_established(&self) -> bool;

    /// Returns whether bytes of the owner can be encoded.
    fn can_send(&self) -> bool;

    /// Returns whether the decoded bytes have ended.
    fn has_ended(&self) -> bool;
}

/// `None` stands for a filter in its handshake that is elsewhere: nothing may be decoded meanwhile.
impl<F: ByteFilter> ByteFilter for Option<F> {
    type Error = F::Error;

    const TRUNCATED: &'static str = F::TRUNCATED;

    #[inline]
    fn decode(
        &mut self,
        bytes: &mut [u8],
        decoded: &mut Vec<u8>,
    ) -> Result<Option<usize>, Self::Error> {
        debug_assert!(self.is_some(), "bytes are decoded while the filter is elsewhere");
        self.as_mut().map_or(Ok(None), |filter| filter.decode(bytes, decoded))
    }

    #[inline]
    fn encode(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Error> {
        self.as_mut().map_or(Ok(()), |filter| filter.encode(bytes, output))
    }

    fn close(&mut self, output: &mut Vec<u8>) {
        if let Some(filter) = self {
            filter.close(output);
        }
    }

    fn discard_output(&mut self) {
        if let Some(filter) = self {
            filter.discard_output();
        }
    }

    fn discard(&mut self) {
        if let Some(filter) = self {
            filter.discard();
        }
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.as_ref().is_some_and(F::has_output)
    }

    #[inline]
    fn is_established(&self) -> bool {
        self.as_ref().is_some_and(F::is_established)
    }

    #[inline]
    fn can_send(&self) -> bool {
        self.as_ref().is_some_and(F::can_send)
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.as_ref().is_some_and(F::has_ended)
    }
}

/// First index of these buffers; no ring has as many receive buffers.
const FIRST: u16 = 1 << 15;
/// Buffers that keep their memory for later bytes.
const SPARE_BUFFERS_MAX: u16 = 16;

/// Buffers that the owner holds like those of the ring.
#[derive(Debug, Default)]
pub(super) struct DecodedBuffers {
    buffers: Vec<Vec<u8>>,
    free: Vec<u16>,
}

impl DecodedBuffers {
    /// Takes decoded bytes, unless there are none; leaves an empty buffer.
    pub(super) fn insert(&mut self, decoded: &mut Vec<u8>) -> Option<ReceiveBuffer> {
        let len = u32::try_from(decoded.len()).ok().filter(|len| *len > 0)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            u16::try_from(self.buffers.len() - 1).unwrap_or(u16::MAX)
        });
        decoded.resize(decoded.len() + PADDING, 0);
        std::mem::swap(&mut self.buffers[usize::from(place)], decoded);
        decoded.clear();
        Some(ReceiveBuffer { index: FIRST + place, len })
    }

    /// Returns the bytes and padding of a buffer, unless it is the ring's.
    #[inline]
    pub(super) fn bytes(&mut self, buffer: &ReceiveBuffer) -> Option<&mut [u8]> {
        let place = buffer.index.checked_sub(FIRST)?;
        self.buffers.get_mut(usize::from(place)).map(Vec::as_mut_slice)
    }

    /// Takes a buffer back, unless it is the ring's.
    #[inline]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) -> Result<(), ReceiveBuffer> {
        let Some(place) = buffer.index.checked_sub(FIRST) else { return Err(buffer) };
        self.release_place(place);
        Ok(())
    }

    fn release_place(&mut self, place: u16) {
        if let Some(decoded) = self.buffers.get_mut(usize::from(place)) {
            decoded.clear();
            if place >= SPARE_BUFFERS_MAX {
                *decoded = Vec::new();
            }
            self.free.push(place);
        }
    }
}
