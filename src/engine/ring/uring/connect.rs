//! Connecting: a socket opened straight into a slot, then connected. Three submissions, no
//! descriptor of the process.

use std::io;
use std::net::SocketAddr;

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fixed};

use super::UringRing;
use super::kernel::{AddressRoom, set_option};
use super::places::Places;
use super::token::{Purpose, token};
use crate::engine::ring::{Completion, Socket};

struct Attempt {
    token: u64,
    room: Box<AddressRoom>,
    slot: u32,
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

/// The value of `TCP_NODELAY`, at a place that the kernel may read at any time.
static NODELAY: libc::c_int = 1;

impl UringRing {
    pub(super) fn submit_open(&mut self, address: SocketAddr, word: u64) {
        let room = Box::new(AddressRoom::holding(address));
        let family = room.family();
        let place = self.attempts.places.insert(Attempt { token: word, room, slot: 0 });
        let entry = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(entry.user_data(token(Purpose::Open, place)));
    }

    pub(super) fn complete_open(&mut self, place: u32, result: i32, into: &mut Vec<Completion>) {
        let Some(attempt) = self.attempts.places.get_mut(place) else {
            return;
        };
        let Ok(slot) = u32::try_from(result) else {
            let word = attempt.token;
            self.attempts.places.remove(place);
            let result = Err(io::Error::from_raw_os_error(-result));
            into.push(Completion::Connected { token: word, result });
            return;
        };
        attempt.slot = slot;
        let (address, length) = attempt.room.parts();
        let nodelay = set_option(slot, libc::IPPROTO_TCP, libc::TCP_NODELAY, &NODELAY);
        // A kernel before 6.7 refuses; the connection then keeps Nagle's algorithm.
        self.push(nodelay.user_data(token(Purpose::Option, place)));
        let connect = opcode::Connect::new(Fixed(slot), address, length).build();
        self.push(connect.user_data(token(Purpose::Connect, place)));
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
