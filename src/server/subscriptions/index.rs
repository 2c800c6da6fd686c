//! Index of subscribed resources and tasks to their listeners.
//!
//! Invariants: a name is stored once and removed with its last listener; adding and removing take
//! constant time however many listeners a name has, because each side stores its index on the
//! other. Peers choose the names, so the hash table uses a random key; its order is not used.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use corelane_base::slab::{Key, Slab};
use corelane_protocol::uri;

use super::stream::{SubscriptionStream, TopicRef};

/// Kind of a subscribed name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TopicKind {
    /// A resource, by its URI.
    Resource,
    /// A task, by its id.
    Task,
}

/// One listener: a stream, and the index among its topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub(super) stream: Key,
    pub(super) topic_index: u32,
}

/// One name and its listeners.
#[derive(Debug)]
struct Topic {
    name: Rc<str>,
    kind: TopicKind,
    listeners: Vec<Listener>,
}

/// All names with listeners on this shard.
#[derive(Debug)]
pub(super) struct TopicIndex {
    names: [HashMap<Rc<str>, Key>; 2],
    /// The URIs that are not their comparison key, by that.
    spellings: HashMap<Box<str>, Vec<Rc<str>>>,
    topics: Slab<Topic>,
    held_bytes: usize,
    watch: Option<ResourceWatch>,
}

/// Called for each resource that has its first listener on this shard, with `true`, and that has
/// lost its last one, with `false`. It must not block.
#[derive(Clone)]
pub struct ResourceWatch(Arc<WatchFn>);

type WatchFn = dyn Fn(&str, bool) + Send + Sync;

impl ResourceWatch {
    /// Creates one that calls `notify`.
    #[cfg(feature = "gateway")]
    pub fn new(notify: impl Fn(&str, bool) + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    fn notify(&self, topic: &Topic, has_listeners: bool) {
        if topic.kind == TopicKind::Resource {
            (self.0)(&topic.name, has_listeners);
        }
    }
}

impl fmt::Debug for ResourceWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ResourceWatch")
    }
}

impl TopicIndex {
    pub(super) fn new() -> Self {
        let (names, spellings) = (Default::default(), HashMap::new());
        Self { names, spellings, topics: Slab::new(usize::MAX), held_bytes: 0, watch: None }
    }

    /// Notifies `watch` of the resources with listeners from now on.
    pub(super) fn watch(&mut self, watch: Option<ResourceWatch>) {
        self.watch = watch;
    }

    /// Returns the bytes of all names.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Like [`TopicIndex::held_bytes`], from the names.
    pub(super) fn recount_bytes(&self) -> usize {
        self.topics.iter().map(|(_, topic)| topic_bytes(topic.kind, &topic.name)).sum()
    }

    /// Returns the bytes that adding a listener of `name` would add to [`TopicIndex::held_bytes`].
    pub(super) fn added_bytes(&self, subject: TopicKind, name: &str) -> usize {
        if self.names[subject as usize].contains_key(name) { 0 } else { topic_bytes(subject, name) }
    }

    /// Adds `stream` as a listener of `name`. The stream must not be a listener of it yet, unless
    /// it was the last one added: then nothing changes, so that duplicates in one filter count
    /// once.
    pub(super) fn add_listener(
        &mut self,
        key: Key,
        stream: &mut SubscriptionStream,
        subject: TopicKind,
        name: &str,
    ) {
        let known = self.names[subject as usize].get(name).copied();
        let Some(topic) = known.or_else(|| self.insert_topic(subject, name)) else { return };
        let Some(entry) = self.topics.get_mut(topic) else { return };
        if entry.listeners.last().is_some_and(|last| last.stream == key) {
            return;
        }
        let index = index_to_u32(entry.listeners.len());
        let place = TopicRef { topic, index, is_dirty: false, sent_version: 0 };
        entry
            .listeners
            .push(Listener { stream: key, topic_index: index_to_u32(stream.topics.len()) });
        stream.topics.push(place);
    }

    /// Inserts a name without listeners.
    fn insert_topic(&mut self, subject: TopicKind, name: &str) -> Option<Key> {
        let name: Rc<str> = name.into();
        let topic = Topic { name: Rc::clone(&name), kind: subject, listeners: Vec::new() };
        if let Some(watch) = &self.watch {
            watch.notify(&topic, true);
        }
        let key = self.topics.insert(topic).ok()?;
        self.held_bytes += topic_bytes(subject, &name);
        if let Some(uri_key) = other_key(subject, &name) {
            self.spellings.entry(uri_key).or_default().push(Rc::clone(&name));
        }
        self.names[subject as usize].insert(name, key);
        Some(key)
    }

    /// Removes the listener at `slot` of a stream's topics. `streams` is used to update the indexes
    /// of entries that are moved.
    pub(super) fn remove_listener(
        &mut self,
        key: Key,
        slot: usize,
        streams: &mut Slab<SubscriptionStream>,
    ) {
        let Some(stream) = streams.get_mut(key) else { return };
        let left = stream.topics.swap_remove(slot);
        if let Some(moved) = stream.topics.get(slot)
            && let Some(topic) = self.topics.get_mut(moved.topic)
        {
            topic.listeners[moved.index as usize].topic_index = index_to_u32(slot);
        }
        let Some(topic) = self.topics.get_mut(left.topic) else { return };
        topic.listeners.swap_remove(left.index as usize);
        if let Some(moved) = topic.listeners.get(left.index as usize)
            && let Some(stream) = streams.get_mut(moved.stream)
        {
            stream.topics[moved.topic_index as usize].index = left.index;
        }
        if topic.listeners.is_empty()
            && let Some(topic) = self.topics.remove(left.topic)
        {
            if let Some(watch) = &self.watch {
                watch.notify(&topic, false);
            }
            self.held_bytes -= topic_bytes(topic.kind, &topic.name);
            if let Some(uri_key) = other_key(topic.kind, &topic.name)
                && let Some(spellings) = self.spellings.get_mut(&uri_key)
            {
                spellings.retain(|name| *name != topic.name);
                if spellings.is_empty() {
                    self.spellings.remove(&uri_key);
                }
            }
            self.names[topic.kind as usize].remove(&topic.name);
        }
    }

    /// Returns the index of `name` among the topics of a stream.
    pub(super) fn topic_index_of(
        &self,
        stream: &SubscriptionStream,
        subject: TopicKind,
        name: &str,
    ) -> Option<usize> {
        let topic = self.names[subject as usize].get(name)?;
        stream.topics.iter().position(|place| place.topic == *topic)
    }

    /// Returns the listeners of `name`.
    pub(super) fn listeners(&self, subject: TopicKind, name: &str) -> &[Listener] {
        let topic = self.names[subject as usize].get(name).and_then(|key| self.topics.get(*key));
        topic.map_or(&[], |topic| &topic.listeners)
    }

    /// Returns the other spellings of `uri` that have listeners.
    pub(super) fn other_spellings(&self, uri: &str) -> Vec<Rc<str>> {
        let key = uri::comparison_key(uri);
        let as_key = self.names[TopicKind::Resource as usize].get_key_value(&*key);
        let others = self.spellings.get(&*key).into_iter().flatten();
        let all = as_key.map(|(name, _)| name).into_iter().chain(others);
        all.filter(|name| &***name != uri).map(Rc::clone).collect()
    }

    /// Returns the kind and name of a topic.
    pub(super) fn name(&self, place: TopicRef) -> Option<(TopicKind, &Rc<str>)> {
        self.topics.get(place.topic).map(|topic| (topic.kind, &topic.name))
    }

    /// Returns the number of names with listeners.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.topics.len(), self.names.iter().map(HashMap::len).sum::<usize>());
        self.topics.len()
    }
}

/// Converts an index, which memory bounds far below `u32::MAX`.
fn index_to_u32(place: usize) -> u32 {
    u32::try_from(place).unwrap_or_else(|_| unreachable!("memory bounds lists far below u32::MAX"))
}

/// Returns the comparison key of a URI that is written otherwise.
fn other_key(kind: TopicKind, name: &str) -> Option<Box<str>> {
    let key = (kind == TopicKind::Resource).then(|| uri::comparison_key(name))?;
    (*key != *name).then(|| key.into())
}

/// Returns the bytes of a name: itself, its topic and its table entry, with the slack of both; of a
/// URI that is not its comparison key, those of the key and the list of its spellings, too.
fn topic_bytes(kind: TopicKind, name: &str) -> usize {
    let spelling = other_key(kind, name).map_or(0, |key| key.len() + SPELLING_BYTES);
    name.len() + 2 * size_of::<Topic>() + 64 + spelling
}

/// Bytes of an entry in the table of spellings, with the slack of it and of its list.
const SPELLING_BYTES: usize = 160;
