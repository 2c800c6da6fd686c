//! Connecting: opens a socket in a slot, binds it if a local address is given, and connects it.
//! Uses no descriptor of the process.
//!
//! ```text
//!  open ─▶ connect                            no local address
//!  open ─▶ bind ─▶ connect                    local address (Linux 6.11)
//!  socket(2), bind(2), install ─▶ connect     before 6.11, with a local address or keepalive: a
//!                                             descriptor for one turn
//! ```
//!
//! Invariant: an attempt whose bind fails is never connected, so no peer sees another address than
//! the one requested.

use std::io;
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fixed};

use super::operations::{OperationKind, OperationSlab, encode};
use super::queues::Queues;
use super::sys::{SocketAddressBuffer, set_option};
use super::table::SocketTable;
use crate::ring::outgoing_socket::{KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_SECONDS, OutgoingSocket};
use crate::ring::{Completion, Socket};

struct ConnectAttempt {
    token: u64,
    remote: Box<SocketAddressBuffer>,
    /// The local address, until it is bound.
    local: Option<Box<SocketAddressBuffer>>,
    /// The options of keepalive are to be set.
    keepalive: bool,
    /// A socket opened and bound by system calls, until it is moved into a slot.
    bound: Option<BoundSocket>,
    slot: u32,
}

/// A socket with a descriptor, and the word from which the kernel reads that descriptor and to
/// which it writes the slot.
struct BoundSocket {
    descriptor: OwnedFd,
    word: Box<RawFd>,
}

pub(super) struct ConnectAttempts {
    in_flight: OperationSlab<ConnectAttempt>,
    /// Slots of failed attempts that are being closed; their names were never reported.
    failed: Vec<Socket>,
    /// The kernel can bind direct descriptors.
    has_bind: bool,
}

/// An option value of 1. Static, because the kernel may read it at any time.
static ON: libc::c_int = 1;
static IDLE_SECONDS: libc::c_int = KEEPALIVE_SECONDS as libc::c_int;
static INTERVAL_SECONDS: libc::c_int = KEEPALIVE_INTERVAL_SECONDS as libc::c_int;

/// An option: its level, its name and its value.
type SocketOption = (libc::c_int, libc::c_int, &'static libc::c_int);

static KEEPALIVE_OPTIONS: [SocketOption; 3] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, &ON),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &IDLE_SECONDS),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &INTERVAL_SECONDS),
];

/// Lets the kernel choose a free slot (`IORING_FILE_INDEX_ALLOC`, Linux 5.19).
const ANY_SLOT: i32 = -1;

impl ConnectAttempts {
    pub(super) fn new(has_bind: bool) -> Self {
        Self { in_flight: OperationSlab::default(), failed: Vec::new(), has_bind }
    }

    pub(super) fn submit(
        &mut self,
        queues: &mut Queues,
        outgoing: &OutgoingSocket,
        connect_token: u64,
    ) {
        let OutgoingSocket { address, local, keepalive } = *outgoing;
        // A kernel without bind may be without the socket options of slots, too.
        if (local.is_some() || keepalive) && !self.has_bind {
            return self.open_bound_socket(queues, outgoing, connect_token);
        }
        let remote = Box::new(SocketAddressBuffer::from_address(address));
        let family = remote.family();
        let local = local.map(|local| Box::new(SocketAddressBuffer::from_address(local)));
        let attempt =
            ConnectAttempt { token: connect_token, remote, local, keepalive, bound: None, slot: 0 };
        let index = self.in_flight.insert(attempt);
        let entry = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        queues.push(entry.user_data(encode(OperationKind::OpenSocket, index)));
    }

    /// Opens a socket with its options by system calls, and submits its move into a slot.
    fn open_bound_socket(
        &mut self,
        queues: &mut Queues,
        outgoing: &OutgoingSocket,
        connect_token: u64,
    ) {
        let descriptor = match outgoing.open() {
            Ok(socket) => OwnedFd::from(socket),
            Err(error) => {
                queues.complete(Completion::Connected { token: connect_token, result: Err(error) });
                return;
            }
        };
        let word = Box::new(descriptor.as_raw_fd());
        let entry = opcode::FilesUpdate::new(&raw const *word, 1).offset(ANY_SLOT).build();
        let remote = Box::new(SocketAddressBuffer::from_address(outgoing.address));
        let attempt = ConnectAttempt {
            token: connect_token,
            remote,
            local: None,
            keepalive: false,
            bound: Some(BoundSocket { descriptor, word }),
            slot: 0,
        };
        let index = self.in_flight.insert(attempt);
        queues.push(entry.user_data(encode(OperationKind::InstallSlot, index)));
    }

    /// Handles the result of opening a socket.
    pub(super) fn complete_open(
        &mut self,
        queues: &mut Queues,
        index: u32,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        let Some(attempt) = self.in_flight.get_mut(index) else {
            return;
        };
        let Ok(slot) = u32::try_from(result) else {
            return self.fail_without_slot(index, result, into);
        };
        attempt.slot = slot;
        let Some(local) = &attempt.local else {
            return self.submit_connect(queues, index);
        };
        let (address, length) = local.as_pointer();
        // Defers the choice of the port to connect, so that ports are shared between destinations.
        let option = set_option(slot, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON);
        queues.push(option.user_data(encode(OperationKind::SetOption, index)));
        let bind = opcode::Bind::new(Fixed(slot), address, length).build();
        queues.push(bind.user_data(encode(OperationKind::Bind, index)));
    }

    /// Handles the result of a bind.
    pub(super) fn complete_bind(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        index: u32,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        if result < 0 {
            self.complete_connect(queues, sockets, index, result, into);
        } else if let Some(attempt) = self.in_flight.get_mut(index) {
            attempt.local = None;
            self.submit_connect(queues, index);
        }
    }

    /// Handles the result of moving a bound socket into a slot.
    pub(super) fn complete_install(
        &mut self,
        queues: &mut Queues,
        index: u32,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        let Some(attempt) = self.in_flight.get_mut(index) else {
            return;
        };
        let Some(BoundSocket { descriptor, word }) = attempt.bound.take() else {
            return;
        };
        // The slot holds its own reference to the socket.
        drop(descriptor);
        match u32::try_from(*word) {
            Ok(slot) if result == 1 => {
                attempt.slot = slot;
                self.submit_connect(queues, index);
            }
            _ if result < 0 => self.fail_without_slot(index, result, into),
            _ => self.fail_without_slot(index, -libc::EIO, into),
        }
    }

    fn submit_connect(&mut self, queues: &mut Queues, index: u32) {
        let Some(attempt) = self.in_flight.get_mut(index) else {
            return;
        };
        let slot = attempt.slot;
        let (address, length) = attempt.remote.as_pointer();
        let nodelay = (libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON);
        let keepalive = if attempt.keepalive { &KEEPALIVE_OPTIONS[..] } else { &[] };
        for (level, name, value) in iter::once(&nodelay).chain(keepalive) {
            // Kernels before 6.7 refuse; Nagle's algorithm then stays enabled.
            let option = set_option(slot, *level, *name, *value);
            queues.push(option.user_data(encode(OperationKind::SetOption, index)));
        }
        let connect = opcode::Connect::new(Fixed(slot), address, length).build();
        queues.push(connect.user_data(encode(OperationKind::Connect, index)));
    }

    /// Fails an attempt that has no slot.
    fn fail_without_slot(&mut self, index: u32, result: i32, into: &mut Vec<Completion>) {
        if let Some(attempt) = self.in_flight.remove(index) {
            let result = Err(io::Error::from_raw_os_error(-result));
            into.push(Completion::Connected { token: attempt.token, result });
        }
    }

    /// Handles the result of a connect.
    pub(super) fn complete_connect(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        index: u32,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        let Some(attempt) = self.in_flight.remove(index) else {
            return;
        };
        let socket = sockets.open_slot(attempt.slot);
        let result = if result < 0 {
            self.failed.push(socket);
            sockets.begin_close(queues, socket);
            sockets.close_if_idle(queues, socket);
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(socket)
        };
        into.push(Completion::Connected { token: attempt.token, result });
    }

    /// Removes `socket` from the failed attempts and returns whether it was one.
    pub(super) fn take_failed(&mut self, socket: Socket) -> bool {
        let index = self.failed.iter().position(|refused| *refused == socket);
        index.map(|index| self.failed.swap_remove(index)).is_some()
    }

    /// Leaks the addresses and descriptors, because the kernel may still use them.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_flight));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::ring::uring::UringRing;
    use crate::ring::{Operation, ParkTimeout, Ring, RingOptions};

    /// Connects a ring without `IORING_OP_BIND` and returns the result.
    fn connect(ring: &mut UringRing, address: SocketAddr, local: IpAddr) -> io::Result<Socket> {
        let from = Some(SocketAddr::new(local, 0));
        ring.submit(Operation::Connect {
            address,
            local_address: from,
            keepalive: false,
            token: 7,
        });
        let mut completions = Vec::new();
        for _ in 0..100 {
            ring.park(ParkTimeout::After(Duration::from_millis(100)));
            ring.reap(&mut completions);
            if let Some(Completion::Connected { token: 7, result }) = completions.pop() {
                return result;
            }
        }
        panic!("the connect did not complete");
    }

    #[test]
    fn connect_without_bind_opcode_uses_bound_sockets() {
        let options = RingOptions { sockets_max: 2, receive_buffers: 16, ..RingOptions::default() };
        let Ok(mut ring) = UringRing::new(&options, Clock::start()) else {
            eprintln!("skipped: io_uring is not available");
            return;
        };
        ring.connects.has_bind = false;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for last in 2..4 {
            let local = IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
            let socket = connect(&mut ring, address, local).unwrap();
            assert!(socket.0 < 2, "{socket:?} is not a slot");
            assert_eq!(listener.accept().unwrap().1.ip(), local);
        }
        let full = connect(&mut ring, address, Ipv4Addr::new(127, 0, 0, 4).into()).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENFILE));
        let foreign = connect(&mut ring, address, Ipv4Addr::new(192, 0, 2, 1).into()).unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
