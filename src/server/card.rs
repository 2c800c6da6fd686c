//! The server card, which clients and registries read before they connect (SEP-2127), and the
//! catalog of a host that names it.
//!
//! What it says is advice: `server/discover` decides.

use std::fmt::{self, Write};

use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::server::options::Options;

/// The schema of the card.
const CARD_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
/// The media type of the card.
pub const CARD_TYPE: &str = "application/mcp-server-card+json";
/// The media type of the catalog.
pub const CATALOG_TYPE: &str = "application/ai-catalog+json";
/// What follows the path of MCP in that of the card.
const CARD_SUFFIX: &str = "/server-card";

/// The documents that a server serves about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerCard {
    /// The card.
    pub card: CardDocument,
    /// The catalog of the host, which names the card.
    pub catalog: CardDocument,
}

/// A document and its version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CardDocument {
    /// The JSON text.
    pub json: Box<str>,
    /// Its `ETag`, with quotation marks.
    pub etag: Box<str>,
}

/// Why there can be no card.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CardFault {
    /// The key of the option.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

impl CardFault {
    fn new(key: &'static str, message: impl Into<String>, hint: &'static str) -> Self {
        Self { key, message: message.into(), hint }
    }
}

impl fmt::Display for CardFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, message, hint } = self;
        write!(formatter, "{key} {message}; {hint}")
    }
}

impl std::error::Error for CardFault {}

impl CardDocument {
    fn new(document: &Value) -> Self {
        let json = document.to_string();
        let mut etag = "\"".to_owned();
        for byte in &Sha256::digest(&json)[..16] {
            // Writing to a string does not fail.
            write!(etag, "{byte:02x}").unwrap_or(());
        }
        etag.push('"');
        Self { json: json.into(), etag: etag.into() }
    }
}

impl ServerCard {
    /// Makes the documents of a server with these options and this `info`; `None` without
    /// `card.name`.
    ///
    /// # Errors
    ///
    /// Which option does not fit.
    pub fn new(options: &Options, info: &Implementation) -> Result<Option<Self>, CardFault> {
        let Some(name) = &options.card.name else { return Ok(None) };
        let card = server_card(options, info)?;
        let (_, last) = name.split_once('/').unwrap_or_default();
        let url = endpoint_url(options);
        let host = url.as_deref().map_or("localhost", host_of);
        let mut entry =
            json!({ "identifier": format!("urn:air:{host}:mcp:{last}"), "type": CARD_TYPE });
        if let Some(url) = &url {
            entry["url"] = format!("{}{CARD_SUFFIX}", url.trim_end_matches('/')).into();
        } else {
            entry["data"] = card.clone();
        }
        let catalog = json!({ "specVersion": "1.0", "entries": [entry] });
        let [card, catalog] = [&card, &catalog].map(CardDocument::new);
        Ok(Some(Self { card, catalog }))
    }
}

/// Returns the card.
///
/// # Errors
///
/// Which option is missing or does not fit.
pub fn server_card(options: &Options, info: &Implementation) -> Result<Value, CardFault> {
    let mut card = Map::new();
    card.insert("$schema".to_owned(), CARD_SCHEMA.into());
    card.append(&mut server_identity(options, info)?);
    if let Some(mut remote) = remote(options)? {
        let revisions: Vec<Value> =
            revisions(options).into_iter().map(|it| it.as_str().into()).collect();
        remote.insert("supportedProtocolVersions".to_owned(), revisions.into());
        card.insert("remotes".to_owned(), json!([remote]));
    }
    Ok(card.into())
}

/// Returns the members that a card and the entry of a registry have in common.
///
/// # Errors
///
/// Which option is missing or does not fit.
pub fn server_identity(
    options: &Options,
    info: &Implementation,
) -> Result<Map<String, Value>, CardFault> {
    let card = &options.card;
    let hint = "set card.name to a namespace, a slash and a name, such as com.example/shop";
    let name = card.name.as_deref();
    let name = name.ok_or_else(|| CardFault::new("card.name", "is not set", hint))?;
    if !is_registry_name(name) {
        let message = format!("{name:?} is not a name in registries");
        return Err(CardFault::new("card.name", message, hint));
    }
    if !is_version(&info.version) {
        let message = format!("{:?} is not one version", info.version);
        return Err(CardFault::new("server.version", message, "write one such as 1.0.2"));
    }
    let description = info.description.as_deref().unwrap_or_default();
    let length = description.chars().count();
    if !(1..=TEXT_LENGTH_MAX).contains(&length) {
        let hint = "say in 1 to 100 characters what the server does";
        let message = format!("has {length} characters");
        return Err(CardFault::new("server.description", message, hint));
    }
    let mut identity = Map::new();
    let mut insert = |key: &str, value: Value| identity.insert(key.to_owned(), value);
    insert("name", name.into());
    insert("version", info.version.as_str().into());
    insert("description", description.into());
    if let Some(title) = info.title.as_deref() {
        let length = title.chars().count();
        if !(1..=TEXT_LENGTH_MAX).contains(&length) {
            let message = format!("has {length} characters");
            return Err(CardFault::new("server.title", message, "write 1 to 100 characters"));
        }
        insert("title", title.into());
    }
    if let Some(url) = checked_url("card.website", card.website.as_deref())? {
        insert("websiteUrl", url.into());
    }
    if let Some(url) = checked_url("card.repository", card.repository.as_deref())? {
        let host = host_of(url);
        let source = match host {
            "github.com" => "github",
            "gitlab.com" => "gitlab",
            other => other,
        };
        insert("repository", json!({ "url": url, "source": source }));
    }
    Ok(identity)
}

/// Returns how clients connect over the network, with the members of a card and of the entry of a
/// registry; `None` if the URL is not known.
///
/// # Errors
///
/// `card.url` is not a URL.
pub fn remote(options: &Options) -> Result<Option<Map<String, Value>>, CardFault> {
    checked_url("card.url", options.card.url.as_deref())?;
    let Some(url) = endpoint_url(options) else { return Ok(None) };
    let mut remote = Map::new();
    remote.insert("type".to_owned(), "streamable-http".into());
    remote.insert("url".to_owned(), url.into());
    // Clients that get a token from an authorization server find it by themselves.
    if !options.auth.api_keys.is_empty() && options.auth.issuers.is_empty() {
        let header = json!({
            "name": "Authorization",
            "description": "Bearer, a space and the key",
            "value": "Bearer {key}",
            "isRequired": true,
            "isSecret": true,
            "variables": { "key": { "description": "Key", "isRequired": true, "isSecret": true } },
        });
        remote.insert("headers".to_owned(), json!([header]));
    }
    Ok(Some(remote))
}

/// Returns the URL of the MCP endpoint, as far as the options tell it.
fn endpoint_url(options: &Options) -> Option<String> {
    let configured = options.card.url.as_ref().or(options.auth.resource.as_ref());
    if let Some(url) = configured {
        return Some(url.clone());
    }
    let address = options.http.address.filter(|it| it.port() != 0 && !it.ip().is_unspecified())?;
    let has_tls = options.tls.http && !options.tls.certificates.is_empty();
    let scheme = if has_tls { "https" } else { "http" };
    Some(format!("{scheme}://{address}{}", options.http.path))
}

/// Returns the revisions that are served over HTTP, the newest first.
fn revisions(options: &Options) -> Vec<Revision> {
    if let Some((revision, _)) = options.http.only_revision() {
        return vec![revision];
    }
    let all = Revision::ALL.into_iter().rev();
    all.filter(|revision| revision.is_modern() || options.http.legacy).collect()
}

/// Most characters of title and description.
const TEXT_LENGTH_MAX: usize = 100;
/// Most bytes of a version.
const VERSION_BYTES_MAX: usize = 255;

/// Returns whether a text is a namespace, a slash and a name, of 3 to 200 characters.
fn is_registry_name(text: &str) -> bool {
    let is_made_of = |part: &str, others: &[u8]| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    let Some((namespace, name)) = text.split_once('/') else { return false };
    (3..=200).contains(&text.len()) && is_made_of(namespace, b".-") && is_made_of(name, b"._-")
}

/// Returns whether a text is one version, and neither a range nor `latest`.
fn is_version(text: &str) -> bool {
    let is_wildcard = |part: &str| matches!(part, "x" | "X" | "*");
    let begins_range = text.starts_with(['^', '~', '<', '>', '=']);
    let has_range = text.contains(" - ") || text.contains("||") || text.contains([' ', ',']);
    !text.is_empty()
        && text.len() <= VERSION_BYTES_MAX
        && text != "latest"
        && !(begins_range || has_range || text.split('.').any(is_wildcard))
}

fn checked_url<'u>(key: &'static str, url: Option<&'u str>) -> Result<Option<&'u str>, CardFault> {
    let Some(url) = url else { return Ok(None) };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_valid = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest.contains(|it: char| it.is_whitespace() || it.is_control())
    });
    if is_valid {
        return Ok(Some(url));
    }
    let message = format!("{url:?} is not a URL of http or https");
    Err(CardFault::new(key, message, "write one such as https://shop.example/mcp"))
}

/// Returns the host of a URL of http or https.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn info() -> Implementation {
        let description = Some("Sells things.".to_owned());
        Implementation { description, ..Implementation::new("shop", "1.0.2") }
    }

    fn options() -> Options {
        let mut options = Options::default();
        options.card.name = Some("com.example/shop".to_owned());
        options
    }

    #[test]
    fn card_has_identity_and_remote() {
        let mut options = options();
        options.card.url = Some("https://shop.example/mcp".to_owned());
        options.card.repository = Some("https://github.com/example/shop".to_owned());
        options.auth.api_keys = vec![PathBuf::from("keys")];
        let card = server_card(&options, &info()).unwrap();
        assert_eq!(card["name"], "com.example/shop");
        assert_eq!(card["repository"]["source"], "github");
        let remote = &card["remotes"][0];
        assert_eq!(remote["url"], "https://shop.example/mcp");
        assert_eq!(remote["supportedProtocolVersions"][0], "2026-07-28");
        assert_eq!(remote["headers"][0]["isSecret"], true);
        let documents = ServerCard::new(&options, &info()).unwrap().unwrap();
        let catalog: Value = serde_json::from_str(&documents.catalog.json).unwrap();
        let entry = json!({
            "identifier": "urn:air:shop.example:mcp:shop",
            "type": CARD_TYPE,
            "url": "https://shop.example/mcp/server-card",
        });
        assert_eq!(catalog["entries"], json!([entry]));
    }

    #[test]
    fn catalog_has_card_of_unknown_url() {
        let mut options = options();
        options.http.address = None;
        let documents = ServerCard::new(&options, &info()).unwrap().unwrap();
        let catalog: Value = serde_json::from_str(&documents.catalog.json).unwrap();
        assert_eq!(catalog["entries"][0]["data"]["name"], "com.example/shop");
        assert_eq!(catalog["entries"][0]["data"].get("remotes"), None);
    }

    #[test]
    fn server_without_name_has_no_card() {
        assert_eq!(ServerCard::new(&Options::default(), &info()), Ok(None));
    }

    #[test]
    fn invalid_identity_names_option() {
        let key = |change: &dyn Fn(&mut Options, &mut Implementation)| {
            let (mut options, mut info) = (options(), info());
            change(&mut options, &mut info);
            server_card(&options, &info).unwrap_err().key
        };
        for name in ["shop", "a/b/c", "/a", "a/", "a b/c", "com.example/sh op"] {
            let key = key(&|options, _| options.card.name = Some(name.to_owned()));
            assert_eq!(key, "card.name", "{name}");
        }
        for version in ["", "latest", "^1.2", ">=1", "1.x", "1.*", "1 - 2"] {
            let key = key(&|_, info| info.version = version.to_owned());
            assert_eq!(key, "server.version", "{version}");
        }
        for description in [None, Some(String::new()), Some("a".repeat(101))] {
            let key = key(&|_, info| info.description.clone_from(&description));
            assert_eq!(key, "server.description", "{description:?}");
        }
        for url in ["shop.example", "ftp://a", "https://", "https://a b"] {
            let key = key(&|options, _| options.card.url = Some(url.to_owned()));
            assert_eq!(key, "card.url", "{url}");
        }
    }
}
