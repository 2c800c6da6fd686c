//! Hosts and origins as text: where the host ends and the port begins.
//!
//! What it keeps true: what is read has no part that a browser would read differently; whoever
//! writes a user, a path or a second colon is not read at all.
//!
//! Source: RFC 3986, section 3.2; RFC 6454, section 6.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host and its port, as `Host` names them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Authority<'a> {
    /// A name or an address; of IPv6 with its brackets.
    pub(super) host: &'a [u8],
    /// The port, where one is named.
    pub(super) port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host` or `host:port`; none for everything else.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let host_bytes = match text.first()? {
            b'[' => text.iter().position(|byte| *byte == b']')? + 1,
            _ => text.iter().position(|byte| *byte == b':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at(host_bytes);
        let is_host = match host {
            [] => false,
            [b'[', inner @ .., b']'] => parse::<Ipv6Addr>(inner).is_some(),
            name => name.iter().all(|byte| is_of_a_name(*byte)),
        };
        let port = match port {
            [] => None,
            [b':', digits @ ..] => Some(read_port(digits)?),
            _ => return None,
        };
        is_host.then_some(Self { host, port })
    }

    /// Whether the host is an address, which no name server can point elsewhere.
    pub(super) fn is_address(self) -> bool {
        address_of(self.host).is_some()
    }
}

/// The parts of an origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OriginParts<'a> {
    pub(super) scheme: &'a [u8],
    pub(super) authority: Authority<'a>,
}

impl<'a> OriginParts<'a> {
    /// Reads `scheme://host` or `scheme://host:port`; none for everything else, `null` included.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let (scheme, rest) = text.split_at(colon);
        let is_of_a_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        if !scheme.first()?.is_ascii_alphabetic() || !scheme.iter().all(is_of_a_scheme) {
            return None;
        }
        let authority = Authority::read(rest.strip_prefix(b"://")?)?;
        Some(Self { scheme, authority })
    }

    /// The port, or that of the scheme where none is named.
    pub(super) fn port(self) -> Option<u16> {
        self.authority.port.or_else(|| self.default_port())
    }

    fn default_port(self) -> Option<u16> {
        let ports = [(&b"http"[..], 80), (b"https", 443)];
        let mut ports = ports.iter().filter(|(scheme, _)| self.scheme.eq_ignore_ascii_case(scheme));
        ports.next().map(|(_, port)| *port)
    }

    /// Whether the page came by HTTP or HTTPS.
    pub(super) fn is_web(self) -> bool {
        self.default_port().is_some()
    }

    /// Whether a page of this origin was loaded from `host`. A host without a port has that of the
    /// scheme, because TLS may end before us and we cannot know which it was.
    pub(super) fn is_at(self, host: Authority<'_>) -> bool {
        self.is_web()
            && self.authority.host.eq_ignore_ascii_case(host.host)
            && self.port() == host.port.or_else(|| self.default_port())
    }
}

/// Whether the host is this machine, whatever any name server says: `localhost` (RFC 6761, section
/// 6.3) or a loopback address.
pub(super) fn is_loopback(host: &[u8]) -> bool {
    host.eq_ignore_ascii_case(b"localhost")
        || address_of(host).is_some_and(|address| address.to_canonical().is_loopback())
}

/// The address that a host is, where it is one.
fn address_of(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => parse::<Ipv6Addr>(inner).map(IpAddr::V6),
        // Names end in a letter, addresses in a digit: most names are told apart without a look.
        [.., b'0'..=b'9'] => parse::<Ipv4Addr>(host).map(IpAddr::V4),
        _ => None,
    }
}

fn parse<Read: FromStr>(text: &[u8]) -> Option<Read> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// One to five digits that are a port.
fn read_port(digits: &[u8]) -> Option<u16> {
    // The parser of numbers would take a sign.
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if is_plain { parse(digits) } else { None }
}

/// Letters, digits and what names are joined with. Underscores are no part of a host name by RFC
/// 1123, and are in use inside container networks.
const fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
