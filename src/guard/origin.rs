//! Which hosts and origins may reach the server: the answer to DNS rebinding.
//!
//! A page of a foreign site can make a browser connect to this machine: its name is pointed at our
//! address once it is loaded (rebinding), or it simply asks (a cross-site request). In the first
//! case `Host` is the foreign name, in the second `Origin` is. Programs that are no browsers send
//! no `Origin`, and are not what this guards against.
//!
//! What it keeps true: a name that nobody listed proves nothing, because whoever owns a name
//! decides where it points. Only an address, a listed host, or `localhost` is believed, and a page
//! is let in where it came from us: from a believed host at the same port. An origin that cannot be
//! read, `null` among them, is refused.
//!
//! What it does not do: say who may use the server. That is what tokens are for.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`, "Security & Endpoint"; RFC 9110, section
//! 7.2 (`Host`); RFC 6454, section 6.2 (`Origin`).

mod authority;

mod remembering;

use std::fmt;

use authority::{Authority, OriginParts, is_loopback};

pub use remembering::RememberingGuard;

/// Who may reach a server over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginOptions {
    /// Whether the server listens on an address of this machine alone. Default: no.
    pub is_loopback: bool,
    /// The hosts that requests may name: `name`, `name:port`, `[::1]`, or `*` for every one;
    /// without a port every port is meant. Default, none listed: on loopback `localhost` and every
    /// loopback address; elsewhere every host.
    pub hosts: Vec<String>,
    /// The origins that pages may have besides our own: `https://name`, `https://name:port`,
    /// `http://name:*` for every port, or `*` for every origin. Default, none listed: on loopback
    /// whatever was loaded from this machine by HTTP or HTTPS; elsewhere none.
    pub origins: Vec<String>,
}

/// Why a request is turned away, with 403.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blocked {
    /// `Host` is missing, cannot be read, or is not one of ours.
    Host,
    /// The page that asks was loaded from somewhere that may not.
    Origin,
}

impl Blocked {
    /// What to tell the peer: what was refused, and the setting that would allow it.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Host => "this server is not known under the name in Host",
            Self::Origin => "pages of this Origin may not use this server",
        }
    }
}

/// An entry of a list that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnreadableEntry {
    /// The entry as it was written.
    pub entry: String,
    /// What would have been right.
    pub expects: &'static str,
}

impl fmt::Display for UnreadableEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\" is not {}", self.entry, self.expects)
    }
}

impl std::error::Error for UnreadableEntry {}

/// Decides by `Host` and `Origin`. Made once; asking it allocates nothing.
#[derive(Clone, Debug)]
pub struct OriginGuard {
    is_loopback: bool,
    hosts: Listed<HostEntry>,
    origins: Listed<OriginEntry>,
}

impl OriginGuard {
    /// A guard as `options` have it.
    ///
    /// # Errors
    ///
    /// [`UnreadableEntry`] for the first entry that is neither a host nor an origin.
    pub fn new(options: &OriginOptions) -> Result<Self, UnreadableEntry> {
        Ok(Self {
            is_loopback: options.is_loopback,
            hosts: Listed::read(&options.hosts, HostEntry::read, HOST_FORM)?,
            origins: Listed::read(&options.origins, OriginEntry::read, ORIGIN_FORM)?,
        })
    }

    /// Whether a request with this `Host` and this `Origin` is served.
    ///
    /// # Errors
    ///
    /// [`Blocked`] says which of them stands against it; `Host` is looked at first.
    pub fn admit(&self, host: Option<&[u8]>, origin: Option<&[u8]>) -> Result<(), Blocked> {
        let authority = host.and_then(Authority::read);
        if !self.is_host_admitted(authority) {
            return Err(Blocked::Host);
        }
        match origin {
            Some(origin) if !self.is_origin_admitted(origin, authority) => Err(Blocked::Origin),
            _ => Ok(()),
        }
    }

    fn is_host_admitted(&self, host: Option<Authority<'_>>) -> bool {
        if self.hosts.is_all || (self.hosts.is_default() && !self.is_loopback) {
            return true;
        }
        host.is_some_and(|host| {
            self.is_listed(host) || (self.hosts.is_default() && is_loopback(host.host))
        })
    }

    fn is_origin_admitted(&self, origin: &[u8], host: Option<Authority<'_>>) -> bool {
        if self.origins.is_all {
            return true;
        }
        let Some(origin) = OriginParts::read(origin) else {
            return false;
        };
        let is_ours = host.is_some_and(|host| origin.is_at(host) && self.is_believed(host));
        let is_local = origin.is_web() && is_loopback(origin.authority.host);
        is_ours
            || (self.origins.is_default() && self.is_loopback && is_local)
            || self.origins.entries.iter().any(|entry| entry.admits(origin))
    }

    /// Whether nobody else can have pointed the host at us: an address points nowhere else, and a
    /// listed name is the owner's own.
    fn is_believed(&self, host: Authority<'_>) -> bool {
        self.is_listed(host) || host.is_address() || is_loopback(host.host)
    }

    fn is_listed(&self, host: Authority<'_>) -> bool {
        self.hosts.entries.iter().any(|entry| entry.admits(host))
    }
}

/// A list of a setting.
#[derive(Clone, Debug)]
struct Listed<Entry> {
    /// Whether `*` is among them.
    is_all: bool,
    entries: Box<[Entry]>,
}

impl<Entry> Listed<Entry> {
    fn read(
        entries: &[String],
        read: impl Fn(&str) -> Option<Entry>,
        expects: &'static str,
    ) -> Result<Self, UnreadableEntry> {
        let named = entries.iter().filter(|entry| *entry != EVERY);
        let named: Result<Box<[Entry]>, UnreadableEntry> = named
            .map(|entry| {
                read(entry).ok_or_else(|| UnreadableEntry { entry: entry.clone(), expects })
            })
            .collect();
        let named = named?;
        Ok(Self { is_all: named.len() < entries.len(), entries: named })
    }

    /// Whether nothing was listed, so that the default holds.
    const fn is_default(&self) -> bool {
        !self.is_all && self.entries.is_empty()
    }
}

/// The ports that an entry means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ports {
    Any,
    /// This one; none where the scheme has none of its own.
    Only(Option<u16>),
}

/// A host that requests may name.
#[derive(Clone, Debug)]
struct HostEntry {
    host: Box<[u8]>,
    ports: Ports,
}

impl HostEntry {
    fn read(entry: &str) -> Option<Self> {
        let Authority { host, port } = Authority::read(entry.as_bytes())?;
        let ports = port.map_or(Ports::Any, |port| Ports::Only(Some(port)));
        Some(Self { host: host.into(), ports })
    }

    fn admits(&self, authority: Authority<'_>) -> bool {
        let is_port = self.ports == Ports::Any || self.ports == Ports::Only(authority.port);
        is_port && self.host.eq_ignore_ascii_case(authority.host)
    }
}

/// An origin that pages may have.
#[derive(Clone, Debug)]
struct OriginEntry {
    scheme: Box<[u8]>,
    host: Box<[u8]>,
    ports: Ports,
}

impl OriginEntry {
    fn read(entry: &str) -> Option<Self> {
        let (entry, is_any) =
            entry.strip_suffix(":*").map_or((entry, false), |entry| (entry, true));
        let origin = OriginParts::read(entry.as_bytes())?;
        let ports = match is_any {
            true if origin.authority.port.is_some() => return None,
            true => Ports::Any,
            false => Ports::Only(origin.port()),
        };
        Some(Self { scheme: origin.scheme.into(), host: origin.authority.host.into(), ports })
    }

    fn admits(&self, origin: OriginParts<'_>) -> bool {
        (self.ports == Ports::Any || self.ports == Ports::Only(origin.port()))
            && self.scheme.eq_ignore_ascii_case(origin.scheme)
            && self.host.eq_ignore_ascii_case(origin.authority.host)
    }
}

/// The entry that admits every host, or every origin.
const EVERY: &str = "*";
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

    fn admit(guard: &OriginGuard, host: &str, origin: &str) -> Result<(), Blocked> {
        guard.admit(Some(host.as_bytes()), Some(origin.as_bytes()))
    }

    #[test]
    fn a_page_of_a_rebound_name_is_refused() {
        let evil = "evil.example.com";
        assert_eq!(local().admit(Some(evil.as_bytes()), None), Err(Blocked::Host));
        assert_eq!(admit(&local(), evil, "http://evil.example.com"), Err(Blocked::Host));
        let origin = "http://evil.example.com:8080";
        assert_eq!(admit(&local(), "localhost:8080", origin), Err(Blocked::Origin));
        // Every name is admitted here, and still none of them is believed.
        let anywhere = guard(false, &[], &[]);
        assert_eq!(admit(&anywhere, "evil.example.com:8080", origin), Err(Blocked::Origin));
        let every_host = guard(true, &["*"], &[]);
        assert_eq!(admit(&every_host, "evil.example.com:8080", origin), Err(Blocked::Origin));
    }

    #[test]
    fn this_machine_reaches_a_server_of_this_machine_under_all_its_names() {
        let hosts =
            ["localhost", "LocalHost:1", "127.0.0.1:8080", "[::1]", "[::1]:80", "127.9.9.9"];
        for host in hosts {
            assert_eq!(local().admit(Some(host.as_bytes()), None), Ok(()), "{host}");
            assert_eq!(admit(&local(), host, &format!("http://{host}")), Ok(()), "{host}");
        }
        for origin in ["https://localhost", "http://[::1]:3000", "HTTP://LOCALHOST:5173"] {
            assert_eq!(admit(&local(), "localhost:8080", origin), Ok(()), "{origin}");
        }
    }

    #[test]
    fn what_only_looks_like_this_machine_is_refused() {
        for host in [
            "",
            ":80",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "localhost:",
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
            assert_eq!(local().admit(Some(host.as_bytes()), None), Err(Blocked::Host), "{host}");
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
            assert_eq!(admit(&local(), "localhost", origin), Err(Blocked::Origin), "{origin}");
        }
    }

    #[test]
    fn a_program_that_sends_no_origin_is_asked_for_its_host_alone() {
        assert_eq!(local().admit(None, None), Err(Blocked::Host));
        assert_eq!(guard(false, &[], &[]).admit(None, None), Ok(()));
        assert_eq!(guard(false, &[], &[]).admit(Some(b"any.example"), None), Ok(()));
    }

    #[test]
    fn elsewhere_a_page_is_let_in_that_came_from_an_address_or_a_listed_name() {
        let anywhere = guard(false, &[], &[]);
        assert_eq!(admit(&anywhere, "192.0.2.1:8080", "http://192.0.2.1:8080"), Ok(()));
        assert_eq!(admit(&anywhere, "[2001:db8::1]", "https://[2001:db8::1]"), Ok(()));
        assert_eq!(admit(&anywhere, "localhost:8080", "http://localhost:8080"), Ok(()));
        for origin in ["http://192.0.2.1", "http://192.0.2.1:8081", "http://192.0.2.2:8080"] {
            assert_eq!(
                admit(&anywhere, "192.0.2.1:8080", origin),
                Err(Blocked::Origin),
                "{origin}"
            );
        }
        let named = guard(false, &["mcp.example.com"], &[]);
        assert_eq!(admit(&named, "mcp.example.com", "https://MCP.example.com"), Ok(()));
        assert_eq!(admit(&named, "mcp.example.com:443", "https://mcp.example.com"), Ok(()));
        assert_eq!(admit(&named, "mcp.example.com:80", "http://mcp.example.com"), Ok(()));
        let other = admit(&named, "mcp.example.com:80", "https://mcp.example.com");
        assert_eq!(other, Err(Blocked::Origin));
        assert_eq!(named.admit(Some(b"192.0.2.1"), None), Err(Blocked::Host));
    }

    #[test]
    fn a_list_of_hosts_means_every_port_unless_it_names_one() {
        let listed = guard(true, &["mcp.example.com:8443", "[::1]"], &[]);
        assert_eq!(listed.admit(Some(b"mcp.example.com:8443"), None), Ok(()));
        assert_eq!(listed.admit(Some(b"[::1]:9"), None), Ok(()));
        for host in ["mcp.example.com", "mcp.example.com:8444", "localhost"] {
            assert_eq!(listed.admit(Some(host.as_bytes()), None), Err(Blocked::Host), "{host}");
        }
    }

    #[test]
    fn a_list_of_origins_takes_the_place_of_the_default() {
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
            assert_eq!(admit(&listed, "localhost:8080", origin), Ok(()), "{origin}");
        }
        for origin in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://dev.example",
            "http://localhost:3000",
            "vscode-webview://abd",
            "null",
        ] {
            assert_eq!(admit(&listed, "localhost:8080", origin), Err(Blocked::Origin), "{origin}");
        }
    }

    #[test]
    fn a_star_among_the_origins_is_all_of_them() {
        let open = guard(true, &[], &["https://app.example.com", "*"]);
        for origin in ["null", "http://evil.example.com", "nonsense"] {
            assert_eq!(admit(&open, "localhost", origin), Ok(()), "{origin}");
        }
        assert_eq!(admit(&open, "evil.example.com", "null"), Err(Blocked::Host));
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_named_with_what_was_expected() {
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
