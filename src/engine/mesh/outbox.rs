//! Letters that found no room, until there is some.
//!
//! What it keeps true: the letters to one target leave in the order in which they were put here,
//! and a target without room holds nobody else's letters up.
//!
//! What it does not do: bound itself. Whoever puts letters here bounds how many of them are out,
//! by [`Outbox::len`] or by what asks for them.

use std::collections::VecDeque;

use super::{Refusal, ShardId};

/// One sender's letters that wait, by target. Allocates while it grows, and keeps what it has.
#[derive(Debug)]
pub struct Outbox<L> {
    waiting: Vec<VecDeque<L>>,
    len: usize,
}

impl<L> Outbox<L> {
    /// An empty one for the targets below `shards`.
    pub fn new(shards: usize) -> Self {
        Self { waiting: (0..shards).map(|_| VecDeque::new()).collect(), len: 0 }
    }

    /// Letters that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a letter to `target` waits: the next one must wait behind it.
    #[inline]
    pub fn holds_for(&self, target: ShardId) -> bool {
        self.len > 0 && !self.waiting[target.index()].is_empty()
    }

    /// Letters to `target` that wait.
    ///
    /// # Panics
    ///
    /// When there is no such target.
    pub fn len_for(&self, target: ShardId) -> usize {
        self.waiting[target.index()].len()
    }

    /// Puts a letter behind the others to its target.
    ///
    /// # Panics
    ///
    /// When there is no such target.
    pub fn put(&mut self, target: ShardId, letter: L) {
        self.waiting[target.index()].push_back(letter);
        self.len += 1;
    }

    /// Passes letters to `send`, for each target until one is refused, which stays in front.
    /// Letters to a shard that has ended are dropped. Returns how many those were.
    pub fn send_with(&mut self, mut send: impl FnMut(ShardId, L) -> Result<(), Refusal<L>>) -> u64 {
        let mut dropped = 0;
        if self.is_empty() {
            return dropped;
        }
        for (target, waiting) in (0..u16::MAX).map(ShardId).zip(&mut self.waiting) {
            while let Some(letter) = waiting.pop_front() {
                match send(target, letter) {
                    Ok(()) => self.len -= 1,
                    Err(Refusal::Ended(_)) => {
                        self.len -= 1;
                        dropped += 1;
                    }
                    Err(Refusal::Full(letter)) => {
                        waiting.push_front(letter);
                        break;
                    }
                }
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_room_keeps_its_order_and_holds_nobody_up() {
        let mut outbox = Outbox::new(3);
        for letter in 0..3 {
            outbox.put(ShardId(0), letter);
            outbox.put(ShardId(1), letter);
            outbox.put(ShardId(2), letter);
        }
        let (mut sent, mut room) = (Vec::new(), 1);
        let dropped = outbox.send_with(|target, letter| match target {
            ShardId(0) if room == 0 => Err(Refusal::Full(letter)),
            ShardId(2) => Err(Refusal::Ended(letter)),
            _ => {
                room -= usize::from(target == ShardId(0));
                sent.push((target.0, letter));
                Ok(())
            }
        });
        assert_eq!(sent, [(0, 0), (1, 0), (1, 1), (1, 2)]);
        assert_eq!((dropped, outbox.len()), (3, 2));
        assert!(outbox.holds_for(ShardId(0)) && !outbox.holds_for(ShardId(1)));
        assert_eq!([0, 1, 2].map(|shard| outbox.len_for(ShardId(shard))), [2, 0, 0]);
        let mut sent = Vec::new();
        outbox.send_with(|_, letter| {
            sent.push(letter);
            Ok(())
        });
        assert_eq!(sent, [1, 2]);
        assert!(outbox.is_empty());
    }
}
