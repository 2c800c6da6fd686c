//! Who listens to one resource or one task.
//!
//! What it keeps true: a name is held once, whoever listens to it, and leaves with its last
//! listener; entering and leaving take constant time however many listen to the same name, because
//! each side knows its place on the other. Peers choose the names, so the table hashes them with a
//! key of its own that nobody outside knows; its order is never looked at.

use std::collections::HashMap;
use std::rc::Rc;

use super::stream::{Place, Stream};
use crate::base::slab::{Key, Slab};

/// What a name names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Subject {
    /// A resource, by its URI.
    Resource,
    /// A task, by its id.
    Task,
}

/// One listener: a stream, and which of its places this is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub(super) stream: Key,
    pub(super) slot: u32,
}

/// One name and who listens to it.
#[derive(Debug)]
struct Topic {
    name: Rc<str>,
    subject: Subject,
    listeners: Vec<Listener>,
}

/// Every name that somebody on this shard listens to.
#[derive(Debug)]
pub(super) struct Index {
    names: [HashMap<Rc<str>, Key>; 2],
    topics: Slab<Topic>,
    held_bytes: usize,
}

impl Index {
    /// An index of nothing.
    pub(super) fn new() -> Self {
        Self { names: Default::default(), topics: Slab::new(usize::MAX), held_bytes: 0 }
    }

    /// Bytes that the names hold.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What entering `name` for one more listener would add to [`Index::held_bytes`].
    pub(super) fn cost(&self, subject: Subject, name: &str) -> usize {
        if self.names[subject as usize].contains_key(name) { 0 } else { cost_of(name) }
    }

    /// Has `stream` listen to `name`, which it does not yet, unless it was the last one to begin:
    /// then nothing changes, so that a name that stands twice in one wish counts once.
    pub(super) fn enter(&mut self, key: Key, stream: &mut Stream, subject: Subject, name: &str) {
        let known = self.names[subject as usize].get(name).copied();
        let Some(topic) = known.or_else(|| self.begin(subject, name)) else { return };
        let Some(entry) = self.topics.get_mut(topic) else { return };
        if entry.listeners.last().is_some_and(|last| last.stream == key) {
            return;
        }
        let index = short(entry.listeners.len());
        let place = Place { topic, index, missed: false, told: 0 };
        entry.listeners.push(Listener { stream: key, slot: short(stream.places.len()) });
        stream.places.push(place);
    }

    /// Takes in a name that nobody listens to yet.
    fn begin(&mut self, subject: Subject, name: &str) -> Option<Key> {
        let name: Rc<str> = name.into();
        let topic = Topic { name: Rc::clone(&name), subject, listeners: Vec::new() };
        let key = self.topics.insert(topic).ok()?;
        self.held_bytes += cost_of(&name);
        self.names[subject as usize].insert(name, key);
        Some(key)
    }

    /// Ends the listening of the stream at `slot` of its places. `streams` finds the places of
    /// those that move up.
    pub(super) fn leave(&mut self, key: Key, slot: usize, streams: &mut Slab<Stream>) {
        let Some(stream) = streams.get_mut(key) else { return };
        let left = stream.places.swap_remove(slot);
        if let Some(moved) = stream.places.get(slot)
            && let Some(topic) = self.topics.get_mut(moved.topic)
        {
            topic.listeners[moved.index as usize].slot = short(slot);
        }
        let Some(topic) = self.topics.get_mut(left.topic) else { return };
        topic.listeners.swap_remove(left.index as usize);
        if let Some(moved) = topic.listeners.get(left.index as usize)
            && let Some(stream) = streams.get_mut(moved.stream)
        {
            stream.places[moved.slot as usize].index = left.index;
        }
        if topic.listeners.is_empty()
            && let Some(topic) = self.topics.remove(left.topic)
        {
            self.held_bytes -= cost_of(&topic.name);
            self.names[topic.subject as usize].remove(&topic.name);
        }
    }

    /// Where among its places a stream listens to `name`.
    pub(super) fn slot(&self, stream: &Stream, subject: Subject, name: &str) -> Option<usize> {
        let topic = self.names[subject as usize].get(name)?;
        stream.places.iter().position(|place| place.topic == *topic)
    }

    /// Who listens to `name`.
    pub(super) fn listeners(&self, subject: Subject, name: &str) -> &[Listener] {
        let topic = self.names[subject as usize].get(name).and_then(|key| self.topics.get(*key));
        topic.map_or(&[], |topic| &topic.listeners)
    }

    /// What a place of a stream names.
    pub(super) fn name(&self, place: Place) -> Option<(Subject, &Rc<str>)> {
        self.topics.get(place.topic).map(|topic| (topic.subject, &topic.name))
    }

    /// Names that somebody listens to.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.topics.len(), self.names.iter().map(HashMap::len).sum::<usize>());
        self.topics.len()
    }
}

/// A place in a list that memory bounds far below this.
fn short(place: usize) -> u32 {
    u32::try_from(place)
        .unwrap_or_else(|_| unreachable!("memory ends before four thousand million"))
}

/// What a name takes: itself, its topic and its entry in the table, with the slack of both.
const fn cost_of(name: &str) -> usize {
    name.len() + 2 * size_of::<Topic>() + 64
}
