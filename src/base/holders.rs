//! Who holds the places of a table that all callers share, and how many each may hold.
//!
//! A place is held by an authenticated caller, or else by an address, which belongs to the prefixes
//! around it: IPv6 /56 and /48, IPv4 /24.
//!
//! Invariants: a holder may hold a share of what all others leave. All callers of a prefix together
//! leave places that only those of them take that hold little; so do all prefixes together, and all
//! authenticated callers. So others find a place although some have taken all that they may.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;

use crate::client_address::{AddressShare, ClientAddress};
use crate::heap_bytes::map_bytes;
use crate::principal::Principal;

/// Whose a place is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlaceOwner<'a> {
    /// The authenticated caller.
    pub principal: Option<&'a Principal>,
    /// The address of the client; `None` if it is exempt from shares.
    pub address: Option<ClientAddress>,
}

impl From<Option<ClientAddress>> for PlaceOwner<'_> {
    fn from(address: Option<ClientAddress>) -> Self {
        Self { principal: None, address }
    }
}

/// The smallest unit that has a share of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Holder {
    /// An unauthenticated caller at an address.
    Address(ClientAddress),
    /// All unauthenticated callers whose addresses are exempt from shares.
    Exempt,
    /// An authenticated caller, by the hash of its identity.
    Principal(u64),
}

impl Holder {
    /// Returns whether it is an authenticated caller.
    pub const fn is_authenticated(self) -> bool {
        matches!(self, Self::Principal(_))
    }

    /// Returns the groups that it belongs to, the widest first; the last one is the holder alone.
    fn groups(self) -> impl Iterator<Item = Group> {
        let widest =
            if self.is_authenticated() { Group::Authenticated } else { Group::Unauthenticated };
        let prefixes = match self {
            Self::Address(address) => address.prefixes(),
            Self::Exempt | Self::Principal(_) => [None; 2],
        };
        let prefixes =
            prefixes.into_iter().flatten().map(|(length, bits)| Group::Prefix { length, bits });
        [widest].into_iter().chain(prefixes).chain([Group::Holder(self)])
    }
}

/// Holders that are counted together.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Group {
    Authenticated,
    Unauthenticated,
    Prefix { length: u8, bits: u64 },
    Holder(Holder),
}

/// The holders that a search visits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HolderScope {
    /// Authenticated callers.
    Authenticated,
    /// All others.
    Unauthenticated,
    /// An authenticated caller alone; an address with its widest prefix.
    Around(Holder),
}

/// What each holder holds of a table.
#[derive(Debug, Default)]
pub struct HeldPlaces {
    nodes: HashMap<Group, Node>,
}

#[derive(Debug, Default)]
struct Node {
    held: usize,
    /// The groups that it consists of, by what they hold.
    children: BTreeSet<(usize, Group)>,
}

impl HeldPlaces {
    /// Holders that one search visits.
    const VISITS_MAX: u32 = 64;

    /// Bytes of one group in the full index.
    const NODE_BYTES: usize = (size_of::<(Group, Node)>() + 1) * 8 / 7;
    /// The same, and in the order of its parent, whose nodes are two thirds full on average.
    const GROUP_BYTES: usize = Self::NODE_BYTES + size_of::<(usize, Group)>() * 3 / 2;

    /// Returns the holder of the places of an owner.
    pub fn holder_of(&self, owner: PlaceOwner<'_>) -> Holder {
        match (owner.principal, owner.address) {
            (Some(principal), _) => {
                let identity = (principal.id(), principal.issuer(), principal.client_id());
                Holder::Principal(self.nodes.hasher().hash_one(identity))
            }
            (None, Some(address)) => Holder::Address(address),
            (None, None) => Holder::Exempt,
        }
    }

    /// Counts `amount` more of a holder.
    pub fn add(&mut self, holder: Holder, amount: usize) {
        self.change(holder, |held| held.saturating_add(amount));
    }

    /// Counts `amount` less of a holder.
    pub fn subtract(&mut self, holder: Holder, amount: usize) {
        self.change(holder, |held| held.saturating_sub(amount));
    }

    fn change(&mut self, holder: Holder, changed: impl Fn(usize) -> usize) {
        let mut around = None;
        for group in holder.groups() {
            let node = self.nodes.entry(group).or_default();
            let before = node.held;
            node.held = changed(before);
            let (held, is_removed) = (node.held, node.held == 0);
            if is_removed {
                self.nodes.remove(&group);
            }
            if let Some(parent) = around.and_then(|parent| self.nodes.get_mut(&parent)) {
                parent.children.remove(&(before, group));
                if !is_removed {
                    parent.children.insert((held, group));
                }
            }
            around = Some(group);
        }
    }

    /// Returns what all together hold.
    pub fn total(&self) -> usize {
        self.held(Group::Authenticated) + self.held(Group::Unauthenticated)
    }

    /// Returns what all unauthenticated callers hold.
    pub fn unauthenticated(&self) -> usize {
        self.held(Group::Unauthenticated)
    }

    /// Returns what a holder holds.
    pub fn of(&self, holder: Holder) -> usize {
        self.held(Group::Holder(holder))
    }

    /// Returns what all of the widest prefix of a holder hold.
    pub fn around(&self, holder: Holder) -> usize {
        holder.groups().nth(1).map_or(0, |group| self.held(group))
    }

    /// Returns what a holder holds that has a share of its own: nothing of an exempt one.
    pub fn of_limited(&self, holder: Holder) -> usize {
        if holder == Holder::Exempt { 0 } else { self.of(holder) }
    }

    /// Returns how much of `places` a holder may hold while the others hold what they do.
    pub fn limit_of(&self, holder: Holder, places: usize, share: AddressShare) -> usize {
        let mut around = self.total();
        let by_others = around - self.of(holder);
        let left = places.saturating_sub(by_others);
        let own = if holder == Holder::Exempt { left } else { part(share, left) };
        let mut within = places;
        for group in holder.groups() {
            let held = self.held(group);
            let left = within.saturating_sub(around.saturating_sub(held));
            within = match group {
                Group::Authenticated | Group::Holder(Holder::Exempt) => left,
                Group::Unauthenticated => left.min(part(share.of_unauthenticated(), within)),
                Group::Prefix { .. } | Group::Holder(_) => {
                    let kept = share.kept_for_light(within);
                    left.saturating_sub(kept).max((kept / LIGHT_DIVISOR).max(1).min(left))
                }
            };
            around = held;
        }
        own.min(within)
    }

    /// Calls `find` for holders until it returns a value: the heaviest of the heaviest prefix
    /// first. Visits 64 holders at most.
    pub fn find_heaviest<T>(
        &self,
        scope: HolderScope,
        mut find: impl FnMut(Holder) -> Option<T>,
    ) -> Option<T> {
        let root = match scope {
            HolderScope::Authenticated => Group::Authenticated,
            HolderScope::Unauthenticated => Group::Unauthenticated,
            HolderScope::Around(holder) => holder.groups().nth(1)?,
        };
        self.visit(root, &Cell::new(Self::VISITS_MAX), &mut find)
    }

    fn visit<T>(
        &self,
        group: Group,
        visits: &Cell<u32>,
        find: &mut impl FnMut(Holder) -> Option<T>,
    ) -> Option<T> {
        if let Group::Holder(holder) = group {
            visits.set(visits.get().saturating_sub(1));
            return find(holder);
        }
        let children = self.nodes.get(&group)?.children.iter().rev();
        let mut children = children.take_while(|_| visits.get() > 0);
        children.find_map(|(_, child)| self.visit(*child, visits, find))
    }

    fn held(&self, group: Group) -> usize {
        self.nodes.get(&group).map_or(0, |node| node.held)
    }

    /// Returns an estimate of the bytes of all groups.
    pub fn held_bytes(&self) -> usize {
        self.nodes.len() * Self::GROUP_BYTES
    }

    /// Returns the bytes of the places that are free in the index.
    pub fn place_bytes(&self) -> usize {
        map_bytes(&self.nodes).saturating_sub(self.nodes.len() * Self::NODE_BYTES)
    }

    /// Returns what [`HeldPlaces::held_bytes`] is for these holders.
    pub fn bytes_of(holders: impl Iterator<Item = Holder>) -> usize {
        holders.flat_map(Holder::groups).collect::<HashSet<Group>>().len() * Self::GROUP_BYTES
    }
}

/// Of what is kept for those that hold little each may take one of so many parts, or one place.
const LIGHT_DIVISOR: usize = 64;

/// Returns a share of `places`: at least one of them, if there are any.
const fn part(share: AddressShare, places: usize) -> usize {
    if places == 0 { 0 } else { share.of(places) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: AddressShare = AddressShare::new(75);

    fn holder(address: &str) -> Holder {
        Holder::Address(ClientAddress::new(address.parse().unwrap()).unwrap())
    }

    /// Adds places of a holder until it is at its limit.
    fn fill(held: &mut HeldPlaces, holder: Holder, places: usize, share: AddressShare) {
        while held.of(holder) < held.limit_of(holder, places, share) {
            held.add(holder, 1);
        }
    }

    #[test]
    fn lone_address_takes_its_whole_share() {
        for percent in [1, 50, 75, 99, 100] {
            for address in ["192.0.2.1", "2001:db8::1"] {
                let (mut held, share) = (HeldPlaces::default(), AddressShare::new(percent));
                fill(&mut held, holder(address), 1_000, share);
                assert_eq!(held.of(holder(address)), share.of(1_000), "{percent} {address}");
            }
        }
    }

    #[test]
    fn many_addresses_leave_places_to_another_one() {
        for count in [2, 40, 70] {
            let mut held = HeldPlaces::default();
            for last in 1..=count {
                fill(&mut held, holder(&format!("192.0.2.{last}")), 1_024, SHARE);
            }
            for other in ["192.0.2.200", "198.51.100.1", "2001:db8::1"] {
                assert!(held.limit_of(holder(other), 1_024, SHARE) > 0, "{count} {other}");
            }
        }
        let mut held = HeldPlaces::default();
        for prefix in 0..300 {
            fill(&mut held, holder(&format!("2001:db8:0:{prefix:x}::1")), 1_024, SHARE);
        }
        assert!(held.limit_of(holder("2001:db8:1::1"), 1_024, SHARE) > 0);
    }

    #[test]
    fn unauthenticated_callers_leave_reserve() {
        let (mut held, share) = (HeldPlaces::default(), SHARE.with_reserve(true));
        fill(&mut held, Holder::Exempt, 80, share);
        assert_eq!((held.unauthenticated(), held.total()), (70, 70));
        let principal = Principal::new("ada");
        let owner = PlaceOwner { principal: Some(&principal), address: None };
        let ada = held.holder_of(owner);
        assert!(ada.is_authenticated());
        assert_eq!(held.limit_of(ada, 80, share), 7);
        assert_eq!(held.limit_of(Holder::Exempt, 80, SHARE), 80);
    }

    #[test]
    fn heaviest_holder_of_heaviest_prefix_is_first() {
        let mut held = HeldPlaces::default();
        held.add(holder("192.0.2.1"), 5);
        for last in 1..=4 {
            held.add(holder(&format!("198.51.100.{last}")), last);
        }
        let first = |scope, held: &HeldPlaces| {
            let mut visited = Vec::new();
            let none: Option<()> = held.find_heaviest(scope, |it| {
                visited.push(it);
                None
            });
            assert!(none.is_none());
            visited
        };
        let visited = first(HolderScope::Unauthenticated, &held);
        assert_eq!(visited[0], holder("198.51.100.4"));
        assert_eq!(visited[4], holder("192.0.2.1"));
        let around = HolderScope::Around(holder("192.0.2.77"));
        assert_eq!(first(around, &held), [holder("192.0.2.1")]);
        assert!(first(HolderScope::Authenticated, &held).is_empty());
        for prefix in 0..100 {
            held.add(holder(&format!("203.0.{prefix}.1")), 1);
        }
        assert_eq!(first(HolderScope::Unauthenticated, &held).len(), 64);
    }

    #[test]
    fn nothing_is_stored_of_holders_without_places() {
        let mut held = HeldPlaces::default();
        let holders = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(holder);
        for holder in holders {
            held.add(holder, 2);
        }
        assert_eq!(held.held_bytes(), HeldPlaces::bytes_of(holders.into_iter()));
        for holder in holders {
            held.subtract(holder, 2);
        }
        assert_eq!((held.total(), held.held_bytes()), (0, 0));
    }
}
