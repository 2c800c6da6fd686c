//! Operations in flight: the 64-bit user data of their submissions, a kind and an index, and the
//! values at these indices.
//!
//! Invariants of [`OperationSlab`]: an index names one value from [`OperationSlab::insert`] to
//! [`OperationSlab::remove`]. Values may move as others are inserted, so what the kernel points to
//! must be boxed.

use io_uring::cqueue;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OperationKind {
    /// Accept number `index`.
    Accept,
    /// Bind the socket of connect attempt `index`.
    Bind,
    /// Cancel an operation; the result is ignored.
    Cancel,
    /// Close socket `index`.
    Close,
    /// Connect attempt `index`.
    Connect,
    /// Shut down writing on socket `index`; the result is ignored.
    ShutdownWrite,
    /// Move the descriptor of connect attempt `index` into a slot.
    InstallSlot,
    /// A `MSG_RING` to known ring `index`.
    SendMessage,
    /// Receive on socket `index`.
    Receive,
    /// Send `index`.
    Send,
    /// Open a socket for connect attempt `index`.
    OpenSocket,
    /// Set a socket option; the result is ignored.
    SetOption,
    /// Read the eventfd that wakers write to.
    ReadEvent,
    /// A `MSG_RING` from another ring, which ends the wait; not one of our submissions.
    ReceiveMessage,
}

const KINDS: [OperationKind; 14] = [
    OperationKind::Accept,
    OperationKind::Bind,
    OperationKind::Cancel,
    OperationKind::Close,
    OperationKind::Connect,
    OperationKind::ShutdownWrite,
    OperationKind::InstallSlot,
    OperationKind::SendMessage,
    OperationKind::Receive,
    OperationKind::Send,
    OperationKind::OpenSocket,
    OperationKind::SetOption,
    OperationKind::ReadEvent,
    OperationKind::ReceiveMessage,
];

pub(super) const fn encode(purpose: OperationKind, index: u32) -> u64 {
    ((purpose as u64) << 32) | index as u64
}

/// Decodes user data; returns `None` for an unknown kind.
#[expect(clippy::cast_possible_truncation, reason = "the low half of the word is meant")]
pub(super) fn decode(token: u64) -> Option<(OperationKind, u32)> {
    let purpose = *KINDS.get(usize::try_from(token >> 32).ok()?)?;
    Some((purpose, token as u32))
}

/// Returns whether a completion is the last one of a submission that always completes. `MSG_RING`
/// does not: neither those received, nor those delivered.
pub(super) fn is_last(token: u64, flags: u32) -> bool {
    let purpose = token >> 32;
    !cqueue::more(flags)
        && purpose != OperationKind::ReceiveMessage as u64
        && purpose != OperationKind::SendMessage as u64
}

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
    fn user_data_round_trips_every_kind() {
        for purpose in KINDS {
            assert_eq!(decode(encode(purpose, u32::MAX)), Some((purpose, u32::MAX)));
        }
        assert_eq!(decode(u64::MAX), None);
    }

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
