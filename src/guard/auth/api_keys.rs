//! API keys: tokens without structure, known by their SHA-256.
//!
//! One line per key: `id:hash:tier:scopes`. The hash is the SHA-256 of the key in hex, so that the
//! file reveals no key; a key must have at least 128 random bits. Scopes are separated by commas;
//! tier and scopes may be left out. Empty lines and lines that begin with `#` are skipped.

use std::fmt;
use std::hint::black_box;

use corelane_base::principal::{Principal, USER_TIER};
use sha2::{Digest, Sha256};

/// Length of a hash in bytes.
const HASH_BYTES: usize = 32;

/// The API keys of a server.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys {
    /// Sorted by hash.
    keys: Vec<ApiKey>,
}

#[derive(Clone)]
struct ApiKey {
    hash: [u8; HASH_BYTES],
    principal: Principal,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.principal.fmt(formatter)
    }
}

impl ApiKeys {
    /// Reads the lines of a file.
    ///
    /// # Errors
    ///
    /// Which line cannot be read, by its number, and why. The text has no part of a hash.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys: Vec<ApiKey> = Vec::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = read_line(line).map_err(|what| format!("line {}: {what}", index + 1))?;
            if keys.iter().any(|other| other.principal.id() == key.principal.id()) {
                return Err(format!("line {}: the id is that of an earlier line", index + 1));
            }
            keys.push(key);
        }
        keys.sort_unstable_by_key(|key| key.hash);
        Ok(Self { keys })
    }

    /// Adds the keys of another file.
    ///
    /// # Errors
    ///
    /// Which id both have.
    pub fn extend(&mut self, other: Self) -> Result<(), String> {
        for key in &other.keys {
            let id = key.principal.id();
            if self.keys.iter().any(|own| own.principal.id() == id) {
                return Err(format!("the id {id} is in two files"));
            }
        }
        self.keys.extend(other.keys);
        self.keys.sort_unstable_by_key(|key| key.hash);
        Ok(())
    }

    /// Returns the tiers of all keys.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.principal.tier())
    }

    /// Returns the owner of a key. The comparison of its hash takes the same time wherever they
    /// differ.
    pub fn find(&self, key: &str) -> Option<&Principal> {
        let hash: [u8; HASH_BYTES] = Sha256::digest(key.as_bytes()).into();
        // The place by the first bytes is no secret: a hash cannot be chosen.
        let first = |key: &ApiKey| key.hash.first_chunk::<4>().copied();
        let wanted = hash.first_chunk::<4>().copied();
        let start = self.keys.partition_point(|key| first(key) < wanted);
        let candidates = self.keys[start..].iter().take_while(|key| first(key) == wanted);
        let mut found = None;
        for candidate in candidates {
            if is_equal(&candidate.hash, &hash) {
                found = Some(&candidate.principal);
            }
        }
        found
    }
}

fn read_line(line: &str) -> Result<ApiKey, &'static str> {
    // Scopes may contain colons.
    let mut parts = line.splitn(4, ':').map(str::trim);
    let id = parts.next().filter(|id| !id.is_empty()).ok_or("the id is missing")?;
    let hash = parts.next().ok_or("the hash is missing: write id:hash:tier:scopes")?;
    let tier = parts.next().filter(|tier| !tier.is_empty()).unwrap_or(USER_TIER);
    let scopes = parts.next().unwrap_or_default();
    let hash = read_hex(hash).ok_or("the hash is not the SHA-256 of the key in 64 hex digits")?;
    let scopes = scopes.split([',', ' ']).map(str::trim).filter(|scope| !scope.is_empty());
    if !scopes.clone().all(super::is_scope) {
        return Err("a scope has a character that scopes do not have");
    }
    let principal =
        Principal::new(id).with_issuer(super::API_KEY_ISSUER).with_tier(tier).with_scopes(scopes);
    Ok(ApiKey { hash, principal })
}

fn read_hex(text: &str) -> Option<[u8; HASH_BYTES]> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * HASH_BYTES)?;
    let mut hash = [0; HASH_BYTES];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] << 4 | pair[1]).ok()?;
    }
    Some(hash)
}

/// Compares two texts in a time that depends on their lengths only.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let difference = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 of a key in hex.
    fn hash_of(key: &str) -> String {
        let digits = |byte: u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
        Sha256::digest(key.as_bytes()).into_iter().flat_map(digits).flatten().collect()
    }

    #[test]
    fn key_is_found_with_tier_and_scopes() {
        let (one, other) = (hash_of("secret-1"), hash_of("secret-2"));
        let text = format!("# keys\n\nada:{one}:admin:tools:read,call\nbob : {other}\n");
        let keys = ApiKeys::parse(&text).unwrap();
        let ada = keys.find("secret-1").unwrap();
        assert_eq!((ada.id(), ada.tier()), ("ada", "admin"));
        assert_eq!(ada.scopes().collect::<Vec<_>>(), ["tools:read", "call"]);
        let bob = keys.find("secret-2").unwrap();
        assert_eq!((bob.id(), bob.tier(), bob.scopes().len()), ("bob", "user", 0));
        for unknown in ["", "secret-3", "secret-1 ", one.as_str()] {
            assert_eq!(keys.find(unknown), None);
        }
    }

    #[test]
    fn malformed_line_is_rejected_without_its_hash() {
        let hash = hash_of("x");
        let short = &hash[1..];
        for line in [":", "ada", &format!(":{hash}"), &format!("ada:{short}"), "ada:zz"] {
            let error = ApiKeys::parse(line).unwrap_err();
            assert!(error.starts_with("line 1: "), "{error}");
            assert!(!error.contains(short), "{error}");
        }
        let twice = format!("ada:{hash}\nada:{}", hash_of("y"));
        assert!(ApiKeys::parse(&twice).unwrap_err().starts_with("line 2: "));
        assert!(ApiKeys::parse(&format!("a:{hash}:user:x\"y")).is_err());
    }

    #[test]
    fn files_with_one_id_do_not_merge() {
        let mut keys = ApiKeys::parse(&format!("ada:{}", hash_of("x"))).unwrap();
        let same = ApiKeys::parse(&format!("ada:{}", hash_of("y"))).unwrap();
        assert_eq!(keys.extend(same).unwrap_err(), "the id ada is in two files");
        keys.extend(ApiKeys::parse(&format!("bob:{}", hash_of("y"))).unwrap()).unwrap();
        assert_eq!(keys.find("y").unwrap().id(), "bob");
        assert_eq!(keys.find("x").unwrap().id(), "ada");
    }
}
