//! What was used once and must not be used again, of all shards: proofs of keys (DPoP), and states
//! that other processes have issued.
//!
//! Invariants: while more are remembered than the limit admits, or more of one caller or of one
//! network than its share, further ones are refused; none is forgotten before its time.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use corelane_base::holders::{Holder, PlaceOwner};
use corelane_base::principal::Principal;
use corelane_engine::mesh::{ExpiringSet, InsertResult};

use super::digest_holders::{DigestHolders, DigestPlaces};

#[expect(
    clippy::disallowed_types,
    reason = "locked once for each proof or state, whose signature or key costs more"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// The digests of what was used, of all shards.
#[derive(Debug)]
pub struct UsedDigests {
    digests: ExpiringSet,
    owners: Mutex<DigestOwners>,
    digests_max: usize,
}

/// Whose the digests are.
#[derive(Debug, Default)]
struct DigestOwners {
    places: DigestPlaces,
    /// How many of each caller and address count until a time, in units since 1970.
    until: BTreeMap<(u64, DigestHolders), usize>,
}

impl UsedDigests {
    /// Units of time in which digests are counted together, so that a caller has few numbers.
    const COUNTED_TOGETHER: u64 = 8;

    /// Creates the memory of at most `digests_max` digests.
    pub fn new(digests_max: usize) -> Self {
        let (digests, owners) = (ExpiringSet::new(digests_max), Mutex::default());
        Self { digests, owners, digests_max }
    }

    /// Returns the holder of the digests of a caller.
    pub fn holder_of(&self, caller: &Principal) -> Holder {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.places.holders_of(PlaceOwner { principal: Some(caller), address: None }).caller
    }

    /// Adds the digest of what a caller uses at the time `now` until the time `until`, in units
    /// since 1970: seconds, or longer ones, always the same.
    pub fn insert(&self, digest: u128, owner: PlaceOwner<'_>, now: u64, until: u64) -> UsedDigest {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.expire(now);
        let holders = owners.places.holders_of(owner);
        if !owners.places.has_room(holders, self.digests_max) {
            return UsedDigest::NoRoomOfCaller;
        }
        match self.digests.insert(digest, now, until) {
            InsertResult::First => {
                let counted_until = until.max(now + 1).next_multiple_of(Self::COUNTED_TOGETHER);
                *owners.until.entry((counted_until, holders)).or_default() += 1;
                owners.places.add(holders);
                UsedDigest::First
            }
            InsertResult::Present => UsedDigest::Present,
            InsertResult::Full => UsedDigest::NoRoom,
        }
    }
}

/// Whether something is used for the first time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UsedDigest {
    /// It is.
    First,
    /// It was used before.
    Present,
    /// Its use cannot be remembered.
    NoRoom,
    /// Its use cannot be remembered, because the caller or its address has its share.
    NoRoomOfCaller,
}

impl DigestOwners {
    /// Forgets whose those were that can be sent no more.
    fn expire(&mut self, now: u64) {
        while let Some(first) = self.until.first_entry()
            && first.key().0 <= now
        {
            let ((_, holders), count) = first.remove_entry();
            self.places.subtract(holders, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::client_address::ClientAddress;

    use super::*;

    #[test]
    fn callers_at_one_address_leave_places_to_others() {
        // Numbers that differ in all their bits, as digests do.
        let spread = |number: u128| number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let (used, mut digests) = (UsedDigests::new(1_000), (1..).map(spread));
        let mut insert = |name: &str, address| {
            let principal = Principal::new(name);
            let owner = PlaceOwner { principal: Some(&principal), address };
            let digest = digests.next().unwrap();
            used.insert(digest, owner, 10, 100) == UsedDigest::First
        };
        let address = |text: &str| ClientAddress::new(text.parse().unwrap());
        let mut count = 0;
        for number in 0..100 {
            let name = number.to_string();
            while insert(&name, address("192.0.2.1")) {
                count += 1;
            }
        }
        assert_eq!(count, 750);
        // Also those of the same network.
        for other in ["192.0.2.2", "198.51.100.1", "127.0.0.1"] {
            assert!(insert("honest", address(other)), "{other}");
        }
        // What was remembered is forgotten.
        used.insert(u128::MAX, PlaceOwner::default(), 200, 300);
        let owners = used.owners.lock().unwrap();
        assert_eq!(owners.places.totals(), [1, 1]);
    }
}
