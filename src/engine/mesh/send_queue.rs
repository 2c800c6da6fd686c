//! Messages that wait until their channel has room.
//!
//! Invariants: messages to one target are sent in the order in which they were pushed, and a target
//! without room does not delay messages to others.
//!
//! The queue is unbounded: callers limit their outstanding messages.

use std::collections::VecDeque;

use super::{ShardId, TrySendError};

/// One shard's queued messages by target. Allocates while it grows and retains its memory.
#[derive(Debug)]
pub struct SendQueue<M> {
    queues: Vec<VecDeque<M>>,
    len: usize,
}

impl<M> SendQueue<M> {
    /// Creates an empty queue for the targets below `shards`.
    pub fn new(shards: usize) -> Self {
        Self { queues: (0..shards).map(|_| VecDeque::new()).collect(), len: 0 }
    }

    /// Returns the number of queued messages.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the queue is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether a message to `target` is queued; later ones must queue behind it.
    #[inline]
    pub fn has_messages_for(&self, target: ShardId) -> bool {
        self.len > 0 && !self.queues[target.index()].is_empty()
    }

    /// Returns the number of messages queued for `target`.
    ///
    /// # Panics
    ///
    /// If `target` does not exist.
    pub fn len_for(&self, target: ShardId) -> usize {
        self.queues[target.index()].len()
    }

    /// Appends a message for `target`.
    ///
    /// # Panics
    ///
    /// If `target` does not exist.
    pub fn push(&mut self, target: ShardId, message: M) {
        self.queues[target.index()].push_back(message);
        self.len += 1;
    }

    /// Passes messages to `send`, for each target until one is refused as full, which stays at the
    /// front. Messages to ended shards are dropped. Returns the number of dropped messages.
    pub fn flush(
        &mut self,
        mut send: impl FnMut(ShardId, M) -> Result<(), TrySendError<M>>,
    ) -> u64 {
        let mut dropped = 0;
        if self.is_empty() {
            return dropped;
        }
        for (target, waiting) in (0..u16::MAX).map(ShardId).zip(&mut self.queues) {
            while let Some(message) = waiting.pop_front() {
                match send(target, message) {
                    Ok(()) => self.len -= 1,
                    Err(TrySendError::Closed(_)) => {
                        self.len -= 1;
                        dropped += 1;
                    }
                    Err(TrySendError::Full(message)) => {
                        waiting.push_front(message);
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
    fn full_target_keeps_order_without_blocking_others() {
        let mut queue = SendQueue::new(3);
        for message in 0..3 {
            queue.push(ShardId(0), message);
            queue.push(ShardId(1), message);
            queue.push(ShardId(2), message);
        }
        let (mut sent, mut room) = (Vec::new(), 1);
        let dropped = queue.flush(|target, message| match target {
            ShardId(0) if room == 0 => Err(TrySendError::Full(message)),
            ShardId(2) => Err(TrySendError::Closed(message)),
            _ => {
                room -= usize::from(target == ShardId(0));
                sent.push((target.0, message));
                Ok(())
            }
        });
        assert_eq!(sent, [(0, 0), (1, 0), (1, 1), (1, 2)]);
        assert_eq!((dropped, queue.len()), (3, 2));
        assert!(queue.has_messages_for(ShardId(0)) && !queue.has_messages_for(ShardId(1)));
        assert_eq!([0, 1, 2].map(|shard| queue.len_for(ShardId(shard))), [2, 0, 0]);
        let mut sent = Vec::new();
        queue.flush(|_, message| {
            sent.push(message);
            Ok(())
        });
        assert_eq!(sent, [1, 2]);
        assert!(queue.is_empty());
    }
}
