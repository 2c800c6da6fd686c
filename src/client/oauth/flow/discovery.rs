//! Discovery: the metadata of the protected resource, then that of its authorization server.
//!
//! Source: MCP 2026-07-28 basic/authorization, "Authorization Server Location" and
//! "Authorization Server Metadata Discovery"; 2025-03-26, "Server Metadata Discovery".

use serde::de::DeserializeOwned;
use url::Url;

use super::channel::Channel;
use crate::error::{ClientError, quote};
use crate::oauth::challenge::Challenge;
use crate::oauth::metadata::{
    ResourceMetadata, ServerMetadata, parse_endpoint, parse_reference, resource_contains,
    resource_metadata_urls, server_metadata_urls, server_root,
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
    let (resource, unusable) = match resource {
        Search::Found(resource) => (Some(resource), None),
        Search::Missing(unusable) => (None, unusable),
    };
    let issuers = resource.as_ref().and_then(|resource| resource.authorization_servers.as_ref());
    let issuers: &[String] = issuers.map_or(&[], Vec::as_slice);
    let authorization_server = if issuers.is_empty() {
        find_legacy_server(channel, server, unusable).await?
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
    let of_metadata = || resource.as_ref().is_some_and(ResourceMetadata::supports_dpop);
    let supports_dpop = challenge.offers_dpop().unwrap_or_else(of_metadata);
    let scopes_supported = resource.as_ref().and_then(|resource| resource.scopes_supported.clone());
    let resource = resource.map_or_else(|| canonical(server), |resource| resource.resource);
    Ok(Discovered { resource, scopes_supported, supports_dpop, authorization_server })
}

/// How the search for a document has ended.
enum Search<T> {
    Found(T),
    /// There is none; the error states which answers were more than a refusal.
    Missing(Option<ClientError>),
}

/// Looks for a document below several URLs: an answer that is not the document ends nothing.
struct DocumentSearch<'a> {
    channel: &'a Channel,
    /// What is looked for.
    what: &'static str,
    /// What answered otherwise than with status 4xx.
    unusable: Vec<String>,
    /// An attempt has failed that may succeed another time: no answer, or status 5xx.
    has_failed: bool,
}

impl<'a> DocumentSearch<'a> {
    const fn new(channel: &'a Channel, what: &'static str) -> Self {
        Self { channel, what, unusable: Vec::new(), has_failed: false }
    }

    /// Reads the document at `url`, if there is one that `is_usable`.
    async fn read<T: DeserializeOwned>(
        &mut self,
        url: &Url,
        is_usable: impl FnOnce(&T) -> Result<(), &'static str>,
    ) -> Option<T> {
        let response = match self.channel.fetch_document(url.clone()).await {
            Ok(response) => response,
            Err(error) => {
                self.has_failed = true;
                return self.note(url, error.message());
            }
        };
        match response.status {
            200 => {}
            400..500 => return None,
            status => {
                self.has_failed |= status >= 500;
                return self.note(url, &format!("HTTP status {status}{}", quote(&response.body)));
            }
        }
        let document = match serde_json::from_slice::<T>(response.text()) {
            Ok(document) => document,
            Err(error) => {
                let text = format!("not the document ({error}){}", quote(&response.body));
                return self.note(url, &text);
            }
        };
        match is_usable(&document) {
            Ok(()) => Some(document),
            Err(reason) => self.note(url, reason),
        }
    }

    fn note<T>(&mut self, url: &Url, reason: &str) -> Option<T> {
        tracing::debug!(%url, reason, "a metadata document is looked for elsewhere");
        self.unusable.push(format!("{} at {url}: {reason}", self.what));
        None
    }

    /// Returns why no URL has the document; `None` if each has refused it with status 4xx.
    fn failure(&self) -> Option<ClientError> {
        (!self.unusable.is_empty()).then(|| ClientError::authorization(self.unusable.join("; ")))
    }
}

/// Returns the URI that names `server` if it does not state one.
fn canonical(server: &Url) -> String {
    let text = server.as_str();
    let is_root = server.path() == "/" && server.query().is_none();
    text.strip_suffix('/').filter(|_| is_root).unwrap_or(text).to_owned()
}

/// Reads the metadata of the resource: where the challenge says, else below the well-known paths.
///
/// # Errors
///
/// If a document names another resource, or the search has failed in a way that may succeed another
/// time.
async fn find_resource(
    channel: &Channel,
    server: &Url,
    challenge: &Challenge,
) -> Result<Search<ResourceMetadata>, ClientError> {
    let mut search = DocumentSearch::new(channel, "the metadata of the protected resource");
    let mut urls = Vec::new();
    if let Some(text) = challenge.resource_metadata.as_deref().filter(|text| !text.is_empty()) {
        let url = parse_reference(text, server);
        urls.push(url.map_err(|reason| refused("resource_metadata of the server", &reason))?);
    }
    for url in resource_metadata_urls(server) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    for url in urls {
        let Some(metadata) = search.read(&url, |_: &ResourceMetadata| Ok(())).await else {
            continue;
        };
        let resource = Url::parse(&metadata.resource).ok();
        if !resource.is_some_and(|resource| resource_contains(&resource, server)) {
            let text = format!(
                "the metadata of the protected resource at {url} is that of {}, not of this server \
                 {server}: no token is requested for it",
                metadata.resource
            );
            return Err(ClientError::authorization(text));
        }
        return Ok(Search::Found(metadata));
    }
    match search.failure() {
        Some(error) if search.has_failed => Err(error),
        failure => Ok(Search::Missing(failure)),
    }
}

/// Reads the metadata of the authorization server `issuer`.
async fn find_server(
    channel: &Channel,
    server: &Url,
    issuer: &str,
) -> Result<ServerMetadata, ClientError> {
    let url = parse_endpoint(issuer, server)
        .map_err(|reason| refused("the authorization server of the server", &reason))?;
    match read_first(channel, &server_metadata_urls(&url)).await {
        // Compared as text (RFC 8414, section 3.3).
        Search::Found(metadata) if metadata.issuer == issuer => Ok(metadata),
        Search::Found(metadata) => Err(foreign_issuer(&metadata.issuer, issuer)),
        Search::Missing(Some(error)) => Err(error),
        Search::Missing(None) => {
            let text = format!("the authorization server {issuer} has no metadata (RFC 8414)");
            Err(ClientError::authorization(text))
        }
    }
}

/// Finds the authorization server of a server without metadata (2025-03-26): itself. `unusable` is
/// what it has instead of the metadata of the resource: it has no default endpoints then.
async fn find_legacy_server(
    channel: &Channel,
    server: &Url,
    unusable: Option<ClientError>,
) -> Result<ServerMetadata, ClientError> {
    let root = server_root(server);
    parse_endpoint(root.as_str(), server)
        .map_err(|reason| refused("the server as its own authorization server", &reason))?;
    let metadata = match (read_first(channel, &server_metadata_urls(&root)).await, unusable) {
        (Search::Found(metadata), _) => metadata,
        (Search::Missing(_), Some(error)) | (Search::Missing(Some(error)), None) => {
            return Err(error);
        }
        (Search::Missing(None), None) => return Ok(ServerMetadata::fallback(root.as_str())),
    };
    let issuer = Url::parse(&metadata.issuer).ok();
    if issuer.is_some_and(|issuer| issuer.origin() == root.origin()) {
        Ok(metadata)
    } else {
        Err(foreign_issuer(&metadata.issuer, root.as_str()))
    }
}

/// Reads the first usable document of an authorization server.
async fn read_first(channel: &Channel, urls: &[Url]) -> Search<ServerMetadata> {
    let mut search = DocumentSearch::new(channel, "the metadata of the authorization server");
    for url in urls {
        let is_usable = |metadata: &ServerMetadata| match metadata.token_endpoint {
            Some(_) => Ok(()),
            None => Err("it names no token_endpoint"),
        };
        if let Some(metadata) = search.read(url, is_usable).await {
            return Search::Found(metadata);
        }
    }
    Search::Missing(search.failure())
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
