//! Sends of which the kernel has taken only a part: to a pipe that is nearly full, and to sockets
//! before Linux 5.19, which does not retry them.
//!
//! Invariants: a send completes once all of its bytes are taken, or with an error; nothing is sent
//! on a socket that is being closed.

use std::io;

use corelane_engine::ring::{Ring, Socket};
use corelane_engine::stream::{Sending, Sent};

/// The sends in flight of a thread.
#[derive(Debug, Default)]
pub(super) struct PartialSends {
    /// By socket; shorter if the later ones have nothing to note.
    sockets: Vec<SendState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SendState {
    /// The send in flight, if a part of it was taken.
    begun: Sending,
    is_closing: bool,
}

impl PartialSends {
    /// Notes that a socket is being closed.
    pub(super) fn begin_close(&mut self, socket: Socket) {
        self.state(socket).is_closing = true;
    }

    /// Notes that a socket is used for a new connection.
    pub(super) fn open(&mut self, socket: Socket) {
        if let Some(state) = self.sockets.get_mut(socket.index()) {
            *state = SendState::default();
        }
    }

    /// Handles the end of a send. Returns its buffer, or `None` if the rest of it is being sent.
    pub(super) fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: io::Result<usize>,
    ) -> Option<io::Result<Vec<u8>>> {
        let SendState { begun, is_closing } =
            self.sockets.get(socket.index()).copied().unwrap_or_default();
        let mut sending = if begun.is_idle() { Sending::of(buffer.len()) } else { begun };
        let sent = sending.handle_sent(ring, socket, buffer, &result, is_closing);
        if !begun.is_idle() || !sending.is_idle() {
            self.state(socket).begun = sending;
        }
        match (sent, result) {
            (Sent::Part, _) => None,
            (Sent::Failed(_), Err(error)) => Some(Err(error)),
            (Sent::Failed(_), Ok(_)) if !is_closing => Some(Err(io::ErrorKind::WriteZero.into())),
            (Sent::All(buffer) | Sent::Failed(buffer), _) => Some(Ok(buffer)),
        }
    }

    fn state(&mut self, socket: Socket) -> &mut SendState {
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, SendState::default());
        }
        &mut self.sockets[socket.index()]
    }
}
