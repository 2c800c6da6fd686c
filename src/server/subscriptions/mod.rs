//! Who asked to hear of what on one shard: listening streams of modern clients, and the resources
//! that legacy sessions subscribed to. (Legacy sessions hear of lists without asking.)
//!
//! A stream lives on the shard that owns its connection. What happens is told to each shard once;
//! the shard encodes it once ([`Publication`]) and copies it to whoever listens, with the name of
//! the stream in the middle.
//!
//! What it keeps true:
//!
//! - A stream hears of nothing that it did not ask for, and of nothing after its end.
//! - Streams, the names they listen to and the memory of both are bounded ([`Bounds`]).
//! - A notification here is a hint that something is to be read again, and two of them say no more
//!   than one. So a peer that does not read costs a mark on what it missed and no queue: it is told
//!   once when it reads again.
//!
//! What it does not do: write to connections, or count. That is the business of the driver, which
//! answers `true` where a frame was written and `false` where the peer is too slow for it.

mod stream;

mod index;

mod publication;

pub(super) use self::index::Subject;
pub(super) use self::publication::Publication;
pub(super) use self::stream::{List, Lists, Stream};

pub use self::stream::STREAM_BYTES;

use std::rc::Rc;

use self::index::Index;
use self::stream::WATCH_BYTES;
use super::party::Party;
use crate::base::slab::{Key, Slab};
use crate::protocol::error::{Error, Kind};
use crate::protocol::inflight::Ticket;
use crate::protocol::rpc::Id;

/// How much may be listened to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_field_names, reason = "limits are named so everywhere")]
pub(super) struct Bounds {
    /// Streams of one connection.
    pub(super) streams_max: usize,
    /// Names that one stream listens to.
    pub(super) names_max: usize,
    /// Bytes of one name.
    pub(super) name_bytes_max: usize,
    /// Bytes that all streams of the shard hold together.
    pub(super) held_bytes_max: usize,
}

/// What a modern client wants to hear of, as far as it is granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish<'a> {
    /// The lists whose changes it hears of.
    pub(super) lists: Lists,
    /// The resources.
    pub(super) uris: &'a [&'a str],
    /// The tasks.
    pub(super) task_ids: &'a [&'a str],
}

impl<'a> Wish<'a> {
    fn names(self) -> impl Iterator<Item = (Subject, &'a str)> {
        let uris = self.uris.iter().map(|uri| (Subject::Resource, *uri));
        uris.chain(self.task_ids.iter().map(|id| (Subject::Task, *id)))
    }
}

/// What one connection listens to. A connection that never did holds nothing but this.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subscriber {
    /// One of its streams; the others are its neighbours.
    first: Option<Key>,
    /// How many streams it has.
    streams: u32,
    /// Something was missed, by its streams or by its legacy session.
    is_behind: bool,
    /// Changes of lists that its legacy session missed: it hears of them without asking.
    missed: Lists,
}

impl Subscriber {
    /// Whether it asked to be told of anything, so that its silence is no reason to end it.
    pub(super) const fn listens(&self) -> bool {
        self.first.is_some()
    }

    /// Notes that its legacy session missed a change of `list`; `false` where that is known.
    pub(super) const fn miss(&mut self, list: List) -> bool {
        let is_news = !self.missed.has(list);
        self.missed.insert(list);
        self.is_behind = true;
        is_news
    }

    /// Takes a change of a list that its legacy session missed.
    pub(super) fn take_missed(&mut self) -> Option<List> {
        let missed = self.missed;
        let list = List::ALL.into_iter().find(|list| missed.has(*list))?;
        self.missed.take(list);
        Some(list)
    }

    /// Notes that one of its streams missed something.
    pub(super) const fn fall_behind(&mut self) {
        self.is_behind = true;
    }

    /// Whether some of its streams missed something.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_behind
    }
}

/// Every stream of one shard.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// How much may be listened to; what is listened to already stays.
    pub(super) bounds: Bounds,
    streams: Slab<Stream>,
    index: Index,
    held_bytes: usize,
}

/// Why a stream was not taken in, or a name was not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    /// A name is longer than this.
    LongName(usize),
    /// The shard holds as much as it may.
    Memory,
    /// A stream listens to at most this many names.
    Names(usize),
    /// A connection has at most this many streams.
    Streams(usize),
}

impl Subscriptions {
    /// Nobody listens.
    pub(super) fn new(bounds: Bounds) -> Self {
        let streams = Slab::new(STREAMS_MAX);
        Self { bounds, streams, index: Index::new(), held_bytes: 0 }
    }

    /// The ticket of the request behind a stream, among the requests in flight of its connection:
    /// it names no call.
    pub(super) const fn ticket(key: Key) -> Ticket {
        Ticket(key.to_bits() | STREAM_TICKET)
    }

    /// The stream behind a ticket, where it is that of one.
    pub(super) fn behind(ticket: Ticket) -> Option<Key> {
        let is_stream = ticket.0 & STREAM_TICKET != 0;
        is_stream.then(|| Key::from_bits(ticket.0 & !STREAM_TICKET))
    }

    /// Streams of this shard.
    pub(super) const fn len(&self) -> usize {
        self.streams.len()
    }

    /// Bytes that all streams hold, estimated from above.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes + self.index.held_bytes()
    }

    /// Takes in the stream `id` of a modern client. Names that stand twice count once.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing has changed then.
    pub(super) fn listen(
        &mut self,
        party: Party,
        subscriber: &mut Subscriber,
        id: Id<'_>,
        wish: Wish<'_>,
    ) -> Result<Key, Refusal> {
        if subscriber.streams as usize >= self.bounds.streams_max {
            return Err(Refusal::Streams(self.bounds.streams_max));
        }
        if wish.uris.len() + wish.task_ids.len() > self.bounds.names_max {
            return Err(Refusal::Names(self.bounds.names_max));
        }
        let stream = Stream::new(party, Some(id.into()), wish.lists);
        let costs = wish.names().map(|(subject, name)| self.cost(subject, name));
        let cost = costs.sum::<Result<usize, Refusal>>()? + stream.held_bytes();
        self.afford(cost)?;
        let key = self.enter(subscriber, stream)?;
        for (subject, name) in wish.names() {
            self.place(key, subject, name);
        }
        Ok(key)
    }

    /// Has the legacy session of a connection hear of `uri`; once more changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing has changed then.
    pub(super) fn subscribe(
        &mut self,
        party: Party,
        subscriber: &mut Subscriber,
        uri: &str,
    ) -> Result<(), Refusal> {
        let cost = self.cost(Subject::Resource, uri)?;
        let session = self.session(subscriber);
        if let Some((_, stream)) = session {
            if self.index.slot(stream, Subject::Resource, uri).is_some() {
                return Ok(());
            }
            if stream.places.len() >= self.bounds.names_max {
                return Err(Refusal::Names(self.bounds.names_max));
            }
        }
        let key = if let Some((key, _)) = session {
            self.afford(cost)?;
            key
        } else {
            self.afford(cost + STREAM_BYTES)?;
            self.enter(subscriber, Stream::new(party, None, Lists::NONE))?
        };
        self.place(key, Subject::Resource, uri);
        Ok(())
    }

    /// Has the legacy session of a connection hear of `uri` no more; `false` where it did not.
    pub(super) fn unsubscribe(&mut self, subscriber: &mut Subscriber, uri: &str) -> bool {
        let Some((key, stream)) = self.session(subscriber) else { return false };
        let Some(slot) = self.index.slot(stream, Subject::Resource, uri) else { return false };
        if stream.places.len() == 1 {
            return self.end(subscriber, key).is_some();
        }
        self.index.leave(key, slot, &mut self.streams);
        self.held_bytes -= WATCH_BYTES;
        true
    }

    /// The stream of a legacy session, which has no id.
    fn session(&self, subscriber: &Subscriber) -> Option<(Key, &Stream)> {
        let mut key = subscriber.first;
        loop {
            let stream = self.streams.get(key?)?;
            if stream.id().is_none() {
                return Some((key?, stream));
            }
            key = stream.next;
        }
    }

    /// Ends one stream of a connection; none where the key names no stream any more.
    pub(super) fn end(&mut self, subscriber: &mut Subscriber, key: Key) -> Option<Stream> {
        for slot in (0..self.streams.get(key)?.places.len()).rev() {
            self.index.leave(key, slot, &mut self.streams);
            self.held_bytes -= WATCH_BYTES;
        }
        let stream = self.streams.remove(key)?;
        self.held_bytes -= stream.held_bytes();
        if let Some(next) = stream.next.and_then(|next| self.streams.get_mut(next)) {
            next.previous = stream.previous;
        }
        match stream.previous.and_then(|previous| self.streams.get_mut(previous)) {
            Some(previous) => previous.next = stream.next,
            None => subscriber.first = stream.next,
        }
        subscriber.streams -= 1;
        Some(stream)
    }

    /// Ends every stream of a connection, the newest first.
    pub(super) fn end_all(&mut self, subscriber: &mut Subscriber, mut ended: impl FnMut(Stream)) {
        while let Some(stream) = subscriber.first.and_then(|key| self.end(subscriber, key)) {
            ended(stream);
        }
    }

    /// Tells everybody who listens that `list` has changed. Cost: a look at every stream.
    pub(super) fn tell_list(&mut self, list: List, mut say: impl FnMut(&Stream) -> bool) {
        for (_, stream) in self.streams.iter_mut() {
            // Whoever owes it to a peer already will say it late enough for this change too.
            if stream.lists.has(list) && !stream.missed.has(list) && !say(stream) {
                stream.missed.insert(list);
            }
        }
    }

    /// Tells everybody who listens to `name` that something happened to it.
    pub(super) fn tell_name(
        &mut self,
        subject: Subject,
        name: &str,
        mut say: impl FnMut(&Stream) -> bool,
    ) {
        for listener in self.index.listeners(subject, name) {
            let Some(stream) = self.streams.get_mut(listener.stream) else { continue };
            let slot = listener.slot as usize;
            if !stream.places[slot].missed && !say(stream) {
                stream.places[slot].missed = true;
            }
        }
    }

    /// Tells everybody who listens to the task `name` of its state `version`, which counts from 1.
    /// Who was told it already hears nothing: others may have asked for it again, and two slow
    /// peers must not keep each other busy.
    pub(super) fn tell_task(
        &mut self,
        name: &str,
        version: u32,
        mut say: impl FnMut(&Stream) -> bool,
    ) {
        for listener in self.index.listeners(Subject::Task, name) {
            let Some(stream) = self.streams.get_mut(listener.stream) else { continue };
            let slot = listener.slot as usize;
            let place = &stream.places[slot];
            if place.missed || place.told >= version {
                continue;
            }
            let is_said = say(stream);
            let place = &mut stream.places[slot];
            place.missed = !is_said;
            place.told = if is_said { version } else { place.told };
        }
    }

    /// Tells the streams of one connection what they missed, until one of them is refused again.
    pub(super) fn catch_up(
        &mut self,
        subscriber: &mut Subscriber,
        mut say: impl FnMut(&Stream, Missed<'_>) -> bool,
    ) {
        let mut key = subscriber.first;
        while let Some(stream) = key.and_then(|key| self.streams.get_mut(key)) {
            let missed = stream.missed;
            for list in List::ALL.into_iter().filter(|list| missed.has(*list)) {
                if !say(stream, Missed::List(list)) {
                    return;
                }
                stream.missed.take(list);
            }
            for slot in 0..stream.places.len() {
                let place = stream.places[slot];
                let Some((subject, name)) = self.index.name(place).filter(|_| place.missed) else {
                    continue;
                };
                if !say(stream, Missed::Name(subject, name)) {
                    return;
                }
                stream.places[slot].missed = false;
            }
            key = stream.next;
        }
        subscriber.is_behind = false;
    }

    fn enter(&mut self, subscriber: &mut Subscriber, mut stream: Stream) -> Result<Key, Refusal> {
        let held_bytes = stream.held_bytes();
        stream.next = subscriber.first;
        let key = self.streams.insert(stream).map_err(|_| Refusal::Memory)?;
        self.held_bytes += held_bytes;
        if let Some(next) = subscriber.first.and_then(|first| self.streams.get_mut(first)) {
            next.previous = Some(key);
        }
        subscriber.first = Some(key);
        subscriber.streams += 1;
        Ok(key)
    }

    fn place(&mut self, key: Key, subject: Subject, name: &str) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let before = stream.places.len();
        self.index.enter(key, stream, subject, name);
        self.held_bytes += (stream.places.len() - before) * WATCH_BYTES;
    }

    fn cost(&self, subject: Subject, name: &str) -> Result<usize, Refusal> {
        if name.len() > self.bounds.name_bytes_max {
            return Err(Refusal::LongName(self.bounds.name_bytes_max));
        }
        Ok(self.index.cost(subject, name) + WATCH_BYTES)
    }

    const fn afford(&self, cost: usize) -> Result<(), Refusal> {
        if self.held_bytes() + cost > self.bounds.held_bytes_max {
            return Err(Refusal::Memory);
        }
        Ok(())
    }
}

/// What a stream missed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missed<'a> {
    /// A list has changed.
    List(List),
    /// Something happened to what the name names.
    Name(Subject, &'a Rc<str>),
}

impl From<Refusal> for Error {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::LongName(bytes_max) => Self::invalid_params(format!(
                "a subscription names what has at most {bytes_max} bytes"
            )),
            Refusal::Memory => {
                Self::new(Kind::Busy, "the server has no memory for another subscription")
            }
            Refusal::Names(names_max) => Self::invalid_params(format!(
                "a subscription names at most {names_max} resources and tasks"
            )),
            Refusal::Streams(streams_max) => Self::new(
                Kind::Busy,
                format!("this connection has {streams_max} subscriptions; end one of them first"),
            ),
        }
    }
}

/// Marks the tickets of streams. Calls are numbered far below it, and so are streams.
const STREAM_TICKET: u64 = 1 << 31;

/// Streams of one shard; memory bounds them far below this.
const STREAMS_MAX: usize = (1 << 31) - 1;

#[cfg(test)]
mod tests;
