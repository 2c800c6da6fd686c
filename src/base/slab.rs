//! A bounded slab with generational keys.
//!
//! Invariants: a key names one value; once that value is removed the key is never valid again, even
//! when its slot is reused (ABA protection). Slots are reused last in, first out, so that a busy
//! slab stays in cache. The slab never shrinks and never grows past `slots_max`.

use std::num::NonZeroU32;

use crate::heap_bytes;

/// Names one value of a [`Slab`]: a slot and its generation. An optional key takes no more than a
/// key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    index: u32,
    generation: NonZeroU32,
}

heap_bytes!(Key {} inline { index, generation });

impl Key {
    /// Returns the slot index, unique among the values in the slab at any one time.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the slot, see [`Slab::key_at`].
    pub(super) const fn slot(self) -> u32 {
        self.index
    }

    /// Packs the key into 64 bits.
    pub const fn to_bits(self) -> u64 {
        ((self.generation.get() as u64 - 1) << 32) | self.index as u64
    }

    /// Unpacks a key made by [`Key::to_bits`].
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the word are meant")]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: FIRST_GENERATION.saturating_add((bits >> 32) as u32),
        }
    }
}

/// A bounded collection with stable keys; insertion, lookup and removal take constant time.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free_head: u32,
    len: usize,
    slots_max: usize,
}

// `repr(C)` puts the generation before the value, next to the value's first field, so that checking
// the key and reading that field touch the same cache line.
#[derive(Debug)]
#[repr(C)]
struct Slot<T> {
    generation: NonZeroU32,
    state: SlotState<T>,
}

#[derive(Debug)]
enum SlotState<T> {
    Occupied(T),
    Vacant { next: u32 },
}

const NO_SLOT: u32 = u32::MAX;
/// Generation of a slot that is used for the first time.
const FIRST_GENERATION: NonZeroU32 = NonZeroU32::MIN;

impl<T> Slab<T> {
    /// Creates an empty slab for at most `slots_max` values (fewer than `u32::MAX`). Allocates
    /// nothing before the first insertion.
    pub fn new(slots_max: usize) -> Self {
        let slots_max = slots_max.min(NO_SLOT as usize - 1);
        Self { slots: Vec::new(), free_head: NO_SLOT, len: 0, slots_max }
    }

    /// Bytes of one slot, without what its value owns.
    pub const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// Returns the bytes of the slots, without what their values own.
    pub const fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * Self::SLOT_BYTES
    }

    /// Inserts `value` and returns its key, or returns the value as an error if the slab is full.
    pub fn insert(&mut self, value: T) -> Result<Key, T> {
        if self.free_head == NO_SLOT {
            if self.slots.len() >= self.slots_max {
                return Err(value);
            }
            let Ok(index) = u32::try_from(self.slots.len()) else {
                return Err(value);
            };
            let generation = FIRST_GENERATION;
            self.slots.push(Slot { generation, state: SlotState::Occupied(value) });
            self.len += 1;
            return Ok(Key { index, generation });
        }
        let index = self.free_head;
        let slot = &mut self.slots[index as usize];
        let SlotState::Vacant { next } = slot.state else {
            unreachable!("the free list contains only vacant slots");
        };
        self.free_head = next;
        slot.state = SlotState::Occupied(value);
        self.len += 1;
        Ok(Key { index, generation: slot.generation })
    }

    /// Returns the value of `key`, or `None` if it has been removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index())? {
            Slot { generation, state: SlotState::Occupied(value) }
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// Returns the value of `key` mutably, or `None` if it has been removed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index())? {
            Slot { generation, state: SlotState::Occupied(value) }
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// Returns the key of the value in a slot, or `None` if it holds none.
    pub(super) fn key_at(&self, slot: u32) -> Option<Key> {
        match self.slots.get(slot as usize)? {
            Slot { generation, state: SlotState::Occupied(_) } => {
                Some(Key { index: slot, generation: *generation })
            }
            Slot { .. } => None,
        }
    }

    /// Returns the value in a slot, or `None` if it holds none.
    pub fn in_slot(&self, slot: u32) -> Option<&T> {
        match &self.slots.get(slot as usize)?.state {
            SlotState::Occupied(value) => Some(value),
            SlotState::Vacant { .. } => None,
        }
    }

    /// Returns the number of slots that were ever used.
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Removes and returns the value of `key`, which is invalid from then on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let slot = &mut self.slots[key.index()];
        slot.generation = slot.generation.checked_add(1).unwrap_or(FIRST_GENERATION);
        let state = std::mem::replace(&mut slot.state, SlotState::Vacant { next: self.free_head });
        self.free_head = key.index;
        self.len -= 1;
        match state {
            SlotState::Occupied(value) => Some(value),
            SlotState::Vacant { .. } => None,
        }
    }

    /// Iterates over all keys and values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
            SlotState::Occupied(value) => {
                let index = u32::try_from(index).ok()?;
                Some((Key { index, generation: slot.generation }, value))
            }
            SlotState::Vacant { .. } => None,
        })
    }

    /// Iterates over at most `count` keys and values, of slots that are as far apart. Another
    /// `start` selects other slots, if there are more.
    pub fn sample(&self, count: u32, start: u32) -> impl Iterator<Item = (Key, &T)> {
        let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let step = slots.div_ceil(count.max(1)).max(1);
        (start % step..slots).step_by(step as usize).filter_map(|slot| {
            let key = self.key_at(slot)?;
            self.get(key).map(|value| (key, value))
        })
    }

    /// Iterates over all keys and mutable values in slot order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| match &mut slot.state {
            SlotState::Occupied(value) => {
                let index = u32::try_from(index).ok()?;
                Some((Key { index, generation: slot.generation }, value))
            }
            SlotState::Vacant { .. } => None,
        })
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the slab holds no value.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_key_never_names_the_next_value() {
        let mut slab = Slab::new(4);
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').unwrap();
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
    }

    #[test]
    fn full_slab_returns_the_value() {
        let mut slab = Slab::new(1);
        let key = slab.insert(1).unwrap();
        assert_eq!(slab.insert(2), Err(2));
        assert_eq!(slab.remove(key), Some(1));
        assert!(slab.is_empty());
        assert!(slab.insert(3).is_ok());
    }

    /// Each socket, timer and list refers to its connection by one.
    #[test]
    fn optional_key_takes_eight_bytes() {
        assert_eq!(size_of::<Option<Key>>(), 8);
    }

    #[test]
    fn key_survives_conversion_to_bits() {
        let mut slab = Slab::new(8);
        let keys: Vec<Key> = (0..5).map(|n| slab.insert(n).unwrap()).collect();
        slab.remove(keys[2]);
        let again = slab.insert(9).unwrap();
        assert_eq!(Key::from_bits(again.to_bits()), again);
        assert_eq!(slab.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 1, 9, 3, 4]);
        assert_eq!(slab.len(), 5);
    }
}
