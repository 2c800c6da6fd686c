//! Which hosts and origins may reach the server: the answer to DNS rebinding.
//!
//! A page of a foreign site can make a browser connect to this machine: its name is pointed at our
//! address once it is loaded (rebinding), or it simply asks (a cross-site request). In the first
//! case `Host` is the foreign name, in the second `Origin` is. Programs that are no browsers send no
//! `Origin`, and are not what this guards against.
//!
//! What it keeps true: a name that nobody listed proves nothing, because whoever owns a name decides
//! where it points. Only an address, a listed host, or `localhost` is believed, and a page is let in
//! where it came from us: from a believed host at the same port. An origin that cannot be read is
//! refused.
//!
//! What it does not do: say who may use the server. That is what tokens are for.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`, "Security & Endpoint"; RFC 9110, section
//! 7.2 (`Host`); RFC 6454, section 6.2 (`Origin`).

mod authority;

use std::fmt;

use authority::{Authority, OriginParts, is_loopback};

/// Who may reach a server over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginOptions {
    /// Whether the server listens on an address of this machine alone. Default: no.
    pub is_loopback: bool,
    /// The hosts that requests may name: `name`, `name:port`, `[::1]`, or `*` for every one; without
    /// a port every port is meant. Default, none listed: on loopback `localhost` and every loopback
    /// address; elsewhere every host.
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
