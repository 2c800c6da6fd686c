//! Operations in flight, each at the index that its user data carries.
//!
//! Invariants: an index names one value from [`OperationSlab::insert`] to
//! [`OperationSlab::remove`]. Values may move as others are inserted, so what the kernel points to
//! must be boxed.

/// Values at small dense indices, which are reused last in, first out.
#[derive(Debug)]
pub(super) struct OperationSlab<T> {
    entries: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for OperationSlab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> OperationSlab<T> {
    /// Inserts `value` and returns its index.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.vacant.pop() {
            self.entries[index as usize] = Some(value);
            return index;
        }
        let Ok(index) = u32::try_from(self.entries.len()) else {
            unreachable!("fewer than 2^32 operations fit into memory");
        };
        self.entries.push(Some(value));
        index
    }

    /// Returns the value at `index`, if any.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Removes and returns the value at `index`, which is free for reuse.
    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take()?;
        self.vacant.push(index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_index_is_reused_after_removal() {
        let mut slab = OperationSlab::default();
        let (first, second) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!((slab.remove(first), slab.get_mut(first)), (None, None));
        assert_eq!(slab.insert('c'), first);
        assert_eq!(slab.get_mut(second), Some(&mut 'b'));
        assert_eq!(slab.remove(7), None);
    }
}
