//! What authorizes a request.

use super::signing::{Claims, DpopKey, ProofTarget};
use super::tokens::{Secret, StoredTokens};
use crate::error::ClientError;

/// An access token, ready to be sent.
#[derive(Debug)]
pub struct Credentials {
    tokens: StoredTokens,
    /// The value of `Authorization`.
    authorization: Secret,
    dpop_key: Option<DpopKey>,
}

impl Credentials {
    /// Returns the credentials for these tokens, or `None` if there is no access token, or its key
    /// cannot be read.
    pub fn new(tokens: StoredTokens) -> Option<Self> {
        if !tokens.has_access() {
            return None;
        }
        let dpop_key = match &tokens.dpop_key {
            Some(key) => Some(DpopKey::decode(key.expose())?),
            None => None,
        };
        let scheme = if dpop_key.is_some() { "DPoP" } else { "Bearer" };
        let authorization = Secret::new(format!("{scheme} {}", tokens.access_token.expose()));
        Some(Self { tokens, authorization, dpop_key })
    }

    pub const fn tokens(&self) -> &StoredTokens {
        &self.tokens
    }

    /// Returns the value of `Authorization`.
    pub fn authorization(&self) -> &str {
        self.authorization.expose()
    }

    /// Returns whether each request needs a proof.
    pub const fn needs_proof(&self) -> bool {
        self.dpop_key.is_some()
    }

    /// Returns the value of `DPoP` for one request, if the token is bound to a key.
    pub fn proof(
        &self,
        method: &str,
        url: &str,
        nonce: Option<&str>,
        claims: Claims<'_>,
    ) -> Option<Result<String, ClientError>> {
        let access_token = Some(self.tokens.access_token.expose());
        let target = ProofTarget { method, url, access_token, nonce };
        Some(self.dpop_key.as_ref()?.proof(&target, claims))
    }
}
