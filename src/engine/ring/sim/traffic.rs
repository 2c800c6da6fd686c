//! Bytes in and out of the sockets of simulated rings.
//!
//! What it keeps true: bytes are told in the order of their arrival and only to a socket that
//! receives; bytes that find no buffer stay where they are and close the window of the sender; a
//! send ends exactly once.

use std::io;

use rustix::io::Errno;

use super::fault::Fault;
use super::kernel::{Intake, Seat, Sending, Told};
use super::link::{Hearing, Place, Saying, Segment};
use super::network::{Errand, Network};
use crate::engine::ring::{Completion, Socket};

impl Network {
    /// Looks at a socket in both directions.
    pub(super) fn look(&mut self, ring: usize, socket: Socket) {
        if let Some(sending) = self.seat(ring, socket).and_then(|seat| seat.sending.as_mut()) {
            sending.is_resting = false;
        }
        self.pump_in(ring, socket);
        self.pump_out(ring, socket);
    }

    /// Receives from now on.
    pub(super) fn receive(&mut self, ring: usize, socket: Socket) {
        let seat = self.kernels[ring].used(socket, "receive");
        if seat.intake == Intake::Paused {
            seat.intake = Intake::Receiving;
        }
        self.pump_in(ring, socket);
    }

    /// Stops receiving; what is already to be told still is.
    pub(super) fn pause(&mut self, ring: usize, socket: Socket) {
        let kernel = &mut self.kernels[ring];
        let seat = kernel.used(socket, "pause");
        if seat.intake != Intake::Ended {
            seat.intake = Intake::Paused;
        }
        kernel.starved.retain(|&other| other != socket);
    }

    /// Takes a send on.
    pub(super) fn send(&mut self, ring: usize, socket: Socket, buffer: Vec<u8>, from: usize) {
        let kernel = &mut self.kernels[ring];
        kernel.ledger.sends_in_flight += 1;
        let seat = kernel.used(socket, "send");
        assert!(seat.sending.is_none(), "{socket:?} has a send in flight already");
        assert!(from <= buffer.len(), "a send begins behind the end of its buffer");
        seat.sending = Some(Sending { buffer, from, next: from, is_resting: false });
        self.pump_out(ring, socket);
    }

    /// Says the end, after the send in flight.
    pub(super) fn finish(&mut self, ring: usize, socket: Socket) {
        self.kernels[ring].used(socket, "finish").is_finishing = true;
        self.pump_out(ring, socket);
    }

    /// Closes: the send in flight is cancelled, nothing else is told any more.
    pub(super) fn close(&mut self, ring: usize, socket: Socket) {
        let kernel = &mut self.kernels[ring];
        let seat = kernel.used(socket, "close");
        seat.is_closing = true;
        seat.intake = Intake::Ended;
        let place = seat.place;
        let cancelled = seat.conclude(socket, Err(Errno::CANCELED.into()));
        kernel.withdraw(socket);
        if let Some(sent) = cancelled {
            self.tell(ring, socket, Told::Other(sent));
        }
        self.close_end(place);
        self.tell(ring, socket, Told::Other(Completion::Closed { socket }));
    }

    /// Gives buffers to those that wait for them, while there are some.
    pub(super) fn feed_starved(&mut self, ring: usize) {
        for _ in 0..self.kernels[ring].starved.len() {
            let kernel = &mut self.kernels[ring];
            if !kernel.has_buffer() {
                return;
            }
            let Some(socket) = kernel.starved.pop_front() else { return };
            if let Some(seat) = kernel.find(socket) {
                seat.intake = Intake::Receiving;
            }
            self.pump_in(ring, socket);
        }
    }

    /// Puts what has arrived into buffers, up to a socket's share.
    fn pump_in(&mut self, ring: usize, socket: Socket) {
        let Some(seat) = self.seat(ring, socket).filter(|seat| seat.is_receiving()) else { return };
        let place = seat.place;
        for _ in 0..self.kernels[ring].options.burst_buffers_max.max(1) {
            if self.end(place).arrived.is_empty() {
                return self.tell_end(ring, socket, place);
            }
            if !self.kernels[ring].is_dry && self.strikes(Fault::DryBuffers, 1, 60) {
                self.kernels[ring].is_dry = true;
                self.give_within(5_000, Errand::Feed { ring });
            }
            if !self.kernels[ring].has_buffer() {
                let kernel = &mut self.kernels[ring];
                kernel.ledger.starved += 1;
                kernel.starved.push_back(socket);
                if let Some(seat) = kernel.find(socket) {
                    seat.intake = Intake::Starved;
                }
                return;
            }
            self.fill_one(ring, socket, place);
        }
        // More than its share: the others come first.
        self.give_within(10, Errand::Look { ring, socket });
    }

    /// Puts what has arrived into one buffer, of which there is one.
    fn fill_one(&mut self, ring: usize, socket: Socket, place: Place) {
        let room = self.kernels[ring].options.receive_buffer_bytes as usize;
        let length = self.end(place).arrived.len().min(room);
        let length = self.piece(Fault::ShortRead, length);
        let bytes = self.end(place).take(length);
        let kernel = &mut self.kernels[ring];
        let Some(lease) = kernel.lease(length) else { return };
        kernel.ledger.bytes_received += length as u64;
        self.tell(ring, socket, Told::Bytes { socket, lease, bytes });
        self.make_room(place);
    }

    /// Tells the end of what is received, where it has come.
    fn tell_end(&mut self, ring: usize, socket: Socket, place: Place) {
        let end = self.end(place);
        let result = match end.hearing {
            Hearing::Ended => Ok(()),
            Hearing::Reset => Err(io::Error::from(Errno::CONNRESET)),
            Hearing::Open => return,
        };
        if let Some(seat) = self.seat(ring, socket) {
            seat.intake = Intake::Ended;
        }
        self.tell(ring, socket, Told::Other(Completion::Ended { socket, result }));
    }

    /// Moves a send on as far as the other end has room, and says the end behind it.
    pub(super) fn pump_out(&mut self, ring: usize, socket: Socket) {
        let Some(seat) = self.seat(ring, socket) else { return };
        let (place, is_finishing) = (seat.place, seat.is_finishing);
        if let Some(sending) = &seat.sending {
            if sending.is_resting {
                return;
            }
            let rest = sending.buffer.len() - sending.next;
            if self.end(place).is_reset() {
                return self.conclude(ring, socket, Err(Errno::CONNRESET.into()));
            }
            if self.end(place).saying != Saying::Open {
                return self.conclude(ring, socket, Err(Errno::PIPE.into()));
            }
            if rest > 0 && !self.push(ring, socket, place, rest) {
                return;
            }
            self.conclude(ring, socket, Ok(()));
        }
        if is_finishing && self.end(place).is_sending() {
            self.end(place).saying = Saying::Finished;
            self.transmit(place.opposite(), Segment::End);
        }
    }

    /// Sends of the `rest` what has room; `true` where the send is over.
    fn push(&mut self, ring: usize, socket: Socket, place: Place, rest: usize) -> bool {
        let room = self.end(place.opposite()).room();
        let length = self.piece(Fault::PartialSend, rest.min(room));
        if length == 0 {
            return false;
        }
        let is_cut_short = length < rest && self.strikes(Fault::ShortSend, 1, 4);
        let Some(sending) = self.seat(ring, socket).and_then(|seat| seat.sending.as_mut()) else {
            return false;
        };
        let bytes = sending.buffer[sending.next..sending.next + length].to_vec();
        sending.next += length;
        let is_resting = length < rest && length < room;
        sending.is_resting = is_resting;
        self.kernels[ring].ledger.bytes_sent += length as u64;
        self.transmit(place.opposite(), Segment::Bytes(bytes));
        if is_resting && !is_cut_short {
            self.give_within(500, Errand::Look { ring, socket });
        }
        length == rest || is_cut_short
    }

    /// Ends the send in flight.
    fn conclude(&mut self, ring: usize, socket: Socket, outcome: io::Result<()>) {
        let Some(seat) = self.seat(ring, socket) else { return };
        let Some(sending) = &seat.sending else { return };
        let result = outcome.map(|()| sending.next - sending.from);
        if let Some(sent) = seat.conclude(socket, result) {
            self.tell(ring, socket, Told::Other(sent));
        }
    }

    fn seat(&mut self, ring: usize, socket: Socket) -> Option<&mut Seat> {
        self.kernels[ring].find(socket)
    }
}
