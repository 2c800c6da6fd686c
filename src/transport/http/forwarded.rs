//! The address of a client, as the proxies between it and the server have written it into the
//! request: `X-Forwarded-For`, or `Forwarded` (RFC 7239).
//!
//! Each proxy appends the address that it was connected from, so that only the last ones are those
//! of trusted proxies; what stands before them is whatever the client has sent.
//!
//! Invariants: the result is the last address that is not one of a trusted proxy, or the first one
//! of all if all are. An IPv4-mapped IPv6 address is the IPv4 address that it maps.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::grammar::is_token_byte;
use super::head::{Field, Head};

/// The field that trusted proxies write.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ForwardedField {
    /// `X-Forwarded-For`: addresses, each with or without a port.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the parameter `for` of each element.
    Forwarded,
}

/// What a request says of its client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForwardedClient {
    /// The address of the client. The port is 0 if it is unknown.
    At(SocketAddr),
    /// There is no field.
    Missing,
    /// The place of the address has none: `unknown`, an obfuscated identifier, or something else.
    Invalid,
}

impl ForwardedField {
    /// Returns the client of a request with this head, whose sender is a trusted proxy.
    #[inline]
    pub fn client_of(
        self,
        head: &Head,
        bytes: &[u8],
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> ForwardedClient {
        match (self, head.field(bytes, Field::XForwardedFor)) {
            (Self::XForwardedFor, Some(last)) => match last_untrusted(last, &is_trusted) {
                // Lines before it continue the list.
                (client, true) => client_of_lines(head, bytes, client, is_trusted),
                (client, false) => client,
            },
            (Self::Forwarded, _) if head.has_forwarded => {
                client_of_elements(head.other_fields(bytes, b"forwarded"), is_trusted)
            }
            _ => ForwardedClient::Missing,
        }
    }
}

/// Returns whether a request says anything of a client, in either field.
#[inline]
pub fn names_client(head: &Head, bytes: &[u8]) -> bool {
    head.has_forwarded || head.field(bytes, Field::XForwardedFor).is_some()
}

/// Returns the last address of a list that is not trusted, or the first one and `true` if all are.
#[inline]
fn last_untrusted(list: &[u8], is_trusted: impl Fn(IpAddr) -> bool) -> (ForwardedClient, bool) {
    let mut first = ForwardedClient::Missing;
    for element in list.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        // RFC 9110, section 5.6.1.2: empty elements are ignored.
        if element.is_empty() {
            continue;
        }
        match read_node(element) {
            Some(address) if is_trusted(address.ip()) => first = ForwardedClient::At(address),
            Some(address) => return (ForwardedClient::At(address), false),
            None => return (ForwardedClient::Invalid, false),
        }
    }
    (first, true)
}

/// Returns the client by all lines of `X-Forwarded-For`. All addresses of the last line, of which
/// `client` is the first, are trusted.
#[cold]
fn client_of_lines(
    head: &Head,
    bytes: &[u8],
    client: ForwardedClient,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> ForwardedClient {
    let lines: Vec<&[u8]> = head.other_fields(bytes, b"x-forwarded-for").collect();
    let mut first = client;
    for line in lines.iter().rev().skip(1) {
        match last_untrusted(line, &is_trusted) {
            (ForwardedClient::Missing, _) => {}
            (client, true) => first = client,
            (client, false) => return client,
        }
    }
    first
}

/// Returns the client by the elements of `Forwarded`, in the order of the lines.
fn client_of_elements<'b>(
    lines: impl Iterator<Item = &'b [u8]>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> ForwardedClient {
    let mut client = ForwardedClient::Missing;
    for line in lines {
        let mut rest = line;
        while !rest.is_empty() {
            let Some((element, behind)) = read_element(rest) else {
                client = ForwardedClient::Invalid;
                break;
            };
            rest = behind;
            client = match (element, client) {
                (Element::Empty, client) => client,
                (Element::Node(address), ForwardedClient::Missing) => ForwardedClient::At(address),
                (Element::Node(address), client) if is_trusted(address.ip()) => client,
                (Element::Node(address), _) => ForwardedClient::At(address),
                (Element::Unknown, _) => ForwardedClient::Invalid,
            };
        }
    }
    client
}

/// An element of `Forwarded`.
enum Element {
    Empty,
    /// With an address.
    Node(SocketAddr),
    /// Without one.
    Unknown,
}

/// Reads the element at the start of `text`. Returns it with what follows its comma, or `None` if
/// it is malformed.
fn read_element(text: &[u8]) -> Option<(Element, &[u8])> {
    let (mut rest, mut node) = (text, None);
    let mut is_empty = true;
    loop {
        rest = rest.trim_ascii_start();
        let (separator, behind) = match rest.split_first() {
            None => (b',', &[][..]),
            Some((&separator @ (b',' | b';'), behind)) => (separator, behind),
            Some(_) => {
                is_empty = false;
                let length = rest.iter().position(|&byte| !is_token_byte(byte))?;
                let (name, value) = rest.split_at_checked(length).filter(|_| length > 0)?;
                let (value, behind) = read_value(value.strip_prefix(b"=")?)?;
                if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
                    return None;
                }
                rest = behind.trim_ascii_start();
                match rest.first() {
                    None | Some(b',' | b';') => continue,
                    Some(_) => return None,
                }
            }
        };
        rest = behind;
        if separator == b',' {
            let element = match node.map(|value| read_node(&value)) {
                _ if is_empty => Element::Empty,
                Some(Some(address)) => Element::Node(address),
                Some(None) | None => Element::Unknown,
            };
            return Some((element, rest));
        }
    }
}

/// Reads a token or quoted string (RFC 9110, section 5.6). Returns it with what follows.
fn read_value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let length = text.iter().position(|byte| matches!(byte, b',' | b';' | b' ' | b'\t'));
        let (value, behind) = text.split_at(length.unwrap_or(text.len()));
        // Addresses without quotes are common, although they are no tokens.
        let is_plain = |byte: &u8| is_token_byte(*byte) || matches!(byte, b':' | b'[' | b']');
        return value.iter().all(is_plain).then(|| (value.to_vec(), behind));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, &quoted[at + 1..])),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(byte),
        }
    }
    None
}

/// Reads an address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
/// `[2001:db8::1]` or `[2001:db8::1]:80`. A port that is not a number, such as `_x` (RFC 7239,
/// section 6.2), is unknown.
#[inline]
fn read_node(text: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(text).ok()?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip.to_canonical(), 0));
    }
    let (ip, port) = if let Some(inner) = text.strip_prefix('[') {
        let (ip, port) = inner.split_once(']')?;
        (IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?), port)
    } else {
        let (ip, _) = text.split_once(':')?;
        (IpAddr::V4(ip.parse().ok()?), &text[ip.len()..])
    };
    let port = match port.strip_prefix(':') {
        Some(port) => read_port(port)?,
        None if port.is_empty() => 0,
        None => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Reads the port of a node; 0 for an obfuscated one.
fn read_port(text: &str) -> Option<u16> {
    let is_obfuscated = text.len() > 1 && text.starts_with('_');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_obfuscated { Some(0) } else { text.parse().ok().filter(|_| is_number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::RequestLimits;

    /// Returns the client of a request with these lines. 10.0.0.0/8 is trusted.
    fn client_of(field: ForwardedField, lines: &[&str]) -> ForwardedClient {
        let fields = lines.join("\r\n");
        let end = if lines.is_empty() { "\r\n" } else { "\r\n\r\n" };
        let request = format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{fields}{end}");
        let head = Head::parse(request.as_bytes(), &RequestLimits::default()).unwrap().unwrap();
        let is_trusted = |ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 10);
        assert_eq!(names_client(&head, request.as_bytes()), !lines.is_empty());
        field.client_of(&head, request.as_bytes(), is_trusted)
    }

    /// Returns the client by the value of `X-Forwarded-For`.
    fn by_list(value: &str) -> ForwardedClient {
        client_of(ForwardedField::XForwardedFor, &[&format!("X-Forwarded-For: {value}")])
    }

    /// Returns the client by the value of `Forwarded`.
    fn by_elements(value: &str) -> ForwardedClient {
        client_of(ForwardedField::Forwarded, &[&format!("forwarded: {value}")])
    }

    fn at(text: &str) -> ForwardedClient {
        ForwardedClient::At(text.parse().unwrap())
    }

    #[test]
    fn last_untrusted_address_is_the_client() {
        for (value, expected) in [
            ("192.0.2.1", "192.0.2.1:0"),
            ("203.0.113.9, 192.0.2.1", "192.0.2.1:0"),
            ("203.0.113.9,192.0.2.1 ,10.0.0.1,10.0.0.2", "192.0.2.1:0"),
            ("unknown, 192.0.2.1", "192.0.2.1:0"),
            ("10.0.0.3, 10.0.0.2", "10.0.0.3:0"),
            ("192.0.2.1:4711", "192.0.2.1:4711"),
            ("2001:db8::1", "[2001:db8::1]:0"),
            ("[2001:db8::1]", "[2001:db8::1]:0"),
            ("[2001:db8::1]:80, ::ffff:10.0.0.1", "[2001:db8::1]:80"),
            ("::ffff:192.0.2.1", "192.0.2.1:0"),
            (",192.0.2.1, ,", "192.0.2.1:0"),
        ] {
            assert_eq!(by_list(value), at(expected), "{value}");
        }
        for value in [
            "unknown",
            "_hidden",
            "192.0.2.1, x",
            "192.0.2.1:x",
            "192.0.2.256",
            "[2001:db8::1",
            "2001:db8::1:x",
            "\"192.0.2.1\"",
            "192.0.2.1 192.0.2.2",
            "1,unknown,10.0.0.1",
        ] {
            assert_eq!(by_list(value), ForwardedClient::Invalid, "{value}");
        }
        assert_eq!(by_list(" , "), ForwardedClient::Missing);
    }

    #[test]
    fn repeated_lines_are_one_list() {
        let lines = [
            "X-Forwarded-For: 203.0.113.9",
            "x-forwarded-for: 192.0.2.1, 10.0.0.1",
            "X-FORWARDED-FOR: 10.0.0.2",
        ];
        let client = client_of(ForwardedField::XForwardedFor, &lines);
        assert_eq!(client, at("192.0.2.1:0"));
        let client = client_of(ForwardedField::XForwardedFor, &[lines[2], lines[2]]);
        assert_eq!(client, at("10.0.0.2:0"));
        let lines =
            ["Forwarded: for=203.0.113.9", "Forwarded: for=192.0.2.1", "Forwarded: for=10.0.0.1"];
        assert_eq!(client_of(ForwardedField::Forwarded, &lines), at("192.0.2.1:0"));
    }

    #[test]
    fn forwarded_elements_name_the_client() {
        for (value, expected) in [
            ("for=192.0.2.1", "192.0.2.1:0"),
            ("For=\"192.0.2.1:4711\";proto=https;by=203.0.113.43", "192.0.2.1:4711"),
            (
                "for=203.0.113.9, proto=http;for=\"[2001:db8::1]:47\" ,for=10.0.0.1",
                "[2001:db8::1]:47",
            ),
            ("for=\"192.0.2.1:_port\"", "192.0.2.1:0"),
            ("for=unknown, for=192.0.2.1", "192.0.2.1:0"),
            ("for=10.0.0.2,for=10.0.0.1", "10.0.0.2:0"),
            ("host=\"a,for=1.2.3.4\";for=192.0.2.1", "192.0.2.1:0"),
            ("for=\"192.0.\\2.1\"", "192.0.2.1:0"),
            ("for=192.0.2.1,,", "192.0.2.1:0"),
        ] {
            assert_eq!(by_elements(value), at(expected), "{value}");
        }
        for value in [
            "for=unknown",
            "for=_hidden",
            "proto=https",
            "for=192.0.2.1, for=_x",
            "for",
            "for=\"192.0.2.1",
            "for=192.0.2.1;for=192.0.2.2",
            "for=192.0.2.1 x",
            "for=\"[2001:db8::1\"",
            "for=203.0.113.9;x, for=192.0.2.1",
            "for=203.0.113.9;x, for=192.0.2.1;proto=https",
            "for=203.0.113.9;x=\", for=192.0.2.1;host=\";y=z\"",
        ] {
            assert_eq!(by_elements(value), ForwardedClient::Invalid, "{value}");
        }
    }

    #[test]
    fn other_field_is_not_read() {
        let lines = ["X-Forwarded-For: 192.0.2.1"];
        assert_eq!(client_of(ForwardedField::Forwarded, &lines), ForwardedClient::Missing);
        let lines = ["Forwarded: for=192.0.2.1"];
        assert_eq!(client_of(ForwardedField::XForwardedFor, &lines), ForwardedClient::Missing);
        assert_eq!(client_of(ForwardedField::default(), &[]), ForwardedClient::Missing);
    }
}
