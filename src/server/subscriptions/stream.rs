//! One stream of notifications: who listens and to what.
//!
//! What it keeps true: a stream is small, because a shard may hold a hundred thousand of them; what
//! a slow peer has missed is a mark on what it listens to, never a queue.

use crate::base::slab::Key;
use crate::protocol::message::Change;
use crate::protocol::rpc::{Id, IdBuf};
use crate::server::party::Party;
use crate::service::Changes;

/// A list of the catalog whose changes are told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum List {
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `tools/list`
    Tools,
}

impl List {
    /// Every list, in the order in which their changes are told.
    pub(in crate::server) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// Its change, as it is told.
    pub(in crate::server) const fn change(self) -> Change<'static> {
        match self {
            Self::Prompts => Change::PromptsList,
            Self::Resources => Change::ResourcesList,
            Self::Tools => Change::ToolsList,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of lists, in one byte.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::server) struct Lists(u8);

impl Lists {
    /// No list.
    pub(in crate::server) const NONE: Self = Self(0);

    /// The lists of which `holds` is true.
    pub(in crate::server) fn of(holds: impl Fn(List) -> bool) -> Self {
        let bits = List::ALL.into_iter().filter(|list| holds(*list)).map(List::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }

    /// Whether `list` is among them.
    pub(in crate::server) const fn has(self, list: List) -> bool {
        self.0 & list.bit() != 0
    }

    /// Adds `list`.
    pub(in crate::server) const fn insert(&mut self, list: List) {
        self.0 |= list.bit();
    }

    /// Takes `list` out; `false` where it was not among them.
    pub(in crate::server) const fn take(&mut self, list: List) -> bool {
        let had = self.has(list);
        self.0 &= !list.bit();
        had
    }
}

/// A name that a stream listens to, and the stream's place among its listeners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) topic: Key,
    pub(super) index: u32,
    /// Something happened that its peer was too slow for.
    pub(super) missed: bool,
    /// The last version that was told, of what has versions.
    pub(super) told: u32,
}

/// One stream: a `subscriptions/listen` of a modern client, or all that a legacy session subscribed
/// to.
#[derive(Debug)]
pub(in crate::server) struct Stream {
    /// Whose it is.
    pub(in crate::server) party: Party,
    /// What every frame must name; a legacy session has one stream and no name for it.
    id: Option<IdBuf>,
    /// The lists whose changes it hears of.
    pub(super) lists: Lists,
    /// Changes of lists that its peer was too slow for.
    pub(super) missed: Lists,
    /// The resources and tasks that it hears of.
    pub(super) places: Vec<Place>,
    /// Its neighbours among the streams of its connection.
    pub(super) next: Option<Key>,
    pub(super) previous: Option<Key>,
}

impl From<Changes> for Lists {
    fn from(changes: Changes) -> Self {
        Self::of(|list| match list {
            List::Prompts => changes.prompts,
            List::Resources => changes.resources,
            List::Tools => changes.tools,
        })
    }
}

impl Stream {
    pub(super) const fn new(party: Party, id: Option<IdBuf>, lists: Lists) -> Self {
        Self {
            party,
            id,
            lists,
            missed: Lists::NONE,
            places: Vec::new(),
            next: None,
            previous: None,
        }
    }

    /// What every frame must name; none for a legacy session.
    #[inline]
    pub(in crate::server) fn id(&self) -> Option<Id<'_>> {
        self.id.as_ref().map(IdBuf::as_id)
    }

    /// Bytes that it holds, the names of what it hears of not included.
    pub(super) fn held_bytes(&self) -> usize {
        let id = match self.id() {
            // Held here and among the requests in flight.
            Some(Id::Text(text)) => 2 * text.len(),
            _ => 0,
        };
        STREAM_BYTES + id + self.places.len() * WATCH_BYTES
    }
}

/// Bytes that one listening stream holds at most, its id being a number and not counting what it
/// names: its place here, which may be half of a table that has just doubled, and that of its
/// request among those in flight.
pub const STREAM_BYTES: usize = 2 * size_of::<Stream>() + 64;

/// What one name costs a stream: a place here and one in the index, with the slack of both tables.
pub(super) const WATCH_BYTES: usize = 64;

const _: () = assert!(STREAM_BYTES <= 512, "a listening stream holds at most 512 bytes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_lists_knows_its_members() {
        let mut lists = Lists::of(|list| list != List::Prompts);
        assert!(lists.has(List::Tools) && lists.has(List::Resources) && !lists.has(List::Prompts));
        assert!(lists.take(List::Tools) && !lists.take(List::Tools));
        lists.insert(List::Prompts);
        assert!(lists.take(List::Prompts) && lists.take(List::Resources));
        assert_eq!(lists, Lists::NONE);
    }

    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 112, "{}", size_of::<Stream>());
    }
}
