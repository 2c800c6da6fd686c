//! The authenticated caller of a request.

use std::fmt;

use serde_json::{Map, Value};

use crate::heap_bytes;
use crate::heap_bytes::HeapBytes;

/// The tier of a caller without a credential, where such callers are admitted.
pub const ANONYMOUS_TIER: &str = "anonymous";

/// The tier of an authenticated caller to which nothing assigns another one.
pub const USER_TIER: &str = "user";

/// The authenticated caller of a request: who it is, and what it may do.
///
/// Two principals are the same caller if id, issuer and client id are equal; tier, scopes and
/// claims may differ from one token of a caller to the next.
#[derive(Clone, Eq, PartialEq)]
pub struct Principal {
    id: Box<str>,
    issuer: Box<str>,
    client_id: Box<str>,
    tier: Box<str>,
    scopes: Vec<Box<str>>,
    /// JSON text of an object, or empty.
    claims: Box<str>,
    expires_at: Option<u64>,
    /// What its owner must prove with each use of the credential.
    binding: Option<Box<Binding>>,
}

/// A key to which a credential is bound: it is valid only together with a proof of that key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Binding {
    /// SHA-256 of the certificate of the TLS client (`x5t#S256`, RFC 8705, section 3.1).
    Certificate([u8; 32]),
    /// Thumbprint of the key of the proofs (`jkt`, RFC 9449, section 6.1).
    ProofKey([u8; 32]),
}

impl Principal {
    /// Creates a principal of the tier `user` without scopes: `id` is the subject of a token, the
    /// id of an API key, or what a host program calls the caller.
    pub fn new(id: impl Into<Box<str>>) -> Self {
        Self {
            id: id.into(),
            issuer: Box::default(),
            client_id: Box::default(),
            tier: USER_TIER.into(),
            scopes: Vec::new(),
            claims: Box::default(),
            expires_at: None,
            binding: None,
        }
    }

    /// Sets who issued the credential, such as the `iss` of a JWT. Default: empty.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<Box<str>>) -> Self {
        self.issuer = issuer.into();
        self
    }

    /// Sets the client program for which the credential was issued. Default: empty.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<Box<str>>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// Sets the tier. Default `user`.
    #[must_use]
    pub fn with_tier(mut self, tier: impl Into<Box<str>>) -> Self {
        self.tier = tier.into();
        self
    }

    /// Sets the scopes (RFC 6749, section 3.3). Default none.
    #[must_use]
    pub fn with_scopes<T: Into<Box<str>>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the claims. Cost: their JSON text, for as long as the token is known. Default none.
    #[must_use]
    pub fn with_claims(mut self, claims: &Map<String, Value>) -> Self {
        self.claims = serde_json::to_string(claims).unwrap_or_default().into();
        self
    }

    /// Sets when the credential expires, in seconds since 1970. Default: it does not.
    #[must_use]
    pub const fn with_expiry(mut self, unix_seconds: u64) -> Self {
        self.expires_at = Some(unix_seconds);
        self
    }

    /// Binds the credential to a key.
    #[doc(hidden)]
    #[must_use]
    pub fn with_binding(mut self, binding: Binding) -> Self {
        self.binding = Some(Box::new(binding));
        self
    }

    /// Returns the subject of the token, the id of the API key, or the name of the TLS client
    /// certificate.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns who issued the credential: an authorization server, `api_key`, `mtls` for TLS client
    /// certificates, or `introspection` for a token without issuer; what the program says for
    /// callers that it names.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the client program for which the credential was issued; empty if unknown.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Returns the tier, such as `user` or `admin`.
    pub fn tier(&self) -> &str {
        &self.tier
    }

    /// Returns the scopes, those that others imply included.
    pub fn scopes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.scopes.iter().map(|scope| &**scope)
    }

    /// Returns whether the caller has a scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().any(|own| own == scope)
    }

    /// Returns a claim of the token, such as `email`. Cost: parses the claims.
    pub fn claim(&self, name: &str) -> Option<Value> {
        self.claims().remove(name)
    }

    /// Returns the claims of the token; empty for API keys. Cost: parses them.
    pub fn claims(&self) -> Map<String, Value> {
        serde_json::from_str(&self.claims).unwrap_or_default()
    }

    /// Returns when the credential expires, in seconds since 1970.
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Returns the key to which the credential is bound.
    #[doc(hidden)]
    pub fn binding(&self) -> Option<&Binding> {
        self.binding.as_deref()
    }

    /// Returns whether both are the same caller.
    pub fn is_same_caller(&self, other: &Self) -> bool {
        self.id == other.id && self.issuer == other.issuer && self.client_id == other.client_id
    }

    /// Returns a text that differs between callers.
    #[doc(hidden)]
    pub fn identity(&self) -> String {
        let Self { issuer, client_id, id, .. } = self;
        format!("{}:{issuer}{}:{client_id}{id}", issuer.len(), client_id.len())
    }
}

heap_bytes!(
    Principal { id, issuer, client_id, tier, scopes, claims, binding } inline { expires_at }
);

impl HeapBytes for Binding {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Certificate(digest) | Self::ProofKey(digest) => digest.heap_bytes(),
        }
    }
}

/// Returns whether an optional caller is the same as another one: both are absent, or both are the
/// same.
#[inline]
pub fn is_same_caller(one: Option<&Principal>, other: Option<&Principal>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one, other) || one.is_same_caller(other),
        (None, None) => true,
        _ => false,
    }
}

impl fmt::Debug for Principal {
    /// Does not print the claims, which may be personal.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Principal")
            .field("id", &self.id)
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("tier", &self.tier)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_separates_id_issuer_and_client() {
        let one = Principal::new("a").with_issuer("b").with_client_id("c");
        let others = [
            Principal::new("a").with_issuer("bc"),
            Principal::new("ca").with_issuer("b"),
            Principal::new("a").with_issuer("b").with_client_id("d"),
        ];
        for other in others {
            assert!(!one.is_same_caller(&other));
            assert_ne!(one.identity(), other.identity());
        }
        let with_scope = one.clone().with_scopes(["x"]).with_tier("admin");
        assert!(one.is_same_caller(&with_scope));
        assert_eq!(one.identity(), with_scope.identity());
    }

    #[test]
    fn debug_output_hides_the_claims() {
        let claims = serde_json::json!({"email": "ada@example.com"});
        let principal = Principal::new("ada").with_claims(claims.as_object().unwrap());
        assert!(!format!("{principal:?}").contains("example.com"));
        assert_eq!(principal.claim("email").unwrap(), "ada@example.com");
    }
}
