//! Parsing of hosts and origins.
//!
//! Invariants: a text that a browser could parse differently is rejected, such as one with user
//! information, a path or a second colon.
//!
//! Source: RFC 3986, section 3.2; RFC 6454, section 6.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host and an optional port, as in the `Host` field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Authority<'a> {
    /// A name or an address; IPv6 addresses include their brackets.
    pub(super) host: &'a [u8],
    /// The port, if one is given.
    pub(super) port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses `host` or `host:port`; returns `None` for anything else. An empty port is none (RFC
    /// 3986, section 3.2.3), and one trailing dot is no part of a name (RFC 1034, section 3.1).
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let host_bytes = match text.first()? {
            b'[' => text.iter().position(|byte| *byte == b']')? + 1,
            _ => text.iter().position(|byte| *byte == b':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at(host_bytes);
        let is_host = match host {
            [] => false,
            [b'[', inner @ .., b']'] => parse::<Ipv6Addr>(inner).is_some(),
            name => name.iter().all(|byte| is_host_byte(*byte)),
        };
        let port = match port {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        let host = host.strip_suffix(b".").filter(|name| !name.is_empty()).unwrap_or(host);
        is_host.then_some(Self { host, port })
    }

    /// Returns whether the host is an IP address, which DNS cannot redirect.
    pub(super) fn is_address(self) -> bool {
        parse_address(self.host).is_some()
    }
}

/// Scheme and authority of an origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ParsedOrigin<'a> {
    pub(super) scheme: &'a [u8],
    pub(super) authority: Authority<'a>,
}

impl<'a> ParsedOrigin<'a> {
    /// Parses `scheme://host` or `scheme://host:port`; returns `None` for anything else, including
    /// `null`.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let (scheme, rest) = text.split_at(colon);
        let is_scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        if !scheme.first()?.is_ascii_alphabetic() || !scheme.iter().all(is_scheme_byte) {
            return None;
        }
        let authority = Authority::parse(rest.strip_prefix(b"://")?)?;
        Some(Self { scheme, authority })
    }

    /// Returns the port, or the default port of the scheme.
    pub(super) fn port(self) -> Option<u16> {
        self.authority.port.or_else(|| self.default_port())
    }

    fn default_port(self) -> Option<u16> {
        let ports = [(&b"http"[..], 80), (b"https", 443)];
        let mut ports = ports.iter().filter(|(scheme, _)| self.scheme.eq_ignore_ascii_case(scheme));
        ports.next().map(|(_, port)| *port)
    }

    /// Returns whether the scheme is `http` or `https`.
    pub(super) fn is_http(self) -> bool {
        self.default_port().is_some()
    }

    /// Returns whether a page of this origin was loaded from `host`. A host without a port has the
    /// default port of the origin's scheme: a proxy may terminate TLS, so the scheme of the request
    /// is unknown.
    pub(super) fn is_same_origin(self, host: Authority<'_>) -> bool {
        self.is_http()
            && self.authority.host.eq_ignore_ascii_case(host.host)
            && self.port() == host.port.or_else(|| self.default_port())
    }
}

/// Returns whether the host always names this machine: `localhost` (RFC 6761, section 6.3) or a
/// loopback address.
pub(super) fn is_loopback(host: &[u8]) -> bool {
    host.eq_ignore_ascii_case(b"localhost")
        || parse_address(host).is_some_and(|address| address.to_canonical().is_loopback())
}

fn parse_address(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => parse::<Ipv6Addr>(inner).map(IpAddr::V6),
        // Host names end in a letter and addresses in a digit, so most names skip the parser.
        [.., b'0'..=b'9'] => parse::<Ipv4Addr>(host).map(IpAddr::V4),
        _ => None,
    }
}

fn parse<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a port of one to five digits.
fn parse_port(digits: &[u8]) -> Option<u16> {
    // `u16::from_str` accepts a sign.
    let is_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if is_digits { parse(digits) } else { None }
}

/// Letters, digits, `-`, `.` and `_`. RFC 1123 excludes underscores, but container networks use
/// them.
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
