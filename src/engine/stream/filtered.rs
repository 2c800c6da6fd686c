//! One stream with a filter: at most one send in flight, of the owner or of the filter itself.

use std::io;

use super::filter::ByteFilter;
use super::sending::{Sending, Sent};
use crate::ring::{Completion, Operation, Ring, Socket};
use corelane_base::pool::BufferPool;

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

/// A send of the owner, as it is returned to it.
#[derive(Debug)]
struct OwnerSend {
    buffer: Vec<u8>,
    offset: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Open,
    /// The owner knows that nothing more is received.
    Ended,
    /// The owner has closed the socket.
    Closing,
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
        self.waiting = Some(OwnerSend { buffer, offset });
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
        let OwnerSend { buffer, offset } = self.waiting.as_ref()?;
        let mut output = outputs.take();
        if let Err(error) = self.filter.encode(&buffer[*offset..], &mut output) {
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
            Some(send) => Some(send.complete(self.socket, result)),
            // The owner's bytes cannot be sent either.
            None => result.err().and_then(|error| self.fail_waiting(error)),
        }
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
        ring.submit(operation);
        failed
    }
}

impl OwnerSend {
    fn complete(self, socket: Socket, result: io::Result<()>) -> Completion {
        let Self { buffer, offset } = self;
        let result = result.map(|()| buffer.len() - offset);
        Completion::Sent { socket, buffer, result }
    }
}
