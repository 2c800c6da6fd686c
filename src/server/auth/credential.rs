//! The credential of a connection or session: its token, and the principal behind it.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::principal::{Binding, Principal};
use sha2::{Digest, Sha256};

use crate::guard::auth::proof::{KeyProof, SentProof};
use crate::guard::auth::token_table::TokenDigest;

/// A verified token.
#[derive(Clone)]
pub struct Credential {
    /// Empty for a session, whose requests have tokens of their own, and for a certificate.
    token: Box<str>,
    kind: CredentialKind,
    principal: Arc<Principal>,
    /// Seconds since 1970 until which it needs no further check.
    pub(super) known_until: u64,
    /// Number of the authenticator that has verified it.
    pub(super) version: u32,
}

/// The credential of a connection while a message with another token is dispatched; `None` if it
/// has none.
#[derive(Debug)]
pub struct OwnCredential(pub Option<Credential>);

/// What is verified.
#[derive(Clone)]
enum CredentialKind {
    /// A token that suffices by itself.
    Token,
    /// A token that needs a proof of its key with each request. The digest of token and proof of a
    /// request of which only the head has arrived.
    Bound(Option<Box<TokenDigest>>),
    /// The certificate of the client of the connection.
    Certificate,
}

impl Credential {
    pub(super) fn new(
        token: &str,
        principal: Arc<Principal>,
        known_until: u64,
        version: u32,
    ) -> Self {
        let kind = match principal.binding() {
            Some(Binding::ProofKey(_)) => CredentialKind::Bound(None),
            Some(Binding::Certificate(_)) | None => CredentialKind::Token,
        };
        Self { token: token.into(), kind, principal, known_until, version }
    }

    /// The credential of a connection whose client has a certificate.
    pub(super) fn of_certificate(
        principal: Arc<Principal>,
        known_until: u64,
        version: u32,
    ) -> Self {
        let kind = CredentialKind::Certificate;
        Self { token: Box::default(), kind, principal, known_until, version }
    }

    /// The credential of a session that `principal` begins.
    pub fn of_session(principal: &Arc<Principal>) -> Self {
        let (principal, kind) = (Arc::clone(principal), CredentialKind::Token);
        Self { token: Box::default(), kind, principal, known_until: u64::MAX, version: 0 }
    }

    /// The credential of a connection whose token is known before its first message: it is verified
    /// then.
    pub fn unverified(token: &str) -> Self {
        Self::new(token, Arc::new(Principal::new("")), 0, 0)
    }

    /// Returns whether its token was verified.
    pub const fn is_verified(&self) -> bool {
        self.known_until > 0
    }

    /// Returns whether it is that of a session, whose client is authenticated elsewhere.
    pub fn is_of_session(&self) -> bool {
        self.token.is_empty() && !self.is_certificate()
    }

    /// Returns whether it is the certificate of the client of the connection.
    #[inline]
    pub const fn is_certificate(&self) -> bool {
        matches!(self.kind, CredentialKind::Certificate)
    }

    /// Returns the proof with which the token is verified again, for what is open: that of a bound
    /// token was verified at the opening.
    pub const fn key_proof(&self) -> KeyProof<'static> {
        match self.kind {
            CredentialKind::Bound(_) => KeyProof::Verified,
            CredentialKind::Token | CredentialKind::Certificate => KeyProof::Unsupported,
        }
    }

    /// Records that the proof of a request has been used when its head arrived.
    pub fn with_admitted(mut self, proof: &SentProof<'_>) -> Self {
        if let CredentialKind::Bound(admitted) = &mut self.kind {
            *admitted = Some(Box::new(digest_of(&self.token, proof)));
        }
        self
    }

    /// Returns this credential for the whole of the request whose proof was used when its head
    /// arrived; `None` if that was another one.
    pub fn admitted(&self, token: &str, proof: &SentProof<'_>) -> Option<Self> {
        match &self.kind {
            CredentialKind::Bound(Some(admitted)) if **admitted == digest_of(token, proof) => {
                Some(Self { kind: CredentialKind::Bound(None), ..self.clone() })
            }
            _ => None,
        }
    }

    /// Returns the token, to verify it again.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns whether this is the token, and suffices by itself. Takes the same time wherever they
    /// differ.
    #[inline]
    pub fn has_token(&self, token: &[u8]) -> bool {
        matches!(self.kind, CredentialKind::Token) && is_equal(self.token.as_bytes(), token)
    }

    /// Returns whether this is the token, also of a bound one.
    pub fn names(&self, token: &str) -> bool {
        is_equal(self.token.as_bytes(), token.as_bytes())
    }

    /// Returns whether both are of the same caller.
    pub fn is_same_caller(&self, other: &Self) -> bool {
        self.principal.is_same_caller(&other.principal)
    }

    pub const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

heap_bytes!(Credential { token, kind, principal } inline { known_until, version });

impl HeapBytes for CredentialKind {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Token | Self::Certificate => 0,
            Self::Bound(digest) => digest.heap_bytes(),
        }
    }
}

/// Returns whether texts are equal, in a time that depends on their lengths only. It is compiled by
/// itself so that several words are compared with one instruction.
#[inline(never)]
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(last), Some(other_last)) = (one.last_chunk(), other.last_chunk()) else {
        return is_equal_short(one, other);
    };
    let mut differences = [0; BLOCK_WORDS];
    let (blocks, _) = one.as_chunks();
    let (other_blocks, _) = other.as_chunks();
    for (block, other) in blocks.iter().zip(other_blocks) {
        add_differences(&mut differences, block, other);
    }
    // The rest as a block, together with bytes that were compared before.
    add_differences(&mut differences, last, other_last);
    black_box(differences.into_iter().fold(0, |all, difference| all | difference)) == 0
}

/// Adds the differences between the words of two blocks.
#[inline]
fn add_differences(differences: &mut [u64; BLOCK_WORDS], one: &Block, other: &Block) {
    let (words, other_words) = (one.as_chunks().0, other.as_chunks().0);
    for (all, (one, other)) in differences.iter_mut().zip(words.iter().zip(other_words)) {
        *all |= u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other);
    }
}

/// The same as [`is_equal`] for texts of equal length that are shorter than a block.
#[inline]
fn is_equal_short(one: &[u8], other: &[u8]) -> bool {
    let word_of = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let (words, rest) = one.as_chunks();
    let (other_words, other_rest) = other.as_chunks();
    let words = words.iter().zip(other_words).map(|(one, other)| word_of(one) ^ word_of(other));
    let difference = words.fold(0, |all, difference| all | difference);
    let difference_of_rest = match (one.last_chunk(), other.last_chunk()) {
        // The rest as a word, together with bytes that were compared before.
        (Some(last), Some(other_last)) => word_of(last) ^ word_of(other_last),
        _ => rest.iter().zip(other_rest).fold(0, |all, (one, other)| all | u64::from(one ^ other)),
    };
    black_box(difference | difference_of_rest) == 0
}

/// Bytes that are compared at a time.
type Block = [u8; 8 * BLOCK_WORDS];

/// Words of a [`Block`].
const BLOCK_WORDS: usize = 8;

/// Returns the digest of a token with its proof.
fn digest_of(token: &str, proof: &SentProof<'_>) -> TokenDigest {
    let digest = Sha256::new().chain_update(token).chain_update([0]);
    digest.chain_update(proof.values[0].unwrap_or_default()).finalize().into()
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
        let credential = Credential::new("secret-1", Arc::new(Principal::new("ada")), 9, 0);
        let text = format!("{credential:?}");
        assert!(text.contains("ada") && !text.contains("secret-1"), "{text}");
    }

    #[test]
    fn bound_token_does_not_suffice() {
        let bound = Principal::new("ada").with_binding(Binding::ProofKey([7; 32]));
        let credential = Credential::new("secret-1", Arc::new(bound), 9, 0);
        assert!(!credential.has_token(b"secret-1"));
        let sent = |proof: &'static [u8]| SentProof {
            values: [Some(proof), None],
            method: "POST",
            path: "/mcp",
            is_endpoint: true,
        };
        assert!(credential.admitted("secret-1", &sent(b"p")).is_none());
        let credential = credential.with_admitted(&sent(b"p"));
        assert!(credential.admitted("secret-1", &sent(b"q")).is_none());
        assert!(credential.admitted("secret-2", &sent(b"p")).is_none());
        let whole = credential.admitted("secret-1", &sent(b"p")).unwrap();
        assert!(whole.admitted("secret-1", &sent(b"p")).is_none());
    }

    #[test]
    fn token_is_compared_as_a_whole() {
        let credential = Credential::new("secret-1", Arc::new(Principal::new("ada")), 9, 0);
        assert!(credential.has_token(b"secret-1"));
        for bytes in [1, 7, 63, 64, 65, 70, 127, 128, 200] {
            let long = &"0123456789".repeat(20)[..bytes];
            let known = Credential::new(long, Arc::new(Principal::new("ada")), 9, 0);
            assert!(known.has_token(long.as_bytes()));
            for at in 0..bytes {
                let mut other = long.as_bytes().to_vec();
                other[at] ^= 1;
                assert!(!known.has_token(&other), "{at} of {bytes}");
            }
        }
        for other in ["", "secret-", "secret-2", "Secret-1", "secret-11"] {
            assert!(!credential.has_token(other.as_bytes()), "{other}");
        }
    }
}
