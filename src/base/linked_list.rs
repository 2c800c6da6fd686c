//! Doubly linked lists of values that a slab stores.
//!
//! Invariants: the links stand in the values themselves, so every operation takes constant time and
//! allocates nothing; a value has one pair of links for each list that it can be in at a time.

use crate::slab::{Key, Slab};

/// Slot of no value.
const NO_SLOT: u32 = u32::MAX;

/// The neighbours of a value in a list, by slot. The list is a ring: the last value precedes the
/// first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    /// The links of a value that is in no list.
    pub const NONE: Self = Self { previous: NO_SLOT, next: NO_SLOT };

    /// Returns whether the value is in a list.
    pub const fn is_linked(self) -> bool {
        self.next != NO_SLOT
    }
}

/// A value with the links of lists of the kind `LIST`.
pub trait Linked<const LIST: usize> {
    /// Returns its links, to change them.
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of values with links of the kind `LIST`. All of them are in the same slab, and are
/// removed from the list before they are removed from the slab.
#[derive(Debug)]
pub struct LinkedList<const LIST: usize> {
    first: u32,
}

impl<const LIST: usize> Default for LinkedList<LIST> {
    fn default() -> Self {
        Self { first: NO_SLOT }
    }
}

impl<const LIST: usize> LinkedList<LIST> {
    /// Returns the first value.
    pub fn first<T>(&self, slab: &Slab<T>) -> Option<Key> {
        slab.key_at(self.first)
    }

    /// Returns the last value.
    pub fn last<T: Linked<LIST>>(&self, slab: &mut Slab<T>) -> Option<Key> {
        let last = links_at(slab, self.first)?.previous;
        slab.key_at(last)
    }

    /// Appends a value, which is in no list of this kind.
    pub fn push_back<T: Linked<LIST>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let slot = key.slot();
        let Some(first) = links_at(slab, self.first) else {
            self.first = slot;
            set_links(slab, slot, Links { previous: slot, next: slot });
            return;
        };
        let last = std::mem::replace(&mut first.previous, slot);
        if let Some(last) = links_at(slab, last) {
            last.next = slot;
        }
        set_links(slab, slot, Links { previous: last, next: self.first });
    }

    /// Removes a value, which is in this list.
    pub fn remove<T: Linked<LIST>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let slot = key.slot();
        let Some(links) = links_at(slab, slot) else { return };
        let Links { previous, next } = std::mem::replace(links, Links::NONE);
        if next == slot {
            self.first = NO_SLOT;
            return;
        }
        if let Some(previous) = links_at(slab, previous) {
            previous.next = next;
        }
        if let Some(next) = links_at(slab, next) {
            next.previous = previous;
        }
        if self.first == slot {
            self.first = next;
        }
    }

    /// Returns the first value that `matches` accepts, of the first `visits_max`.
    pub fn find_first<T: Linked<LIST>>(
        &self,
        slab: &mut Slab<T>,
        visits_max: usize,
        matches: impl Fn(&T) -> bool,
    ) -> Option<Key> {
        let mut slot = self.first;
        for _ in 0..visits_max {
            let key = slab.key_at(slot)?;
            let value = slab.get_mut(key)?;
            if matches(value) {
                return Some(key);
            }
            slot = value.links_mut().next;
            if slot == self.first {
                return None;
            }
        }
        None
    }

    /// Returns the keys of the values in order.
    pub fn keys<T: Linked<LIST>>(&self, slab: &mut Slab<T>) -> Vec<Key> {
        let mut keys: Vec<Key> = self.first(slab).into_iter().collect();
        while let Some(last) = keys.last()
            && let Some(&mut Links { next, .. }) = links_at(slab, last.slot())
            && next != self.first
        {
            keys.extend(slab.key_at(next));
        }
        keys
    }
}

fn links_at<const LIST: usize, T: Linked<LIST>>(
    slab: &mut Slab<T>,
    slot: u32,
) -> Option<&mut Links> {
    let key = slab.key_at(slot)?;
    slab.get_mut(key).map(T::links_mut)
}

fn set_links<const LIST: usize, T: Linked<LIST>>(slab: &mut Slab<T>, slot: u32, links: Links) {
    if let Some(stored) = links_at(slab, slot) {
        *stored = links;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[derive(Debug)]
    struct Value {
        number: usize,
        links: [Links; 2],
    }

    impl Linked<0> for Value {
        fn links_mut(&mut self) -> &mut Links {
            &mut self.links[0]
        }
    }

    impl Linked<1> for Value {
        fn links_mut(&mut self) -> &mut Links {
            &mut self.links[1]
        }
    }

    fn numbers<const LIST: usize>(list: &LinkedList<LIST>, slab: &mut Slab<Value>) -> Vec<usize>
    where
        Value: Linked<LIST>,
    {
        let keys = list.keys(slab);
        keys.into_iter().map(|key| slab.get(key).unwrap().number).collect()
    }

    #[test]
    fn linked_list_agrees_with_a_vector() {
        let mut random = Random::seeded(3);
        let mut slab = Slab::new(16);
        let mut list = LinkedList::<0>::default();
        let (mut keys, mut model) = (Vec::new(), Vec::new());
        for number in 0..10_000 {
            if keys.len() < 12 && random.below(2) == 0 {
                let key = slab.insert(Value { number, links: [Links::NONE; 2] }).unwrap();
                list.push_back(&mut slab, key);
                keys.push(key);
                model.push(number);
            } else if !keys.is_empty() {
                let index = random.below(keys.len());
                let key = keys.remove(index);
                list.remove(&mut slab, key);
                assert!(!slab.get(key).unwrap().links[0].is_linked());
                assert_eq!(slab.remove(key).unwrap().number, model.remove(index));
            }
            assert_eq!(list.first(&slab), keys.first().copied());
            assert_eq!(list.last(&mut slab), keys.last().copied());
            assert_eq!(numbers(&list, &mut slab), model);
            let third = list.find_first(&mut slab, 3, |it| Some(&it.number) == model.get(2));
            assert_eq!(third, keys.get(2).copied());
            assert_eq!(list.find_first(&mut slab, 20, |_| false), None);
        }
    }

    #[test]
    fn value_is_in_two_lists_by_different_links() {
        let mut slab = Slab::new(4);
        let (mut one, mut other) = (LinkedList::<0>::default(), LinkedList::<1>::default());
        for number in 0..3 {
            let key = slab.insert(Value { number, links: [Links::NONE; 2] }).unwrap();
            one.push_back(&mut slab, key);
            other.push_back(&mut slab, key);
        }
        let first = one.first(&slab).unwrap();
        one.remove(&mut slab, first);
        one.push_back(&mut slab, first);
        assert_eq!(numbers(&one, &mut slab), [1, 2, 0]);
        assert_eq!(numbers(&other, &mut slab), [0, 1, 2]);
    }
}
