//! Validation of the `Host` and `Origin` fields: protection against DNS rebinding and cross-site
//! requests.
//!
//! A page of a foreign site can make a browser connect to this machine: its name is re-pointed at
//! our address after it was loaded (rebinding; `Host` is the foreign name), or it sends a
//! cross-site request (`Origin` is the foreign name). Clients other than browsers send no `Origin`.
//!
//! Invariants: a name that is not listed is not trusted, because its owner controls where it
//! points. Only an IP address, a listed host or `localhost` is trusted, and a page is allowed if it
//! was loaded from a trusted host at the same port. An origin that cannot be parsed, including
//! `null`, is rejected.
//!
//! This is not authentication: tokens decide who may use the server.
//!
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Security & Endpoint"; RFC 9110,
//! section 7.2 (`Host`); RFC 6454, section 6.2 (`Origin`).

mod authority;

mod cached;

use std::fmt;

use authority::{Authority, ParsedOrigin, is_loopback};

pub use cached::CachedOriginGuard;

/// Which hosts and origins may reach a server over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginOptions {
    /// Whether the server listens only on a loopback address. Default `false`.
    pub is_loopback: bool,
    /// Allowed values of `Host`: `name`, `name:port`, `[::1]`, or `*` for every host; an entry
    /// without a port allows every port. Default empty: on loopback `localhost` and every loopback
    /// address; otherwise every host.
    pub hosts: Vec<String>,
    /// Allowed values of `Origin` besides same-origin: `https://name`, `https://name:port`,
    /// `http://name:*` for every port, or `*` for every origin. Default empty: on loopback every
    /// HTTP or HTTPS page of this machine; otherwise none.
    pub origins: Vec<String>,
}

/// Which field a request was rejected for (403 Forbidden).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RejectedHeader {
    /// `Host` is missing, malformed or not allowed.
    Host,
    /// `Origin` is malformed or not allowed.
    Origin,
}

impl RejectedHeader {
    /// Returns the error text for the client.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Host => "the host in the Host header is not allowed by this server (http.hosts)",
            Self::Origin => "the Origin header is not allowed by this server (http.origins)",
        }
    }
}

/// An entry of a host or origin list that cannot be parsed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidEntry {
    /// The entry as configured.
    pub entry: String,
    /// The accepted form.
    pub expected: &'static str,
}

impl fmt::Display for InvalidEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\" is not {}", self.entry, self.expected)
    }
}

impl std::error::Error for InvalidEntry {}

/// Validates `Host` and `Origin`. A check allocates nothing.
#[derive(Clone, Debug)]
pub struct OriginGuard {
    is_loopback: bool,
    hosts: AllowList<HostEntry>,
    origins: AllowList<OriginEntry>,
}

impl OriginGuard {
    /// Parses the lists of `options`.
    ///
    /// # Errors
    ///
    /// [`InvalidEntry`] for the first entry that is not a host or an origin.
    pub fn new(options: &OriginOptions) -> Result<Self, InvalidEntry> {
        Ok(Self {
            is_loopback: options.is_loopback,
            hosts: AllowList::parse(&options.hosts, HostEntry::parse, HOST_FORM)?,
            origins: AllowList::parse(&options.origins, OriginEntry::parse, ORIGIN_FORM)?,
        })
    }

    /// Checks the `Host` and `Origin` of a request.
    ///
    /// # Errors
    ///
    /// [`RejectedHeader`] names the field that was rejected; `Host` is checked first.
    pub fn check(&self, host: Option<&[u8]>, origin: Option<&[u8]>) -> Result<(), RejectedHeader> {
        let authority = host.and_then(Authority::parse);
        if !self.is_host_allowed(authority) {
            return Err(RejectedHeader::Host);
        }
        match origin {
            Some(origin) if !self.is_origin_allowed(origin, authority) => {
                Err(RejectedHeader::Origin)
            }
            _ => Ok(()),
        }
    }

    fn is_host_allowed(&self, host: Option<Authority<'_>>) -> bool {
        if self.hosts.allows_all || (self.hosts.is_default() && !self.is_loopback) {
            return true;
        }
        host.is_some_and(|host| {
            self.is_listed(host) || (self.hosts.is_default() && is_loopback(host.host))
        })
    }

    fn is_origin_allowed(&self, origin: &[u8], host: Option<Authority<'_>>) -> bool {
        if self.origins.allows_all {
            return true;
        }
        let Some(origin) = ParsedOrigin::parse(origin) else {
            return false;
        };
        let is_same_origin =
            host.is_some_and(|host| origin.is_same_origin(host) && self.is_trusted(host));
        let is_local = origin.is_http() && is_loopback(origin.authority.host);
        is_same_origin
            || (self.origins.is_default() && self.is_loopback && is_local)
            || self.origins.entries.iter().any(|entry| entry.matches(origin))
    }

    /// Returns whether no third party can have pointed the host at this server: it is an address,
    /// `localhost`, or a listed name.
    fn is_trusted(&self, host: Authority<'_>) -> bool {
        self.is_listed(host) || host.is_address() || is_loopback(host.host)
    }

    fn is_listed(&self, host: Authority<'_>) -> bool {
        self.hosts.entries.iter().any(|entry| entry.matches(host))
    }
}

#[derive(Clone, Debug)]
struct AllowList<Entry> {
    /// Whether `*` is in the list.
    allows_all: bool,
    entries: Box<[Entry]>,
}

impl<Entry> AllowList<Entry> {
    fn parse(
        entries: &[String],
        read: impl Fn(&str) -> Option<Entry>,
        expects: &'static str,
    ) -> Result<Self, InvalidEntry> {
        let specific = entries.iter().filter(|entry| *entry != ANY);
        let specific: Result<Box<[Entry]>, InvalidEntry> = specific
            .map(|entry| {
                read(entry).ok_or_else(|| InvalidEntry { entry: entry.clone(), expected: expects })
            })
            .collect();
        let specific = specific?;
        Ok(Self { allows_all: specific.len() < entries.len(), entries: specific })
    }

    /// Returns whether the list is empty, so that the default applies.
    const fn is_default(&self) -> bool {
        !self.allows_all && self.entries.is_empty()
    }
}

/// The ports that an entry allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ports {
    Any,
    /// This port; `None` for a scheme without a default port.
    Only(Option<u16>),
}

#[derive(Clone, Debug)]
struct HostEntry {
    host: Box<[u8]>,
    ports: Ports,
}

impl HostEntry {
    fn parse(entry: &str) -> Option<Self> {
        let Authority { host, port } = Authority::parse(entry.as_bytes())?;
        let ports = port.map_or(Ports::Any, |port| Ports::Only(Some(port)));
        Some(Self { host: host.into(), ports })
    }

    fn matches(&self, authority: Authority<'_>) -> bool {
        let is_port = self.ports == Ports::Any || self.ports == Ports::Only(authority.port);
        is_port && self.host.eq_ignore_ascii_case(authority.host)
    }
}

#[derive(Clone, Debug)]
struct OriginEntry {
    scheme: Box<[u8]>,
    host: Box<[u8]>,
    ports: Ports,
}

impl OriginEntry {
    fn parse(entry: &str) -> Option<Self> {
        let (entry, is_any_port) =
            entry.strip_suffix(":*").map_or((entry, false), |entry| (entry, true));
        let origin = ParsedOrigin::parse(entry.as_bytes())?;
        let ports = match is_any_port {
            true if origin.authority.port.is_some() => return None,
            true => Ports::Any,
            false => Ports::Only(origin.port()),
        };
        Some(Self { scheme: origin.scheme.into(), host: origin.authority.host.into(), ports })
    }

    fn matches(&self, origin: ParsedOrigin<'_>) -> bool {
        (self.ports == Ports::Any || self.ports == Ports::Only(origin.port()))
            && self.scheme.eq_ignore_ascii_case(origin.scheme)
            && self.host.eq_ignore_ascii_case(origin.authority.host)
    }
}

/// The entry that allows every host or every origin.
const ANY: &str = "*";
const HOST_FORM: &str = "a host: name, name:port, an address (IPv6 in brackets), or *";
const ORIGIN_FORM: &str = "an origin: scheme://host, scheme://host:port, scheme://host:*, or *";

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(is_loopback: bool, hosts: &[&str], origins: &[&str]) -> OriginGuard {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let options = OriginOptions { is_loopback, hosts: owned(hosts), origins: owned(origins) };
        OriginGuard::new(&options).unwrap()
    }

    fn local() -> OriginGuard {
        guard(true, &[], &[])
    }

    fn check(guard: &OriginGuard, host: &str, origin: &str) -> Result<(), RejectedHeader> {
        guard.check(Some(host.as_bytes()), Some(origin.as_bytes()))
    }

    #[test]
    fn rebound_name_is_rejected() {
        let evil = "evil.example.com";
        assert_eq!(local().check(Some(evil.as_bytes()), None), Err(RejectedHeader::Host));
        assert_eq!(check(&local(), evil, "http://evil.example.com"), Err(RejectedHeader::Host));
        let origin = "http://evil.example.com:8080";
        assert_eq!(check(&local(), "localhost:8080", origin), Err(RejectedHeader::Origin));
        // Every host is allowed here, but names are not trusted.
        let anywhere = guard(false, &[], &[]);
        assert_eq!(check(&anywhere, "evil.example.com:8080", origin), Err(RejectedHeader::Origin));
        let every_host = guard(true, &["*"], &[]);
        assert_eq!(
            check(&every_host, "evil.example.com:8080", origin),
            Err(RejectedHeader::Origin)
        );
    }

    #[test]
    fn loopback_server_accepts_every_loopback_name() {
        let hosts = [
            "localhost",
            "LocalHost:1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "127.9.9.9",
            "localhost.",
            "LOCALHOST.:8080",
            "localhost:",
            "localhost.:",
            "[::1]:",
        ];
        for host in hosts {
            assert_eq!(local().check(Some(host.as_bytes()), None), Ok(()), "{host}");
            assert_eq!(check(&local(), host, &format!("http://{host}")), Ok(()), "{host}");
        }
        for origin in ["https://localhost", "http://[::1]:3000", "HTTP://LOCALHOST:5173"] {
            assert_eq!(check(&local(), "localhost:8080", origin), Ok(()), "{origin}");
        }
    }

    #[test]
    fn lookalikes_of_localhost_are_rejected() {
        for host in [
            "",
            ":80",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "localhost..",
            ".",
            "localhost:x",
            "localhost:80:80",
            "localhost:99999",
            "localhost:+1",
            "a@localhost",
            "localhost/",
            "localhost,evil.com",
            "::1",
            "[::1",
            "[::1]x",
            "[::2]",
            "[localhost]",
            "127.0.0.256",
            "0.0.0.0",
            "10.0.0.1",
            "localhost\u{e9}",
        ] {
            assert_eq!(
                local().check(Some(host.as_bytes()), None),
                Err(RejectedHeader::Host),
                "{host}"
            );
        }
        for origin in [
            "",
            "null",
            "localhost",
            "http:localhost",
            "http://localhost/",
            "http://localhost@evil",
            "http://evil#localhost",
            "file://",
            "file://localhost",
            "://localhost",
            "http://",
            "http://localhost http://evil",
            "chrome-extension://localhost",
            "http://127.0.0.1.evil",
        ] {
            assert_eq!(
                check(&local(), "localhost", origin),
                Err(RejectedHeader::Origin),
                "{origin}"
            );
        }
    }

    #[test]
    fn request_without_origin_checks_host_only() {
        assert_eq!(local().check(None, None), Err(RejectedHeader::Host));
        assert_eq!(guard(false, &[], &[]).check(None, None), Ok(()));
        assert_eq!(guard(false, &[], &[]).check(Some(b"any.example"), None), Ok(()));
    }

    #[test]
    fn public_server_allows_only_trusted_same_origin() {
        let anywhere = guard(false, &[], &[]);
        assert_eq!(check(&anywhere, "192.0.2.1:8080", "http://192.0.2.1:8080"), Ok(()));
        assert_eq!(check(&anywhere, "[2001:db8::1]", "https://[2001:db8::1]"), Ok(()));
        assert_eq!(check(&anywhere, "localhost:8080", "http://localhost:8080"), Ok(()));
        for origin in ["http://192.0.2.1", "http://192.0.2.1:8081", "http://192.0.2.2:8080"] {
            assert_eq!(
                check(&anywhere, "192.0.2.1:8080", origin),
                Err(RejectedHeader::Origin),
                "{origin}"
            );
        }
        let named = guard(false, &["mcp.example.com"], &[]);
        assert_eq!(check(&named, "mcp.example.com", "https://MCP.example.com"), Ok(()));
        assert_eq!(check(&named, "mcp.example.com:443", "https://mcp.example.com"), Ok(()));
        assert_eq!(check(&named, "mcp.example.com:80", "http://mcp.example.com"), Ok(()));
        let other = check(&named, "mcp.example.com:80", "https://mcp.example.com");
        assert_eq!(other, Err(RejectedHeader::Origin));
        assert_eq!(named.check(Some(b"192.0.2.1"), None), Err(RejectedHeader::Host));
    }

    #[test]
    fn host_entry_without_port_allows_every_port() {
        let listed = guard(true, &["mcp.example.com:8443", "[::1]"], &[]);
        assert_eq!(listed.check(Some(b"mcp.example.com:8443"), None), Ok(()));
        assert_eq!(listed.check(Some(b"[::1]:9"), None), Ok(()));
        for host in ["mcp.example.com", "mcp.example.com:8444", "localhost"] {
            assert_eq!(
                listed.check(Some(host.as_bytes()), None),
                Err(RejectedHeader::Host),
                "{host}"
            );
        }
    }

    #[test]
    fn trailing_dot_and_empty_port_are_ignored() {
        let listed =
            guard(true, &["MCP.example.com", "other.example:8443"], &["https://a.example"]);
        for host in ["mcp.example.com.", "Mcp.Example.Com:", "other.example.:8443"] {
            assert_eq!(listed.check(Some(host.as_bytes()), None), Ok(()), "{host}");
        }
        assert_eq!(check(&listed, "mcp.example.com.", "https://A.example."), Ok(()));
        for host in ["mcp.example.com..", "other.example.", "other.example:"] {
            let refused = listed.check(Some(host.as_bytes()), None);
            assert_eq!(refused, Err(RejectedHeader::Host), "{host}");
        }
    }

    #[test]
    fn listed_origins_replace_the_default() {
        let origins = ["https://app.example.com", "http://dev.example:*", "vscode-webview://abc"];
        let listed = guard(true, &[], &origins);
        for origin in [
            "https://app.example.com",
            "https://app.example.com:443",
            "http://dev.example:5173",
            "http://dev.example",
            "vscode-webview://abc",
            "http://localhost:8080",
        ] {
            assert_eq!(check(&listed, "localhost:8080", origin), Ok(()), "{origin}");
        }
        for origin in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://dev.example",
            "http://localhost:3000",
            "vscode-webview://abd",
            "null",
        ] {
            assert_eq!(
                check(&listed, "localhost:8080", origin),
                Err(RejectedHeader::Origin),
                "{origin}"
            );
        }
    }

    #[test]
    fn wildcard_origin_allows_every_origin() {
        let open = guard(true, &[], &["https://app.example.com", "*"]);
        for origin in ["null", "http://evil.example.com", "nonsense"] {
            assert_eq!(check(&open, "localhost", origin), Ok(()), "{origin}");
        }
        assert_eq!(check(&open, "evil.example.com", "null"), Err(RejectedHeader::Host));
    }

    #[test]
    fn invalid_entry_error_names_the_accepted_form() {
        let read = |hosts: &[&str], origins: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let options =
                OriginOptions { is_loopback: true, hosts: owned(hosts), origins: owned(origins) };
            OriginGuard::new(&options).unwrap_err().to_string()
        };
        assert!(read(&["a", "http://b"], &[]).starts_with("\"http://b\" is not a host"));
        for origin in ["app.example.com", "https://a/", "http://a:80:*", "*.example.com", "null"] {
            assert!(read(&[], &[origin]).contains("is not an origin"), "{origin}");
        }
    }
}
