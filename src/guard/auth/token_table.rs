//! Tokens that were verified, so that each is verified once.
//!
//! Invariants: the number of tokens is bounded, and so are their bytes, however many claims a token
//! has; a token is found by its SHA-256 as a whole, and only until it expires. One that an
//! authorization server has called valid is remembered longer: it may be used while the server
//! cannot be asked again, until its grace ends.

use std::collections::HashMap;
use std::sync::Arc;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{HeapBytes, map_bytes};
use corelane_base::principal::Principal;
use sha2::{Digest, Sha256};

/// The digest of a token.
pub type TokenDigest = [u8; 32];

/// Verified tokens with their owners. When it is full, a token that was not used since the last
/// visit is replaced (clock algorithm).
#[derive(Debug)]
pub struct TokenTable {
    places: HashMap<TokenDigest, usize>,
    tokens: Vec<VerifiedToken>,
    tokens_max: usize,
    /// Bytes of the owners of all tokens.
    bytes: usize,
    /// The most that the table may take, whatever the number of tokens.
    bytes_max: usize,
    /// Where the search for a place continues.
    hand: usize,
}

#[derive(Debug)]
struct VerifiedToken {
    digest: TokenDigest,
    principal: Arc<Principal>,
    /// Seconds since 1970 until which it is known.
    known_until: u64,
    /// Seconds since 1970 until which it may be used if the authorization server cannot be asked
    /// again; `None` if that has not called it valid.
    grace_until: Option<u64>,
    /// The authorization server was asked again, and has not answered.
    is_unanswered: bool,
    is_used: bool,
}

heap_bytes!(
    VerifiedToken { principal }
    inline { digest, known_until, grace_until, is_unanswered, is_used }
);

/// A token that the authorization server has called valid, and is to be asked about again.
#[derive(Clone, Debug)]
pub struct Unconfirmed {
    pub principal: Arc<Principal>,
    /// Seconds since 1970 until which it was known.
    pub known_until: u64,
    /// The server was asked again, and has not answered.
    pub is_unanswered: bool,
}

/// Bytes that the owner of a token takes on average at most.
const OWNER_BYTES: usize = 1 << 10;

/// Bytes of the owners that a table of any size may hold, so that a small one has room for some
/// with many claims: otherwise an authorization server would be asked about them with each use.
const OWNERS_BYTES_MIN: usize = 4 << 20;

/// Bytes that the table has for a token besides its owner: it grows by doubling.
const PLACE_BYTES: usize =
    2 * (size_of::<VerifiedToken>() + size_of::<(TokenDigest, usize)>() + size_of::<u8>());

impl TokenTable {
    /// Creates a table of at most `tokens_max` tokens. Cost: about 200 bytes and the principal
    /// each, once that many are known; principals of more than 1 KiB take the room of others.
    pub fn new(tokens_max: usize) -> Self {
        let (places, tokens) = (HashMap::new(), Vec::new());
        Self { places, tokens, tokens_max, bytes: 0, bytes_max: usize::MAX, hand: 0 }
    }

    /// Limits the bytes of the table with all tokens. What it has allocated for more stays.
    pub fn limit_bytes(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while !self.tokens.is_empty() && !self.has_room(self.tokens.len(), self.bytes) {
            let place = self.find_unused();
            self.remove(place);
        }
    }

    /// Returns whether so many tokens, with owners of so many bytes, are within the limits.
    fn has_room(&self, tokens: usize, owners_bytes: usize) -> bool {
        let owners_max = self.tokens_max.saturating_mul(OWNER_BYTES).max(OWNERS_BYTES_MIN);
        let bytes = tokens.saturating_mul(PLACE_BYTES) + owners_bytes;
        tokens <= self.tokens_max && owners_bytes <= owners_max && bytes <= self.bytes_max
    }

    /// Returns the bytes of the table with all tokens.
    pub fn held_bytes(&self) -> usize {
        let tokens = self.tokens.capacity() * size_of::<VerifiedToken>();
        map_bytes(&self.places) + tokens + self.bytes
    }

    /// Forgets the owners of all tokens. What is left is which tokens an authorization server has
    /// called valid.
    pub fn forget_owners(&mut self) {
        self.tokens.retain(|token| token.grace_until.is_some());
        for token in &mut self.tokens {
            (token.known_until, token.grace_until) = (0, Some(0));
        }
        self.bytes = self.tokens.iter().map(HeapBytes::heap_bytes).sum();
        let places = self.tokens.iter().enumerate();
        self.places = places.map(|(place, token)| (token.digest, place)).collect();
        self.hand = 0;
    }

    /// Returns the owner of a token that is known at the time `unix_seconds`, and until when it is.
    pub fn find(&mut self, token: &str, unix_seconds: u64) -> Option<(&Arc<Principal>, u64)> {
        if self.tokens.is_empty() {
            return None;
        }
        let place = *self.places.get(&digest_of(token))?;
        let known = &mut self.tokens[place];
        if unix_seconds >= known.known_until {
            return None;
        }
        known.is_used = true;
        Some((&known.principal, known.known_until))
    }

    /// Stores the owner of the token with this digest until `known_until`, in seconds since 1970.
    pub fn insert(&mut self, digest: TokenDigest, principal: Arc<Principal>, known_until: u64) {
        self.insert_introspected(digest, principal, known_until, None);
    }

    /// Stores the owner of a token as [`TokenTable::insert`] does. If an authorization server has
    /// called it valid, it may be used until `grace_until` while that cannot be asked again.
    pub fn insert_introspected(
        &mut self,
        digest: TokenDigest,
        principal: Arc<Principal>,
        known_until: u64,
        grace_until: Option<u64>,
    ) {
        let is_used = false;
        let entry = VerifiedToken {
            digest,
            principal,
            known_until,
            grace_until,
            is_unanswered: false,
            is_used,
        };
        if let Some(place) = self.places.get(&digest) {
            self.remove(*place);
        }
        let bytes = entry.heap_bytes();
        if !self.has_room(1, bytes) {
            // It is verified with each use.
            return;
        }
        while !self.has_room(self.tokens.len() + 1, self.bytes + bytes) {
            let place = self.find_unused();
            self.remove(place);
        }
        self.bytes += bytes;
        self.places.insert(digest, self.tokens.len());
        self.tokens.push(entry);
    }

    /// Returns [`TokenTable::held_bytes`], counted anew.
    pub fn recount_bytes(&self) -> usize {
        let owners: usize = self.tokens.iter().map(HeapBytes::heap_bytes).sum();
        self.held_bytes() - self.bytes + owners
    }

    /// Removes a token. The last one takes its place.
    fn remove(&mut self, place: usize) {
        let removed = self.tokens.swap_remove(place);
        self.places.remove(&removed.digest);
        self.bytes -= removed.heap_bytes();
        if let Some(moved) = self.tokens.get(place) {
            self.places.insert(moved.digest, place);
        }
    }

    /// Returns a token that is to be asked about again, and whose grace has not ended.
    pub fn find_unconfirmed(&mut self, digest: &TokenDigest, now: u64) -> Option<Unconfirmed> {
        let known = &mut self.tokens[*self.places.get(digest)?];
        let is_in_grace = known.grace_until.is_some_and(|grace_until| now < grace_until);
        if now < known.known_until || !is_in_grace {
            return None;
        }
        known.is_used = true;
        let VerifiedToken { known_until, is_unanswered, .. } = *known;
        Some(Unconfirmed { principal: Arc::clone(&known.principal), known_until, is_unanswered })
    }

    /// Returns whether an authorization server has called a token valid before.
    pub fn was_introspected(&self, digest: &TokenDigest) -> bool {
        let place = self.places.get(digest);
        place.is_some_and(|place| self.tokens[*place].grace_until.is_some())
    }

    /// Records that the authorization server has not answered about a token.
    pub fn record_unanswered(&mut self, digest: &TokenDigest) {
        if let Some(place) = self.places.get(digest) {
            self.tokens[*place].is_unanswered = true;
        }
    }

    /// Forgets a token that is no longer valid.
    pub fn forget(&mut self, digest: &TokenDigest) {
        if let Some(place) = self.places.get(digest) {
            let token = &mut self.tokens[*place];
            (token.known_until, token.grace_until, token.is_used) = (0, None, false);
        }
    }

    /// Returns a place whose token was not used since the last visit.
    fn find_unused(&mut self) -> usize {
        loop {
            // The last token may have taken the place of a removed one.
            let place = self.hand % self.tokens.len();
            self.hand = place + 1;
            if !std::mem::take(&mut self.tokens[place].is_used) {
                return place;
            }
        }
    }
}

/// Returns the SHA-256 of a token.
pub fn digest_of(token: &str) -> TokenDigest {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(id: &str) -> Arc<Principal> {
        Arc::new(Principal::new(id))
    }

    fn find(table: &mut TokenTable, token: &str, now: u64) -> Option<String> {
        table.find(token, now).map(|(principal, _)| principal.id().to_owned())
    }

    #[test]
    fn token_is_known_until_it_expires() {
        let mut table = TokenTable::new(2);
        assert_eq!(find(&mut table, "a", 0), None);
        table.insert(digest_of("a"), principal("ada"), 10);
        assert_eq!(find(&mut table, "a", 9).as_deref(), Some("ada"));
        assert_eq!(find(&mut table, "a", 10), None);
        assert_eq!(find(&mut table, "ab", 9), None);
        table.insert(digest_of("a"), principal("bob"), 20);
        assert_eq!((find(&mut table, "a", 10).as_deref(), table.tokens.len()), (Some("bob"), 1));
        table.forget_owners();
        assert_eq!((find(&mut table, "a", 10), table.tokens.len()), (None, 0));
    }

    #[test]
    fn introspected_token_has_grace() {
        let (mut table, digest) = (TokenTable::new(2), digest_of("a"));
        table.insert_introspected(digest, principal("ada"), 10, Some(20));
        table.insert(digest_of("b"), principal("bob"), 10);
        assert!(table.find_unconfirmed(&digest, 9).is_none());
        assert!(table.find_unconfirmed(&digest_of("b"), 10).is_none());
        let unconfirmed = table.find_unconfirmed(&digest, 10).unwrap();
        assert_eq!((unconfirmed.principal.id(), unconfirmed.is_unanswered), ("ada", false));
        table.record_unanswered(&digest);
        assert!(table.find_unconfirmed(&digest, 19).unwrap().is_unanswered);
        assert!(table.find_unconfirmed(&digest, 20).is_none() && table.was_introspected(&digest));
        table.forget(&digest);
        assert!(table.find_unconfirmed(&digest, 10).is_none() && !table.was_introspected(&digest));
    }

    #[test]
    fn introspected_token_is_remembered_without_owner() {
        let mut table = TokenTable::new(2);
        table.insert(digest_of("b"), principal("bob"), 10);
        table.insert_introspected(digest_of("a"), principal("ada"), 10, Some(20));
        table.forget_owners();
        assert!(table.was_introspected(&digest_of("a")));
        assert!(!table.was_introspected(&digest_of("b")));
        assert_eq!(find(&mut table, "a", 0), None);
        assert!(table.find_unconfirmed(&digest_of("a"), 0).is_none());
    }

    #[test]
    fn full_table_replaces_unused_token() {
        let mut table = TokenTable::new(3);
        for token in ["a", "b", "c"] {
            table.insert(digest_of(token), principal(token), 10);
        }
        assert!(table.find("a", 0).is_some() && table.find("c", 0).is_some());
        table.insert(digest_of("d"), principal("d"), 10);
        assert_eq!(table.tokens.len(), 3);
        assert_eq!(find(&mut table, "b", 0), None);
        for token in ["a", "c", "d"] {
            assert_eq!(find(&mut table, token, 0).as_deref(), Some(token));
        }
        // All are used: the search ends all the same.
        table.insert(digest_of("e"), principal("e"), 10);
        assert_eq!(find(&mut table, "e", 0).as_deref(), Some("e"));
    }

    #[test]
    fn owners_with_many_claims_are_bounded() {
        let mut table = TokenTable::new(8 << 10);
        let owner = |id: usize, bytes: usize| {
            let claims = serde_json::Map::from_iter([("c".to_owned(), "x".repeat(bytes).into())]);
            Arc::new(Principal::new(id.to_string()).with_claims(&claims))
        };
        for id in 0..200 {
            table.insert(digest_of(&id.to_string()), owner(id, 256 << 10), 10);
            assert!(table.bytes <= 8 << 20);
        }
        assert_eq!((table.places.len(), table.tokens.len()), (31, 31));
        assert_eq!(find(&mut table, "199", 0).as_deref(), Some("199"));
        // One alone does not empty the table.
        table.insert(digest_of("large"), owner(0, 9 << 20), 10);
        assert_eq!((find(&mut table, "large", 0), table.tokens.len()), (None, 31));
        // Another owner of the same token takes the place of the first.
        table.insert(digest_of("199"), owner(1, 0), 10);
        assert_eq!(find(&mut table, "199", 0).as_deref(), Some("1"));
        assert_eq!((table.held_bytes(), table.tokens.len()), (table.recount_bytes(), 31));
        table.limit_bytes(1 << 20);
        assert_eq!((table.places.len(), table.tokens.len()), (4, 4));
        assert_eq!(table.held_bytes(), table.recount_bytes());
        table.forget_owners();
        assert_eq!((table.bytes, table.tokens.len()), (0, 0));
    }

    #[test]
    fn small_table_holds_owner_with_many_claims() {
        let mut table = TokenTable::new(1);
        let claims = serde_json::Map::from_iter([("c".to_owned(), "x".repeat(1 << 20).into())]);
        table.insert(digest_of("a"), Arc::new(Principal::new("ada").with_claims(&claims)), 10);
        assert_eq!(find(&mut table, "a", 0).as_deref(), Some("ada"));
    }

    #[test]
    fn table_without_places_stores_nothing() {
        let mut table = TokenTable::new(0);
        table.insert(digest_of("a"), principal("a"), 10);
        assert_eq!(find(&mut table, "a", 0), None);
    }
}
