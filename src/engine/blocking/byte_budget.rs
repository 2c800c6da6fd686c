//! A number of bytes that threads share: a thread reserves what it is about to hand on, and waits
//! while too much is reserved.
//!
//! Invariants: an owner may reserve its share whatever the others have reserved; beyond the shares
//! at most `bytes_max` are reserved, or one reservation alone; threads that wait get their
//! reservations in the order in which they asked.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::time::Instant;
use crate::engine::clock::Clock;
use crate::engine::mesh::SharedCounter;

#[expect(clippy::disallowed_types, reason = "held for a few steps; no shard waits for bytes")]
type Mutex<T> = std::sync::Mutex<T>;

/// The size of a [`ByteBudget`].
#[derive(Clone, Copy, Debug)]
pub struct BudgetLimits {
    /// Bytes that all owners may reserve together.
    pub bytes_max: usize,
    /// Bytes that each owner may reserve whatever the others have reserved.
    pub share: usize,
}

/// Bytes that threads reserve for owners `K`.
#[derive(Debug)]
pub struct ByteBudget<K> {
    state: Mutex<BudgetState<K>>,
    /// Notified while threads wait: when bytes are released, and when one of the threads leaves.
    has_changed: Condvar,
    /// Changed with `state` locked.
    reserved: SharedCounter,
}

#[derive(Debug)]
struct BudgetState<K> {
    limits: BudgetLimits,
    /// What each owner has reserved; not zero.
    owners: HashMap<K, usize>,
    /// The numbers of the waiting threads, the first to ask first.
    waiting: VecDeque<u64>,
    next_number: u64,
}

/// How often a waiting thread checks whether its reservation is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

impl<K: Copy + Eq + Hash> ByteBudget<K> {
    /// Returns a budget of which nothing is reserved.
    pub fn new(limits: BudgetLimits) -> Self {
        let (owners, waiting) = (HashMap::new(), VecDeque::new());
        Self {
            state: Mutex::new(BudgetState { limits, owners, waiting, next_number: 0 }),
            has_changed: Condvar::new(),
            reserved: SharedCounter::default(),
        }
    }

    /// Changes the limits for reservations from now on.
    pub fn set_limits(&self, limits: BudgetLimits) {
        let mut state = self.lock();
        state.limits = limits;
        self.unlock(state);
    }

    /// Returns the reserved bytes.
    #[inline]
    pub fn reserved(&self) -> usize {
        self.reserved.count()
    }

    /// Reserves `bytes` for `owner` until the reservation is dropped. Waits for others to release
    /// theirs, at most for `timeout` and while `is_wanted`; returns `None` after that.
    pub fn reserve(
        self: &Arc<Self>,
        (owner, bytes): (K, usize),
        timeout: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Reservation<K>> {
        let mut state = self.lock();
        let is_first = state.waiting.is_empty();
        let mut is_admitted = self.admits(&state, (owner, bytes), is_first);
        if !is_admitted {
            let number = state.next_number;
            state.next_number += 1;
            state.waiting.push_back(number);
            let clock = Clock::start();
            while !is_admitted && is_wanted() && clock.now().since(Instant::ORIGIN) < timeout {
                let waited = self.has_changed.wait_timeout(state, CHECK_INTERVAL);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                let is_first = state.waiting.front() == Some(&number);
                is_admitted = self.admits(&state, (owner, bytes), is_first);
            }
            state.waiting.retain(|waiting| *waiting != number);
        }
        if is_admitted {
            *state.owners.entry(owner).or_default() += bytes;
            self.reserved.adjust(0, bytes);
        }
        self.unlock(state);
        is_admitted.then(|| Reservation { budget: Arc::clone(self), owner, bytes })
    }

    /// Returns whether `bytes` of `owner` fit now; `is_first` if no other thread asked before.
    fn admits(
        &self,
        BudgetState { limits, owners, .. }: &BudgetState<K>,
        (owner, bytes): (K, usize),
        is_first: bool,
    ) -> bool {
        let sum = |reserved: usize| reserved.saturating_add(bytes);
        let reserved = self.reserved();
        is_first && (reserved == 0 || sum(reserved) <= limits.bytes_max)
            || sum(owners.get(&owner).copied().unwrap_or_default()) <= limits.share
    }
}

impl<K> ByteBudget<K> {
    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, BudgetState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unlocks the state after a change and wakes the waiting threads, if any.
    fn unlock(&self, state: MutexGuard<'_, BudgetState<K>>) {
        let has_waiting = !state.waiting.is_empty();
        drop(state);
        if has_waiting {
            self.has_changed.notify_all();
        }
    }
}

/// Reserved bytes, released when this is dropped.
#[derive(Debug)]
pub struct Reservation<K: Eq + Hash> {
    budget: Arc<ByteBudget<K>>,
    owner: K,
    bytes: usize,
}

impl<K: Eq + Hash> Drop for Reservation<K> {
    fn drop(&mut self) {
        let Self { budget, owner, bytes } = self;
        let mut state = budget.lock();
        if let Some(reserved) = state.owners.get_mut(owner) {
            *reserved -= *bytes;
            if *reserved == 0 {
                state.owners.remove(owner);
            }
        }
        budget.reserved.adjust(*bytes, 0);
        budget.unlock(state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn budget() -> Arc<ByteBudget<char>> {
        Arc::new(ByteBudget::new(BudgetLimits { bytes_max: 100, share: 5 }))
    }

    /// Reserves `bytes` if that needs no waiting.
    fn try_reserve(
        budget: &Arc<ByteBudget<char>>,
        owner: char,
        bytes: usize,
    ) -> Option<Reservation<char>> {
        budget.reserve((owner, bytes), Duration::ZERO, || true)
    }

    fn wait_until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    #[test]
    fn reserved_bytes_stay_within_the_budget() {
        let budget = budget();
        let first = try_reserve(&budget, 'a', 60).unwrap();
        let second = try_reserve(&budget, 'b', 40).unwrap();
        assert!(try_reserve(&budget, 'b', 1).is_none());
        assert_eq!(budget.reserved(), 100);
        drop(first);
        assert!(try_reserve(&budget, 'a', 61).is_none());
        assert!(try_reserve(&budget, 'a', 60).is_some());
        drop(second);
        assert_eq!(budget.reserved(), 0);
        let state = budget.lock();
        assert!(state.owners.is_empty() && state.waiting.is_empty(), "{state:?}");
    }

    #[test]
    fn owner_below_its_share_never_waits() {
        let budget = budget();
        let _all = try_reserve(&budget, 'a', 100).unwrap();
        let small = try_reserve(&budget, 'b', 3).unwrap();
        let _other = try_reserve(&budget, 'c', 5).unwrap();
        assert!(try_reserve(&budget, 'b', 3).is_none());
        assert!(try_reserve(&budget, 'a', 1).is_none());
        drop(small);
        assert!(try_reserve(&budget, 'b', 5).is_some());
    }

    #[test]
    fn reservation_beyond_the_budget_passes_alone() {
        let budget = budget();
        let small = try_reserve(&budget, 'a', 1).unwrap();
        assert!(try_reserve(&budget, 'b', 101).is_none());
        drop(small);
        let large = try_reserve(&budget, 'b', 101).unwrap();
        assert!(try_reserve(&budget, 'c', 6).is_none());
        drop(large);
        budget.set_limits(BudgetLimits { bytes_max: 0, share: 0 });
        assert!(try_reserve(&budget, 'a', 1).is_some());
    }

    #[test]
    fn waiting_threads_reserve_in_order() {
        let budget = budget();
        let first = try_reserve(&budget, 'a', 60).unwrap();
        thread::scope(|scope| {
            let large = scope.spawn(|| budget.reserve(('a', 80), LONG, || true));
            wait_until(|| budget.lock().waiting.len() == 1);
            assert!(try_reserve(&budget, 'b', 10).is_none(), "the large one is first");
            let small = scope.spawn(|| budget.reserve(('b', 10), LONG, || true));
            wait_until(|| budget.lock().waiting.len() == 2);
            drop(first);
            let large = large.join().unwrap();
            assert!(small.join().unwrap().is_some());
            assert!(large.is_some());
        });
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn unwanted_reservation_stops_waiting() {
        let budget = budget();
        let _all = try_reserve(&budget, 'a', 100).unwrap();
        let is_wanted = AtomicBool::new(true);
        thread::scope(|scope| {
            let is_wanted = &is_wanted;
            let budget = &budget;
            let waiting = scope.spawn(move || {
                budget.reserve(('b', 6), LONG, || is_wanted.load(Ordering::Relaxed)).is_some()
            });
            wait_until(|| budget.lock().waiting.len() == 1);
            is_wanted.store(false, Ordering::Relaxed);
            assert!(!waiting.join().unwrap());
        });
        assert!(budget.lock().waiting.is_empty());
    }
}
