//! Whose proofs are: a table of proofs is shared by callers and by addresses of clients.

use corelane_base::client_address::AddressShare;
use corelane_base::holders::{HeldPlaces, Holder, PlaceOwner};

/// Part of a table of proofs that one caller, and one address, may have of what the others leave.
const SHARE: AddressShare = AddressShare::new(75);

/// The caller of a proof, and the address that it came from.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ProofHolders {
    pub caller: Holder,
    address: Holder,
}

/// How many proofs of a table each caller and each address has.
#[derive(Debug, Default)]
pub struct ProofPlaces {
    by_caller: HeldPlaces,
    by_address: HeldPlaces,
}

impl ProofPlaces {
    /// Returns whose a proof is.
    pub fn holders_of(&self, owner: PlaceOwner<'_>) -> ProofHolders {
        let caller = self.by_caller.holder_of(owner);
        ProofHolders { caller, address: self.by_address.holder_of(owner.address.into()) }
    }

    /// Returns whether one more proof of these holders has room in a table of `proofs_max`.
    pub fn has_room(&self, holders: ProofHolders, proofs_max: usize) -> bool {
        let held = [(&self.by_caller, holders.caller), (&self.by_address, holders.address)];
        held.iter().all(|(held, it)| held.of(*it) < held.limit_of(*it, proofs_max, SHARE))
    }

    /// Counts a proof.
    pub fn add(&mut self, holders: ProofHolders) {
        self.by_caller.add(holders.caller, 1);
        self.by_address.add(holders.address, 1);
    }

    /// Counts `count` proofs less.
    pub fn subtract(&mut self, holders: ProofHolders, count: usize) {
        self.by_caller.subtract(holders.caller, count);
        self.by_address.subtract(holders.address, count);
    }

    /// Returns the proofs of all callers, and of all addresses.
    #[cfg(test)]
    pub fn totals(&self) -> [usize; 2] {
        [self.by_caller.total(), self.by_address.total()]
    }
}
