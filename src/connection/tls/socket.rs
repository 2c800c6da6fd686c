//! One encrypted socket: its TLS state, and at most one send in flight.

use std::io;
use std::net::SocketAddr;

use corelane_base::client_address::ClientAddress;
use corelane_base::pool::BufferPool;
use corelane_engine::ring::{Completion, Operation, Ring, Socket};
use corelane_tls::{ServerSide, TlsError, TlsFilter, TlsScratch};

/// Largest buffer that is kept for a later send, and all of these.
const SPARE_BYTES_MAX: usize = 64 << 10;
const ALL_SPARE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a handshake that wait for their turn: a client's messages have at most 64 KiB.
const HANDSHAKE_BYTES_MAX: usize = 80 << 10;

/// An encrypted socket.
#[derive(Debug)]
pub(super) struct TlsSocket {
    peer: Option<SocketAddr>,
    filter: TlsFilter<ServerSide>,
    send: Send,
    /// What the owner sends next.
    waiting: Option<(Vec<u8>, usize)>,
    /// Input of the handshake that waits for its turn.
    handshake_input: Vec<u8>,
    phase: Phase,
    /// The owner has shut down writing.
    has_shut_down: bool,
    /// It counts as a handshake in progress.
    is_counted: bool,
}

/// The send in flight. Offsets are of the ciphertext and of the plaintext.
#[derive(Debug)]
enum Send {
    None,
    /// Messages of TLS.
    Own {
        offset: usize,
    },
    /// Data of the owner.
    Data {
        offset: usize,
        plaintext: Vec<u8>,
        plaintext_offset: usize,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Open,
    /// The owner knows that nothing more is received.
    Ended,
    /// The owner has closed the socket.
    Closing,
}

/// Ciphertext buffers and plaintext that the sockets of a ring use in turn.
#[derive(Debug)]
pub(super) struct TlsBuffers {
    pub(super) scratch: TlsScratch,
    outputs: BufferPool,
}

impl Default for TlsBuffers {
    fn default() -> Self {
        let outputs = BufferPool::new(ALL_SPARE_BYTES_MAX, SPARE_BYTES_MAX);
        Self { scratch: TlsScratch::default(), outputs }
    }
}

impl TlsSocket {
    pub(super) const fn new(filter: TlsFilter<ServerSide>, peer: Option<SocketAddr>) -> Self {
        Self {
            peer,
            filter,
            send: Send::None,
            waiting: None,
            handshake_input: Vec::new(),
            phase: Phase::Open,
            has_shut_down: false,
            is_counted: true,
        }
    }

    /// Ends its count as a handshake in progress; returns whether it did count.
    pub(super) const fn end_count(&mut self) -> bool {
        std::mem::replace(&mut self.is_counted, false)
    }

    /// Returns the address of the client, if it is known.
    pub(super) const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Returns the address that the limits of handshakes count by, if the client has one.
    pub(super) fn client_address(&self) -> Option<ClientAddress> {
        self.peer.and_then(|peer| ClientAddress::new(peer.ip()))
    }

    /// Returns the TLS state.
    pub(super) const fn filter(&self) -> &TlsFilter<ServerSide> {
        &self.filter
    }

    /// Decrypts bytes that were received after the handshake, see
    /// [`TlsFilter::receive_in_place`].
    pub(super) fn receive(
        &mut self,
        bytes: &mut [u8],
        buffers: &mut TlsBuffers,
    ) -> Result<Option<usize>, TlsError> {
        self.filter.receive_in_place(bytes, &mut buffers.scratch)
    }

    /// Returns whether the owner does not know of the end of the input.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether the handshake is in progress.
    pub(super) const fn is_handshaking(&self) -> bool {
        !self.filter.is_established() && matches!(self.phase, Phase::Open)
    }

    /// Notes that the owner knows of the end of the input; returns whether it did not before.
    pub(super) fn end(&mut self) -> bool {
        let is_news = self.phase == Phase::Open;
        if is_news {
            self.phase = Phase::Ended;
        }
        is_news
    }

    /// Keeps input of the handshake for its turn. Returns whether it is the first, so that the
    /// socket needs a turn, or an error if there is too much.
    pub(super) fn keep_handshake_input(&mut self, bytes: &[u8]) -> Result<bool, TlsError> {
        let is_first = self.handshake_input.is_empty();
        if self.handshake_input.len() + bytes.len() > HANDSHAKE_BYTES_MAX {
            return Err(TlsError::long_handshake());
        }
        self.handshake_input.extend_from_slice(bytes);
        Ok(is_first)
    }

    /// Handles the input of the handshake that was kept. Its plaintext is in the scratch buffer.
    pub(super) fn handle_handshake_input(
        &mut self,
        buffers: &mut TlsBuffers,
    ) -> Result<(), TlsError> {
        let input = std::mem::take(&mut self.handshake_input);
        buffers.scratch.plaintext.clear();
        self.filter.receive(&input, &mut buffers.scratch)
    }

    /// Returns the first bytes of the handshake that were kept.
    pub(super) fn handshake_input(&self) -> &[u8] {
        &self.handshake_input
    }

    /// Sends the messages of TLS, if nothing is being sent, and then what waits for the handshake.
    pub(super) fn advance<R: Ring>(
        &mut self,
        (ring, socket): (&mut R, Socket),
        buffers: &mut TlsBuffers,
    ) -> Result<(), TlsError> {
        if !matches!(self.send, Send::None) {
            return Ok(());
        }
        if self.filter.can_send()
            && let Some((buffer, offset)) = self.waiting.take()
        {
            return self.send_data((ring, socket), (buffer, offset), buffers);
        }
        if self.filter.has_output() {
            let mut output = buffers.outputs.take();
            self.filter.encrypt(&[], &mut output)?;
            self.send_own((ring, socket), output);
        }
        self.finish_writing((ring, socket));
        Ok(())
    }

    /// Sends the data of the owner, once the handshake is complete.
    pub(super) fn submit<R: Ring>(
        &mut self,
        (ring, socket): (&mut R, Socket),
        (buffer, offset): (Vec<u8>, usize),
        buffers: &mut TlsBuffers,
    ) -> Result<(), TlsError> {
        if !self.filter.can_send() {
            self.waiting = Some((buffer, offset));
            return if self.is_handshaking() { Ok(()) } else { Err(TlsError::client_closed()) };
        }
        if matches!(self.send, Send::None) {
            return self.send_data((ring, socket), (buffer, offset), buffers);
        }
        self.waiting = Some((buffer, offset));
        Ok(())
    }

    fn send_data<R: Ring>(
        &mut self,
        (ring, socket): (&mut R, Socket),
        (plaintext, plaintext_offset): (Vec<u8>, usize),
        buffers: &mut TlsBuffers,
    ) -> Result<(), TlsError> {
        let mut output = buffers.outputs.take();
        let encrypted = self.filter.encrypt(&plaintext[plaintext_offset..], &mut output);
        if let Err(error) = encrypted {
            self.waiting = Some((plaintext, plaintext_offset));
            return Err(error);
        }
        self.send = Send::Data { offset: 0, plaintext, plaintext_offset };
        ring.submit(Operation::Send { socket, buffer: output, offset: 0 });
        Ok(())
    }

    fn send_own<R: Ring>(&mut self, (ring, socket): (&mut R, Socket), buffer: Vec<u8>) {
        self.send = Send::Own { offset: 0 };
        ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    /// Sends text that is not encrypted, the last one, to a client that does not speak TLS.
    pub(super) fn answer_plain<R: Ring>(&mut self, target: (&mut R, Socket), text: &str) {
        if matches!(self.send, Send::None) && !text.is_empty() {
            self.filter.forget_output();
            self.send_own(target, text.as_bytes().to_vec());
        }
    }

    /// Handles the end of a send. Returns the completion for the owner, if the send was its.
    pub(super) fn handle_sent<R: Ring>(
        &mut self,
        (ring, socket): (&mut R, Socket),
        (buffer, result): (Vec<u8>, io::Result<usize>),
        buffers: &mut TlsBuffers,
    ) -> Option<Completion> {
        let result = match result {
            Ok(bytes) => {
                let offset = self.advance_offset(bytes);
                if offset < buffer.len() && bytes > 0 && self.phase != Phase::Closing {
                    ring.submit(Operation::Send { socket, buffer, offset });
                    return None;
                }
                let is_complete = offset >= buffer.len();
                if is_complete { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            }
            Err(error) => Err(error),
        };
        buffers.outputs.put(buffer);
        match std::mem::replace(&mut self.send, Send::None) {
            Send::Data { plaintext, plaintext_offset, .. } => {
                let result = result.map(|()| plaintext.len() - plaintext_offset);
                Some(Completion::Sent { socket, buffer: plaintext, result })
            }
            // The owner's data cannot be sent either.
            Send::Own { .. } | Send::None => {
                result.err().and_then(|error| self.fail_waiting(socket, error))
            }
        }
    }

    const fn advance_offset(&mut self, bytes: usize) -> usize {
        match &mut self.send {
            Send::None => bytes,
            Send::Own { offset } | Send::Data { offset, .. } => {
                *offset += bytes;
                *offset
            }
        }
    }

    /// Returns the completion of the data that waits and cannot be sent.
    pub(super) fn fail_waiting(&mut self, socket: Socket, error: io::Error) -> Option<Completion> {
        let (buffer, _) = self.waiting.take()?;
        Some(Completion::Sent { socket, buffer, result: Err(error) })
    }

    /// The owner sends nothing more.
    pub(super) fn shut_down<R: Ring>(&mut self, target: (&mut R, Socket)) {
        self.has_shut_down = true;
        self.finish_writing(target);
    }

    /// Sends `close_notify` and shuts the socket down, once nothing is left to send.
    fn finish_writing<R: Ring>(&mut self, (ring, socket): (&mut R, Socket)) {
        let is_idle = matches!(self.send, Send::None) && self.waiting.is_none();
        if !self.has_shut_down || !is_idle {
            return;
        }
        self.has_shut_down = false;
        self.send_close_notify((ring, socket));
        ring.submit(Operation::ShutdownWrite(socket));
    }

    fn send_close_notify<R: Ring>(&mut self, target: (&mut R, Socket)) {
        let mut output = Vec::new();
        if self.filter.can_send() {
            self.filter.close(&mut output);
        }
        if !output.is_empty() {
            self.send_own(target, output);
        }
    }

    /// Closes the socket, after `close_notify` as far as the socket accepts it. Returns the
    /// completion of the data that waits.
    pub(super) fn close<R: Ring>(
        &mut self,
        (ring, socket): (&mut R, Socket),
        operation: Operation,
    ) -> Option<Completion> {
        self.phase = Phase::Closing;
        self.handshake_input = Vec::new();
        let waiting = self.fail_waiting(socket, io::ErrorKind::ConnectionAborted.into());
        if matches!(self.send, Send::None) && matches!(operation, Operation::Close(_)) {
            self.send_close_notify((ring, socket));
        }
        ring.submit(operation);
        waiting
    }
}
