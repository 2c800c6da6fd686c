//! A ring that records what it is asked for. Its completions are the test's to make.
//!
//! It holds its user to the contract of the trait: one send a socket at a time, nothing for a
//! socket that was closed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use corelane::base::time::Moment;
use corelane::engine::ring::{
    Completion, Lease, Operation, Patience, Registered, Ring, Socket, Source, Waker,
};

/// What was asked for and not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Buffers on their way, and where their unsent part begins.
    pub(crate) sends: BTreeMap<Socket, (Vec<u8>, usize)>,
    /// Sockets that receive.
    pub(crate) receiving: BTreeSet<Socket>,
    /// Sockets whose sending half was ended.
    pub(crate) finished: BTreeSet<Socket>,
    /// Sockets that were closed and whose end has not been told.
    pub(crate) closing: BTreeSet<Socket>,
    /// Pauses so far.
    pub(crate) pauses: usize,
}

impl Ring for Script {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Send { socket, buffer, from } => {
                assert!(!self.closing.contains(&socket), "a send after the close");
                assert!(!self.finished.contains(&socket), "a send after the end was said");
                assert!(from < buffer.len(), "a send of nothing");
                let before = self.sends.insert(socket, (buffer, from));
                assert_eq!(before, None, "two sends at a time");
            }
            Operation::Receive(socket) => {
                assert!(!self.closing.contains(&socket), "a receive after the close");
                self.receiving.insert(socket);
            }
            Operation::Pause(socket) => {
                assert!(!self.closing.contains(&socket), "a pause after the close");
                self.pauses += usize::from(self.receiving.remove(&socket));
            }
            Operation::Finish(socket) => {
                assert!(!self.sends.contains_key(&socket), "the end said over a send");
                assert!(self.finished.insert(socket), "the end said twice");
            }
            Operation::Close(socket) => {
                assert!(self.closing.insert(socket), "closed twice");
                self.receiving.remove(&socket);
            }
            Operation::Accept(_) | Operation::CloseListener(_) | Operation::Connect { .. } => {
                panic!("a link neither listens nor calls");
            }
        }
    }

    fn reap(&mut self, _: &mut Vec<Completion>) {}

    fn park(&mut self, _: Patience) -> Moment {
        panic!("a link does not wait");
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, _: &Lease) -> &mut [u8] {
        panic!("a link does not look into leases");
    }

    fn release(&mut self, _: Lease) {
        panic!("a link holds no leases");
    }

    fn describe(&self) -> String {
        "script".to_owned()
    }
}
