//! The streams of a ring that have a filter: their completions of encoded bytes become completions
//! of decoded ones, and what their owner sends is encoded. All other sockets pass through.
//!
//! Invariants:
//!
//! - A stream with a filter sends nothing that is not encoded, but for [`Streams::send_plain`].
//! - Decoded bytes are passed on before the end of their stream. An end of the encoded bytes before
//!   that of the decoded ones is an error, since data may be missing.
//! - A send of the owner completes once all of its bytes are sent, or with an error.
//!
//! A [`StreamRing`] is the ring with these streams, as their owner sees it.

use std::io;

use super::filtered::{ByteFilter, DecodedBuffers, FilteredStream};
use super::table::StreamTable;
use crate::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source, Waker,
};
use corelane_base::pool::BufferPool;
use corelane_base::time::Instant;

/// Largest buffer that is kept for a later send, and all of these.
const SPARE_BYTES_MAX: usize = 64 << 10;
const ALL_SPARE_BYTES_MAX: usize = 256 << 10;

/// The streams of a ring that have a filter.
#[derive(Debug)]
pub struct Streams<F> {
    streams: StreamTable<F>,
    buffers: DecodedBuffers,
    /// Memory for decoded bytes.
    decoded: Vec<u8>,
    /// Buffers for encoded bytes.
    outputs: BufferPool,
    /// What the owner learns.
    completions: Vec<Completion>,
}

impl<F> Default for Streams<F> {
    fn default() -> Self {
        Self {
            streams: StreamTable::default(),
            buffers: DecodedBuffers::default(),
            decoded: Vec::new(),
            outputs: BufferPool::new(ALL_SPARE_BYTES_MAX, SPARE_BYTES_MAX),
            completions: Vec::new(),
        }
    }
}

/// The owner's side.
impl<F: ByteFilter> Streams<F> {
    /// Adds the filter of an open socket, with bytes that it has decoded already.
    pub fn insert(&mut self, socket: Socket, filter: F, mut decoded: Vec<u8>) {
        let mut stream = Box::new(FilteredStream::new(socket, filter));
        let buffer = self.buffers.insert(&mut decoded);
        self.completions.extend(buffer.map(|buffer| Completion::Received { socket, buffer }));
        if stream.filter.has_ended() && stream.end() {
            self.completions.push(Completion::EndOfStream { socket, result: Ok(()) });
        }
        self.streams.insert(socket, stream);
    }

    /// Returns whether a socket has a filter.
    #[inline]
    pub fn is_filtered(&self, socket: Socket) -> bool {
        self.streams.contains(socket)
    }

    /// Returns the filter of a socket, if it has one.
    pub fn filter(&self, socket: Socket) -> Option<&F> {
        self.streams.get(socket).map(|stream| &stream.filter)
    }

    /// Replaces the filter of a socket, which is returned, if it has one.
    pub fn replace_filter(&mut self, socket: Socket, filter: F) -> Option<F> {
        let mut stream = self.streams.get_mut(socket)?;
        Some(std::mem::replace(&mut stream.filter, filter))
    }

    /// Returns the bytes that the filters hold, and the encoded bytes that are being sent.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.streams.held_bytes()
    }

    /// Returns the part of [`Streams::held_bytes`] of one socket.
    pub fn held_bytes_of(&self, socket: Socket) -> usize {
        self.streams.held_bytes_of(socket)
    }

    /// Returns whether the handshake of the filter of a socket is in progress.
    pub fn is_handshaking(&self, socket: Socket) -> bool {
        self.streams.get(socket).is_some_and(FilteredStream::is_handshaking)
    }

    /// Submits an operation of the owner.
    #[inline]
    pub fn submit<R: Ring + ?Sized>(&mut self, ring: &mut R, operation: Operation) {
        if self.streams.is_empty() {
            return ring.submit(operation);
        }
        self.submit_filtered(ring, operation);
    }

    fn submit_filtered<R: Ring + ?Sized>(&mut self, ring: &mut R, operation: Operation) {
        let (Operation::Send { socket, .. }
        | Operation::ShutdownWrite(socket)
        | Operation::Close(socket)
        | Operation::Reset(socket)) = operation
        else {
            return ring.submit(operation);
        };
        let Some(mut stream) = self.streams.get_mut(socket) else {
            return ring.submit(operation);
        };
        let failed = match operation {
            Operation::Send { buffer, offset, .. } => {
                stream.submit(ring, &mut self.outputs, buffer, offset)
            }
            Operation::ShutdownWrite(_) => {
                stream.shut_down(ring);
                None
            }
            operation => stream.close(ring, operation),
        };
        drop(stream);
        self.completions.extend(failed);
    }

    /// Passes completions of the owner's own on, behind those so far.
    pub fn pass(&mut self, completions: impl IntoIterator<Item = Completion>) {
        self.completions.extend(completions);
    }

    /// Returns whether [`Streams::take_completions`] has something.
    pub const fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Moves what the owner has not learned into `completions`. That comes from
    /// [`Streams::handle`], but also from the handshake before [`Streams::insert`], and from sends
    /// that fail at once.
    pub fn take_completions(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completions);
    }

    /// Returns the bytes and padding of a buffer, unless it is the ring's.
    #[inline]
    pub fn bytes(&mut self, buffer: &ReceiveBuffer) -> Option<&mut [u8]> {
        self.buffers.bytes(buffer)
    }

    /// Takes a buffer back, unless it is the ring's.
    ///
    /// # Errors
    ///
    /// The buffer of the ring.
    #[inline]
    pub fn release(&mut self, buffer: ReceiveBuffer) -> Result<(), ReceiveBuffer> {
        self.buffers.release(buffer)
    }
}

/// The ring's side.
impl<F: ByteFilter> Streams<F> {
    /// Passes a completion on, as one of decoded bytes if its socket has a filter.
    pub fn handle<R: Ring + ?Sized>(&mut self, ring: &mut R, completion: Completion) {
        if !completion.socket().is_some_and(|socket| self.is_filtered(socket)) {
            return self.completions.push(completion);
        }
        match completion {
            Completion::Received { socket, buffer } => self.receive(ring, socket, buffer),
            Completion::Sent { socket, buffer, result } => {
                let Self { streams, outputs, completions, .. } = self;
                if let Some(mut stream) = streams.get_mut(socket) {
                    completions.extend(stream.handle_sent(ring, outputs, buffer, result));
                    completions.extend(stream.advance(ring, outputs));
                }
            }
            Completion::EndOfStream { socket, result } => {
                let truncated = || io::Error::new(io::ErrorKind::UnexpectedEof, F::TRUNCATED);
                self.end(socket, Err(result.err().unwrap_or_else(truncated)));
            }
            Completion::Closed { socket } => {
                self.streams.remove(socket);
                self.completions.push(completion);
            }
            completion => self.completions.push(completion),
        }
    }

    fn receive<R: Ring + ?Sized>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        mut buffer: ReceiveBuffer,
    ) {
        let Self { streams, buffers, decoded, completions, .. } = self;
        let Some(mut stream) = streams.get_mut(socket) else { return ring.release(buffer) };
        if !stream.is_open() {
            return ring.release(buffer);
        }
        decoded.clear();
        let bytes = &mut ring.bytes(&buffer)[..buffer.len as usize];
        let result = stream.filter.decode(bytes, decoded);
        drop(stream);
        if let Ok(Some(length)) = result
            && length > 0
        {
            // No longer than the encoded bytes.
            buffer.len = u32::try_from(length).unwrap_or(buffer.len);
            completions.push(Completion::Received { socket, buffer });
        } else {
            ring.release(buffer);
            let buffer = buffers.insert(decoded);
            completions.extend(buffer.map(|buffer| Completion::Received { socket, buffer }));
        }
        match result {
            Ok(_) => self.finish_input(ring, socket),
            Err(error) => {
                self.fail(ring, socket, io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    /// Passes on bytes that the owner has decoded, and leaves the buffer empty.
    pub fn pass_decoded(&mut self, socket: Socket, decoded: &mut Vec<u8>) {
        let buffer = self.buffers.insert(decoded);
        self.completions.extend(buffer.map(|buffer| Completion::Received { socket, buffer }));
    }

    /// Passes on the end of the decoded bytes, if they have ended, and sends what the filter has to
    /// send.
    pub fn finish_input<R: Ring + ?Sized>(&mut self, ring: &mut R, socket: Socket) {
        if self.filter(socket).is_some_and(ByteFilter::has_ended) {
            self.end(socket, Ok(()));
        }
        self.advance(ring, socket);
    }

    /// Ends a stream whose bytes are invalid, or whose handshake has failed, after the alert of the
    /// filter.
    pub fn fail<R: Ring + ?Sized>(&mut self, ring: &mut R, socket: Socket, error: io::Error) {
        self.advance(ring, socket);
        self.end(socket, Err(error));
    }

    /// Passes on the end of the input, once.
    fn end(&mut self, socket: Socket, result: io::Result<()>) {
        if self.streams.get_mut(socket).is_some_and(|mut stream| stream.end()) {
            self.completions.push(Completion::EndOfStream { socket, result });
        }
    }

    /// Sends what the filter has to send, or what waits for the end of its handshake.
    fn advance<R: Ring + ?Sized>(&mut self, ring: &mut R, socket: Socket) {
        let Self { streams, outputs, completions, .. } = self;
        if let Some(mut stream) = streams.get_mut(socket) {
            completions.extend(stream.advance(ring, outputs));
        }
    }

    /// Sends bytes that are not encoded, the last ones, to a peer that does not speak the protocol
    /// of the filter.
    pub fn send_plain<R: Ring + ?Sized>(&mut self, ring: &mut R, socket: Socket, bytes: &[u8]) {
        if let Some(mut stream) = self.streams.get_mut(socket) {
            stream.send_plain(ring, bytes);
        }
    }
}

/// A ring as the owner of streams sees it: their sockets send and receive decoded bytes.
#[derive(Debug)]
pub struct StreamRing<'a, R, F> {
    ring: &'a mut R,
    streams: &'a mut Streams<F>,
}

impl<'a, R, F> StreamRing<'a, R, F> {
    /// Joins a ring and its streams.
    pub const fn new(ring: &'a mut R, streams: &'a mut Streams<F>) -> Self {
        Self { ring, streams }
    }
}

impl<R: Ring, F: ByteFilter> Ring for StreamRing<'_, R, F> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        self.streams.submit(self.ring, operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.ring.reap(completions);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    #[inline]
    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        match self.streams.bytes(buffer) {
            None => self.ring.bytes(buffer),
            Some(decoded) => decoded,
        }
    }

    #[inline]
    fn release(&mut self, buffer: ReceiveBuffer) {
        if let Err(buffer) = self.streams.release(buffer) {
            self.ring.release(buffer);
        }
    }

    fn held_bytes(&self) -> usize {
        self.ring.held_bytes() + self.streams.held_bytes()
    }

    fn held_bytes_of(&self, socket: Socket) -> usize {
        self.ring.held_bytes_of(socket) + self.streams.held_bytes_of(socket)
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ring::RingOptions;
    use crate::ring::sim::{Client, Faults, SimRing, World};

    /// Each byte is encoded as its successor; 0 ends the decoded bytes, and 255 is invalid.
    #[derive(Debug, Default)]
    struct Successor {
        has_ended: bool,
    }

    corelane_base::heap_bytes!(Successor {} inline { has_ended });

    impl ByteFilter for Successor {
        type Error = std::fmt::Error;

        const TRUNCATED: &'static str = "the end is missing";

        fn decode(
            &mut self,
            bytes: &mut [u8],
            decoded: &mut Vec<u8>,
        ) -> Result<Option<usize>, Self::Error> {
            for byte in bytes.iter() {
                match byte {
                    0 => self.has_ended = true,
                    255 => return Err(std::fmt::Error),
                    byte => decoded.push(byte - 1),
                }
            }
            bytes[..decoded.len()].copy_from_slice(decoded);
            Ok(Some(decoded.len()))
        }

        fn encode(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Error> {
            output.extend(bytes.iter().map(|byte| byte + 1));
            Ok(())
        }

        fn close(&mut self, output: &mut Vec<u8>) {
            output.push(0);
        }

        fn discard_output(&mut self) {}

        fn discard(&mut self) {}

        fn has_output(&self) -> bool {
            false
        }

        fn is_established(&self) -> bool {
            true
        }

        fn can_send(&self) -> bool {
            true
        }

        fn has_ended(&self) -> bool {
            self.has_ended
        }
    }

    /// Returns a ring, its streams, one of which has a filter, and the peer of that.
    fn filtered() -> (SimRing, Streams<Successor>, Socket, Client) {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let (socket, peer) = ring.attach().unwrap();
        let mut streams = Streams::default();
        streams.insert(socket, Successor::default(), Vec::new());
        ring.submit(Operation::Receive(socket));
        (ring, streams, socket, peer)
    }

    /// Waits for completions, as the owner sees them.
    fn completions(ring: &mut SimRing, streams: &mut Streams<Successor>) -> Vec<Completion> {
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        while decoded.is_empty() {
            ring.park(ParkTimeout::Infinite);
            ring.reap(&mut encoded);
            for completion in encoded.drain(..) {
                streams.handle(ring, completion);
            }
            streams.take_completions(&mut decoded);
        }
        decoded
    }

    #[test]
    fn sent_buffer_is_that_of_owner() {
        let (mut ring, mut streams, socket, peer) = filtered();
        let buffer = b"-abc".to_vec();
        streams.submit(&mut ring, Operation::Send { socket, buffer, offset: 1 });
        let sent = completions(&mut ring, &mut streams);
        let [Completion::Sent { buffer, result: Ok(3), .. }] = &sent[..] else {
            panic!("{sent:?}")
        };
        assert_eq!(buffer, b"-abc");
        let mut received = peer.take_received();
        while received.len() < 3 {
            ring.park(ParkTimeout::Infinite);
            received.extend(peer.take_received());
        }
        assert_eq!(received, b"bcd");
    }

    #[test]
    fn long_send_is_encoded_in_parts() {
        let (mut ring, mut streams, socket, peer) = filtered();
        let buffer: Vec<u8> = (0..200).cycle().take(700_000).collect();
        let encoded: Vec<u8> = buffer.iter().map(|byte| byte + 1).collect();
        streams.submit(&mut ring, Operation::Send { socket, buffer: buffer.clone(), offset: 0 });
        let (mut received, mut largest) = (Vec::new(), 0);
        let (mut reaped, mut decoded) = (Vec::new(), Vec::new());
        while received.len() < encoded.len() || decoded.is_empty() {
            ring.park(ParkTimeout::After(Duration::from_millis(1)));
            ring.reap(&mut reaped);
            for completion in reaped.drain(..) {
                if let Completion::Sent { buffer, .. } = &completion {
                    largest = largest.max(buffer.len());
                }
                streams.handle(&mut ring, completion);
            }
            streams.take_completions(&mut decoded);
            received.extend(peer.take_received());
        }
        // 256 KiB with what TLS adds are more than a ring gives to the kernel at once.
        assert!(received == encoded && largest <= 250 << 10, "{largest}");
        let [Completion::Sent { buffer: returned, result: Ok(700_000), .. }] = &decoded[..] else {
            panic!("{decoded:?}")
        };
        assert!(*returned == buffer);
    }

    #[test]
    fn rest_of_send_fails_when_owner_closes() {
        let (mut ring, mut streams, socket, _peer) = filtered();
        streams.submit(&mut ring, Operation::Send { socket, buffer: vec![0; 600_000], offset: 0 });
        streams.submit(&mut ring, Operation::Close(socket));
        let completions = completions(&mut ring, &mut streams);
        assert!(matches!(&completions[0], Completion::Sent { result: Err(_), buffer, .. }
                if buffer.len() == 600_000));
    }

    #[test]
    fn send_without_progress_fails_as_write_zero() {
        let (mut ring, mut streams, socket, _peer) = filtered();
        let buffer = b"abc".to_vec();
        streams.submit(&mut ring, Operation::Send { socket, buffer, offset: 0 });
        let encoded = Completion::Sent { socket, buffer: b"bcd".to_vec(), result: Ok(0) };
        let mut sent = Vec::new();
        streams.handle(&mut ring, encoded);
        streams.take_completions(&mut sent);
        let [Completion::Sent { buffer, result: Err(error), .. }] = &sent[..] else {
            panic!("{sent:?}")
        };
        assert_eq!(buffer, b"abc");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn bytes_before_invalid_ones_are_received() {
        let (mut ring, mut streams, _, peer) = filtered();
        peer.write(b"bc\xff");
        let received = completions(&mut ring, &mut streams);
        let [Completion::Received { buffer, .. }, Completion::EndOfStream { result: Err(_), .. }] =
            &received[..]
        else {
            panic!("{received:?}")
        };
        assert_eq!(&streams.bytes(buffer).unwrap()[..buffer.len as usize], b"ab");
    }

    #[test]
    fn end_of_encoded_bytes_alone_is_error() {
        for (text, is_error) in [(&b"b\0"[..], false), (b"b", true)] {
            let (mut ring, mut streams, _, peer) = filtered();
            peer.write(text);
            peer.shutdown_write();
            let mut ends = Vec::new();
            while ends.is_empty() {
                for completion in completions(&mut ring, &mut streams) {
                    match completion {
                        Completion::Received { buffer, .. } => ring.release(buffer),
                        Completion::EndOfStream { result, .. } => ends.push(result.is_err()),
                        completion => panic!("{completion:?}"),
                    }
                }
            }
            assert_eq!(ends, [is_error]);
        }
    }
}
