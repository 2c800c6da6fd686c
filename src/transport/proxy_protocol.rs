//! The PROXY protocol: the header before the bytes of a connection, in which a proxy names the
//! address of its client. Version 1 is a line of text, version 2 is binary.
//!
//! Invariants: a header is read whatever its split into pieces; no byte behind it is taken; what is
//! kept of it has a fixed size.
//!
//! Source: "The PROXY protocol, versions 1 & 2" of haproxy, sections 2.1 and 2.2.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest header: one of version 2 carries names of TLS and ids of clouds.
pub const HEADER_BYTES_MAX: usize = 4096;

/// The beginning of a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The beginning of a header of version 1.
const PREFIX: &[u8; 6] = b"PROXY ";
/// Bytes of the longest header of version 1.
const LINE_BYTES_MAX: usize = 107;
/// Bytes before the addresses of a header of version 2.
const FIXED_BYTES: usize = 16;

/// Reads the header of one connection.
#[derive(Clone, Debug)]
pub struct ProxyHeaderReader {
    /// The header, of version 2 up to its addresses.
    kept: [u8; LINE_BYTES_MAX],
    length: usize,
    /// Bytes of the header that come and are not kept.
    skipped: usize,
}

/// A complete header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProxyHeader {
    /// Bytes of the last input that belong to it.
    pub bytes: usize,
    /// The version, 1 or 2.
    pub version: u8,
    /// The address of the client. `None` if the proxy speaks for itself (`LOCAL`), or for a client
    /// that is not one of TCP (`UNKNOWN`).
    pub source: Option<SocketAddr>,
}

/// Why the input does not begin with a valid header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProxyHeaderError {
    /// It begins with something else.
    Missing,
    /// It begins as a header and is none.
    Malformed,
    /// It is longer than [`HEADER_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => formatter.write_str("the connection begins without a PROXY header"),
            Self::Malformed => formatter.write_str("the PROXY header is malformed"),
            Self::TooLong => {
                write!(formatter, "the PROXY header is longer than {HEADER_BYTES_MAX} bytes")
            }
        }
    }
}

impl Default for ProxyHeaderReader {
    fn default() -> Self {
        Self { kept: [0; LINE_BYTES_MAX], length: 0, skipped: 0 }
    }
}

impl ProxyHeaderReader {
    /// Reads the next bytes of a connection. Returns the header once it is complete, and `None`
    /// if all of `input` belongs to it and more is to come.
    ///
    /// # Errors
    ///
    /// What is wrong with it. The connection cannot be used.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
        let mut bytes = 0;
        while bytes < input.len() {
            if self.skipped > 0 {
                let skipped = self.skipped.min(input.len() - bytes);
                self.skipped -= skipped;
                bytes += skipped;
                if self.skipped > 0 {
                    return Ok(None);
                }
                return Ok(Some(self.read_binary().with_bytes(bytes)));
            }
            let Some(place) = self.kept.get_mut(self.length) else {
                return Err(ProxyHeaderError::Malformed);
            };
            *place = input[bytes];
            self.length += 1;
            bytes += 1;
            if let Some(header) = self.read_kept()? {
                return Ok(Some(header.with_bytes(bytes)));
            }
        }
        Ok(None)
    }

    /// Returns the header if the last byte was that of its end.
    fn read_kept(&mut self) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
        let kept = &self.kept[..self.length];
        if kept.starts_with(SIGNATURE) {
            return self.begin_binary();
        }
        if SIGNATURE.starts_with(kept) || PREFIX.starts_with(kept) {
            return Ok(None);
        }
        let Some(line) = kept.strip_prefix(PREFIX) else { return Err(ProxyHeaderError::Missing) };
        match line.strip_suffix(b"\r\n") {
            Some(line) => read_line(line).map(|source| Some(ProxyHeader::new(1, source))),
            None if line.ends_with(b"\n") || self.length == LINE_BYTES_MAX => {
                Err(ProxyHeaderError::Malformed)
            }
            None => Ok(None),
        }
    }

    /// Returns the header of version 2 if it has no bytes beyond its addresses.
    fn begin_binary(&mut self) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
        let kept = &self.kept[..self.length];
        if kept.get(SIGNATURE.len()).is_some_and(|byte| !matches!(byte, 0x20 | 0x21)) {
            return Err(ProxyHeaderError::Malformed);
        }
        let Some(&[command, family, high, low]) = kept.get(SIGNATURE.len()..FIXED_BYTES) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if FIXED_BYTES + length > HEADER_BYTES_MAX {
            return Err(ProxyHeaderError::TooLong);
        }
        let addresses = bytes_of_addresses(command, family);
        if length < addresses {
            return Err(ProxyHeaderError::Malformed);
        }
        if self.length < FIXED_BYTES + addresses {
            return Ok(None);
        }
        self.skipped = length - addresses;
        Ok((self.skipped == 0).then(|| self.read_binary()))
    }

    /// Returns the header of version 2 whose addresses are kept.
    fn read_binary(&self) -> ProxyHeader {
        let (fixed, addresses) = self.kept[..self.length].split_at(FIXED_BYTES);
        let source = match *addresses {
            [a, b, c, d, _, _, _, _, high, low, _, _] => {
                Some(address(Ipv4Addr::new(a, b, c, d).into(), [high, low]))
            }
            [.., high, low, _, _] if addresses.len() == 36 => {
                let first = addresses.first_chunk::<16>();
                first.map(|it| address(Ipv6Addr::from(*it).into(), [high, low]))
            }
            _ => None,
        };
        debug_assert!(fixed.starts_with(SIGNATURE));
        ProxyHeader::new(2, source)
    }
}

impl ProxyHeader {
    const fn new(version: u8, source: Option<SocketAddr>) -> Self {
        Self { bytes: 0, version, source }
    }

    const fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}

/// Returns the bytes of the addresses that are read: none for `LOCAL`, and for families and
/// protocols other than TCP.
const fn bytes_of_addresses(command: u8, family: u8) -> usize {
    match (command & 0xf, family) {
        (1, 0x11) => 12,
        (1, 0x21) => 36,
        _ => 0,
    }
}

fn address(ip: IpAddr, port: [u8; 2]) -> SocketAddr {
    SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(port))
}

/// Reads what stands between the beginning of a header of version 1 and its end of line.
fn read_line(line: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut words = line.split(|&byte| byte == b' ');
    let protocol = words.next().unwrap_or_default();
    // Whatever follows is to be ignored.
    if protocol == b"UNKNOWN" {
        return Ok(None);
    }
    let mut next = || words.next().and_then(|it| str::from_utf8(it).ok()).unwrap_or_default();
    let addresses = [next().parse::<IpAddr>(), next().parse::<IpAddr>()];
    let ports = [read_port(next()), read_port(next())];
    let ([Ok(source), Ok(destination)], [Some(port), Some(_)], None) =
        (addresses, ports, words.next())
    else {
        return Err(ProxyHeaderError::Malformed);
    };
    match protocol {
        b"TCP4" if source.is_ipv4() && destination.is_ipv4() => {}
        b"TCP6" if source.is_ipv6() && destination.is_ipv6() => {}
        _ => return Err(ProxyHeaderError::Malformed),
    }
    Ok(Some(SocketAddr::new(source.to_canonical(), port)))
}

fn read_port(text: &str) -> Option<u16> {
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a header of version 2.
    fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, content].concat()
    }

    fn ipv4() -> Vec<u8> {
        binary(0x21, 0x11, &[192, 0, 2, 1, 198, 51, 100, 2, 0x1f, 0x90, 0, 80])
    }

    fn ipv6(more: usize) -> Vec<u8> {
        let source: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let content = [&source.octets()[..], &[0; 16], &[0x1f, 0x90, 0, 80], &vec![7; more]];
        binary(0x21, 0x21, &content.concat())
    }

    /// Reads a header in two pieces, with something else behind it. Returns its version and source.
    fn read_split(header: &[u8], at: usize) -> Result<(u8, Option<SocketAddr>), ProxyHeaderError> {
        let input = [header, b"{\"jsonrpc\""].concat();
        let mut reader = ProxyHeaderReader::default();
        let (first, second) = input.split_at(at);
        let first = reader.read(first)?.map(|read| (read, read.bytes));
        let (read, bytes) = match first {
            None => {
                let read = reader.read(second)?.expect("the header is complete");
                (read, at + read.bytes)
            }
            Some(read) => read,
        };
        assert_eq!(bytes, header.len());
        Ok((read.version, read.source))
    }

    /// Reads a header split at every byte, and byte by byte.
    fn read_all(header: &[u8]) -> Result<(u8, Option<SocketAddr>), ProxyHeaderError> {
        let whole = read_split(header, header.len());
        for at in 0..=header.len() + 2 {
            assert_eq!(read_split(header, at), whole, "split at {at}");
        }
        let mut reader = ProxyHeaderReader::default();
        let mut bytes = header.iter().map(|byte| reader.read(std::slice::from_ref(byte)));
        let last = bytes.find(|it| *it != Ok(None)).unwrap_or(Ok(None));
        assert_eq!(last.map(|it| it.map(|it| (it.version, it.source))), whole.map(Some));
        whole
    }

    fn source(text: &str) -> Option<SocketAddr> {
        text.parse().ok()
    }

    #[test]
    fn header_is_read_split_at_every_byte() {
        for (header, version, expected) in [
            (&b"PROXY TCP4 192.0.2.1 198.51.100.2 8080 80\r\n"[..], 1, source("192.0.2.1:8080")),
            (b"PROXY TCP6 2001:db8::7 ::1 1 0\r\n", 1, source("[2001:db8::7]:1")),
            (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 65535 80\r\n", 1, source("192.0.2.1:65535")),
            (b"PROXY UNKNOWN\r\n", 1, None),
            (b"PROXY UNKNOWN ffff::1 whatever 7\r\n", 1, None),
            (&ipv4(), 2, source("192.0.2.1:8080")),
            (&ipv6(0), 2, source("[2001:db8::7]:8080")),
            (&ipv6(300), 2, source("[2001:db8::7]:8080")),
            (&binary(0x20, 0x11, &[9; 12]), 2, None),
            (&binary(0x20, 0, &[]), 2, None),
            (&binary(0x21, 0, &[1, 2, 3]), 2, None),
            (&binary(0x21, 0x31, &[b'/'; 216]), 2, None),
            (&binary(0x21, 0x12, &[9; 12]), 2, None),
        ] {
            assert_eq!(read_all(header), Ok((version, expected)), "{header:?}");
        }
    }

    #[test]
    fn longest_headers_are_accepted() {
        let line = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LINE_BYTES_MAX - 16));
        assert_eq!(read_all(line.as_bytes()), Ok((1, None)));
        let rest = HEADER_BYTES_MAX - FIXED_BYTES - 36;
        assert_eq!(read_split(&ipv6(rest), 20), Ok((2, source("[2001:db8::7]:8080"))));
        let error = read_split(&ipv6(rest + 1), 20);
        assert_eq!(error, Err(ProxyHeaderError::TooLong));
        let line = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LINE_BYTES_MAX - 15));
        assert_eq!(read_split(line.as_bytes(), 0), Err(ProxyHeaderError::Malformed));
    }

    #[test]
    fn other_input_is_no_header() {
        for input in [
            &b"{\"jsonrpc\":\"2.0\"}\n"[..],
            b"GET / HTTP/1.1\r\n",
            b"PROXX",
            b"\r\n\r\n\0\r\nQUIX",
        ] {
            let read = ProxyHeaderReader::default().read(input);
            assert_eq!(read, Err(ProxyHeaderError::Missing), "{input:?}");
        }
    }

    #[test]
    fn malformed_header_is_rejected() {
        let [version_1, version_3] = [0x11, 0x31].map(|command| binary(command, 0x11, &[0; 12]));
        let mixed = [&b"PROXY "[..], &ipv4()].concat();
        for input in [
            &b"PROXY TCP4 192.0.2.1 198.51.100.2 8080\r\n"[..],
            b"PROXY TCP4 192.0.2.1 198.51.100.2 8080 80 1\r\n",
            b"PROXY TCP4 192.0.2.1  8080 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 08080 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 +80 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 80\r\n",
            b"PROXY TCP4 2001:db8::7 ::1 1 1\r\n",
            b"PROXY TCP6 192.0.2.1 198.51.100.2 1 1\r\n",
            b"PROXY UDP4 192.0.2.1 198.51.100.2 1 1\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 1 1\n",
            b"PROXY \r\n",
            &version_1,
            &version_3,
            &binary(0x22, 0x11, &[0; 12]),
            &binary(0x21, 0x11, &[0; 11]),
            &binary(0x21, 0x21, &[0; 12]),
            &mixed,
        ] {
            let read = ProxyHeaderReader::default().read(input);
            assert_eq!(read, Err(ProxyHeaderError::Malformed), "{input:?}");
        }
    }
}
