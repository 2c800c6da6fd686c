//! Places: what waits for a completion, each under the number that the kernel carries.
//!
//! What it keeps true: a number names one value from [`Places::insert`] to [`Places::remove`]; a
//! value is never moved out before, though the place of the value itself may move as more come
//! (what the kernel points at must be boxed).

/// Values under small dense numbers, reused last in, first out.
#[derive(Debug)]
pub(super) struct Places<T> {
    places: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Places<T> {
    /// Keeps `value`; the number under which it stands.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.places[place as usize] = Some(value);
            return place;
        }
        let Ok(place) = u32::try_from(self.places.len()) else {
            unreachable!("memory ends before four thousand million operations are in flight");
        };
        self.places.push(Some(value));
        place
    }

    /// The value under a number, while it stands.
    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Takes the value out; its number is free again.
    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.take()?;
        self.vacant.push(place);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_reused_only_after_its_value_has_left() {
        let mut places = Places::default();
        let (first, second) = (places.insert('a'), places.insert('b'));
        assert_eq!(places.remove(first), Some('a'));
        assert_eq!((places.remove(first), places.get_mut(first)), (None, None));
        assert_eq!(places.insert('c'), first);
        assert_eq!(places.get_mut(second), Some(&mut 'b'));
        assert_eq!(places.remove(7), None);
    }
}
