//! One list of a catalog: its entries, their lookup by name, and its encoded pages.
//!
//! An entry is validated and encoded once, when it first enters a catalog, and shared by every
//! later version that contains it. A list that an update does not change is shared as a whole, so
//! an update costs the changed entries and a copy of the encoded bytes of the changed lists.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::model::{self, CacheHint};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

use crate::service::CatalogError;
use crate::service::catalog::pages::Pages;
use crate::service::entry::Entry;
use crate::service::hash::BuildNameHasher;

/// An entry with its encoded list object for each revision. Revisions with equal objects share the
/// bytes.
pub(super) struct EncodedEntry<E> {
    pub(super) entry: E,
    encoded: [Bytes; Revision::ALL.len()],
}

impl<E: Entry> EncodedEntry<E> {
    fn new(mut entry: E) -> Result<Self, CatalogError> {
        if let Err(problem) = entry.prepare() {
            let name = entry.key().into();
            return Err(CatalogError::InvalidEntry { kind: E::KIND, name, problem });
        }
        let mut buf = Vec::new();
        let mut previous = Bytes::new();
        let encoded = Revision::ALL.map(|revision| {
            buf.clear();
            entry.write(&mut buf, revision);
            if previous != buf {
                previous = Bytes::copy_from_slice(&buf);
            }
            previous.clone()
        });
        Ok(Self { entry, encoded })
    }

    fn encoded(&self, revision: Revision) -> &Bytes {
        &self.encoded[revision as usize]
    }

    /// Whether the two revisions share the encoded object. `false` for equal objects of revisions
    /// that are not adjacent.
    fn shares_encoding(&self, one: Revision, other: Revision) -> bool {
        self.encoded(one).as_ptr() == self.encoded(other).as_ptr()
    }
}

/// An entry with its position in the list, which hashes and compares as its key.
struct ByKey<E>(Arc<EncodedEntry<E>>, usize);

impl<E: Entry> Borrow<str> for ByKey<E> {
    #[inline]
    fn borrow(&self) -> &str {
        self.0.entry.key()
    }
}

impl<E: Entry> Hash for ByKey<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.entry.key().hash(state);
    }
}

impl<E: Entry> PartialEq for ByKey<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.entry.key() == other.0.entry.key()
    }
}

impl<E: Entry> Eq for ByKey<E> {}

/// Parameters that the pages of all lists of a catalog share.
pub(super) struct PageParams<'b> {
    /// Maximum number of entries on a page.
    pub(super) page_size: usize,
    pub(super) cache_hint: CacheHint,
    /// Last members of every result, by revision.
    pub(super) result_suffixes: &'b [Bytes; Revision::ALL.len()],
}

/// One list of a catalog.
pub(super) struct Registry<E> {
    encoded_entries: Box<[Arc<EncodedEntry<E>>]>,
    by_key: HashSet<ByKey<E>, BuildNameHasher>,
    /// Positions of the entries that have another key, by that.
    by_other_key: HashMap<Box<str>, usize, BuildNameHasher>,
    pages: Pages,
    encoded_pages: [Box<[Bytes]>; Revision::ALL.len()],
}

impl<E: Entry> Registry<E> {
    fn new(
        entries: Box<[Arc<EncodedEntry<E>>]>,
        params: &PageParams<'_>,
    ) -> Result<Self, CatalogError> {
        let mut by_key = HashSet::with_capacity_and_hasher(entries.len(), BuildNameHasher::new());
        for (position, entry) in entries.iter().enumerate() {
            if !by_key.insert(ByKey(Arc::clone(entry), position)) {
                let name = entry.entry.key().into();
                return Err(CatalogError::Duplicate { kind: E::KIND, name });
            }
        }
        let mut by_other_key = HashMap::default();
        for (position, entry) in entries.iter().enumerate() {
            if let Some(key) = entry.entry.other_key() {
                by_other_key.entry(key.into()).or_insert(position);
            }
        }
        let keys = entries.iter().map(|entry| entry.entry.key());
        let pages = Pages::new(E::LIST, keys, params.page_size);
        let mut encoded_pages: [Box<[Bytes]>; Revision::ALL.len()] = Default::default();
        let mut previous: Option<Revision> = None;
        for revision in Revision::ALL {
            let page = |index| {
                let part = &entries[pages.entry_range(index)];
                // Only legacy revisions can share pages: their results have no suffix.
                let equal = previous.filter(|previous| {
                    !revision.is_modern()
                        && part.iter().all(|entry| entry.shares_encoding(revision, *previous))
                });
                if let Some(equal) = equal {
                    return encoded_pages[equal as usize][index].clone();
                }
                let mut out = Vec::new();
                let items = part.iter().map(|entry| entry.encoded(revision));
                let (next, suffix) = (pages.next_cursor(index), params.result_suffix(revision));
                model::write_list_result(
                    &mut out,
                    revision,
                    E::LIST,
                    items,
                    next,
                    params.cache_hint,
                    suffix,
                );
                out.into_boxed_slice().into()
            };
            let pages = (0..pages.count()).map(page).collect();
            encoded_pages[revision as usize] = pages;
            previous = Some(revision);
        }
        Ok(Self { encoded_entries: entries, by_key, by_other_key, pages, encoded_pages })
    }

    /// All entries in the order of the list.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &E> {
        self.encoded_entries.iter().map(|encoded| &encoded.entry)
    }

    /// The entry with this key, or `None`. Cost: about ten nanoseconds.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<&E> {
        self.by_key.get(name).map(|named| &named.0.entry)
    }

    /// The entry with this URI in any spelling, or `None`. An equal spelling comes first.
    pub(super) fn find_uri(&self, uri: &str) -> Option<&E> {
        if let Some(entry) = self.find(uri) {
            return Some(entry);
        }
        let normalized = uri::normalize(uri);
        let key = uri::comparison_key(&normalized);
        let other = || self.by_other_key.get(&*key).and_then(|position| self.get(*position));
        self.find(&normalized).or_else(|| self.find(&key)).or_else(other)
    }

    /// The encoded object of the entry with this key, or `None`.
    pub(super) fn find_encoded(&self, key: &str, revision: Revision) -> Option<&Bytes> {
        self.by_key.get(key).map(|named| named.0.encoded(revision))
    }

    /// The position of the entry with this key in the list, or `None`. Cost: that of
    /// [`Registry::find`].
    #[inline]
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.by_key.get(name).map(|named| named.1)
    }

    /// The entry at a position.
    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<&E> {
        self.encoded_entries.get(position).map(|encoded| &encoded.entry)
    }

    /// The encoded page of `cursor`, or the first page.
    pub(super) fn page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, corelane_protocol::error::Error> {
        let index = self.pages.page_of_cursor(cursor)?;
        Ok(&self.encoded_pages[revision as usize][index])
    }

    /// Writes the page of `cursor`, or the first page, without the entries that are not listed. It
    /// may not be cached.
    pub(super) fn write_page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
        is_listed: impl Fn(&str) -> bool,
        suffix: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), corelane_protocol::error::Error> {
        let index = self.pages.page_of_cursor(cursor)?;
        let part = self.encoded_entries[self.pages.entry_range(index)].iter();
        let listed = part.filter(|entry| is_listed(entry.entry.key()));
        let items = listed.map(|entry| entry.encoded(revision));
        let next = self.pages.next_cursor(index);
        let hint = CacheHint { ttl_ms: 0, is_public: false };
        model::write_list_result(out, revision, E::LIST, items, next, hint, suffix);
        Ok(())
    }

    /// Whether a client of some revision sees another list than in `old`.
    pub(super) fn differs_from(&self, old: &Self) -> bool {
        let is_equal = |(new, old): (&Arc<EncodedEntry<E>>, &Arc<EncodedEntry<E>>)| {
            Arc::ptr_eq(new, old) || new.encoded == old.encoded
        };
        self.encoded_entries.len() != old.encoded_entries.len()
            || !self.encoded_entries.iter().zip(&old.encoded_entries).all(is_equal)
    }
}

impl<E: Entry + fmt::Debug> fmt::Debug for Registry<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.entries()).finish()
    }
}

impl PageParams<'_> {
    fn result_suffix(&self, revision: Revision) -> &[u8] {
        &self.result_suffixes[revision as usize]
    }
}

/// Builder of a list: new entries and those of the previous version.
pub(super) struct RegistryBuilder<E> {
    slots: Vec<EntrySlot<E>>,
    /// The previous list, as long as nothing was changed.
    unchanged: Option<Arc<Registry<E>>>,
}

enum EntrySlot<E> {
    New(E),
    Existing(Arc<EncodedEntry<E>>),
}

impl<E: Entry> RegistryBuilder<E> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), unchanged: None }
    }

    /// A list with all entries of `registry`.
    pub(super) fn from_registry(registry: &Arc<Registry<E>>) -> Self {
        let slots = registry
            .encoded_entries
            .iter()
            .map(|entry| EntrySlot::Existing(Arc::clone(entry)))
            .collect();
        Self { slots, unchanged: Some(Arc::clone(registry)) }
    }

    pub(super) fn push(&mut self, entry: E) {
        self.unchanged = None;
        self.slots.push(EntrySlot::New(entry));
    }

    /// Removes the entry `name`, if it exists.
    pub(super) fn remove(&mut self, name: &str) {
        let count = self.slots.len();
        self.slots.retain(|slot| slot.entry().key() != name);
        if self.slots.len() != count {
            self.unchanged = None;
        }
    }

    /// Removes all entries of these names, in one pass.
    pub(super) fn remove_all(&mut self, names: &HashSet<impl Borrow<str> + Eq + Hash>) {
        let count = self.slots.len();
        self.slots.retain(|slot| !names.contains(slot.entry().key()));
        if self.slots.len() != count {
            self.unchanged = None;
        }
    }

    /// Replaces entries by those with the same key, in one pass; appends the others.
    pub(super) fn replace_all(&mut self, entries: impl IntoIterator<Item = E>) {
        let indices = self.slots.iter().enumerate();
        let indices: HashMap<Box<str>, usize> =
            indices.map(|(index, slot)| (slot.entry().key().into(), index)).collect();
        for entry in entries {
            self.unchanged = None;
            match indices.get(entry.key()) {
                Some(index) => self.slots[*index] = EntrySlot::New(entry),
                None => self.slots.push(EntrySlot::New(entry)),
            }
        }
    }

    /// Whether there is an entry `name`. Cost: linear.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.any(|entry| entry.key() == name)
    }

    /// Forces the pages to be encoded again, even if no entry changes.
    pub(super) fn invalidate_pages(&mut self) {
        self.unchanged = None;
    }

    /// Whether some entry satisfies `predicate`.
    pub(super) fn any(&self, predicate: impl Fn(&E) -> bool) -> bool {
        self.slots.iter().any(|slot| predicate(slot.entry()))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Validates and encodes new entries.
    pub(super) fn build(self, params: &PageParams<'_>) -> Result<Arc<Registry<E>>, CatalogError> {
        if let Some(unchanged) = self.unchanged {
            return Ok(unchanged);
        }
        let entries = self.slots.into_iter().map(|slot| match slot {
            EntrySlot::New(entry) => EncodedEntry::new(entry).map(Arc::new),
            EntrySlot::Existing(entry) => Ok(entry),
        });
        let entries: Result<Box<[_]>, _> = entries.collect();
        Registry::new(entries?, params).map(Arc::new)
    }
}

impl<E> EntrySlot<E> {
    fn entry(&self) -> &E {
        match self {
            Self::New(entry) => entry,
            Self::Existing(existing) => &existing.entry,
        }
    }
}

impl<E: Entry + fmt::Debug> fmt::Debug for RegistryBuilder<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.slots.iter().map(EntrySlot::entry)).finish()
    }
}
