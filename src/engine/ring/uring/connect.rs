//! Connecting: a socket opened straight into a slot, bound where a local address was named, then
//! connected. No descriptor of the process.
//!
//! ```text
//!  open ─▶ connect                      no local address
//!  open ─▶ bind ─▶ connect              with one (Linux 6.11)
//!  socket(2), bind(2), install ─▶ connect   with one, before 6.11: a descriptor for one turn
//! ```
//!
//! What it keeps true: an attempt whose bind fails never connects, so no peer sees it from another
//! address than the one that was named.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fixed};

use super::UringRing;
use super::kernel::{AddressRoom, set_option};
use super::places::Places;
use super::token::{Purpose, token};
use crate::engine::ring::{Completion, Socket, bound};

struct Attempt {
    token: u64,
    room: Box<AddressRoom>,
    /// Where it is to come from, until it is bound.
    from: Option<Box<AddressRoom>>,
    /// A socket that was opened and bound outside of the ring, until it has its slot.
    outside: Option<Outside>,
    slot: u32,
}

/// A socket with a descriptor, and the word in which the kernel finds that descriptor and leaves
/// the slot.
struct Outside {
    descriptor: OwnedFd,
    word: Box<RawFd>,
}

/// All attempts in flight.
#[derive(Default)]
pub(super) struct Attempts {
    places: Places<Attempt>,
    /// Slots whose attempt failed and that are being closed: the shard never heard their names.
    refused: Vec<Socket>,
}

impl Attempts {
    /// Whether the socket that was just closed belonged to a failed attempt; forgets it.
    pub(super) fn was_refused(&mut self, socket: Socket) -> bool {
        let place = self.refused.iter().position(|refused| *refused == socket);
        place.map(|place| self.refused.swap_remove(place)).is_some()
    }
}

/// The value of options that are on, at a place that the kernel may read at any time.
static ON: libc::c_int = 1;

/// Has a files update find a slot by itself (`IORING_FILE_INDEX_ALLOC`, Linux 5.19).
const ANY_SLOT: i32 = -1;

impl UringRing {
    pub(super) fn submit_open(&mut self, address: SocketAddr, from: Option<SocketAddr>, word: u64) {
        if from.is_some() && !self.granted.bind {
            return self.open_outside(address, from, word);
        }
        let room = Box::new(AddressRoom::holding(address));
        let family = room.family();
        let from = from.map(|from| Box::new(AddressRoom::holding(from)));
        let attempt = Attempt { token: word, room, from, outside: None, slot: 0 };
        let place = self.attempts.places.insert(attempt);
        let entry = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(entry.user_data(token(Purpose::Open, place)));
    }

    /// Opens and binds by system calls, and has the kernel move the socket into a slot.
    fn open_outside(&mut self, address: SocketAddr, from: Option<SocketAddr>, word: u64) {
        let descriptor = match bound::open(address, from) {
            Ok(socket) => OwnedFd::from(socket),
            Err(error) => {
                self.ready.push(Completion::Connected { token: word, result: Err(error) });
                return;
            }
        };
        let slot_word = Box::new(descriptor.as_raw_fd());
        let entry = opcode::FilesUpdate::new(&raw const *slot_word, 1).offset(ANY_SLOT).build();
        let room = Box::new(AddressRoom::holding(address));
        let outside = Some(Outside { descriptor, word: slot_word });
        let attempt = Attempt { token: word, room, from: None, outside, slot: 0 };
        let place = self.attempts.places.insert(attempt);
        self.push(entry.user_data(token(Purpose::Install, place)));
    }

    pub(super) fn complete_open(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        let Some(attempt) = self.attempts.places.get_mut(place) else {
            return;
        };
        let Ok(slot) = u32::try_from(result) else {
            return self.fail_without_slot(place, result, into);
        };
        attempt.slot = slot;
        let Some(from) = &attempt.from else {
            return self.submit_connect(place);
        };
        let (address, length) = from.parts();
        // The port is chosen by the connect, where one that is taken towards others will do.
        let put_off = set_option(slot, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON);
        self.push(put_off.user_data(token(Purpose::Option, place)));
        let bind = opcode::Bind::new(Fixed(slot), address, length).build();
        self.push(bind.user_data(token(Purpose::Bind, place)));
    }

    pub(super) fn complete_bind(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        if result < 0 {
            self.complete_connect(place, result, into);
        } else if let Some(attempt) = self.attempts.places.get_mut(place) {
            attempt.from = None;
            self.submit_connect(place);
        }
    }

    pub(super) fn complete_install(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        let Some(attempt) = self.attempts.places.get_mut(place) else {
            return;
        };
        let Some(Outside { descriptor, word }) = attempt.outside.take() else {
            return;
        };
        // The slot holds the socket by itself.
        drop(descriptor);
        match u32::try_from(*word) {
            Ok(slot) if result == 1 => {
                attempt.slot = slot;
                self.submit_connect(place);
            }
            _ if result < 0 => self.fail_without_slot(place, result, into),
            _ => self.fail_without_slot(place, -libc::EIO, into),
        }
    }

    fn submit_connect(&mut self, place: u32) {
        let Some(attempt) = self.attempts.places.get_mut(place) else {
            return;
        };
        let slot = attempt.slot;
        let (address, length) = attempt.room.parts();
        let nodelay = set_option(slot, libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON);
        // A kernel before 6.7 refuses; the connection then keeps Nagle's algorithm.
        self.push(nodelay.user_data(token(Purpose::Option, place)));
        let connect = opcode::Connect::new(Fixed(slot), address, length).build();
        self.push(connect.user_data(token(Purpose::Connect, place)));
    }

    /// An attempt that got no slot is over.
    fn fail_without_slot(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        if let Some(attempt) = self.attempts.places.remove(place) {
            let result = Err(io::Error::from_raw_os_error(-result));
            into.push(Completion::Connected { token: attempt.token, result });
        }
    }

    pub(super) fn complete_connect(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        let Some(attempt) = self.attempts.places.remove(place) else {
            return;
        };
        let socket = self.table.open_slot(attempt.slot);
        let result = if result < 0 {
            self.attempts.refused.push(socket);
            self.submit_close(socket);
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(socket)
        };
        into.push(Completion::Connected { token: attempt.token, result });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, TcpListener};
    use std::time::Duration;

    use super::*;
    use crate::engine::clock::Clock;
    use crate::engine::ring::{Operation, Patience, Ring, RingOptions};

    /// The answer to one attempt of a ring that may not bind by itself.
    fn connect(ring: &mut UringRing, address: SocketAddr, from: IpAddr) -> io::Result<Socket> {
        let from = Some(SocketAddr::new(from, 0));
        ring.submit(Operation::Connect { address, from, token: 7 });
        let mut told = Vec::new();
        for _ in 0..100 {
            ring.park(Patience::For(Duration::from_millis(100)));
            ring.reap(&mut told);
            if let Some(Completion::Connected { token: 7, result }) = told.pop() {
                return result;
            }
        }
        panic!("not answered");
    }

    #[test]
    fn a_kernel_that_cannot_bind_slots_gets_sockets_that_are_bound() {
        let options = RingOptions { sockets_max: 2, receive_buffers: 16, ..RingOptions::default() };
        let Ok(mut ring) = UringRing::new(&options, Clock::start()) else {
            eprintln!("not tested here: there is no io_uring");
            return;
        };
        ring.granted.bind = false;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for last in 2..4 {
            let from = IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
            let socket = connect(&mut ring, address, from).unwrap();
            assert!(socket.0 < 2, "{socket:?} is no slot");
            assert_eq!(listener.accept().unwrap().1.ip(), from);
        }
        let full = connect(&mut ring, address, Ipv4Addr::new(127, 0, 0, 4).into()).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENFILE));
        let foreign = connect(&mut ring, address, Ipv4Addr::new(192, 0, 2, 1).into()).unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
