//! Tokens that were verified, so that each is verified once.
//!
//! Invariants: the number of tokens is bounded; a token is found by its SHA-256 as a whole, and
//! only until it expires.

use std::collections::HashMap;
use std::sync::Arc;

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
    /// Where the search for a place continues.
    hand: usize,
}

#[derive(Debug)]
struct VerifiedToken {
    digest: TokenDigest,
    principal: Arc<Principal>,
    /// Seconds since 1970 until which it is known.
    known_until: u64,
    is_used: bool,
}

impl TokenTable {
    /// Creates a table of at most `tokens_max` tokens. Cost: about 200 bytes and the principal
    /// each, once that many are known.
    pub fn new(tokens_max: usize) -> Self {
        Self { places: HashMap::new(), tokens: Vec::new(), tokens_max, hand: 0 }
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        self.places = HashMap::new();
        self.tokens = Vec::new();
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
        if self.tokens_max == 0 {
            return;
        }
        let entry = VerifiedToken { digest, principal, known_until, is_used: false };
        if let Some(place) = self.places.get(&digest) {
            self.tokens[*place] = entry;
            return;
        }
        let place = if self.tokens.len() < self.tokens_max {
            self.tokens.push(entry);
            self.tokens.len() - 1
        } else {
            let place = self.find_unused();
            let replaced = std::mem::replace(&mut self.tokens[place], entry);
            self.places.remove(&replaced.digest);
            place
        };
        self.places.insert(digest, place);
    }

    /// Returns a place whose token was not used since the last visit.
    fn find_unused(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.tokens.len();
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
        table.clear();
        assert_eq!((find(&mut table, "a", 10), table.tokens.len()), (None, 0));
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
    fn table_without_places_stores_nothing() {
        let mut table = TokenTable::new(0);
        table.insert(digest_of("a"), principal("a"), 10);
        assert_eq!(find(&mut table, "a", 0), None);
    }
}
