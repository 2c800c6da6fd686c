//! A ring that records submitted operations; the tests complete them.
//!
//! It checks the contract of `Ring`: one send per socket at a time, no operation on a socket after
//! its close.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source, Waker,
};

/// The operations in flight.
#[derive(Debug, Default)]
pub struct ScriptedRing {
    /// Buffers in flight, with the start of their unsent part.
    pub sends: BTreeMap<Socket, (Vec<u8>, usize)>,
    /// Sockets that receive.
    pub receiving: BTreeSet<Socket>,
    /// Sockets whose sending side was shut down.
    pub write_shutdowns: BTreeSet<Socket>,
    /// Sockets whose close is in flight.
    pub closing: BTreeSet<Socket>,
    /// Sockets whose connection was reset.
    pub resets: BTreeSet<Socket>,
    /// Stopped receives so far.
    pub receive_stops: usize,
}

impl Ring for ScriptedRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Send { socket, buffer, offset: from } => {
                assert!(!self.closing.contains(&socket), "send after close");
                assert!(!self.write_shutdowns.contains(&socket), "send after shutdown");
                assert!(from < buffer.len(), "empty send");
                let before = self.sends.insert(socket, (buffer, from));
                assert_eq!(before, None, "second send in flight");
            }
            Operation::Receive(socket) => {
                assert!(!self.closing.contains(&socket), "receive after close");
                self.receiving.insert(socket);
            }
            Operation::StopReceive(socket) => {
                assert!(!self.closing.contains(&socket), "stop of receive after close");
                self.receive_stops += usize::from(self.receiving.remove(&socket));
            }
            Operation::ShutdownWrite(socket) => {
                assert!(!self.sends.contains_key(&socket), "shutdown with a send in flight");
                assert!(self.write_shutdowns.insert(socket), "second shutdown");
            }
            Operation::Close(socket) => {
                assert!(self.closing.insert(socket), "closed twice");
                self.receiving.remove(&socket);
            }
            Operation::Reset(socket) => {
                self.resets.insert(socket);
                self.submit(Operation::Close(socket));
            }
            Operation::Accept(_) | Operation::CloseListener(_) | Operation::Connect { .. } => {
                panic!("connections neither listen nor connect");
            }
        }
    }

    fn reap(&mut self, _: &mut Vec<Completion>) {}

    fn park(&mut self, _: ParkTimeout) -> Instant {
        panic!("connections do not park");
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, _: &ReceiveBuffer) -> &mut [u8] {
        panic!("connections do not read receive buffers");
    }

    fn release(&mut self, _: ReceiveBuffer) {
        panic!("connections hold no receive buffers");
    }

    fn describe(&self) -> String {
        "script".to_owned()
    }
}
