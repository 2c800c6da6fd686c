//! Metadata documents of protected resources (RFC 9728, section 2) and of authorization servers
//! (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3).

use serde::Deserialize;

use super::challenge::PROOF_ALGORITHM;

/// The metadata of a protected resource, as far as a client uses it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct ResourceMetadata {
    /// The URL of the resource.
    pub resource: String,
    pub(super) authorization_servers: Option<Vec<String>>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    pub(super) dpop_bound_access_tokens_required: Option<bool>,
}

impl ResourceMetadata {
    /// Returns whether the resource accepts tokens with the proofs of possession of this library.
    pub(super) fn supports_dpop(&self) -> bool {
        match self.dpop_signing_alg_values_supported.as_deref() {
            Some(algorithms) if !algorithms.is_empty() => {
                contains(Some(algorithms), PROOF_ALGORITHM)
            }
            _ => self.dpop_bound_access_tokens_required == Some(true),
        }
    }
}

/// The metadata of an authorization server, as far as a client uses it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct ServerMetadata {
    /// The URL of the server.
    pub issuer: String,
    /// Where the user logs in.
    pub authorization_endpoint: Option<String>,
    /// Where tokens are obtained.
    pub token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) grant_types_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl ServerMetadata {
    /// Returns the endpoints that a server of MCP 2025-03-26 has without metadata
    /// (basic/authorization, "Fallbacks for Servers without Metadata Discovery").
    pub(super) fn fallback(root: &str) -> Self {
        let root = root.trim_end_matches('/');
        let endpoint = |path: &str| Some(format!("{root}{path}"));
        Self {
            issuer: root.to_owned(),
            authorization_endpoint: endpoint("/authorize"),
            token_endpoint: endpoint("/token"),
            registration_endpoint: endpoint("/register"),
            // A server without metadata cannot state it, and must support it.
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..Self::default()
        }
    }

    /// Returns whether the server verifies the hashes of PKCE (RFC 7636).
    pub fn supports_pkce(&self) -> bool {
        contains(self.code_challenge_methods_supported.as_deref(), "S256")
    }

    /// Returns whether a client may ask for refresh tokens.
    pub fn supports_offline_access(&self) -> bool {
        contains(self.scopes_supported.as_deref(), OFFLINE_ACCESS) && self.supports_refresh()
    }

    /// Returns whether the server issues refresh tokens; true if it does not state its grants.
    pub(super) fn supports_refresh(&self) -> bool {
        let grants = self.grant_types_supported.as_deref();
        grants.is_none() || contains(grants, "refresh_token")
    }

    /// Returns whether the server binds tokens to the keys of this library; true if it does not
    /// state its algorithms.
    pub(super) fn supports_dpop(&self) -> bool {
        let algorithms = self.dpop_signing_alg_values_supported.as_deref();
        algorithms.is_none() || contains(algorithms, PROOF_ALGORITHM)
    }
}

/// The scope of refresh tokens (OpenID Connect Core 1.0, section 11).
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

fn contains(list: Option<&[String]>, value: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|item| item == value))
}
