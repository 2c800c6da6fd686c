//! The keys of callers that have sent requests lately, so that a key is not hashed each time.
//!
//! Invariants: the memory is fixed; a key is found only by exactly what it was hashed from. Where a
//! caller is stored is no secret: callers that choose the same place cost each other a hash.

use std::sync::{Arc, Weak};

use corelane_base::principal::Principal;

/// Callers that are known at a time.
const PLACES: usize = 256;

/// What the key of a caller is hashed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySource<'a> {
    /// Hash of the text of the rule.
    pub(super) seed: u64,
    /// The address of the client, or zero.
    pub(super) address: u64,
    /// The session, or zero.
    pub(super) session: u64,
    /// The method, or zero.
    pub(super) method: u64,
    pub(super) principal: Option<&'a Arc<Principal>>,
}

/// A table in which each caller has one place.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(Box<[KnownKey]>);

#[derive(Clone, Debug, Default)]
struct KnownKey {
    words: [u64; 4],
    /// The address of the principal, or zero.
    principal_address: usize,
    /// The address is not used again as long as this exists.
    _principal: Option<Weak<Principal>>,
    key: u64,
}

impl KeySource<'_> {
    /// Returns all but the principal.
    #[inline]
    pub(super) const fn words(&self) -> [u64; 4] {
        [self.seed, self.address, self.session, self.method]
    }

    #[inline]
    fn principal_address(&self) -> usize {
        self.principal.map_or(0, |principal| Arc::as_ptr(principal).addr())
    }
}

impl KnownKeys {
    /// Creates a table that knows no caller. Cost: 14 KiB.
    pub(super) fn new() -> Self {
        Self(vec![KnownKey::default(); PLACES].into())
    }

    /// Returns the key of a caller that is known.
    #[inline]
    pub(super) fn find(&self, source: &KeySource<'_>) -> Option<u64> {
        let known = self.0.get(place_of(source))?;
        let words = known.words.into_iter().zip(source.words());
        let difference = words.fold(0, |all, (known, word)| all | (known ^ word));
        let is_known = difference == 0 && known.principal_address == source.principal_address();
        is_known.then_some(known.key)
    }

    /// Stores the key of a caller in place of another one.
    pub(super) fn insert(&mut self, source: &KeySource<'_>, key: u64) {
        if let Some(place) = self.0.get_mut(place_of(source)) {
            *place = KnownKey {
                words: source.words(),
                principal_address: source.principal_address(),
                _principal: source.principal.map(Arc::downgrade),
                key,
            };
        }
    }
}

/// Returns the place of a caller.
#[inline]
fn place_of(source: &KeySource<'_>) -> usize {
    let [seed, address, session, method] = source.words();
    let all = seed ^ address ^ session.rotate_left(16) ^ method.rotate_left(32);
    let all = all ^ (source.principal_address() as u64).rotate_left(48);
    (all.wrapping_mul(GOLDEN_RATIO) >> 32) as usize % PLACES
}

/// 2^64 divided by the golden ratio: its multiples spread evenly (Knuth, volume 3, section 6.4).
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: KeySource<'static> =
        KeySource { seed: 1, address: 2, session: 3, method: 4, principal: None };

    #[test]
    fn key_of_other_caller_is_unknown() {
        let mut known = KnownKeys::new();
        let (ada, bob) = (Arc::new(Principal::new("x")), Arc::new(Principal::new("x")));
        let of_ada = KeySource { principal: Some(&ada), ..SOURCE };
        let of_bob = KeySource { principal: Some(&bob), ..SOURCE };
        known.insert(&of_ada, 7);
        assert_eq!(known.find(&of_ada), Some(7));
        let others = [
            SOURCE,
            of_bob,
            KeySource { seed: 9, ..of_ada },
            KeySource { address: 9, ..of_ada },
            KeySource { session: 9, ..of_ada },
            KeySource { method: 9, ..of_ada },
        ];
        assert!(others.iter().all(|other| known.find(other).is_none()));
        known.insert(&SOURCE, 8);
        assert_eq!((known.find(&SOURCE), known.find(&of_bob)), (Some(8), None));
    }

    #[test]
    fn dropped_principal_is_never_found_again() {
        let mut known = KnownKeys::new();
        let principal = Arc::new(Principal::new("ada"));
        let stored = Arc::as_ptr(&principal);
        known.insert(&KeySource { principal: Some(&principal), ..SOURCE }, 7);
        drop(principal);
        for _ in 0..1_000 {
            let other = Arc::new(Principal::new("eve"));
            assert_ne!(Arc::as_ptr(&other), stored);
            assert_eq!(known.find(&KeySource { principal: Some(&other), ..SOURCE }), None);
        }
    }

    #[test]
    fn last_caller_of_a_place_is_known() {
        let mut known = KnownKeys::new();
        for session in 0..10_000 {
            let source = KeySource { session, ..SOURCE };
            known.insert(&source, session + 1);
            assert_eq!(known.find(&source), Some(session + 1));
        }
        let is_known = |session| known.find(&KeySource { session, ..SOURCE }).is_some();
        let count = (0..10_000).filter(|session| is_known(*session)).count();
        assert!((PLACES / 2..=PLACES).contains(&count), "{count}");
    }

    #[test]
    fn table_without_places_stores_nothing() {
        let mut known = KnownKeys::default();
        known.insert(&SOURCE, 7);
        assert_eq!(known.find(&SOURCE), None);
    }
}
