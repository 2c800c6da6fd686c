//! How large the results of blocking handlers are, learned by each shard.
//!
//! Invariant: handlers that no catalog has are forgotten once there are as many as others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::service::{HandlerIdentity, ResultSize};

/// The sizes of the results of handlers that do not declare them.
#[derive(Debug, Default)]
pub struct ResultSizes {
    /// By the address of the identity, which no other one has while the weak reference exists.
    learned: HashMap<usize, LearnedSize>,
    /// Number of handlers from which those that are gone are searched for.
    searched_at: usize,
}

#[derive(Debug)]
struct LearnedSize {
    handler: Weak<()>,
    bytes: Arc<AtomicUsize>,
}

/// The expected size of the result of one call, which may change until the call begins.
#[derive(Clone, Debug)]
pub enum ExpectedSize {
    /// The most that the handler returns.
    Declared(usize),
    /// That of the largest result before, less an eighth for each one after it.
    Learned(Arc<AtomicUsize>),
}

impl ResultSizes {
    /// Returns the expected size of a result.
    pub fn expected(&mut self, size: ResultSize) -> ExpectedSize {
        match size {
            ResultSize::Declared(bytes) => ExpectedSize::Declared(bytes),
            ResultSize::Unknown(handler) => self.learned(&handler),
        }
    }

    fn learned(&mut self, handler: &HandlerIdentity) -> ExpectedSize {
        let key = Arc::as_ptr(handler).addr();
        if let Some(known) = self.learned.get(&key) {
            return ExpectedSize::Learned(Arc::clone(&known.bytes));
        }
        if self.learned.len() >= self.searched_at {
            self.learned.retain(|_, known| known.handler.strong_count() > 0);
            self.searched_at = (2 * self.learned.len()).max(HANDLERS_MIN);
        }
        let bytes = Arc::<AtomicUsize>::default();
        let learned = LearnedSize { handler: Arc::downgrade(handler), bytes: Arc::clone(&bytes) };
        self.learned.insert(key, learned);
        ExpectedSize::Learned(bytes)
    }
}

/// Number of handlers among which those that are gone are not searched for.
const HANDLERS_MIN: usize = 64;

impl ExpectedSize {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Declared(bytes) => *bytes,
            Self::Learned(bytes) => bytes.load(Ordering::Relaxed),
        }
    }

    /// Records the size of the result. Of two at the same time, one may not be recorded.
    pub fn record(&self, result_bytes: usize) {
        if let Self::Learned(bytes) = self {
            let before = bytes.load(Ordering::Relaxed);
            bytes.store(result_bytes.max(before - before / 8), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(handler: &HandlerIdentity) -> ResultSize {
        ResultSize::Unknown(Arc::clone(handler))
    }

    #[test]
    fn size_of_large_result_is_forgotten_slowly() {
        let (mut sizes, handlers) = (ResultSizes::default(), [(); 2].map(|()| Arc::new(())));
        let [waiting, other] = [0, 1].map(|index| sizes.expected(unknown(&handlers[index])));
        sizes.expected(unknown(&handlers[0])).record(800);
        assert_eq!((waiting.bytes(), other.bytes()), (800, 0));
        waiting.record(100);
        assert_eq!(waiting.bytes(), 700);
        waiting.record(900);
        assert_eq!(waiting.bytes(), 900);
        let declared = sizes.expected(ResultSize::Declared(7));
        declared.record(900);
        assert_eq!(declared.bytes(), 7);
    }

    #[test]
    fn handlers_that_are_gone_are_forgotten() {
        let mut sizes = ResultSizes::default();
        let kept = Arc::new(());
        sizes.expected(unknown(&kept)).record(5);
        for _ in 0..10 * HANDLERS_MIN {
            sizes.expected(unknown(&Arc::new(())));
            assert!(sizes.learned.len() <= HANDLERS_MIN);
        }
        assert_eq!(sizes.expected(unknown(&kept)).bytes(), 5);
    }
}
