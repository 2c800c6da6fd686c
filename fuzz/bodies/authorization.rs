//! Fuzz target body of what an authorization server and a protected resource send.

use corelane_client::internal::{
    Challenge, ResourceMetadata, ServerMetadata, parse_endpoint, resource_metadata_urls,
    server_metadata_urls,
};
use url::Url;

/// Reads `text` as the value of `WWW-Authenticate`, as metadata, and as a URL. Returns whether it
/// is a challenge.
///
/// # Panics
///
/// If an invariant is violated.
pub(crate) fn check_text(text: &str) -> bool {
    let challenge = Challenge::parse([text]);
    assert_eq!(Challenge::parse([text, text]), challenge, "a repeated challenge differs");
    if let Ok(metadata) = serde_json::from_str::<ServerMetadata>(text) {
        let _ = (metadata.supports_pkce(), metadata.supports_offline_access());
        check_url(&metadata.issuer);
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
        endpoints.into_iter().flatten().for_each(|endpoint| check_url(endpoint));
    }
    if let Ok(metadata) = serde_json::from_str::<ResourceMetadata>(text) {
        check_url(&metadata.resource);
    }
    if let Some(url) = challenge.as_ref().and_then(|it| it.resource_metadata.as_deref()) {
        check_url(url);
    }
    check_url(text);
    challenge.is_some()
}

/// Checks where the metadata of a URL is looked for: at its own origin.
fn check_url(text: &str) {
    let Ok(url) = Url::parse(text) else { return };
    if !matches!(url.scheme(), "http" | "https") {
        return;
    }
    for candidate in resource_metadata_urls(&url).iter().chain(&server_metadata_urls(&url)) {
        assert_eq!(candidate.origin(), url.origin(), "metadata of another origin");
    }
    if let Ok(endpoint) = parse_endpoint(text, &url) {
        assert!(matches!(endpoint.scheme(), "http" | "https"), "{endpoint}");
    }
}
