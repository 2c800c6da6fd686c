//! The connections of a simulated world: segments in flight, and the clients at their ends.
//!
//! Invariants: segments arrive in order, after a latency; the bytes that a client has written leave
//! it once, in order, as far as its peer's window allows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::connection::{
    Connection, ConnectionEnd, EndId, Owner, ReadMode, ReadSide, Segment, SimPeer, WriteSide,
    move_bytes,
};
use super::scheduler::{Fault, Scheduler, SimEvent};

/// All connections of a world.
#[derive(Debug)]
pub(super) struct Network {
    connections: Vec<Connection>,
    /// Whether a client received something new.
    client_has_data: bool,
}

impl Network {
    /// Creates a network without connections.
    pub(super) const fn new() -> Self {
        Self { connections: Vec::new(), client_has_data: false }
    }

    /// Adds a connection to an address, from a unique one.
    pub(super) fn add_connection(&mut self, address: SocketAddr, owner: Owner) -> usize {
        let connection = self.connections.len();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let near = Ipv4Addr::from(0x0A00_0000 | ((connection as u32 >> 14) & 0x00FF_FFFF));
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let port = 0xC000 | (connection & 0x3FFF) as u16;
        let near = SocketAddr::new(IpAddr::V4(near), port);
        self.connections.push(Connection::new([near, address], owner, WINDOW_BYTES));
        connection
    }

    /// Returns one end of a connection.
    pub(super) fn end(&mut self, end_id: EndId) -> &mut ConnectionEnd {
        &mut self.connections[end_id.connection].ends[end_id.end]
    }

    /// Records that a client has something new to look at.
    pub(super) const fn mark_client_data(&mut self) {
        self.client_has_data = true;
    }

    /// Forgets what clients received before.
    pub(super) const fn clear_client_data(&mut self) {
        self.client_has_data = false;
    }

    /// Returns whether a client received something since [`Network::clear_client_data`].
    pub(super) const fn client_has_data(&self) -> bool {
        self.client_has_data
    }

    /// Sends a segment to an end. It arrives after a delay, behind earlier ones.
    pub(super) fn transmit(&mut self, scheduler: &mut Scheduler, to: EndId, segment: Segment) {
        if matches!(segment, Segment::Bytes(_)) && scheduler.occurs(Fault::Reset, 1, 400) {
            scheduler.schedule_within(200, SimEvent::BreakConnection { connection: to.connection });
        }
        let latency = scheduler.random_duration(LATENCY_SPREAD_MICROSECONDS);
        let at = scheduler.now().after(LATENCY_MIN).after(latency);
        let end = self.end(to);
        let at = end.earliest_arrival(at);
        end.in_flight.push_back((at, segment));
        scheduler.schedule(at, SimEvent::DeliverSegment(to));
    }

    /// Delivers the first segment in flight to an end. Returns whether its owner is to be notified.
    pub(super) fn deliver_segment(&mut self, scheduler: &mut Scheduler, end_id: EndId) -> bool {
        let Some((_, segment)) = self.end(end_id).in_flight.pop_front() else { return false };
        let end = self.end(end_id);
        if end.is_closed() {
            // Bytes for a closed end are answered with a reset.
            if matches!(segment, Segment::Bytes(_)) && !self.end(end_id.opposite()).is_reset() {
                self.transmit(scheduler, end_id.opposite(), Segment::Reset);
            }
            return false;
        }
        end.receive(segment);
        true
    }

    /// Resets a connection that is not accepted.
    pub(super) fn refuse(&mut self, scheduler: &mut Scheduler, connection: usize) {
        let end_id = EndId { connection, end: 1 };
        self.end(end_id).write_side = WriteSide::Closed;
        self.transmit(scheduler, end_id.opposite(), Segment::Reset);
    }

    pub(super) fn close_end(&mut self, scheduler: &mut Scheduler, end_id: EndId) {
        let end = self.end(end_id);
        if end.is_closed() {
            return;
        }
        let was_sending = end.can_send();
        let is_unread = !end.received.is_empty() && !end.is_reset();
        end.write_side = WriteSide::Closed;
        end.clear();
        if matches!(end.owner, Owner::Ring { .. }) {
            end.owner = Owner::None;
        }
        if is_unread {
            // As in TCP, unread data is answered with a reset.
            self.transmit(scheduler, end_id.opposite(), Segment::Reset);
        } else if was_sending {
            self.transmit(scheduler, end_id.opposite(), Segment::Fin);
        }
    }

    /// Closes one end with a reset, behind what is in flight.
    pub(super) fn reset_end(&mut self, scheduler: &mut Scheduler, end_id: EndId) {
        let end = self.end(end_id);
        if end.is_closed() {
            return;
        }
        let was_reset = end.is_reset();
        end.read_side = ReadSide::Reset;
        self.close_end(scheduler, end_id);
        if !was_reset {
            self.transmit(scheduler, end_id.opposite(), Segment::Reset);
        }
    }

    /// Gives a client a small window and slow reads.
    pub(super) fn make_slow_reader(&mut self, scheduler: &mut Scheduler, end_id: EndId) {
        let window = 64 << scheduler.random_below(8);
        let bytes = window / 8 + scheduler.random_below(window);
        let every = scheduler.random_duration(3_000);
        let end = self.end(end_id);
        end.window = window;
        if let Owner::Client(peer) = &mut end.owner {
            peer.read_mode = ReadMode::Slow { bytes, every };
        }
    }

    /// Reads a client's received bytes at once, or schedules a slow read. Returns whether the
    /// window has space again for the sender.
    pub(super) fn read_client_data(&mut self, scheduler: &mut Scheduler, end_id: EndId) -> bool {
        let end = self.end(end_id);
        let Owner::Client(peer) = &mut end.owner else { return false };
        if end.received.is_empty() {
            return false;
        }
        match peer.read_mode {
            ReadMode::Eager => {
                move_bytes(&mut end.received, usize::MAX, &mut peer.received);
                return true;
            }
            ReadMode::Slow { every, .. } if !peer.is_read_scheduled => {
                peer.is_read_scheduled = true;
                scheduler.schedule(scheduler.now().after(every), SimEvent::ReadSlowClient(end_id));
            }
            ReadMode::Slow { .. } | ReadMode::Stopped => {}
        }
        false
    }

    /// Reads a slow client's share. Returns whether the window has space again for the sender.
    pub(super) fn read_slow_client(&mut self, end_id: EndId) -> bool {
        let end = self.end(end_id);
        let Owner::Client(peer) = &mut end.owner else { return false };
        peer.is_read_scheduled = false;
        let ReadMode::Slow { bytes, .. } = peer.read_mode else { return false };
        let count = bytes.min(end.received.len());
        move_bytes(&mut end.received, count, &mut peer.received);
        self.client_has_data = true;
        true
    }

    /// Sends a client's bytes as far as the peer's window allows, and then its shutdown.
    pub(super) fn send_client_data(&mut self, scheduler: &mut Scheduler, end_id: EndId) {
        let to = end_id.opposite();
        loop {
            let window = self.end(to).window_left();
            let end = self.end(end_id);
            if !end.can_send() {
                return;
            }
            let Owner::Client(SimPeer { unsent, shutdown_pending: is_finishing, .. }) = &end.owner
            else {
                return;
            };
            if unsent.is_empty() {
                if *is_finishing {
                    end.write_side = WriteSide::ShutDown;
                    self.transmit(scheduler, to, Segment::Fin);
                }
                return;
            }
            let length = unsent.len().min(window);
            let length = scheduler.partial_len(Fault::ShortRead, length);
            if length == 0 {
                return;
            }
            if let Owner::Client(peer) = &mut self.end(end_id).owner {
                let mut bytes = Vec::new();
                move_bytes(&mut peer.unsent, length, &mut bytes);
                self.transmit(scheduler, to, Segment::Bytes(bytes));
            }
        }
    }
}

/// The window of an end: the initial one of a Linux socket.
const WINDOW_BYTES: usize = 64 * 1024;
/// The minimum latency of a segment.
const LATENCY_MIN: Duration = Duration::from_micros(20);
/// The greatest random addition to the latency.
const LATENCY_SPREAD_MICROSECONDS: usize = 60;
