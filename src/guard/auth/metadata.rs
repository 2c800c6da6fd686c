//! The metadata of the protected resource: which authorization servers issue tokens for it.
//!
//! Source: RFC 9728; MCP 2026-07-28, basic/authorization, "Authorization Server Discovery".

use corelane_protocol::RESOURCE_METADATA_PATH;
use serde_json::{Map, Value, json};

/// The metadata document and where it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResourceMetadata {
    /// The document.
    pub json: Box<str>,
    /// The URL for challenges.
    pub url: Box<str>,
}

/// What the document says of tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenMetadata<'a> {
    /// Scopes that clients may ask for.
    pub scopes: &'a [String],
    /// Algorithms of proofs of keys, if such proofs are verified (RFC 9449).
    pub dpop_algorithms: Option<&'a [Box<str>]>,
    /// Whether tokens must be bound to the key of such a proof.
    pub requires_dpop: bool,
    /// Whether tokens may be bound to the certificate of a TLS client (RFC 8705).
    pub binds_certificates: bool,
}

impl ResourceMetadata {
    /// Creates the document of the resource with this URL.
    ///
    /// # Errors
    ///
    /// Why the URL cannot be that of a resource.
    pub fn new<'a>(
        resource: &str,
        issuers: impl Iterator<Item = &'a str>,
        tokens: TokenMetadata<'_>,
    ) -> Result<Self, &'static str> {
        let url = metadata_url(resource)?;
        let mut document = Map::new();
        document.insert("resource".to_owned(), resource.into());
        let issuers: Vec<Value> = issuers.map(Value::from).collect();
        document.insert("authorization_servers".to_owned(), issuers.into());
        if !tokens.scopes.is_empty() {
            document.insert("scopes_supported".to_owned(), json!(tokens.scopes));
        }
        document.insert("bearer_methods_supported".to_owned(), json!(["header"]));
        if tokens.binds_certificates {
            document.insert("tls_client_certificate_bound_access_tokens".to_owned(), true.into());
        }
        if let Some(algorithms) = tokens.dpop_algorithms {
            document.insert("dpop_signing_alg_values_supported".to_owned(), json!(algorithms));
            let is_required = tokens.requires_dpop.into();
            document.insert("dpop_bound_access_tokens_required".to_owned(), is_required);
        }
        Ok(Self { json: Value::from(document).to_string().into(), url: url.into() })
    }
}

/// Returns the URL of the metadata: the path is inserted before that of the resource (RFC 9728,
/// section 3.1).
fn metadata_url(resource: &str) -> Result<String, &'static str> {
    const FORM: &str = "it is not a URL such as https://mcp.example.com/mcp";
    if resource.contains('#') || !resource.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FORM);
    }
    let (scheme, rest) = resource.split_once("://").ok_or(FORM)?;
    let length = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(length);
    if !matches!(scheme, "https" | "http")
        || authority.is_empty()
        || authority.contains(['"', '\\'])
    {
        return Err(FORM);
    }
    let path = if path == "/" { "" } else { path };
    Ok(format!("{scheme}://{authority}{RESOURCE_METADATA_PATH}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_path_is_inserted_before_path() {
        let cases = [
            ("https://a.test", "https://a.test/.well-known/oauth-protected-resource"),
            ("https://a.test/", "https://a.test/.well-known/oauth-protected-resource"),
            ("http://a:1/mcp", "http://a:1/.well-known/oauth-protected-resource/mcp"),
            ("https://a/x/mcp?k=1", "https://a/.well-known/oauth-protected-resource/x/mcp?k=1"),
        ];
        for (resource, url) in cases {
            assert_eq!(metadata_url(resource).unwrap(), url);
        }
        for invalid in ["", "a.test/mcp", "ftp://a/mcp", "https://", "https:///mcp", "https://a/#x"]
        {
            assert!(metadata_url(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn document_lists_issuers_and_scopes() {
        let scopes = ["tools:read".to_owned()];
        let issuers = ["https://as.test"].into_iter();
        let tokens = TokenMetadata { scopes: &scopes, ..TokenMetadata::default() };
        let metadata = ResourceMetadata::new("https://a/mcp", issuers, tokens).unwrap();
        let expected = json!({
            "resource": "https://a/mcp",
            "authorization_servers": ["https://as.test"],
            "scopes_supported": ["tools:read"],
            "bearer_methods_supported": ["header"],
        });
        assert_eq!(serde_json::from_str::<Value>(&metadata.json).unwrap(), expected);
    }

    #[test]
    fn document_names_bindings_of_tokens() {
        let algorithms = ["ES256".into()];
        let tokens = TokenMetadata {
            dpop_algorithms: Some(&algorithms),
            requires_dpop: true,
            binds_certificates: true,
            ..TokenMetadata::default()
        };
        let issuers = ["https://as.test"].into_iter();
        let metadata = ResourceMetadata::new("https://a/mcp", issuers, tokens).unwrap();
        let document: Value = serde_json::from_str(&metadata.json).unwrap();
        assert_eq!(document["dpop_signing_alg_values_supported"], json!(["ES256"]));
        assert_eq!(document["dpop_bound_access_tokens_required"], true);
        assert_eq!(document["tls_client_certificate_bound_access_tokens"], true);
    }
}
