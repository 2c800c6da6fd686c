//! Sockets that the client is done with, read to their end before they are closed: the peer is
//! still writing, or must receive a last frame.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::io::process::ExitNotifier;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::stream::{Sending, Sent};

/// A socket to read to its end.
#[derive(Debug)]
pub struct ClosingSocket {
    pub(super) socket: Socket,
    /// Bytes to send.
    pub(super) output: Option<Vec<u8>>,
    /// The send in flight.
    pub(super) sending: Sending,
    /// Time that the peer has to end the stream. `None` for a program, which ends by itself or is
    /// ended.
    pub(super) timeout: Option<Duration>,
    /// Held until the socket is closed.
    pub(super) exit: Arc<ExitNotifier>,
}

/// Sockets that are being closed.
#[derive(Debug, Default)]
pub struct ClosingSockets(BTreeMap<Socket, Entry>);

#[derive(Debug)]
struct Entry {
    output: Option<Vec<u8>>,
    sending: Sending,
    deadline: Option<Instant>,
    #[expect(dead_code, reason = "dropping it reports the end of the connection")]
    exit: Arc<ExitNotifier>,
}

impl ClosingSockets {
    /// Adds a socket.
    pub fn insert<R: Ring>(&mut self, ring: &mut R, closing: ClosingSocket, now: Instant) {
        let ClosingSocket { socket, output, sending, timeout, exit } = closing;
        let deadline = timeout.map(|timeout| now.after(timeout));
        let mut entry = Entry { output, sending, deadline, exit };
        entry.send(ring, socket);
        self.0.insert(socket, entry);
    }

    /// Handles the end of a send.
    pub fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
    ) {
        let Some(entry) = self.0.get_mut(&socket) else { return };
        if let Sent::All(_) = entry.sending.handle_sent(ring, socket, buffer, result, false) {
            entry.send(ring, socket);
        }
    }

    /// Handles the end of a stream.
    pub fn handle_end<R: Ring>(&mut self, ring: &mut R, socket: Socket) {
        if self.0.remove(&socket).is_some() {
            ring.submit(Operation::Close(socket));
        }
    }

    /// Returns when [`ClosingSockets::expire`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|entry| entry.deadline).min()
    }

    /// Closes the sockets whose peers have not ended their streams in time.
    pub fn expire<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        self.0.retain(|socket, entry| {
            let is_expired = entry.deadline.is_some_and(|deadline| deadline <= now);
            if is_expired {
                ring.submit(Operation::Close(*socket));
            }
            !is_expired
        });
    }

    /// Returns whether no socket is being closed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Entry {
    /// Sends the output.
    fn send<R: Ring>(&mut self, ring: &mut R, socket: Socket) {
        if self.sending.is_idle()
            && let Some(buffer) = self.output.take()
        {
            self.sending.submit(ring, socket, buffer);
        }
    }
}
