//! Whose digests are: a table of proofs or states that were used is shared by callers and by
//! addresses of clients.

use corelane_base::client_address::AddressShare;
use corelane_base::holders::{HeldPlaces, Holder, PlaceOwner};

/// Part of a table that one caller, and one address, may have of what the others leave.
const SHARE: AddressShare = AddressShare::new(75);

/// The caller of a digest, and the address that it came from.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DigestHolders {
    pub caller: Holder,
    address: Holder,
}

/// How many places of a table each caller and each address has.
#[derive(Debug, Default)]
pub struct DigestPlaces {
    by_caller: HeldPlaces,
    by_address: HeldPlaces,
}

impl DigestPlaces {
    /// Returns whose a digest is.
    pub fn holders_of(&self, owner: PlaceOwner<'_>) -> DigestHolders {
        let caller = self.by_caller.holder_of(owner);
        DigestHolders { caller, address: self.by_address.holder_of(owner.address.into()) }
    }

    /// Returns whether one more digest of these holders has room in a table of `digests_max`.
    pub fn has_room(&self, holders: DigestHolders, digests_max: usize) -> bool {
        let held = [(&self.by_caller, holders.caller), (&self.by_address, holders.address)];
        held.iter().all(|(held, it)| held.of(*it) < held.limit_of(*it, digests_max, SHARE))
    }

    /// Counts a digest.
    pub fn add(&mut self, holders: DigestHolders) {
        self.by_caller.add(holders.caller, 1);
        self.by_address.add(holders.address, 1);
    }

    /// Counts `count` digests less.
    pub fn subtract(&mut self, holders: DigestHolders, count: usize) {
        self.by_caller.subtract(holders.caller, count);
        self.by_address.subtract(holders.address, count);
    }

    /// Returns the digests of all callers, and of all addresses.
    #[cfg(test)]
    pub fn totals(&self) -> [usize; 2] {
        [self.by_caller.total(), self.by_address.total()]
    }
}
