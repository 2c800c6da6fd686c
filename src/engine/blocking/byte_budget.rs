//! A number of bytes that owners share: what the threads of a pool hand on.
//!
//! Invariant: an owner whose bytes exceed its share while those of all exceed the budget is
//! suspended, so that only its running jobs add more.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::OwnerGate;
use crate::mesh::SharedCounter;

#[expect(clippy::disallowed_types, reason = "held for a few steps of a large result")]
type Mutex<T> = std::sync::Mutex<T>;

/// The size of a [`ByteBudget`].
#[derive(Clone, Copy, Debug)]
pub struct BudgetLimits {
    /// Bytes of all owners from which those beyond their share are suspended.
    pub bytes_max: usize,
    /// Bytes that each owner may hold whatever the others hold.
    pub share: usize,
}

/// Bytes that owners `K` hold, and the owners that are suspended for it.
pub struct ByteBudget<K> {
    state: Mutex<BudgetState<K>>,
    /// Suspends owners; called with `state` locked.
    gate: Arc<dyn OwnerGate<K>>,
    /// Changed with `state` locked.
    reserved: SharedCounter,
}

#[derive(Debug)]
struct BudgetState<K> {
    limits: BudgetLimits,
    /// What each owner has reserved; not zero.
    owners: HashMap<K, usize>,
    /// In the order in which they were suspended.
    suspended: Vec<K>,
}

impl<K: Copy + Eq + Hash> ByteBudget<K> {
    /// Returns a budget of which nothing is reserved.
    pub fn new(limits: BudgetLimits, gate: Arc<dyn OwnerGate<K>>) -> Self {
        let (owners, suspended) = (HashMap::new(), Vec::new());
        let state = Mutex::new(BudgetState { limits, owners, suspended });
        Self { state, gate, reserved: SharedCounter::default() }
    }

    /// Changes the limits for what is reserved and released from now on.
    pub fn set_limits(&self, limits: BudgetLimits) {
        self.lock().limits = limits;
    }

    /// Returns the reserved bytes.
    #[inline]
    pub fn reserved(&self) -> usize {
        self.reserved.count()
    }

    /// Reserves `bytes` for `owner` until the reservation is dropped. Suspends the owner if it
    /// exceeds its share and the budget is used up.
    pub fn reserve(self: &Arc<Self>, owner: K, bytes: usize) -> Reservation<K> {
        let mut state = self.lock();
        self.reserved.adjust(0, bytes);
        let owned = state.owners.entry(owner).or_default();
        *owned += bytes;
        let exceeds_share = *owned > state.limits.share;
        let is_over = exceeds_share && self.reserved() > state.limits.bytes_max;
        if is_over && !state.suspended.contains(&owner) {
            state.suspended.push(owner);
            self.gate.suspend(owner);
        }
        drop(state);
        Reservation { budget: Arc::clone(self), owner, bytes }
    }

    /// Releases bytes of `owner`, and resumes the owners for which there is room again.
    fn release(&self, owner: K, bytes: usize) {
        let mut state = self.lock();
        self.reserved.adjust(bytes, 0);
        let BudgetState { limits, owners, suspended } = &mut *state;
        let owned = owners.get(&owner).map_or(0, |owned| owned - bytes);
        if owned == 0 {
            owners.remove(&owner);
        } else {
            owners.insert(owner, owned);
        }
        let has_room = self.reserved() <= limits.bytes_max;
        suspended.retain(|other| {
            let is_resumed = has_room || *other == owner && owned <= limits.share;
            if is_resumed {
                self.gate.resume(other);
            }
            !is_resumed
        });
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, BudgetState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: fmt::Debug> fmt::Debug for ByteBudget<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ByteBudget").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Reserved bytes, released when this is dropped.
#[derive(Debug)]
pub struct Reservation<K: Copy + Eq + Hash> {
    budget: Arc<ByteBudget<K>>,
    owner: K,
    bytes: usize,
}

impl<K: Copy + Eq + Hash> Reservation<K> {
    /// Returns the reserved bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<K: Copy + Eq + Hash> Drop for Reservation<K> {
    fn drop(&mut self) {
        self.budget.release(self.owner, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owners that are suspended.
    #[derive(Default)]
    struct Gate(Mutex<Vec<char>>);

    impl Gate {
        fn suspended(&self) -> Vec<char> {
            let mut suspended = self.0.lock().unwrap().clone();
            suspended.sort_unstable();
            suspended
        }
    }

    impl OwnerGate<char> for Gate {
        fn suspend(&self, owner: char) {
            self.0.lock().unwrap().push(owner);
        }

        fn resume(&self, owner: &char) {
            self.0.lock().unwrap().retain(|suspended| suspended != owner);
        }
    }

    fn budget() -> (Arc<ByteBudget<char>>, Arc<Gate>) {
        let gate = Arc::<Gate>::default();
        let limits = BudgetLimits { bytes_max: 100, share: 5 };
        (Arc::new(ByteBudget::new(limits, Arc::<Gate>::clone(&gate))), gate)
    }

    #[test]
    fn owners_beyond_the_budget_are_suspended() {
        let (budget, gate) = budget();
        let first = budget.reserve('a', 60);
        let second = budget.reserve('b', 40);
        assert!(gate.suspended().is_empty());
        let third = budget.reserve('b', 1);
        let fourth = budget.reserve('a', 30);
        assert_eq!((budget.reserved(), gate.suspended()), (131, vec!['a', 'b']));
        drop(fourth);
        assert_eq!(gate.suspended(), ['a', 'b']);
        drop(third);
        assert!(gate.suspended().is_empty());
        drop((first, second));
        let state = budget.lock();
        assert!(state.owners.is_empty() && state.suspended.is_empty(), "{state:?}");
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn owner_below_its_share_is_not_suspended() {
        let (budget, gate) = budget();
        let all = budget.reserve('a', 101);
        let _small = budget.reserve('b', 5);
        assert_eq!(gate.suspended(), ['a']);
        let more = budget.reserve('b', 1);
        assert_eq!(gate.suspended(), ['a', 'b']);
        drop(more);
        assert_eq!(gate.suspended(), ['a']);
        drop(all);
        assert!(gate.suspended().is_empty());
    }

    #[test]
    fn lower_limits_apply_to_later_reservations() {
        let (budget, gate) = budget();
        let _first = budget.reserve('a', 60);
        budget.set_limits(BudgetLimits { bytes_max: 10, share: 5 });
        assert!(gate.suspended().is_empty());
        let _second = budget.reserve('a', 1);
        assert_eq!(gate.suspended(), ['a']);
    }
}
