//! The connections of all HTTP tools.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, Proxy};
use url::{Host, Url};

use super::addresses::{AddressRefused, AllowedAddresses};
use crate::declared::problem::Problem;

/// Redirects that are followed for one request.
const REDIRECTS_MAX: usize = 5;
/// Time that an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Unused connections to one server.
const IDLE_CONNECTIONS_MAX: usize = 16;

/// What the connections of a tool depend on.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClientSettings {
    /// Addresses that may be connected to beside the public ones.
    pub allowed: AllowedAddresses,
    /// URL of the proxy.
    pub proxy: Option<String>,
    /// Root certificates in PEM beside those of the system.
    pub root_certificates: Option<String>,
    /// Time for a connection.
    pub connect_timeout: Duration,
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL of the proxy may have credentials.
        formatter
            .debug_struct("ClientSettings")
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        let connect_timeout = Duration::from_secs(10);
        let (proxy, root_certificates) = (None, None);
        Self { allowed: AllowedAddresses::default(), proxy, root_certificates, connect_timeout }
    }
}

/// The connections of all HTTP tools. Tools with the same [`ClientSettings`] share connections;
/// others do not, so that a tool never uses a connection that it could not open.
#[derive(Debug, Default)]
pub struct HttpClient {
    clients: BTreeMap<ClientKey, Client>,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct ClientKey {
    settings: ClientSettings,
    /// Without TLS the root certificates of the system are not read.
    has_tls: bool,
}

impl HttpClient {
    /// A client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// The client with `settings` for requests to `origin`.
    ///
    /// # Errors
    ///
    /// The origin is an address that is not allowed, the proxy is not a URL, or the system has no
    /// root certificates.
    pub(super) fn get(
        &mut self,
        settings: &ClientSettings,
        origin: &Url,
    ) -> Result<Client, Problem> {
        if let Err(refused) = check_literal(&settings.allowed, origin) {
            let hint = "add the address to private_addresses if the server is yours";
            return Err(Problem::new("url", refused.to_string(), hint));
        }
        let has_tls_proxy = settings.proxy.as_ref().is_some_and(|it| it.starts_with("https:"));
        let has_tls = origin.scheme() == "https" || has_tls_proxy;
        let key = ClientKey { settings: settings.clone(), has_tls };
        if let Some(client) = self.clients.get(&key) {
            return Ok(client.clone());
        }
        let client = build(&key)?;
        self.clients.insert(key, client.clone());
        Ok(client)
    }
}

fn build(key: &ClientKey) -> Result<Client, Problem> {
    let ClientSettings { allowed, proxy, root_certificates, connect_timeout } = &key.settings;
    let mut allowed = allowed.clone();
    let mut builder = Client::builder().no_proxy();
    if let Some(text) = proxy {
        let hint = "write such as \"http://proxy.example.com:3128\"";
        let invalid = || Problem::new("proxy", "is not a URL of http or https", hint);
        let url = Url::parse(text).map_err(|_| invalid())?;
        let host = url.host_str().ok_or_else(invalid)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        allowed.allow_host(host);
        builder = builder.proxy(Proxy::all(url.clone()).map_err(|_| invalid())?);
    }
    if let Some(text) = root_certificates {
        builder = builder.tls_certs_merge(parse_certificates(text)?);
    }
    if !key.has_tls {
        builder = builder.tls_certs_only([]);
    }
    let client = builder
        .dns_resolver(Arc::new(CheckedResolver { allowed: Arc::new(allowed) }))
        .redirect(Policy::custom(follow_within_origin))
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(*connect_timeout)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .tcp_keepalive(Duration::from_secs(15))
        .gzip(true)
        .build();
    client.map_err(|error| {
        let hint = "install the root certificates of the system (package ca-certificates)";
        Problem::new("url", format!("TLS is not available: {}", root_cause(&error)), hint)
    })
}

fn parse_certificates(text: &str) -> Result<Vec<Certificate>, Problem> {
    let certificates = Certificate::from_pem_bundle(text.as_bytes()).unwrap_or_default();
    if certificates.is_empty() {
        let hint = "write such as \"${file:/etc/ssl/company.pem}\"";
        return Err(Problem::new("root_certificates", "has no certificate in PEM", hint));
    }
    Ok(certificates)
}

/// The innermost cause of an error, without URLs.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Follows redirects to the same origin. Others are responses.
fn follow_within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let first = attempt.previous().first();
    let is_same = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if is_same && attempt.previous().len() <= REDIRECTS_MAX {
        return attempt.follow();
    }
    attempt.stop()
}

/// Checks a host that is an address: it is not resolved.
fn check_literal(allowed: &AllowedAddresses, url: &Url) -> Result<(), AddressRefused> {
    let host = url.host_str().unwrap_or_default();
    match url.host() {
        Some(Host::Ipv4(address)) => allowed.check(host, IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => allowed.check(host, IpAddr::V6(address)),
        Some(Host::Domain(_)) | None => Ok(()),
    }
}

/// Resolves names to the addresses that are allowed. The connection is opened to one of these.
struct CheckedResolver {
    allowed: Arc<AllowedAddresses>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let mut addresses = Vec::new();
            let mut refused = None;
            for address in tokio::net::lookup_host((host.as_str(), 0)).await? {
                match allowed.check(&host, address.ip()) {
                    Ok(()) => addresses.push(address),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if addresses.is_empty() => Err(error.into()),
                _ => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}
