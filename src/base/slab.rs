//! A slab whose keys know their generation.
//!
//! What it keeps true: a key names one stay of one value. When the value leaves, the key is dead
//! for good, even when its place is taken again (the ABA guard). Places are reused last in, first
//! out, so that a busy slab stays in cache. It never shrinks and never grows past `places_max`.

/// Names one value of a [`Slab`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The place in the slab, unique among the values that live at the same time.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Both halves in one word, for places that carry 64 bits.
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// The inverse of [`Key::to_bits`].
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the word are meant")]
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A bounded collection with stable keys: insert, look up and remove in constant time.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    vacant_first: u32,
    length: usize,
    places_max: usize,
}

/// In this order: the generation stands before the value, where most values begin with what is
/// looked at first, and not behind it, in another line of memory.
#[derive(Debug)]
#[repr(C)]
struct Place<T> {
    generation: u32,
    stay: Stay<T>,
}

#[derive(Debug)]
enum Stay<T> {
    Taken(T),
    Vacant { next: u32 },
}

const NO_PLACE: u32 = u32::MAX;

impl<T> Slab<T> {
    /// An empty slab that holds at most `places_max` values (fewer than `u32::MAX`); takes no
    /// memory before the first one.
    pub fn new(places_max: usize) -> Self {
        let places_max = places_max.min(NO_PLACE as usize - 1);
        Self { places: Vec::new(), vacant_first: NO_PLACE, length: 0, places_max }
    }

    /// Takes a place for `value`, or hands it back when the slab is full.
    pub fn insert(&mut self, value: T) -> Result<Key, T> {
        if self.vacant_first == NO_PLACE {
            if self.places.len() >= self.places_max {
                return Err(value);
            }
            let Ok(index) = u32::try_from(self.places.len()) else {
                return Err(value);
            };
            self.places.push(Place { generation: 0, stay: Stay::Taken(value) });
            self.length += 1;
            return Ok(Key { index, generation: 0 });
        }
        let index = self.vacant_first;
        let place = &mut self.places[index as usize];
        let Stay::Vacant { next } = place.stay else {
            unreachable!("the list of vacant places names only vacant places");
        };
        self.vacant_first = next;
        place.stay = Stay::Taken(value);
        self.length += 1;
        Ok(Key { index, generation: place.generation })
    }

    /// The value that `key` names, while it stays.
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index())? {
            Place { generation, stay: Stay::Taken(value) } if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The value that `key` names, to change, while it stays.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index())? {
            Place { generation, stay: Stay::Taken(value) } if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Takes the value out; its key is dead from here on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let place = &mut self.places[key.index()];
        place.generation = place.generation.wrapping_add(1);
        let stay = std::mem::replace(&mut place.stay, Stay::Vacant { next: self.vacant_first });
        self.vacant_first = key.index;
        self.length -= 1;
        match stay {
            Stay::Taken(value) => Some(value),
            Stay::Vacant { .. } => None,
        }
    }

    /// Every value with its key, in the order of places.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| match &place.stay {
            Stay::Taken(value) => {
                let index = u32::try_from(index).ok()?;
                Some((Key { index, generation: place.generation }, value))
            }
            Stay::Vacant { .. } => None,
        })
    }

    /// Every value with its key, to change, in the order of places.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| match &mut place.stay {
            Stay::Taken(value) => {
                let index = u32::try_from(index).ok()?;
                Some((Key { index, generation: place.generation }, value))
            }
            Stay::Vacant { .. } => None,
        })
    }

    /// How many values stay.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether none stays.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bound given at the start.
    pub const fn places_max(&self) -> usize {
        self.places_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_key_does_not_name_the_next_tenant() {
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
    fn a_full_slab_hands_the_value_back() {
        let mut slab = Slab::new(1);
        let key = slab.insert(1).unwrap();
        assert_eq!(slab.insert(2), Err(2));
        assert_eq!(slab.remove(key), Some(1));
        assert!(slab.is_empty());
        assert!(slab.insert(3).is_ok());
    }

    #[test]
    fn a_key_survives_the_way_through_a_word() {
        let mut slab = Slab::new(8);
        let keys: Vec<Key> = (0..5).map(|n| slab.insert(n).unwrap()).collect();
        slab.remove(keys[2]);
        let again = slab.insert(9).unwrap();
        assert_eq!(Key::from_bits(again.to_bits()), again);
        assert_eq!(slab.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 1, 9, 3, 4]);
        assert_eq!(slab.len(), 5);
    }
}
