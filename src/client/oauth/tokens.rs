//! What the client keeps of an authorization, as text that is neither logged nor shown, and what
//! authorizes a request with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::signing::{Claims, DpopKey, ProofTarget};
use crate::error::ClientError;

/// How the client authenticates at the token endpoint (RFC 7591, section 2; OpenID Connect Core
/// 1.0, section 9).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// Only by its id.
    #[default]
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl ClientAuth {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let all =
            [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt];
        all.into_iter().find(|method| method.as_str() == name)
    }
}

/// A client as its authorization server knows it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<Secret>,
    pub auth: ClientAuth,
    /// The URI of a dynamic registration (RFC 7591); `None` for a client that is not registered by
    /// this library.
    pub registered_redirect_uri: Option<String>,
}

/// The tokens for one server, with the registration of the client that they belong to. It is
/// secret: the debug format omits it. It serializes for stores, in a form that may change.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct StoredTokens {
    /// The authorization server that nothing of this may be sent to any other than.
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    /// `resource` of requests.
    pub(crate) resource: String,
    pub(crate) client: RegisteredClient,
    /// Scopes that were asked for.
    pub(crate) scopes: Vec<String>,
    /// Empty for a registration whose login has failed.
    pub(crate) access_token: Secret,
    pub(crate) refresh_token: Option<Secret>,
    /// Seconds since 1970-01-01 UTC.
    pub(crate) issued_at: u64,
    /// Seconds for which the access token is valid, if the server states them.
    pub(crate) expires_in: Option<u64>,
    /// The encoded key that the access token is bound to.
    pub(crate) dpop_key: Option<Secret>,
    /// The authorization server refuses the parameter `resource`.
    #[serde(default)]
    pub(crate) omits_resource: bool,
}

impl StoredTokens {
    /// Returns whether there is an access token, and not only the registration of a client.
    pub fn has_access(&self) -> bool {
        !self.access_token.expose().is_empty()
    }

    /// Returns the value of `Authorization` of requests. It is secret. `None` if there is no access
    /// token, or if it is bound to a key (DPoP), so that each request needs a proof besides.
    pub fn authorization(&self) -> Option<String> {
        let is_bearer = self.has_access() && self.dpop_key.is_none();
        is_bearer.then(|| format!("Bearer {}", self.access_token.expose()))
    }

    /// Returns when a refresh of the access token is due, in seconds since 1970-01-01 UTC: when
    /// 80 % of its life time have passed. `None` if the server states no life time.
    pub fn refresh_at(&self) -> Option<u64> {
        let after = self.expires_in?.saturating_mul(4) / 5;
        Some(self.issued_at.saturating_add(after))
    }

    /// Returns whether a refresh of the access token is due.
    pub(crate) fn is_refresh_due(&self, unix_seconds: u64) -> bool {
        self.refresh_at().is_some_and(|at| unix_seconds >= at)
    }
}

impl fmt::Debug for StoredTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoredTokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A secret: the debug format omits it.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[secret]")
    }
}

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
