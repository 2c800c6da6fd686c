//! Sends of which the kernel has taken only a part: to a pipe that is nearly full, and to sockets
//! before Linux 5.19, which does not retry them.
//!
//! Invariants: a send completes once all of its bytes are taken, or with an error; nothing is sent
//! on a socket that is being closed.

use std::io;

use corelane_engine::ring::{Operation, Ring, Socket};

/// The sends in flight of a thread.
#[derive(Debug, Default)]
pub(super) struct PartialSends {
    /// By socket; shorter if the later ones have nothing to note.
    sockets: Vec<SendState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SendState {
    /// Bytes of the send in flight that were taken by earlier ones.
    taken: usize,
    is_closing: bool,
}

impl PartialSends {
    /// Notes that a socket is being closed.
    pub(super) fn begin_close(&mut self, socket: Socket) {
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, SendState::default());
        }
        self.sockets[socket.index()].is_closing = true;
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
        let state = self.sockets.get_mut(socket.index());
        let (earlier, is_closing) =
            state.map_or((0, false), |state| (std::mem::take(&mut state.taken), state.is_closing));
        let taken = match result {
            Ok(taken) => taken,
            Err(error) => return Some(Err(error)),
        };
        let offset = earlier + taken;
        if is_closing || offset >= buffer.len() {
            return Some(Ok(buffer));
        }
        if taken == 0 {
            return Some(Err(io::ErrorKind::WriteZero.into()));
        }
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, SendState::default());
        }
        self.sockets[socket.index()].taken = offset;
        ring.submit(Operation::Send { socket, buffer, offset });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_engine::ring::sim::{Faults, World};
    use corelane_engine::ring::{Completion, ParkTimeout, RingOptions};

    const SOCKET: Socket = Socket(0);

    #[test]
    fn rest_of_partial_send_is_sent() {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let (socket, peer) = ring.attach().unwrap();
        let mut sends = PartialSends::default();
        let text = b"some text";
        assert!(sends.handle_sent(&mut ring, socket, text.to_vec(), Ok(4)).is_none());
        let (mut completions, mut received) = (Vec::new(), Vec::new());
        while received.len() < 5 {
            ring.park(ParkTimeout::Infinite);
            ring.reap(&mut completions);
            received.extend(peer.take_received());
        }
        assert_eq!(received, b" text");
        let Some(Completion::Sent { buffer, result, .. }) = completions.pop() else { panic!() };
        let sent = sends.handle_sent(&mut ring, socket, buffer, result);
        assert_eq!(sent.unwrap().unwrap(), text);
    }

    #[test]
    fn closing_socket_sends_no_rest() {
        let world = World::with_faults(1, Faults::NONE);
        let mut ring = world.ring(RingOptions::default());
        let mut sends = PartialSends::default();
        sends.begin_close(SOCKET);
        let sent = sends.handle_sent(&mut ring, SOCKET, b"text".to_vec(), Ok(1));
        assert_eq!(sent.unwrap().unwrap(), b"text");
        sends.open(SOCKET);
        let failed = sends.handle_sent(&mut ring, SOCKET, b"text".to_vec(), Ok(0));
        assert_eq!(failed.unwrap().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
