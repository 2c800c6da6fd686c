//! The connections of a shard that no limit of a transport counts, and which of them ends for
//! another one.

use corelane_base::eviction::{Holder, first_idle};
use corelane_base::slab::Key;

use super::UNCOUNTED_CONNECTIONS_MAX;

/// Keys of connections that are not counted; some have closed or are counted by now.
const KEYS_MAX: usize = 2 * UNCOUNTED_CONNECTIONS_MAX as usize;

/// The open connections that are not counted.
#[derive(Debug, Default)]
pub struct Uncounted {
    count: u32,
    /// At most [`KEYS_MAX`], in the order in which they were opened.
    keys: Vec<Key>,
}

impl Uncounted {
    /// Returns whether no further one may be open.
    pub const fn is_full(&self) -> bool {
        self.count >= UNCOUNTED_CONNECTIONS_MAX
    }

    /// Adds one.
    pub const fn acquire(&mut self) {
        self.count += 1;
    }

    /// Removes one.
    pub const fn release(&mut self) {
        self.count -= 1;
    }

    /// Notes the key of one, which may be noted since it was not counted before. `holder` returns
    /// `None` for those that have closed or are counted.
    pub fn push(&mut self, key: Key, holder: impl Fn(Key) -> Option<Holder<Key>>) {
        if self.keys.contains(&key) {
            return;
        }
        if self.keys.len() >= KEYS_MAX {
            self.keys.retain(|key| holder(*key).is_some());
        }
        self.keys.push(key);
    }

    /// Returns the one that ends first: of those that were not of use first, the oldest of the
    /// network with most.
    pub fn first(&mut self, holder: impl Fn(Key) -> Option<Holder<Key>>) -> Option<Key> {
        self.keys.retain(|key| holder(*key).is_some());
        first_idle(self.keys.iter().filter_map(|key| holder(*key)))
    }
}
