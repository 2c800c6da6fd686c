//! Fuzz target body of what proxies write: the PROXY protocol and the addresses of clients in
//! requests.
//!
//! It panics if an invariant is violated, which no input may cause. The fuzzer passes its own
//! bytes, the tests seeded ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use corelane_transport::http::forwarded::{ForwardedClient, ForwardedField};
use corelane_transport::http::head::{Head, RequestLimits};
use corelane_transport::proxy_protocol::{
    HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, ProxyHeaderReader,
};

/// The client of the trusted proxy.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// Reads the begin of `stream` as a PROXY header, whole and again in pieces of `length` bytes.
/// Returns the header, and `None` if more is to come.
///
/// # Panics
///
/// If the result depends on the split, or a header is longer than the limit.
pub(crate) fn check_header(
    stream: &[u8],
    length: usize,
) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let whole = ProxyHeaderReader::default().read(stream);
    let (mut reader, mut before) = (ProxyHeaderReader::default(), 0);
    let mut in_pieces = Ok(None);
    for piece in stream.chunks(length.max(1)) {
        in_pieces = reader.read(piece);
        match &mut in_pieces {
            Ok(None) => before += piece.len(),
            Ok(Some(header)) => {
                header.bytes += before;
                break;
            }
            Err(_) => break,
        }
    }
    assert_eq!(in_pieces, whole, "the result depends on the split");
    match &whole {
        Ok(Some(header)) => {
            assert!(header.bytes <= stream.len().min(HEADER_BYTES_MAX));
            let shorter = ProxyHeaderReader::default().read(&stream[..header.bytes - 1]);
            assert_eq!(shorter, Ok(None), "a shorter header is complete");
        }
        Ok(None) => assert!(stream.len() < HEADER_BYTES_MAX),
        Err(_) => {}
    }
    whole
}

/// Reads the address of a client that has sent `value` through a trusted proxy, which appends its
/// own entry to the line, or to the field as a line of its own. Returns what the line says.
///
/// # Panics
///
/// If the client of the proxy is another one than that of the entry.
pub(crate) fn check_forwarded(field: ForwardedField, value: &[u8]) -> Option<ForwardedClient> {
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return None;
    }
    let (name, entry): (&[u8], &[u8]) = match field {
        ForwardedField::XForwardedFor => (b"X-Forwarded-For", b"192.0.2.9"),
        ForwardedField::Forwarded => (b"Forwarded", b"for=192.0.2.9"),
    };
    let as_line = [name, b": ", value, b"\r\n", name, b": ", entry].concat();
    let in_line = [name, b": ", value, b", ", entry].concat();
    let expected = ForwardedClient::At(SocketAddr::new(CLIENT, 0));
    if let Some(client) = client_of(field, &as_line) {
        assert_eq!(client, expected, "the entry of the proxy counts");
    }
    let client = client_of(field, &in_line)?;
    // A quoted string of the client that has no end takes the entry of the proxy.
    let is_known = client == expected || client == ForwardedClient::Invalid;
    assert!(is_known, "the client has chosen its address: {client:?}");
    client_of(field, &[name, b": ", value].concat())
}

/// Returns the client of a request with these lines, or `None` if the request is malformed. The
/// proxies of 10.0.0.0/8 are trusted.
fn client_of(field: ForwardedField, lines: &[u8]) -> Option<ForwardedClient> {
    let head = [b"POST /mcp HTTP/1.1\r\nHost: a\r\n", lines, b"\r\n\r\n"].concat();
    let parsed = Head::parse(&head, &RequestLimits::default()).ok()??;
    let is_trusted = |ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 10);
    Some(field.client_of(&parsed, &head, is_trusted))
}
