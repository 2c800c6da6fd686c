//! What arrives: connections through the door, bytes down the road.

use std::io;
use std::net::SocketAddr;

use super::{ShardDriver, Stage};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::{Lease, Listener, Operation, Ring, Socket};
use crate::guard::door::{self, Refusal};
use crate::guard::memory;
use crate::link::{Connection, Ending, Framing, Next, Stream};
use crate::observe::event::Event;
use crate::observe::label::{RefusalReason, Transport};
use crate::protocol::error::Error;
use crate::protocol::json::ParseError;
use crate::protocol::message;
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::{Passage, Road};
use crate::server::session::{Peer, Session};
use crate::transport::ndjson::{self, Line};

impl ShardDriver {
    /// A connection has come: it is served, or told why not.
    pub(super) fn accepted<R: Ring>(
        &mut self,
        ring: &mut R,
        listener: Listener,
        socket: Socket,
        peer: Option<SocketAddr>,
        now: Moment,
    ) {
        let transport = self.transport(listener);
        let draining = self.stage != Stage::Serving;
        let has_place = !draining && self.take_place(transport);
        let verdict = door::admit(draining, has_place);
        let session = Session::new(transport, has_place);
        let framing = match transport {
            Transport::Http => Framing::Requests,
            _ => Framing::Lines,
        };
        let stream = Stream { receive: socket, send: socket, peer, framing };
        let opened = self.link.open(ring, stream, session, now);
        let Ok(key) = opened else {
            // Even those that are to be refused are too many: no line for this one.
            self.give_place(has_place, transport);
            self.road.counters.connections.refused_full += 1;
            ring.submit(Operation::Close(socket));
            return;
        };
        match verdict {
            Ok(()) => self.road.counters.connections.accepted += 1,
            Err(refusal) => self.turn_away(ring, key, refusal, now),
        }
    }

    /// Tells a connection that it is one too many and ends it.
    fn turn_away<R: Ring>(&mut self, ring: &mut R, key: Key, refusal: Refusal, now: Moment) {
        let Some(connection) = self.link.connections.get(key) else { return };
        let (transport, peer) = (connection.session.transport, connection.peer);
        let counters = &mut self.road.counters;
        let reason = match refusal {
            Refusal::Full => RefusalReason::Full,
            Refusal::Draining => RefusalReason::Draining,
        };
        match refusal {
            Refusal::Full => counters.connections.refused_full += 1,
            Refusal::Draining => counters.connections.refused_draining += 1,
        }
        Event::ConnectionRefused { shard: self.shard.0, transport, reason, peer }
            .emit_within(&mut self.throttle, now);
        let error = Error::connection_limit();
        self.road.count_error(&error);
        if transport == Transport::Http {
            self.answer_unasked(key, &error);
        } else {
            let mut text = self.draft();
            message::error(&mut text, None, &error, None);
            let outlet = Outlet::general(Party::Connection(key));
            self.say(outlet, Said::Refusal(error.kind), text);
        }
        self.link.finish(ring, key, Ending::Refusal, now);
    }

    pub(super) fn accept_failed(&mut self, listener: Listener, error: &io::Error, now: Moment) {
        self.road.counters.connections.accept_failed += 1;
        let transport = self.transport(listener);
        Event::AcceptFailed { shard: self.shard.0, transport, error: error.kind() }
            .emit_within(&mut self.throttle, now);
    }

    fn transport(&self, listener: Listener) -> Transport {
        let door = self.doors.iter().find(|door| door.listener == listener);
        door.map_or(Transport::Tcp, |door| door.transport)
    }

    /// Bytes have come.
    #[inline]
    pub(super) fn received<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        lease: Lease,
        now: Moment,
    ) {
        let length = lease.length as usize;
        self.link.statistics.bytes_in += length as u64;
        if let Some(key) = self.link.key(socket) {
            let bytes = ring.bytes(&lease);
            // Bytes that wait already go first.
            let read =
                if self.link.is_stashed(key) { 0 } else { self.read(key, bytes, length, now) };
            self.link.stash(key, &bytes[read..length]);
            if self.link.is_stashed(key) {
                self.link.pause(ring, key);
                self.link.bound_stash(ring, key);
            }
            self.weigh_or_end(ring, key, now);
        }
        ring.release(lease);
    }

    /// Carries the texts of an arrival (`bytes[..length]`, the rest is padding) down the road;
    /// returns how far it came before the connection was not to be read any more.
    #[inline]
    fn read(&mut self, key: Key, bytes: &mut [u8], length: usize, now: Moment) -> usize {
        let mut from = 0;
        match self.link.framing(key) {
            Framing::Lines => {}
            Framing::Requests => {
                from = self.read_requests(key, bytes, length, now);
                // One of them may have been to upgrade: what follows it is frames.
                if from < length && self.link.framing(key) == Framing::Frames {
                    from += self.read_frames(key, &mut bytes[from..], length - from, now);
                }
                return from;
            }
            Framing::Frames => return self.read_frames(key, bytes, length, now),
        }
        loop {
            match self.link.next_line(key, &bytes[..length], &mut from, now) {
                Line::Inside { start, end } => {
                    self.carry(key, &mut bytes[start..], end - start, now);
                }
                Line::Assembled => {
                    let (mut line, length) = self.link.take_line(key);
                    self.carry(key, &mut line, length, now);
                    self.link.pool.give(line);
                }
                Line::TooLarge if self.refuse_large(key, now) => return length,
                Line::TooLarge => {}
                Line::NeedMore => return from,
            }
            self.link.balance(key);
        }
    }

    /// One text: parsed, then carried.
    #[inline]
    fn carry(&mut self, key: Key, text: &mut [u8], length: usize, now: Moment) {
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        match self.parser.parse(text, length) {
            Ok(document) => {
                let outlet = Outlet::general(Party::Connection(key));
                let passage = Passage { outlet, now, in_batch: false, is_modern: false };
                let mut peer = peer_of(connection);
                if self.road.carry(passage, &mut peer, document.root()) != Said::Nothing {
                    ndjson::end_line(peer.outgoing);
                }
            }
            Err(ParseError::Utf8) if connection.session.transport == Transport::Stdio => {
                self.road.counters.faults.utf8 += 1;
                let transport = Transport::Stdio;
                Event::InvalidUtf8Skipped { shard: self.shard.0, transport, bytes: length }
                    .emit_within(&mut self.throttle, now);
            }
            Err(error) => {
                self.road.counters.faults.utf8 += u64::from(error == ParseError::Utf8);
                refuse(&mut self.road, connection, &error.into());
            }
        }
    }

    /// A message is longer than it may be: said on every transport; a stream over TCP also ends,
    /// because its peer does not keep to the limits (seed 001, sections 1 and 2). `true` where it
    /// does: nothing more of it is read.
    fn refuse_large(&mut self, key: Key, now: Moment) -> bool {
        let bytes_max = self.link.options.message_bytes_max;
        let Some(connection) = self.link.connections.get_mut(key) else { return true };
        let transport = connection.session.transport;
        self.road.counters.faults.oversize += 1;
        refuse(&mut self.road, connection, &Error::too_large(bytes_max));
        let ends = transport != Transport::Stdio;
        connection.session.broken = ends;
        Event::MessageRefused { shard: self.shard.0, transport, bytes_max }
            .emit_within(&mut self.throttle, now);
        ends
    }

    /// Messages half received and answers not yet sent have a bound over all connections: the one
    /// that passes it is told and ended, so that the others keep their memory (seed 001, section 2,
    /// "Memory exhausted").
    #[inline]
    fn weigh(&mut self, key: Key, now: Moment) {
        // What sessions keep for clients that may come back is held as well.
        let held_bytes = self.link.weigh(key) + self.http.sessions.held_bytes();
        if memory::admit(held_bytes, self.link.options.held_bytes_max) {
            return;
        }
        let framing = self.link.framing(key);
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        if connection.is_discarding() || connection.session.broken {
            return;
        }
        let error = Error::internal("the server is short of memory; try again later");
        if framing == Framing::Frames {
            self.road.counters.faults.memory += 1;
            self.forgo(key, &error, now);
            self.link.weigh(key);
            return;
        }
        // The one peer of a process is not ended for it: it loses the message that it is in.
        let ends = connection.session.transport != Transport::Stdio;
        connection.session.broken = ends;
        if !ends && !self.link.skip_line(key) {
            return;
        }
        self.road.counters.faults.memory += 1;
        if framing == Framing::Requests {
            self.road.count_error(&error);
            self.answer_unasked(key, &error);
            self.link.weigh(key);
            return;
        }
        // Corks it: half a message has not.
        if self.link.outgoing(key).is_some()
            && let Some(connection) = self.link.connections.get_mut(key)
        {
            refuse(&mut self.road, connection, &error);
        }
        self.link.weigh(key);
    }

    /// Weighs a connection after something has come from its peer or was said to it, and ends it
    /// where it broke a limit.
    #[inline]
    pub(super) fn weigh_or_end<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        self.weigh(key, now);
        self.close_broken(ring, key, now);
    }

    /// Ends a connection whose peer broke a limit, after it has been told.
    fn close_broken<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let connection = self.link.connections.get(key);
        if connection.is_some_and(|connection| connection.session.broken) {
            self.cancel_all(key);
            self.link.finish(ring, key, Ending::Fault, now);
        }
    }

    /// Does what the link asks for.
    pub(super) fn follow<R: Ring>(&mut self, ring: &mut R, next: Next, now: Moment) {
        match next {
            Next::Nothing => {}
            Next::Resume(key) => self.resume(ring, key, now),
            Next::LastLine(key) => self.end_input(ring, key, now),
            Next::Abandon(key) => self.abandon(key),
        }
    }

    /// Carries what waited while a connection was not read, then reads on.
    fn resume<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let (mut bytes, from) = self.link.unstash(key);
        let length = bytes.len();
        bytes.resize(length + ndjson::PADDING, 0);
        let read = self.read(key, &mut bytes[from..], length - from, now);
        bytes.truncate(length);
        self.link.restash(key, bytes, from + read);
        self.weigh_or_end(ring, key, now);
        self.link.receive_again(ring, key);
        self.end_input(ring, key, now);
    }

    /// Once the peer has said its last: a line without terminator counts, then the connection ends
    /// as soon as nothing is owed.
    fn end_input<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        if !self.link.is_input_over(key) {
            return;
        }
        self.lose_exchange(key);
        if let Some((mut line, length)) = self.link.last_line(key) {
            // Takes the buffer for the answer as a line that came in time would.
            if self.link.outgoing(key).is_some() {
                self.carry(key, &mut line, length, now);
            }
            self.link.pool.give(line);
        }
        if self.link.framing(key) == Framing::Frames {
            // It left without a close frame: nobody waits for answers.
            self.cancel_all(key);
        }
        self.end_streams(key);
        // Before the connection ends: one that owes nothing ends at once.
        self.dismiss_questions(Some(Party::Connection(key)), now);
        self.link.finish(ring, key, Ending::Peer, now);
    }

    /// The ring has closed a socket.
    pub(super) fn closed(&mut self, socket: Socket, now: Moment) {
        let key = self.link.key(socket);
        if let Some((mut session, ending)) = self.link.closed(socket) {
            if let Some(key) = key {
                self.dismiss_questions(Some(Party::Connection(key)), now);
            }
            // Those that were refused were never let in.
            if session.counted {
                self.count_closed(ending);
            }
            if session.transport == Transport::WebSocket {
                self.websockets.count_end(ending, session.closes);
            }
            self.give_place(session.counted, session.transport);
            self.forget_streams(&mut session.subscriber);
            if let (Some(exchange), Some(key)) = (session.exchange.take(), key) {
                self.forget_exchange(key, &exchange, false);
            }
            for (_, ticket) in session.in_flight.drain() {
                self.road.give_up(Key::from_bits(ticket.0));
            }
        }
    }

    fn count_closed(&mut self, ending: Ending) {
        let connections = &mut self.road.counters.connections;
        connections.closed += 1;
        match ending {
            Ending::Drain => connections.closed_draining += 1,
            Ending::Failure => connections.closed_by_failure += 1,
            Ending::Fault => connections.closed_by_fault += 1,
            Ending::Idle => connections.closed_idle += 1,
            Ending::Lease => connections.closed_lease += 1,
            Ending::Peer => connections.closed_by_peer += 1,
            // Told from those that were let in before.
            Ending::Refusal => {}
        }
    }

    /// Takes a place among the connections that are served.
    fn take_place(&self, transport: Transport) -> bool {
        match transport {
            Transport::Http | Transport::WebSocket => {
                self.served_http.try_take(self.limits.http_connections_max)
            }
            _ => self.served.try_take(self.limits.connections_max),
        }
    }

    fn give_place(&self, counted: bool, transport: Transport) {
        match transport {
            _ if !counted => {}
            Transport::Http | Transport::WebSocket => self.served_http.give(),
            _ => self.served.give(),
        }
    }
}

/// A connection as the party that it is.
#[inline]
pub(super) const fn peer_of(connection: &mut Connection<Session>) -> Peer<'_> {
    let Connection { session, standing, outgoing, .. } = connection;
    Peer { session, standing, outgoing }
}

/// Answers a text that is none.
fn refuse(road: &mut Road, connection: &mut Connection<Session>, error: &Error) {
    road.refuse(&mut peer_of(connection), None, error);
    ndjson::end_line(&mut connection.outgoing);
}
