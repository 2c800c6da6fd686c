//! Discovery: the metadata of the protected resource, then that of its authorization server.
//!
//! Source: MCP 2026-07-28 basic/authorization, "Authorization Server Location" and
//! "Authorization Server Metadata Discovery"; 2025-03-26, "Server Metadata Discovery".

use url::Url;

use super::channel::Channel;
use crate::client::error::ClientError;
use crate::client::oauth::challenge::Challenge;
use crate::client::oauth::metadata::{ResourceMetadata, ServerMetadata};
use crate::client::oauth::urls::{
    parse_endpoint, resource_contains, resource_metadata_urls, server_metadata_urls, server_root,
};

/// What discovery has found.
#[derive(Debug)]
pub(super) struct Discovered {
    /// `resource` of requests (RFC 8707).
    pub(super) resource: String,
    pub(super) scopes_supported: Option<Vec<String>>,
    /// The server accepts tokens that are bound to a key.
    pub(super) supports_dpop: bool,
    pub(super) authorization_server: ServerMetadata,
}

/// Finds the authorization server of `server`: that of `known_issuer` if the server names it, else
/// the first. With `only_issuer` no other may be used.
pub(super) async fn discover(
    channel: &Channel,
    server: &Url,
    challenge: &Challenge,
    known_issuer: Option<&str>,
    only_issuer: Option<&str>,
) -> Result<Discovered, ClientError> {
    let resource = find_resource(channel, server, challenge).await?;
    let issuers = resource.as_ref().and_then(|resource| resource.authorization_servers.as_ref());
    let issuers: &[String] = issuers.map_or(&[], Vec::as_slice);
    let authorization_server = if issuers.is_empty() {
        find_legacy_server(channel, server).await?
    } else {
        let is_named = |issuer: &&str| issuers.iter().any(|named| named == issuer);
        let issuer = only_issuer.or_else(|| known_issuer.filter(is_named)).unwrap_or(&issuers[0]);
        if !is_named(&issuer) {
            return Err(foreign_issuer(&issuers.join(", "), issuer));
        }
        find_server(channel, server, issuer).await?
    };
    if let Some(only) = only_issuer.filter(|only| *only != authorization_server.issuer) {
        return Err(foreign_issuer(&authorization_server.issuer, only));
    }
    let supports_dpop =
        challenge.is_dpop || resource.as_ref().is_some_and(ResourceMetadata::supports_dpop);
    let scopes_supported = resource.as_ref().and_then(|resource| resource.scopes_supported.clone());
    let resource = resource.map_or_else(|| canonical(server), |resource| resource.resource);
    Ok(Discovered { resource, scopes_supported, supports_dpop, authorization_server })
}

/// Returns the URI that names `server` if it does not state one.
fn canonical(server: &Url) -> String {
    let text = server.as_str();
    let is_root = server.path() == "/" && server.query().is_none();
    text.strip_suffix('/').filter(|_| is_root).unwrap_or(text).to_owned()
}

/// Reads the metadata of the resource: where the challenge says, else below the well-known paths.
async fn find_resource(
    channel: &Channel,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, ClientError> {
    let mut urls = Vec::new();
    if let Some(text) = &challenge.resource_metadata {
        let url = parse_endpoint(text, server);
        urls.push(url.map_err(|reason| refused("resource_metadata of the server", &reason))?);
    }
    for url in resource_metadata_urls(server) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    for url in urls {
        let response = channel.fetch_document(url.clone()).await?;
        let what = format!("the metadata of the protected resource at {url}");
        match response.status {
            200 => {}
            400..500 => continue,
            _ => return Err(response.failure(&what)),
        }
        let metadata: ResourceMetadata = response.json(&what)?;
        let resource = Url::parse(&metadata.resource).ok();
        if !resource.is_some_and(|resource| resource_contains(&resource, server)) {
            let text = format!(
                "{what} is that of {}, not of this server {server}: no token is requested for it",
                metadata.resource
            );
            return Err(ClientError::authorization(text));
        }
        return Ok(Some(metadata));
    }
    Ok(None)
}

/// Reads the metadata of the authorization server `issuer`.
async fn find_server(
    channel: &Channel,
    server: &Url,
    issuer: &str,
) -> Result<ServerMetadata, ClientError> {
    let url = parse_endpoint(issuer, server)
        .map_err(|reason| refused("the authorization server of the server", &reason))?;
    let metadata = read_first(channel, &server_metadata_urls(&url)).await?.ok_or_else(|| {
        let text = format!("the authorization server {issuer} has no metadata (RFC 8414)");
        ClientError::authorization(text)
    })?;
    // Compared as text (RFC 8414, section 3.3).
    if metadata.issuer == issuer {
        Ok(metadata)
    } else {
        Err(foreign_issuer(&metadata.issuer, issuer))
    }
}

/// Finds the authorization server of a server without metadata (2025-03-26): itself.
async fn find_legacy_server(
    channel: &Channel,
    server: &Url,
) -> Result<ServerMetadata, ClientError> {
    let root = server_root(server);
    parse_endpoint(root.as_str(), server)
        .map_err(|reason| refused("the server as its own authorization server", &reason))?;
    let Some(metadata) = read_first(channel, &server_metadata_urls(&root)).await? else {
        return Ok(ServerMetadata::fallback(root.as_str()));
    };
    let issuer = Url::parse(&metadata.issuer).ok();
    if issuer.is_some_and(|issuer| issuer.origin() == root.origin()) {
        Ok(metadata)
    } else {
        Err(foreign_issuer(&metadata.issuer, root.as_str()))
    }
}

/// Reads the first document that exists.
async fn read_first(
    channel: &Channel,
    urls: &[Url],
) -> Result<Option<ServerMetadata>, ClientError> {
    for url in urls {
        let response = channel.fetch_document(url.clone()).await?;
        let what = format!("the metadata of the authorization server at {url}");
        match response.status {
            200 => return response.json(&what).map(Some),
            400..500 => {}
            _ => return Err(response.failure(&what)),
        }
    }
    Ok(None)
}

fn refused(what: &str, reason: &str) -> ClientError {
    ClientError::authorization(format!("{what} is refused: {reason}"))
}

fn foreign_issuer(found: &str, expected: &str) -> ClientError {
    let text = format!(
        "the authorization server {found} is refused: it is not {expected}, so its tokens and \
         codes may be meant for others"
    );
    ClientError::authorization(text)
}
