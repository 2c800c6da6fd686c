//! Subscriptions of one shard: `subscriptions/listen` streams of modern clients, and the resources
//! to which legacy sessions subscribed. (Legacy sessions get list changes without subscribing.)
//!
//! A stream lives on the shard that owns its connection. Each shard gets an event once, encodes it
//! once ([`EncodedNotification`]) and copies it to every listener, with the subscription id of the
//! stream in the middle.
//!
//! Invariants:
//!
//! - A stream gets only notifications that match its filter, and none after its end.
//! - Streams, their topics and the memory of both are bounded ([`SubscriptionLimits`]), also for
//!   each caller and its network.
//! - A notification tells the client to read something again, so two are equivalent to one. For a
//!   slow peer a dirty mark is set, not a queue filled: it gets the notification once, later.
//!
//! The caller writes to connections: its closures return `true` if the frame was written, and
//! `false` if the peer is too slow for it.

mod stream;

mod index;

use std::rc::Rc;

use corelane_base::client_address::AddressShare;
use corelane_base::holders::{HeldPlaces, PlaceOwner};
use corelane_base::principal::Principal;
use corelane_base::slab::{Key, Slab};
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::jsonrpc::Id;

pub use self::index::ResourceWatch;
use self::index::TopicIndex;
pub(super) use self::index::TopicKind;
pub use self::stream::STREAM_BYTES;
use self::stream::TOPIC_REF_BYTES;
pub(super) use self::stream::{
    CatalogList, CatalogLists, EncodedNotification, Subscriber, SubscriptionStream,
};

/// Limits of subscriptions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SubscriptionLimits {
    /// Streams of one connection.
    pub(super) streams_max: usize,
    /// Names to which one stream subscribes.
    pub(super) names_max: usize,
    /// Bytes of one name.
    pub(super) name_bytes_max: usize,
    /// Bytes of all streams of the shard.
    pub(super) held_bytes_max: usize,
    /// What one caller may take of them.
    pub(super) address_share: AddressShare,
}

/// Accepted filter of a `subscriptions/listen` stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrantedFilter<'a> {
    /// Lists whose changes are sent.
    pub(super) lists: CatalogLists,
    /// URIs of resources.
    pub(super) uris: &'a [&'a str],
    /// Ids of tasks.
    pub(super) task_ids: &'a [&'a str],
}

impl<'a> GrantedFilter<'a> {
    fn names(self) -> impl Iterator<Item = (TopicKind, &'a str)> {
        let uris = self.uris.iter().map(|uri| (TopicKind::Resource, *uri));
        uris.chain(self.task_ids.iter().map(|id| (TopicKind::Task, *id)))
    }
}

/// Subscriptions of one connection. Allocates nothing before the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionSubscriptions {
    /// First of its streams, which form a linked list.
    first: Option<Key>,
    /// Number of its streams.
    streams: u32,
    /// Whether a notification is pending for one of its streams or its legacy session.
    is_dirty: bool,
    /// List changes pending for its legacy session, which gets them without a stream.
    dirty_lists: CatalogLists,
}

impl ConnectionSubscriptions {
    /// Returns whether it has streams, so that its silence does not close it.
    pub(super) const fn has_streams(&self) -> bool {
        self.first.is_some()
    }

    /// Marks a list change as pending for its legacy session; returns `false` if it was already.
    pub(super) const fn mark_list_dirty(&mut self, list: CatalogList) -> bool {
        let is_news = !self.dirty_lists.contains(list);
        self.dirty_lists.insert(list);
        self.is_dirty = true;
        is_news
    }

    /// Takes a list change pending for its legacy session.
    pub(super) fn take_dirty_list(&mut self) -> Option<CatalogList> {
        let missed = self.dirty_lists;
        let list = CatalogList::ALL.into_iter().find(|list| missed.contains(*list))?;
        self.dirty_lists.remove(list);
        Some(list)
    }

    /// Marks a notification as pending for one of its streams.
    pub(super) const fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Returns whether notifications are pending.
    pub(super) const fn is_dirty(&self) -> bool {
        self.is_dirty
    }
}

/// All subscription streams of one shard.
#[derive(Debug)]
pub(super) struct SubscriptionRegistry {
    /// Limits from now on; open streams are not changed.
    pub(super) limits: SubscriptionLimits,
    streams: Slab<SubscriptionStream>,
    index: TopicIndex,
    held_bytes: usize,
    /// What the streams of each caller hold, with the names that they were the first to subscribe
    /// to.
    holders: HeldPlaces,
}

/// Why a stream or a subscription was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SubscriptionError {
    /// A name is longer than this.
    NameTooLong(usize),
    /// The shard's memory limit for subscriptions is reached.
    MemoryLimit,
    /// The caller, or its network, has its share of that.
    Share,
    /// A stream subscribes to more than this many names.
    NameLimit(usize),
    /// The connection has this many streams, the limit.
    StreamLimit(usize),
}

impl SubscriptionRegistry {
    pub(super) fn new(limits: SubscriptionLimits) -> Self {
        let streams = Slab::new(STREAMS_MAX);
        let holders = HeldPlaces::default();
        Self { limits, streams, index: TopicIndex::new(), held_bytes: 0, holders }
    }

    /// Notifies `watch` of the resources with listeners on this shard.
    pub(super) fn watched_by(mut self, watch: Option<ResourceWatch>) -> Self {
        self.index.watch(watch);
        self
    }

    /// Returns the number of streams.
    pub(super) const fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns an upper estimate of the bytes of all streams.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes + self.index.held_bytes() + self.holders.held_bytes()
    }

    /// Like [`SubscriptionRegistry::held_bytes`], from the streams and names.
    pub(super) fn recount_bytes(&self) -> usize {
        let streams = self.streams.iter().map(|(_, stream)| stream.held_bytes());
        let owners = self.streams.iter().map(|(_, stream)| self.holders.holder_of(stream.owner()));
        streams.sum::<usize>() + self.index.recount_bytes() + HeldPlaces::bytes_of(owners)
    }

    /// Opens the stream `id` of a modern client. Duplicate names count once.
    ///
    /// # Errors
    ///
    /// [`SubscriptionError`]; nothing is changed then.
    pub(super) fn open_stream(
        &mut self,
        by: Subscriber<'_>,
        subscriber: &mut ConnectionSubscriptions,
        id: Id<'_>,
        filter: GrantedFilter<'_>,
    ) -> Result<Key, SubscriptionError> {
        if subscriber.streams as usize >= self.limits.streams_max {
            return Err(SubscriptionError::StreamLimit(self.limits.streams_max));
        }
        if filter.uris.len() + filter.task_ids.len() > self.limits.names_max {
            return Err(SubscriptionError::NameLimit(self.limits.names_max));
        }
        let stream = SubscriptionStream::new(by, Some(id.into()), filter.lists);
        let costs = filter.names().map(|(subject, name)| self.topic_bytes(subject, name));
        let cost = costs.sum::<Result<usize, SubscriptionError>>()? + stream.held_bytes();
        self.check_memory(cost, by.owner())?;
        let key = self.insert_stream(subscriber, stream)?;
        self.charge(key, cost);
        for (subject, name) in filter.names() {
            self.add_topic(key, subject, name);
        }
        Ok(key)
    }

    /// Subscribes the legacy session of a connection to `uri`; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`SubscriptionError`]; nothing is changed then.
    pub(super) fn subscribe(
        &mut self,
        by: Subscriber<'_>,
        subscriber: &mut ConnectionSubscriptions,
        uri: &str,
    ) -> Result<(), SubscriptionError> {
        let cost = self.topic_bytes(TopicKind::Resource, uri)?;
        let session = self.session_stream(subscriber);
        if let Some((_, stream)) = session {
            if self.index.topic_index_of(stream, TopicKind::Resource, uri).is_some() {
                return Ok(());
            }
            if stream.topics.len() >= self.limits.names_max {
                return Err(SubscriptionError::NameLimit(self.limits.names_max));
            }
        }
        let (key, cost) = if let Some((key, stream)) = session {
            self.check_memory(cost, stream.owner())?;
            (key, cost)
        } else {
            let cost = cost + STREAM_BYTES;
            self.check_memory(cost, by.owner())?;
            let stream = SubscriptionStream::new(by, None, CatalogLists::NONE);
            (self.insert_stream(subscriber, stream)?, cost)
        };
        self.charge(key, cost);
        self.add_topic(key, TopicKind::Resource, uri);
        Ok(())
    }

    /// Unsubscribes the legacy session of a connection from `uri`, or if it has not subscribed with
    /// this spelling, from all others; returns `false` if it was not subscribed.
    pub(super) fn unsubscribe(
        &mut self,
        subscriber: &mut ConnectionSubscriptions,
        uri: &str,
    ) -> bool {
        if self.end_topic(subscriber, uri) {
            return true;
        }
        let mut is_ended = false;
        for uri in self.index.other_spellings(uri) {
            is_ended |= self.end_topic(subscriber, &uri);
        }
        is_ended
    }

    /// Returns the other spellings of `uri` with subscribers.
    pub(super) fn other_spellings(&self, uri: &str) -> Vec<Rc<str>> {
        self.index.other_spellings(uri)
    }

    fn end_topic(&mut self, subscriber: &mut ConnectionSubscriptions, uri: &str) -> bool {
        let Some((key, stream)) = self.session_stream(subscriber) else { return false };
        let Some(slot) = self.index.topic_index_of(stream, TopicKind::Resource, uri) else {
            return false;
        };
        if stream.topics.len() == 1 {
            return self.close_stream(subscriber, key).is_some();
        }
        let before = self.index.held_bytes();
        self.index.remove_listener(key, slot, &mut self.streams);
        self.held_bytes -= TOPIC_REF_BYTES;
        self.discharge(key, before - self.index.held_bytes() + TOPIC_REF_BYTES);
        true
    }

    /// Counts bytes of a stream as those of its caller.
    fn charge(&mut self, key: Key, bytes: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let charged = stream.charge(bytes);
        self.holders.add(self.holders.holder_of(stream.owner()), charged);
    }

    /// Counts at most so many bytes of a stream no longer as those of its caller.
    fn discharge(&mut self, key: Key, bytes: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let discharged = stream.discharge(bytes);
        self.holders.subtract(self.holders.holder_of(stream.owner()), discharged);
    }

    /// Returns the stream of a legacy session, which has no id.
    fn session_stream(
        &self,
        subscriber: &ConnectionSubscriptions,
    ) -> Option<(Key, &SubscriptionStream)> {
        let mut key = subscriber.first;
        loop {
            let stream = self.streams.get(key?)?;
            if stream.id().is_none() {
                return Some((key?, stream));
            }
            key = stream.next;
        }
    }

    /// Closes one stream of a connection; returns `None` if it was closed before.
    pub(super) fn close_stream(
        &mut self,
        subscriber: &mut ConnectionSubscriptions,
        key: Key,
    ) -> Option<SubscriptionStream> {
        self.discharge(key, usize::MAX);
        for slot in (0..self.streams.get(key)?.topics.len()).rev() {
            self.index.remove_listener(key, slot, &mut self.streams);
            self.held_bytes -= TOPIC_REF_BYTES;
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

    /// Closes all streams of a connection, the newest first.
    pub(super) fn close_all_streams(
        &mut self,
        subscriber: &mut ConnectionSubscriptions,
        mut ended: impl FnMut(SubscriptionStream),
    ) {
        while let Some(stream) = subscriber.first.and_then(|key| self.close_stream(subscriber, key))
        {
            ended(stream);
        }
    }

    /// Sends a list change to all streams that subscribe to it. Cost: visits every stream.
    pub(super) fn notify_list_changed(
        &mut self,
        list: CatalogList,
        mut send: impl FnMut(&SubscriptionStream) -> bool,
    ) {
        for (_, stream) in self.streams.iter_mut() {
            // A pending notification covers this change, too.
            if stream.lists.contains(list) && !stream.dirty_lists.contains(list) && !send(stream) {
                stream.dirty_lists.insert(list);
            }
        }
    }

    /// Sends an update of `name` to all streams that subscribe to it.
    pub(super) fn notify_updated(
        &mut self,
        subject: TopicKind,
        name: &str,
        mut send: impl FnMut(&SubscriptionStream) -> bool,
    ) {
        for listener in self.index.listeners(subject, name) {
            let Some(stream) = self.streams.get_mut(listener.stream) else { continue };
            let slot = listener.topic_index as usize;
            if !stream.topics[slot].is_dirty && !send(stream) {
                stream.topics[slot].is_dirty = true;
            }
        }
    }

    /// Sends the state `version` (from 1) of a task to all streams of its caller that subscribe to
    /// it and have not got it yet: other streams may request it again, and slow peers must not
    /// cause repetition.
    pub(super) fn notify_task(
        &mut self,
        name: &str,
        version: u32,
        caller: Option<&Principal>,
        mut send: impl FnMut(&SubscriptionStream) -> bool,
    ) {
        for listener in self.index.listeners(TopicKind::Task, name) {
            let Some(stream) = self.streams.get_mut(listener.stream) else { continue };
            let slot = listener.topic_index as usize;
            let place = &stream.topics[slot];
            if place.is_dirty || place.sent_version >= version || !stream.is_opened_by(caller) {
                continue;
            }
            let is_sent = send(stream);
            let place = &mut stream.topics[slot];
            place.is_dirty = !is_sent;
            place.sent_version = if is_sent { version } else { place.sent_version };
        }
    }

    /// Sends the pending notifications of one connection until the peer is too slow again.
    pub(super) fn send_pending(
        &mut self,
        subscriber: &mut ConnectionSubscriptions,
        mut send: impl FnMut(&SubscriptionStream, PendingNotification<'_>) -> bool,
    ) {
        let mut key = subscriber.first;
        while let Some(stream) = key.and_then(|key| self.streams.get_mut(key)) {
            let missed = stream.dirty_lists;
            for list in CatalogList::ALL.into_iter().filter(|list| missed.contains(*list)) {
                if !send(stream, PendingNotification::List(list)) {
                    return;
                }
                stream.dirty_lists.remove(list);
            }
            for slot in 0..stream.topics.len() {
                let place = stream.topics[slot];
                let Some((subject, name)) = self.index.name(place).filter(|_| place.is_dirty)
                else {
                    continue;
                };
                if !send(stream, PendingNotification::Topic(subject, name)) {
                    return;
                }
                stream.topics[slot].is_dirty = false;
            }
            key = stream.next;
        }
        subscriber.is_dirty = false;
    }

    fn insert_stream(
        &mut self,
        subscriber: &mut ConnectionSubscriptions,
        mut stream: SubscriptionStream,
    ) -> Result<Key, SubscriptionError> {
        let held_bytes = stream.held_bytes();
        stream.next = subscriber.first;
        let key = self.streams.insert(stream).map_err(|_| SubscriptionError::MemoryLimit)?;
        self.held_bytes += held_bytes;
        if let Some(next) = subscriber.first.and_then(|first| self.streams.get_mut(first)) {
            next.previous = Some(key);
        }
        subscriber.first = Some(key);
        subscriber.streams += 1;
        Ok(key)
    }

    fn add_topic(&mut self, key: Key, subject: TopicKind, name: &str) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let before = stream.topics.len();
        self.index.add_listener(key, stream, subject, name);
        self.held_bytes += (stream.topics.len() - before) * TOPIC_REF_BYTES;
    }

    fn topic_bytes(&self, subject: TopicKind, name: &str) -> Result<usize, SubscriptionError> {
        if name.len() > self.limits.name_bytes_max {
            return Err(SubscriptionError::NameTooLong(self.limits.name_bytes_max));
        }
        Ok(self.index.added_bytes(subject, name) + TOPIC_REF_BYTES)
    }

    fn check_memory(&self, cost: usize, owner: PlaceOwner<'_>) -> Result<(), SubscriptionError> {
        let SubscriptionLimits { held_bytes_max, address_share, .. } = self.limits;
        if self.held_bytes() + cost > held_bytes_max {
            return Err(SubscriptionError::MemoryLimit);
        }
        let holder = self.holders.holder_of(owner);
        let limit = self.holders.limit_of(holder, held_bytes_max, address_share);
        if self.holders.of(holder) + cost > limit {
            return Err(SubscriptionError::Share);
        }
        Ok(())
    }
}

/// A pending notification of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingNotification<'a> {
    /// A list change.
    List(CatalogList),
    /// An update of a resource or a task.
    Topic(TopicKind, &'a Rc<str>),
}

impl From<SubscriptionError> for Error {
    #[cold]
    fn from(error: SubscriptionError) -> Self {
        match error {
            SubscriptionError::NameTooLong(bytes_max) => Self::invalid_params(format!(
                "a URI or task id of the subscription is too long (limit {bytes_max} bytes)"
            )),
            SubscriptionError::MemoryLimit => Self::new(
                ErrorKind::TooManyRequests,
                "the memory limit for subscriptions is reached; try again later",
            ),
            SubscriptionError::Share => Self::new(
                ErrorKind::TooManyRequests,
                "the subscriptions of this client or its network take their share of the memory \
                 (address_share_percent); end one first",
            ),
            SubscriptionError::NameLimit(names_max) => Self::invalid_params(format!(
                "too many resources and tasks in one subscription (limit {names_max})"
            )),
            SubscriptionError::StreamLimit(streams_max) => Self::new(
                ErrorKind::TooManyRequests,
                format!(
                    "too many subscriptions on this connection (limit {streams_max}); end one first"
                ),
            ),
        }
    }
}

/// Limit of streams of one shard; memory bounds them far below it.
const STREAMS_MAX: usize = (1 << 31) - 1;

#[cfg(test)]
mod tests;
