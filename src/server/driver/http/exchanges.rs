//! Exchanges: requests whose answers are not complete, on the shard of their connection.
//!
//! What it keeps true: a connection has one exchange at most, and is held as long as it has one;
//! what is said to an exchange that is over is lost to nobody but its session, which keeps it.

use super::Incoming;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::link::Ending;
use crate::server::driver::ShardDriver;
use crate::server::http::{Bearer, Exchange, ExchangeAddress, HttpLetter, Manner};
use crate::server::letter::Letter;
use crate::server::party::Said;
use crate::transport::http::sse::EventId;

impl ShardDriver {
    /// Opens an exchange: from here on nothing more of the connection is read before it is over.
    pub(super) fn open_exchange(
        &mut self,
        incoming: &Incoming<'_>,
        manner: Manner,
        bearer: Bearer,
    ) -> ExchangeAddress {
        let Incoming { key, now, .. } = *incoming;
        let shard = self.shard;
        self.link.hold(key);
        let Some(connection) = self.link.connections.get_mut(key) else {
            return ExchangeAddress { shard, connection: key, serial: 0 };
        };
        let session = &mut connection.session;
        session.exchanges = session.exchanges.wrapping_add(1);
        let serial = session.exchanges;
        let exchange = Exchange {
            serial,
            bearer,
            manner,
            origin: incoming.origin().map(Box::from),
            is_streaming: false,
            is_over: false,
            spoke: now,
        };
        if bearer != Bearer::Connection {
            connection.standing.owed += 1;
        }
        // It may begin to stream at any time, and has to be heard of again then.
        let due = self.http.due(&exchange).min(now.after(self.http.patience.silence_max));
        session.exchange = Some(Box::new(exchange));
        self.http.open += 1;
        let connections = &self.link.connections;
        self.http.wheel.shed(self.http.open, |(key, serial)| {
            let exchange = connections.get(*key).and_then(|it| it.session.exchange.as_ref());
            exchange.is_some_and(|exchange| exchange.serial == *serial)
        });
        self.http.wheel.insert(due, (key, serial));
        ExchangeAddress { shard, connection: key, serial }
    }

    /// Says a text over the exchange of a connection.
    pub(in crate::server::driver) fn say_over(
        &mut self,
        key: Key,
        (said, event): (Said, Option<EventId>),
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let date = *self.http.date();
        let now = self.http.now();
        self.over_exchange(key, |exchange, out| {
            if said == Said::Word && !exchange.manner.may_stream {
                return;
            }
            exchange.is_over = exchange.say(out, (said, event), &date, write);
            exchange.spoke = now;
        });
        self.road.count_said(said);
    }

    /// Has something written over the exchange of a connection, then looks whether that was all.
    pub(super) fn over_exchange(
        &mut self,
        key: Key,
        write: impl FnOnce(&mut Exchange, &mut Vec<u8>),
    ) {
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        let Some(mut exchange) = connection.session.exchange.take() else { return };
        if let Some(out) = self.link.outgoing(key).filter(|_| !exchange.is_over) {
            write(&mut exchange, out);
        }
        // A stream of a session is over when its client has got it: until then it can be resumed.
        let is_sent = self.link.connections.get(key).is_some_and(|it| it.queued_bytes() == 0);
        let is_alone = exchange.bearer == Bearer::Connection || !exchange.is_streaming;
        let is_done = exchange.is_over && (is_alone || is_sent);
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.exchange = Some(exchange);
        }
        self.http.touched.push(key);
        if is_done {
            self.leave_exchange(key, true);
        }
    }

    /// A send is over: an exchange whose last word has left is over with it.
    #[inline]
    pub(in crate::server::driver) fn sent_over(&mut self, key: Key) {
        let Some(connection) = self.link.connections.get(key) else { return };
        if connection.is_read() {
            // It would be held.
            return;
        }
        let exchange = connection.session.exchange.as_ref();
        if exchange.is_some_and(|exchange| exchange.is_over) && connection.queued_bytes() == 0 {
            self.leave_exchange(key, true);
            self.http.touched.push(key);
        }
    }

    /// The exchange of a connection is over: its session hears of it.
    pub(in crate::server::driver) fn leave_exchange(&mut self, key: Key, is_sent: bool) {
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        let Some(exchange) = connection.session.exchange.take() else { return };
        connection.session.closes |= exchange.manner.closes || !exchange.is_reusable();
        if exchange.bearer != Bearer::Connection {
            connection.standing.repay();
        }
        connection.standing.listens = false;
        self.forget_exchange(key, &exchange, is_sent);
    }

    /// Tells the session of an exchange that is over.
    pub(in crate::server::driver) fn forget_exchange(
        &mut self,
        key: Key,
        exchange: &Exchange,
        is_sent: bool,
    ) {
        self.http.open -= 1;
        let Bearer::Session(session) = exchange.bearer else { return };
        let address =
            ExchangeAddress { shard: self.shard, connection: key, serial: exchange.serial };
        let owner = session.owner(self.road.shards);
        if owner == self.shard {
            self.exchange_left(session, address, is_sent);
        } else {
            let left = HttpLetter::Left { session, exchange: address, is_sent };
            self.road.letters.push((owner, Letter::Http(Box::new(left))));
        }
    }

    /// The server drains: a stream of a session that waits for nothing ends, wherever its session
    /// lives.
    pub(in crate::server::driver) fn end_listening(&mut self, key: Key) {
        let connection = self.link.connections.get(key);
        if connection.is_none_or(|it| !it.standing.listens || it.standing.owed > 0) {
            return;
        }
        self.over_exchange(key, |exchange, out| {
            if exchange.bearer != Bearer::Connection && exchange.is_streaming {
                exchange.end(out, None);
                exchange.is_over = true;
            }
        });
    }

    /// The client of an exchange has gone. A modern request is cancelled by that, and the link ends
    /// its connection; a legacy session goes on, and its client may come back for the answer.
    ///
    /// Source: 2026-07-28 `basic/patterns/cancellation`; 2025-11-25 `basic/transports`.
    pub(in crate::server::driver) fn lose_exchange(&mut self, key: Key) {
        let Some(connection) = self.link.connections.get(key) else { return };
        let Some(exchange) = connection.session.exchange.as_ref() else { return };
        if exchange.bearer == Bearer::Connection {
            self.abandon(key);
        }
        self.leave_exchange(key, false);
    }

    /// Looks at the connections whose exchange is over, or that were told something, before the
    /// turn ends: those that nothing holds are read again.
    pub(in crate::server::driver) fn settle_exchanges<R: Ring>(
        &mut self,
        ring: &mut R,
        now: Moment,
    ) {
        while !self.http.touched.is_empty() || !self.http.evicted.is_empty() {
            for gone in std::mem::take(&mut self.http.evicted) {
                self.bury(gone, now);
            }
            let mut touched = std::mem::take(&mut self.http.touched);
            for key in touched.drain(..) {
                self.settle_exchange(ring, key, now);
            }
            if self.http.touched.is_empty() {
                self.http.touched = touched;
            }
        }
    }

    fn settle_exchange<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(connection) = self.link.connections.get(key) else { return };
        // What is written at once counts only once it waits behind what its peer has yet to read:
        // an answer may be as long as it likes, and so may what a client has come back for.
        let waits = connection.outgoing.len() > self.link.options.outgoing_bytes_max;
        let is_slow = waits && connection.queued_bytes() > connection.outgoing.len();
        match connection.session.exchange.as_deref() {
            // What it does not read its session keeps, and it may come back for it.
            Some(Exchange { bearer: Bearer::Session(_), is_over: false, .. }) if is_slow => {
                self.leave_exchange(key, false);
                self.link.close(ring, key, Ending::Fault);
            }
            Some(_) => self.weigh_or_end(ring, key, now),
            None if connection.session.closes => {
                self.weigh_or_end(ring, key, now);
                self.link.finish(ring, key, Ending::Peer, now);
            }
            None => {
                self.weigh_or_end(ring, key, now);
                let next = self.link.release(key);
                self.follow(ring, next, now);
                // One that is to end may have waited for that.
                self.link.advance(ring, key, now);
            }
        }
    }

    /// Looks at the exchanges whose time has come: what takes long becomes a stream, and a stream
    /// that is silent shows that it lives.
    pub(in crate::server::driver) fn expire_exchanges(&mut self, now: Moment) {
        while let Some((key, serial)) = self.http.wheel.pop_expired(now) {
            let connection = self.link.connections.get(key);
            let exchange = connection.and_then(|connection| connection.session.exchange.as_ref());
            let Some(exchange) = exchange.filter(|it| it.serial == serial && !it.is_over) else {
                continue;
            };
            if !exchange.manner.may_stream {
                continue;
            }
            let due = self.http.due(exchange);
            let next = now.after(self.http.patience.silence_max);
            if due > now {
                self.http.wheel.insert(due.min(next), (key, serial));
                continue;
            }
            self.break_silence(key, now);
            self.http.wheel.insert(next, (key, serial));
        }
    }

    /// Shows the client of an exchange that it lives. Where its session has said nothing yet, that
    /// says it: its stream begins with an event to come back to.
    fn break_silence(&mut self, key: Key, now: Moment) {
        let Some(connection) = self.link.connections.get(key) else { return };
        let Some(exchange) = &connection.session.exchange else { return };
        let (bearer, serial) = (exchange.bearer, exchange.serial);
        let Bearer::Session(session) = bearer else { return self.say_nothing(key, now) };
        if exchange.is_streaming {
            return self.say_nothing(key, now);
        }
        let exchange = ExchangeAddress { shard: self.shard, connection: key, serial };
        let owner = session.owner(self.road.shards);
        if owner == self.shard {
            return self.begin_to_speak(session, exchange);
        }
        let waits = HttpLetter::Waits { session, exchange };
        self.road.letters.push((owner, Letter::Http(Box::new(waits))));
    }

    fn say_nothing(&mut self, key: Key, now: Moment) {
        let date = *self.http.date();
        self.over_exchange(key, |exchange, out| {
            exchange.keep_alive(out, &date);
            exchange.spoke = now;
        });
    }
}
