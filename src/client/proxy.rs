//! Proxies between the client and its servers.
//!
//! Sources: RFC 9110, section 9.3.6 (`CONNECT`) and section 11.7.2 (`Proxy-Authorization`);
//! RFC 9112, section 3.2.2 (absolute form); RFC 1928 and RFC 1929 (SOCKS, version 5). The
//! environment variables are those of curl.

use std::fmt;
use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use url::Url;

use super::error::{ClientError, ClientErrorKind};
use super::target::{HttpEndpoint, Target};

/// Which connections of a client go through a proxy, and which.
///
/// | URL of the proxy | how servers are reached |
/// | --- | --- |
/// | `http://` | a tunnel (`CONNECT`); `http://` servers by requests that name the whole URL |
/// | `socks5h://` | a tunnel of SOCKS, version 5; the proxy resolves the name of the server |
/// | `socks5://` | the same; the client resolves the name |
///
/// TCP, Unix sockets and programs have no proxy. The proxy is spoken to without TLS, so `https://`
/// proxies are not supported. Its user name and password are sent to it only, and are never logged.
///
/// ```
/// use corelane::client::ProxyOptions;
///
/// let proxy = ProxyOptions::all("http://user:secret@proxy.example:3128")?;
/// let proxy = proxy.except("intern.example");
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyOptions {
    /// For `https` and `wss`.
    encrypted: Option<ProxyServer>,
    /// For `http` and `ws`.
    plain: Option<ProxyServer>,
    exceptions: Vec<Exception>,
    /// This machine is reached without the proxy.
    excludes_loopback: bool,
}

/// One proxy: its address, and its protocol with the credentials for it.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct ProxyServer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) protocol: ProxyProtocol,
}

/// What a proxy speaks.
#[derive(Clone, Eq, PartialEq)]
pub(super) enum ProxyProtocol {
    Http {
        /// The value of `Proxy-Authorization`.
        authorization: Option<String>,
    },
    Socks(SocksOptions),
}

/// How a SOCKS proxy is used.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct SocksOptions {
    /// Names are resolved by the client.
    pub(super) resolves_here: bool,
    /// User name and password.
    pub(super) login: Option<(Vec<u8>, Vec<u8>)>,
}

/// How a connection is made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Route {
    #[default]
    Direct,
    /// Through a tunnel.
    Tunnel(ProxyServer),
    /// By requests to the proxy, which is one of HTTP.
    Forward(ProxyServer),
}

/// Servers that are reached without the proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Exception {
    All,
    /// A host and its subdomains; any port if there is none.
    Host(String, Option<u16>),
    /// Addresses that have the first bits in common.
    Network(IpAddr, u8),
}

impl ProxyOptions {
    /// No proxy.
    pub fn none() -> Self {
        Self::default()
    }

    /// The proxy at `url`, such as `http://user:password@proxy.example:3128`, for all servers of
    /// HTTP and WebSocket.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] if the URL is invalid or begins with another scheme.
    pub fn all(url: &str) -> Result<Self, ClientError> {
        let server = ProxyServer::parse(url).map_err(|text| {
            ClientError::new(ClientErrorKind::InvalidInput, format!("invalid proxy: {text}"))
        })?;
        Ok(Self { encrypted: Some(server.clone()), plain: Some(server), ..Self::default() })
    }

    /// Reaches the servers of `list` without the proxy, as `NO_PROXY`: host names with their
    /// subdomains, addresses, networks such as `10.0.0.0/8`, each with a port if it is for that
    /// only, or `*`, separated by commas.
    #[must_use]
    pub fn except(mut self, list: &str) -> Self {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        self.exceptions.extend(names.map(Exception::parse));
        self
    }

    /// The proxy of the environment: `HTTPS_PROXY` for `https://` and `wss://`, `http_proxy` for
    /// `http://` and `ws://`, `ALL_PROXY` where these are missing, and `NO_PROXY` for the
    /// exceptions. Each may be in lower case, and `http_proxy` must be: the client of a CGI program
    /// chooses its `HTTP_PROXY`. This machine is always reached without it.
    /// An invalid proxy is ignored and logged.
    #[expect(clippy::disallowed_methods, reason = "variables that all HTTP clients read")]
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let find = |names: &[&'static str]| -> Option<(&'static str, String)> {
            let mut values = names.iter().filter_map(|name| Some((*name, read(name)?)));
            values.find(|(_, value)| !value.trim().is_empty())
        };
        let server = |names: &[&'static str]| {
            let (name, value) = find(names)?;
            let parsed = ProxyServer::parse(value.trim());
            parsed.inspect_err(|text| tracing::warn!("{name} is ignored: {text}")).ok()
        };
        let exceptions = find(&["no_proxy", "NO_PROXY"]);
        let options = Self {
            encrypted: server(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            plain: server(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            exceptions: Vec::new(),
            excludes_loopback: true,
        };
        options.except(exceptions.as_ref().map_or("", |(_, list)| list))
    }

    /// Returns how the connections to `target` are made.
    pub(super) fn route(&self, target: &Target) -> Route {
        let (endpoint, is_http) = match target {
            Target::Http(endpoint) => (endpoint, true),
            Target::WebSocket(endpoint) => (endpoint, false),
            Target::Tcp { .. } | Target::Tls { .. } | Target::Unix(_) | Target::Stdio(_) => {
                return Route::Direct;
            }
        };
        let HttpEndpoint { is_encrypted, host, port, .. } = endpoint;
        let server = if *is_encrypted { &self.encrypted } else { &self.plain };
        let is_excepted = (self.excludes_loopback && is_loopback(host))
            || self.exceptions.iter().any(|exception| exception.matches(host, *port));
        match server {
            Some(server) if !is_excepted && is_http && !is_encrypted && server.is_http() => {
                Route::Forward(server.clone())
            }
            Some(server) if !is_excepted => Route::Tunnel(server.clone()),
            _ => Route::Direct,
        }
    }
}

impl Route {
    /// Returns the route of connections whose requests do not name the proxy.
    pub(super) fn tunnelled(self) -> Self {
        match self {
            Self::Forward(server) => Self::Tunnel(server),
            route => route,
        }
    }
}

impl ProxyServer {
    /// Parses a URL; without a scheme it is `http`.
    fn parse(text: &str) -> Result<Self, String> {
        let with_scheme =
            if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        // The text is not quoted: it may have a password.
        let url = Url::parse(&with_scheme).map_err(|error| format!("it is no URL: {error}"))?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("the host is missing")?;
        let user = decode(url.username());
        let password = decode(url.password().unwrap_or_default());
        let login = (!(user.is_empty() && password.is_empty())).then_some((user, password));
        let protocol = match url.scheme() {
            "http" => {
                let authorization = login.map(|(user, password)| {
                    let encoded = BASE64_STANDARD.encode([&user[..], b":", &password[..]].concat());
                    format!("Basic {encoded}")
                });
                ProxyProtocol::Http { authorization }
            }
            "socks5" | "socks5h" => {
                let is_too_long = |text: &Vec<u8>| text.len() > usize::from(u8::MAX);
                if login.as_ref().is_some_and(|it| is_too_long(&it.0) || is_too_long(&it.1)) {
                    let text = "its user name or password is longer than 255 bytes (RFC 1929)";
                    return Err(text.to_owned());
                }
                let resolves_here = url.scheme() == "socks5";
                ProxyProtocol::Socks(SocksOptions { resolves_here, login })
            }
            scheme => {
                return Err(format!(
                    "the scheme {scheme} is not supported: use an http://, socks5h:// or \
                     socks5:// proxy"
                ));
            }
        };
        let default_port = if matches!(protocol, ProxyProtocol::Http { .. }) { 80 } else { 1080 };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: url.port().unwrap_or(default_port), protocol })
    }

    const fn is_http(&self) -> bool {
        matches!(self.protocol, ProxyProtocol::Http { .. })
    }

    /// Returns the value of `Proxy-Authorization` for an HTTP proxy.
    pub(super) fn authorization(&self) -> Option<&str> {
        match &self.protocol {
            ProxyProtocol::Http { authorization } => authorization.as_deref(),
            ProxyProtocol::Socks(_) => None,
        }
    }
}

impl fmt::Display for ProxyServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        write!(formatter, "{host}:{port}")
    }
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProxyServer({self})")
    }
}

impl Exception {
    fn parse(text: &str) -> Self {
        if text == "*" {
            return Self::All;
        }
        if let Some((address, bits)) = text.split_once('/')
            && let (Ok(address), Ok(bits)) = (address.parse(), bits.parse())
        {
            return Self::Network(address, bits);
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let (host, port) = match text.rsplit_once(':') {
            _ if bare.parse::<IpAddr>().is_ok() => (bare, None),
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().ok()),
            _ => (text, None),
        };
        let host = host.trim_start_matches("*.").trim_start_matches('.');
        Self::Host(host.trim_matches(['[', ']']).to_ascii_lowercase(), port)
    }

    fn matches(&self, host: &str, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Host(name, only) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let is_named = host.strip_suffix(name.as_str()).is_some_and(|subdomain| {
                    subdomain.is_empty() || (subdomain.ends_with('.') && !is_address(&host))
                });
                is_named && only.is_none_or(|only| only == port)
            }
            Self::Network(network, bits) => {
                host.parse().is_ok_and(|address| shares_bits(address, *network, *bits))
            }
        }
    }
}

fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

fn is_loopback(host: &str) -> bool {
    let is_local_name = host == "localhost" || host.ends_with(".localhost");
    is_local_name || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether the first bits of both addresses are the same.
fn shares_bits(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let (one, other, width) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()), u128::from(other.to_bits()), 32_u32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    let rest = width.saturating_sub(u32::from(bits));
    one.checked_shr(rest) == other.checked_shr(rest)
}

/// Decodes percent encoding.
fn decode(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(options: &ProxyOptions, target: &str) -> Route {
        options.route(&target.parse().unwrap())
    }

    fn environment(variables: &[(&str, &str)]) -> ProxyOptions {
        ProxyOptions::from_variables(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const fn http() -> ProxyProtocol {
        ProxyProtocol::Http { authorization: None }
    }

    fn socks(resolves_here: bool, login: Option<(&str, &str)>) -> ProxyProtocol {
        let login = login.map(|(user, password)| (user.into(), password.into()));
        ProxyProtocol::Socks(SocksOptions { resolves_here, login })
    }

    #[test]
    fn proxy_of_scheme_is_used() {
        let options =
            environment(&[("HTTPS_PROXY", "http://one:1"), ("http_proxy", "http://two:2")]);
        let server =
            |host: &str, port| ProxyServer { host: host.to_owned(), port, protocol: http() };
        for (target, expected) in [
            ("https://a.example/mcp", Route::Tunnel(server("one", 1))),
            ("wss://a.example", Route::Tunnel(server("one", 1))),
            ("http://a.example/mcp", Route::Forward(server("two", 2))),
            ("ws://a.example", Route::Tunnel(server("two", 2))),
            ("tcp://a.example:1", Route::Direct),
            ("http://localhost:1", Route::Direct),
            ("https://127.0.0.1:1", Route::Direct),
            ("https://[::1]:1", Route::Direct),
        ] {
            assert_eq!(route(&options, target), expected, "{target}");
        }
        // That of a CGI program comes from its client.
        let options = environment(&[("HTTP_PROXY", "http://evil:1")]);
        assert_eq!(route(&options, "http://a.example"), Route::Direct);
        let options = environment(&[("ALL_PROXY", "proxy:3128"), ("https_proxy", "")]);
        assert_eq!(route(&options, "https://a.example"), Route::Tunnel(server("proxy", 3128)));
        let options = environment(&[("ALL_PROXY", "https://proxy:1080")]);
        assert_eq!(route(&options, "https://a.example"), Route::Direct);
        // Requests to a SOCKS proxy cannot name the URL.
        let options = environment(&[("ALL_PROXY", "socks5h://proxy")]);
        let protocol = socks(false, None);
        let tunnel = Route::Tunnel(ProxyServer { host: "proxy".into(), port: 1080, protocol });
        for target in ["http://a.example", "https://a.example", "ws://a.example"] {
            assert_eq!(route(&options, target), tunnel, "{target}");
        }
    }

    #[test]
    fn excepted_servers_are_reached_directly() {
        let list =
            "a.example, .b.example,*.c.example,d.example:8443,10.0.0.0/8,::1,[fd00::1],fe80::/10";
        let options = ProxyOptions::all("http://proxy").unwrap().except(list);
        let is_direct = |target: &str| route(&options, target) == Route::Direct;
        for target in [
            "https://a.example",
            "https://A.example",
            "https://x.a.example",
            "https://b.example",
            "https://x.c.example",
            "https://d.example:8443",
            "https://10.255.0.1",
            "https://[::1]:5",
            "https://[fd00::1]",
            "https://[fe80::7]",
        ] {
            assert!(is_direct(target), "{target}");
        }
        for target in [
            "https://xa.example",
            "https://a.example.org",
            "https://d.example",
            "https://11.0.0.1",
            "https://[fd00::2]",
            // It was set for this client, not for the machine.
            "https://localhost",
        ] {
            assert!(!is_direct(target), "{target}");
        }
        assert_eq!(route(&options.except("*"), "https://z.example"), Route::Direct);
    }

    #[test]
    fn credentials_of_proxy_are_decoded_and_hidden() {
        let server = ProxyServer::parse("http://us%40er:p%3Aw@proxy.example:3128").unwrap();
        // "us@er:p:w"
        assert_eq!(server.authorization(), Some("Basic dXNAZXI6cDp3"));
        assert_eq!(format!("{server:?}"), "ProxyServer(proxy.example:3128)");
        let socks_server = ProxyServer::parse("socks5://us%40er:pw@proxy").unwrap();
        assert!(socks_server.protocol == socks(true, Some(("us@er", "pw"))));
        assert_eq!(format!("{socks_server:?}"), "ProxyServer(proxy:1080)");
        let long = format!("socks5h://{}@proxy", "u".repeat(256));
        for text in ["https://proxy:1", "socks4://proxy:1", "http://", "http://:0x", &long] {
            let error = ProxyOptions::all(text).unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn addresses_share_their_first_bits() {
        let shares = |one: &str, other: &str, bits| {
            shares_bits(one.parse().unwrap(), other.parse().unwrap(), bits)
        };
        assert!(shares("10.1.2.3", "10.1.2.3", 32));
        assert!(!shares("10.1.2.3", "10.1.2.2", 32));
        assert!(shares("10.1.2.3", "10.200.0.0", 8));
        assert!(shares("1.2.3.4", "200.0.0.0", 0));
        assert!(!shares("1.2.3.4", "::1", 0));
        assert!(shares("fd00::1", "fd00::2", 64));
    }
}
