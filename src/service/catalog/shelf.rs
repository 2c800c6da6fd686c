//! One list of a catalog: its entries, how they are found, and its pages for every revision.
//!
//! What it keeps true: an entry is checked and framed once, when it first enters a catalog, and
//! shared by every edition that has it. A shelf that an edition does not touch is shared whole. So
//! a change costs what it changes, and for the list that it changes a copy of framed bytes.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use crate::protocol::message::{self, CacheHint};
use crate::protocol::revision::Revision;
use crate::service::catalog::name::BuildNameHasher;
use crate::service::catalog::page::Pages;
use crate::service::entry::Entry;
use crate::service::problem::CatalogError;

/// An entry with the object that lists it, for each revision. Revisions that say the same share the
/// bytes.
pub(super) struct Card<E> {
    pub(super) entry: E,
    framed: [Bytes; Revision::ALL.len()],
}

impl<E: Entry> Card<E> {
    fn new(mut entry: E) -> Result<Self, CatalogError> {
        if let Err(problem) = entry.fit() {
            let name = entry.key().into();
            return Err(CatalogError::Unfit { kind: E::KIND, name, problem });
        }
        let mut said = Vec::new();
        let mut before = Bytes::new();
        let framed = Revision::ALL.map(|revision| {
            said.clear();
            entry.write(&mut said, revision);
            if before != said {
                before = Bytes::copy_from_slice(&said);
            }
            before.clone()
        });
        Ok(Self { entry, framed })
    }

    fn framed(&self, revision: Revision) -> &Bytes {
        &self.framed[revision as usize]
    }

    /// Whether the two revisions say the same of it, as far as that is known at a glance.
    fn says_alike(&self, one: Revision, other: Revision) -> bool {
        self.framed(one).as_ptr() == self.framed(other).as_ptr()
    }
}

/// A card that is found by the name of its entry.
struct Named<E>(Arc<Card<E>>);

impl<E: Entry> Borrow<str> for Named<E> {
    #[inline]
    fn borrow(&self) -> &str {
        self.0.entry.key()
    }
}

impl<E: Entry> Hash for Named<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.entry.key().hash(state);
    }
}

impl<E: Entry> PartialEq for Named<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.entry.key() == other.0.entry.key()
    }
}

impl<E: Entry> Eq for Named<E> {}

/// What the pages of all lists of a catalog have in common.
pub(super) struct Binding<'b> {
    /// Entries on a page, at most.
    pub(super) length_max: usize,
    pub(super) cache: CacheHint,
    /// What ends every result, by revision.
    pub(super) suffixes: &'b [Bytes; Revision::ALL.len()],
}

/// One list.
pub(super) struct Shelf<E> {
    cards: Box<[Arc<Card<E>>]>,
    named: HashSet<Named<E>, BuildNameHasher>,
    pages: Pages,
    framed: [Box<[Bytes]>; Revision::ALL.len()],
}

impl<E: Entry> Shelf<E> {
    fn new(cards: Box<[Arc<Card<E>>]>, binding: &Binding<'_>) -> Result<Self, CatalogError> {
        let mut named = HashSet::with_capacity_and_hasher(cards.len(), BuildNameHasher::new());
        for card in &cards {
            if !named.insert(Named(Arc::clone(card))) {
                let name = card.entry.key().into();
                return Err(CatalogError::Duplicate { kind: E::KIND, name });
            }
        }
        let keys = cards.iter().map(|card| card.entry.key());
        let pages = Pages::cut(E::LISTED, keys, binding.length_max);
        let mut framed: [Box<[Bytes]>; Revision::ALL.len()] = Default::default();
        let mut before: Option<Revision> = None;
        for revision in Revision::ALL {
            let page = |index| {
                let part = &cards[pages.entries(index)];
                // Pages end alike where the suffixes are: the legacy revisions have none.
                let model = before.filter(|before| {
                    !revision.is_modern()
                        && part.iter().all(|card| card.says_alike(revision, *before))
                });
                if let Some(model) = model {
                    return framed[model as usize][index].clone();
                }
                let mut out = Vec::new();
                let items = part.iter().map(|card| card.framed(revision));
                let (next, suffix) = (pages.next_cursor(index), binding.suffix(revision));
                message::list_page(
                    &mut out,
                    revision,
                    E::LISTED,
                    items,
                    next,
                    binding.cache,
                    suffix,
                );
                out.into_boxed_slice().into()
            };
            let pages = (0..pages.count()).map(page).collect();
            framed[revision as usize] = pages;
            before = Some(revision);
        }
        Ok(Self { cards, named, pages, framed })
    }

    /// Every entry, in the order of the list.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &E> {
        self.cards.iter().map(|card| &card.entry)
    }

    /// The entry called `name`, where there is one. Cost: some ten nanoseconds.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<&E> {
        self.named.get(name).map(|named| &named.0.entry)
    }

    /// The page that `cursor` leads to, the first one without it.
    pub(super) fn page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, crate::protocol::error::Error> {
        let index = self.pages.find(cursor)?;
        Ok(&self.framed[revision as usize][index])
    }

    /// Whether a client of some revision would read another list here than in `old`.
    pub(super) fn differs_from(&self, old: &Self) -> bool {
        let reads_alike = |(new, old): (&Arc<Card<E>>, &Arc<Card<E>>)| {
            Arc::ptr_eq(new, old) || new.framed == old.framed
        };
        self.cards.len() != old.cards.len() || !self.cards.iter().zip(&old.cards).all(reads_alike)
    }
}

impl<E: Entry + fmt::Debug> fmt::Debug for Shelf<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.entries()).finish()
    }
}

impl Binding<'_> {
    fn suffix(&self, revision: Revision) -> &[u8] {
        &self.suffixes[revision as usize]
    }
}

/// A list in the making: entries that came anew, and those of the edition before.
pub(super) struct Draft<E> {
    slots: Vec<Slot<E>>,
    /// The finished list, as long as nothing was changed.
    whole: Option<Arc<Shelf<E>>>,
}

enum Slot<E> {
    Fresh(E),
    Kept(Arc<Card<E>>),
}

impl<E: Entry> Draft<E> {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), whole: None }
    }

    /// A list that begins with all that `shelf` has.
    pub(super) fn of(shelf: &Arc<Shelf<E>>) -> Self {
        let slots = shelf.cards.iter().map(|card| Slot::Kept(Arc::clone(card))).collect();
        Self { slots, whole: Some(Arc::clone(shelf)) }
    }

    /// Adds an entry at the end.
    pub(super) fn push(&mut self, entry: E) {
        self.whole = None;
        self.slots.push(Slot::Fresh(entry));
    }

    /// Takes out the entry called `name`; nothing happens where there is none.
    pub(super) fn remove(&mut self, name: &str) {
        let count = self.slots.len();
        self.slots.retain(|slot| slot.entry().key() != name);
        if self.slots.len() != count {
            self.whole = None;
        }
    }

    /// Takes out all entries of these names, in one walk.
    pub(super) fn remove_all(&mut self, names: &HashSet<impl Borrow<str> + Eq + Hash>) {
        let count = self.slots.len();
        self.slots.retain(|slot| !names.contains(slot.entry().key()));
        if self.slots.len() != count {
            self.whole = None;
        }
    }

    /// Puts each of `entries` in the place of the one of its name, in one walk; at the end where
    /// there is none.
    pub(super) fn replace_all(&mut self, entries: impl IntoIterator<Item = E>) {
        let places = self.slots.iter().enumerate();
        let places: HashMap<Box<str>, usize> =
            places.map(|(place, slot)| (slot.entry().key().into(), place)).collect();
        for entry in entries {
            self.whole = None;
            match places.get(entry.key()) {
                Some(place) => self.slots[*place] = Slot::Fresh(entry),
                None => self.slots.push(Slot::Fresh(entry)),
            }
        }
    }

    /// Whether there is an entry called `name`. Looks at one after the other.
    pub(super) fn has(&self, name: &str) -> bool {
        self.any(|entry| entry.key() == name)
    }

    /// The pages must be framed anew, whatever the entries.
    pub(super) fn unbind(&mut self) {
        self.whole = None;
    }

    /// Whether some entry is as `wanted` says.
    pub(super) fn any(&self, wanted: impl Fn(&E) -> bool) -> bool {
        self.slots.iter().any(|slot| wanted(slot.entry()))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Checks and frames what is new.
    pub(super) fn finish(self, binding: &Binding<'_>) -> Result<Arc<Shelf<E>>, CatalogError> {
        if let Some(whole) = self.whole {
            return Ok(whole);
        }
        let cards = self.slots.into_iter().map(|slot| match slot {
            Slot::Fresh(entry) => Card::new(entry).map(Arc::new),
            Slot::Kept(card) => Ok(card),
        });
        let cards: Result<Box<[_]>, _> = cards.collect();
        Shelf::new(cards?, binding).map(Arc::new)
    }
}

impl<E> Slot<E> {
    fn entry(&self) -> &E {
        match self {
            Self::Fresh(entry) => entry,
            Self::Kept(card) => &card.entry,
        }
    }
}

impl<E: Entry + fmt::Debug> fmt::Debug for Draft<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.slots.iter().map(Slot::entry)).finish()
    }
}
