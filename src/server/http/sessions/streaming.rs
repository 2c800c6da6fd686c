//! The streams of sessions, by the keys of their sessions.
//!
//! What it keeps true: the sums of the table are those of all its sessions, a session is in the
//! line of idle ones exactly while it is idle, whatever happens to its streams, and a stream that
//! lingers is in the line of those. What a stream is and when it goes stands in `stream`.

use bytes::Bytes;

use super::Sessions;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::server::http::log;
use crate::server::http::stream::{ExchangeAddress, LISTENING, Pushed, Refusal, Resumed, Streams};

impl<S> Sessions<S> {
    /// Begins the stream of a request that `exchange` carries, and gives its number.
    ///
    /// # Errors
    ///
    /// [`Refusal::Session`], [`Refusal::Streams`]; nothing has changed then.
    pub(in crate::server) fn open(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
    ) -> Result<u32, Refusal> {
        let bounds = self.bounds.streams;
        self.attach(key, |streams| streams.open(exchange, bounds))
    }

    /// Has `exchange` carry stream 0, for which a client asked by GET, and gives the number after
    /// which it is to be replayed.
    ///
    /// # Errors
    ///
    /// [`Refusal::Session`], [`Refusal::Conflict`]; nothing has changed then.
    pub(in crate::server) fn listen(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
    ) -> Result<u32, Refusal> {
        self.attach(key, |streams| streams.listen(exchange))
    }

    /// Has `exchange` carry a stream whose event `after` the client saw last (0: none), for which
    /// it asked by `Last-Event-ID`. What followed is to be replayed.
    ///
    /// # Errors
    ///
    /// [`Refusal::Session`], [`Refusal::Event`]; nothing has changed then.
    pub(in crate::server) fn resume(
        &mut self,
        key: Key,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
    ) -> Result<Resumed, Refusal> {
        self.attach(key, |streams| streams.resume(number, after, exchange))
    }

    /// Takes in an event of a stream. `None` where the stream has ended or has used up its numbers
    /// (2³² − 1 events), or its session has gone: then nobody is to hear of it.
    ///
    /// `text` is held as it is: a part of something larger would hold all of that.
    pub(in crate::server) fn push(&mut self, key: Key, number: u32, text: Bytes) -> Option<Pushed> {
        // What lingers has most likely arrived: it is worth less than anything that is said.
        while self.room() < log::cost(&text) && self.let_go_first() {}
        let (room, log) = (self.room(), self.bounds.streams.log);
        self.change(key, |streams| streams.push(number, text, log, room))?
    }

    /// Bytes that events may hold beyond those that they hold.
    const fn room(&self) -> usize {
        self.bounds.event_bytes_max.saturating_sub(self.event_bytes)
    }

    /// Nothing will follow on the stream of a request; gives the exchange that is to end when what
    /// was pushed is sent.
    pub(in crate::server) fn finish(
        &mut self,
        key: Key,
        number: u32,
        now: Moment,
    ) -> Option<ExchangeAddress> {
        let bounds = self.bounds.streams;
        let exchange = self.change(key, |streams| streams.finish(number, bounds, now))?;
        self.line_up(key, number);
        exchange
    }

    /// The exchange that carried a stream is over. `is_sent` where everything that was pushed has
    /// left: a finished stream lingers then, and is kept for its client to come back otherwise.
    /// `false` where that exchange carried it no more.
    pub(in crate::server) fn detach(
        &mut self,
        key: Key,
        number: u32,
        exchange: ExchangeAddress,
        is_sent: bool,
        now: Moment,
    ) -> bool {
        let bounds = self.bounds.streams;
        let detach = |streams: &mut Streams| streams.detach(number, exchange, is_sent, bounds, now);
        let is_detached = self.change(key, detach).unwrap_or(false);
        if is_detached {
            self.line_up(key, number);
        }
        self.rest(key, now);
        is_detached
    }

    /// Forgets the streams that have lingered for long enough.
    pub(in crate::server) fn let_go(&mut self, now: Moment) {
        let is_over = |since: Moment| since.after(self.bounds.linger) <= now;
        let over = self.lingering.iter().take_while(|(since, ..)| is_over(*since)).count();
        for _ in 0..over {
            self.let_go_first();
        }
    }

    /// Forgets the stream that has lingered for longest; `false` where none does.
    fn let_go_first(&mut self) -> bool {
        let Some((since, key, number)) = self.lingering.pop_front() else { return false };
        self.change(key, |streams| streams.let_go(number, since));
        true
    }

    /// Puts a stream at the end of the line of those that linger, if it does. What stands there
    /// already and was resumed or has gone meanwhile is passed over when its turn comes.
    fn line_up(&mut self, key: Key, number: u32) {
        let held = self.slab.get(key);
        let Some(since) = held.and_then(|held| held.streams.lingers_since(number)) else { return };
        self.lingering.push_back((since, key, number));
        while self.lingering.len() > self.bounds.lingering_max {
            self.let_go_first();
        }
    }

    /// An exchange is over, as [`Sessions::detach`] has it, whichever stream it carried.
    pub(in crate::server) fn leave(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
        is_sent: bool,
        now: Moment,
    ) {
        if let Some(number) = self.carried_by(key, exchange) {
            self.detach(key, number, exchange, is_sent, now);
        }
    }

    /// The stream that an exchange carries.
    pub(in crate::server) fn carried_by(&self, key: Key, exchange: ExchangeAddress) -> Option<u32> {
        self.slab.get(key)?.streams.carried_by(exchange)
    }

    /// The number that the next stream of a request will get; `None` where there is no room for
    /// one, or the session has gone.
    pub(in crate::server) fn next_stream(&self, key: Key) -> Option<u32> {
        self.slab.get(key)?.streams.upcoming(self.bounds.streams).ok()
    }

    /// Whether anything was ever pushed on a stream.
    pub(in crate::server) fn has_events(&self, key: Key, number: u32) -> bool {
        self.slab.get(key).is_some_and(|held| held.streams.has_events(number))
    }

    /// The events of a stream after number `after` that are kept, the oldest first.
    pub(in crate::server) fn replay(
        &self,
        key: Key,
        number: u32,
        after: u32,
    ) -> impl Iterator<Item = (u32, &Bytes)> {
        let held = self.slab.get(key);
        held.into_iter().flat_map(move |held| held.streams.replay(number, after))
    }

    /// The exchange that carries a stream.
    pub(in crate::server) fn exchange(&self, key: Key, number: u32) -> Option<ExchangeAddress> {
        self.slab.get(key)?.streams.exchange(number)
    }

    /// Whether a client listens for what belongs to no request.
    pub(in crate::server) fn is_listening(&self, key: Key) -> bool {
        self.exchange(key, LISTENING).is_some()
    }

    /// Changes the streams of a session, which becomes or stays active unless it is refused.
    fn attach<T>(
        &mut self,
        key: Key,
        attach: impl FnOnce(&mut Streams) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let attached = self.change(key, attach).ok_or(Refusal::Session)??;
        self.wake(key);
        Ok(attached)
    }

    /// Changes the streams of a session and keeps the sums; whether it is idle is the caller's.
    fn change<T>(&mut self, key: Key, change: impl FnOnce(&mut Streams) -> T) -> Option<T> {
        let streams = &mut self.slab.get_mut(key)?.streams;
        self.streams -= streams.len();
        self.attached -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
        let changed = change(streams);
        self.streams += streams.len();
        self.attached += streams.attached() as usize;
        self.event_bytes += streams.bytes();
        Some(changed)
    }
}
