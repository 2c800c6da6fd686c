//! The credential of a connection or session: its token, and the principal behind it.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use crate::base::principal::Principal;

/// A verified token.
#[derive(Clone)]
pub(in crate::server) struct Credential {
    /// Empty for a session, whose requests have tokens of their own, and for a certificate.
    token: Box<str>,
    /// It is the certificate of the client of the connection.
    is_certificate: bool,
    principal: Arc<Principal>,
    /// Seconds since 1970 until which it needs no further check.
    pub(super) known_until: u64,
    /// Number of the authenticator that has verified it.
    pub(super) version: u32,
}

impl Credential {
    pub(super) fn new(
        token: &str,
        principal: Arc<Principal>,
        (known_until, version): (u64, u32),
    ) -> Self {
        Self { token: token.into(), is_certificate: false, principal, known_until, version }
    }

    /// The credential of a connection whose client has a certificate.
    pub(super) fn of_certificate(
        principal: Arc<Principal>,
        (known_until, version): (u64, u32),
    ) -> Self {
        Self { token: Box::default(), is_certificate: true, principal, known_until, version }
    }

    /// The credential of a session that `principal` begins.
    pub(in crate::server) fn of_session(principal: &Arc<Principal>) -> Self {
        let principal = Arc::clone(principal);
        let (known_until, version) = (u64::MAX, 0);
        Self { token: Box::default(), is_certificate: false, principal, known_until, version }
    }

    /// The credential of a connection whose token is known before its first message: it is verified
    /// then.
    pub(in crate::server) fn unverified(token: &str) -> Self {
        Self::new(token, Arc::new(Principal::new("")), (0, 0))
    }

    /// Returns whether it is the certificate of the client of the connection.
    #[inline]
    pub(in crate::server) const fn is_certificate(&self) -> bool {
        self.is_certificate
    }

    /// Returns the token, to verify it again.
    pub(in crate::server) fn token(&self) -> &str {
        &self.token
    }

    /// Returns whether this is the token. Takes the same time wherever they differ.
    #[inline]
    pub(in crate::server) fn has_token(&self, token: &[u8]) -> bool {
        is_equal(self.token.as_bytes(), token)
    }

    pub(in crate::server) const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Returns the bytes that it takes, with its share of the principal.
    pub(in crate::server) fn held_bytes(&self) -> usize {
        self.token.len() + self.principal.held_bytes()
    }
}

/// Returns whether texts are equal, in a time that depends on their lengths only. It is compiled by
/// itself so that several words are compared with one instruction.
#[inline(never)]
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let word_of = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let (words, rest) = one.as_chunks();
    let (other_words, other_rest) = other.as_chunks();
    let words = words.iter().zip(other_words).map(|(one, other)| word_of(one) ^ word_of(other));
    let rest = rest.iter().zip(other_rest).map(|(one, other)| u64::from(one ^ other));
    let difference = words.fold(0, |all, difference| all | difference);
    black_box(difference | rest.fold(0, |all, difference| all | difference)) == 0
}

impl fmt::Debug for Credential {
    /// Does not print the token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credential")
            .field("principal", &self.principal)
            .field("known_until", &self.known_until)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_token() {
        let credential = Credential::new("secret-1", Arc::new(Principal::new("ada")), (9, 0));
        let text = format!("{credential:?}");
        assert!(text.contains("ada") && !text.contains("secret-1"), "{text}");
    }

    #[test]
    fn token_is_compared_as_a_whole() {
        let credential = Credential::new("secret-1", Arc::new(Principal::new("ada")), (9, 0));
        assert!(credential.has_token(b"secret-1"));
        let long = "0123456789".repeat(7);
        let known = Credential::new(&long, Arc::new(Principal::new("ada")), (9, 0));
        assert!(known.has_token(long.as_bytes()));
        for at in 0..long.len() {
            let mut other = long.clone().into_bytes();
            other[at] ^= 1;
            assert!(!known.has_token(&other), "{at}");
        }
        for other in ["", "secret-", "secret-2", "Secret-1", "secret-11"] {
            assert!(!credential.has_token(other.as_bytes()), "{other}");
        }
    }
}
