//! Metadata documents of protected resources (RFC 9728, section 2) and of authorization servers
//! (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3), and their URLs (RFC 9728,
//! section 3.1; RFC 8414, section 3.1; OpenID Connect Discovery 1.0, section 4; MCP 2026-07-28
//! basic/authorization, "Authorization Server Metadata Discovery").

use serde::Deserialize;
use url::{Host, Url};

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

/// Returns whether `url` names this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Parses the URL of an endpoint that the server at `server` names. Tokens and codes need
/// `https`; `http` is allowed on this machine, for a server on this machine.
pub fn parse_endpoint(text: &str, server: &Url) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    match url.scheme() {
        _ if has_credentials => Err("a URL of an endpoint has a user name".to_owned()),
        "https" => Ok(url),
        "http" if is_loopback(&url) && is_loopback(server) => Ok(url),
        "http" => Err(format!("'{text}' does not begin with https://, which authorization needs")),
        scheme => Err(format!("the scheme {scheme} of '{text}' is neither https nor http")),
    }
}

/// Parses the reference to a document that the server at `server` names in a challenge: a URL, or a
/// path on the same server (RFC 3986, section 4.2). One on another host is accepted only if the
/// challenge cannot be forged on its way: over `https`, or on this machine.
pub fn parse_reference(text: &str, server: &Url) -> Result<Url, String> {
    let url = server.join(text).map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    let url = parse_endpoint(url.as_str(), server)?;
    let is_trusted = server.scheme() == "https" || is_loopback(server);
    if !is_trusted && url.origin() != server.origin() {
        return Err(format!(
            "'{text}' is on another host than {server}, whose challenge may be forged without https"
        ));
    }
    Ok(url)
}

/// Returns `url` with the well-known path `name` before its own path.
fn inserted(url: &Url, name: &str) -> Url {
    let mut inserted = url.clone();
    inserted.set_path(&format!("/.well-known/{name}{}", url.path().trim_end_matches('/')));
    inserted.set_fragment(None);
    inserted
}

/// Returns where the metadata of the protected resource `server` may be, in the order of search.
pub fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    let name = "oauth-protected-resource";
    let root = inserted(&server_root(server), name);
    let mut urls = vec![inserted(server, name)];
    if urls[0] != root {
        urls.push(root);
    }
    urls
}

/// Returns where the metadata of the authorization server `issuer` may be, in the order of search.
pub fn server_metadata_urls(issuer: &Url) -> Vec<Url> {
    let mut urls = vec![
        inserted(issuer, "oauth-authorization-server"),
        inserted(issuer, "openid-configuration"),
    ];
    let path = issuer.path().trim_end_matches('/');
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        urls.push(appended);
    }
    urls
}

/// Returns the URL of the origin of `server`.
pub fn server_root(server: &Url) -> Url {
    let mut root = server.clone();
    root.set_path("/");
    root.set_query(None);
    root.set_fragment(None);
    root
}

/// Returns whether the resource that metadata names is `server` or contains it: the same origin,
/// and the same path or one above it.
pub fn resource_contains(resource: &Url, server: &Url) -> bool {
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    let is_above =
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let same_query = resource.query().is_none() || resource.query() == server.query();
    resource.origin() == server.origin() && is_above && same_query && resource.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn metadata_is_searched_in_specified_order() {
        assert_eq!(
            texts(&resource_metadata_urls(&url("https://a/x/mcp?q"))),
            [
                "https://a/.well-known/oauth-protected-resource/x/mcp?q",
                "https://a/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            texts(&resource_metadata_urls(&url("https://a/"))),
            ["https://a/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(&server_metadata_urls(&url("https://a/tenant1/"))),
            [
                "https://a/.well-known/oauth-authorization-server/tenant1",
                "https://a/.well-known/openid-configuration/tenant1",
                "https://a/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&server_metadata_urls(&url("https://a"))),
            [
                "https://a/.well-known/oauth-authorization-server",
                "https://a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn endpoint_needs_https_except_on_loopback() {
        let (local, remote) = (url("http://127.0.0.1:1/mcp"), url("https://a/mcp"));
        for text in ["http://127.0.0.1/a", "http://localhost:2", "http://[::1]/", "https://b/"] {
            assert!(parse_endpoint(text, &local).is_ok(), "{text}");
        }
        for text in ["http://b/", "file:///etc/passwd", "javascript:alert(1)", "https://u:p@b/", ""]
        {
            assert!(parse_endpoint(text, &local).is_err(), "{text}");
        }
        // A remote server cannot direct requests to this machine.
        assert!(parse_endpoint("http://127.0.0.1/a", &remote).is_err());
    }

    #[test]
    fn resource_is_server_or_above_it() {
        let server = url("https://a/x/mcp");
        for resource in ["https://a/x/mcp", "https://A/x/mcp/", "https://a/x", "https://a"] {
            assert!(resource_contains(&url(resource), &server), "{resource}");
        }
        for resource in [
            "https://b/x/mcp",
            "http://a/x/mcp",
            "https://a/x/m",
            "https://a/x/mcp/y",
            "https://a:1/",
        ] {
            assert!(!resource_contains(&url(resource), &server), "{resource}");
        }
    }

    #[test]
    fn reference_to_other_host_needs_trusted_challenge() {
        let other = "https://other/metadata";
        for (server, is_followed) in [
            ("https://mcp/mcp", true),
            ("http://127.0.0.1:8080/mcp", true),
            ("http://localhost:8080/mcp", true),
            ("http://mcp/mcp", false),
            ("http://192.0.2.1/mcp", false),
        ] {
            assert_eq!(parse_reference(other, &url(server)).is_ok(), is_followed, "{server}");
        }
        assert!(parse_reference("/metadata", &url("https://mcp/mcp")).is_ok());
    }
}
