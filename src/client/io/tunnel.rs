//! A tunnel through a proxy, on a thread that may block: one of HTTP (`CONNECT`), or of SOCKS
//! version 5 (RFC 1928), with a user name and password (RFC 1929).

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use httparse::{EMPTY_HEADER, Status};

use crate::proxy::{ProxyProtocol, ProxyServer, SocksOptions};
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

/// Bytes of the head of a response.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields of the head of a response.
const FIELDS_MAX: usize = 64;

// RFC 1928, sections 3 to 5; RFC 1929.
const SOCKS_VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
/// No method is acceptable.
const NO_METHOD: u8 = 0xff;
/// Version of the negotiation of a user name and password.
const LOGIN_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// When what opens a connection must be done.
#[derive(Debug)]
pub(super) struct Deadline {
    clock: Clock,
    at: Instant,
}

impl Deadline {
    /// Starts to count `timeout`.
    pub(super) fn start(timeout: Duration) -> Self {
        let clock = Clock::start();
        let at = clock.now().after(timeout);
        Self { clock, at }
    }

    /// Returns the time that is left.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] without any.
    pub(super) fn left(&self) -> io::Result<Duration> {
        let left = self.at.since(self.clock.now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Ends the next read of `stream` in time.
    pub(super) fn limit_read(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(self.left()?))
    }
}

/// Lets the proxy at the other end of `stream` connect to a host.
///
/// # Errors
///
/// What the proxy answered, if it refuses; an error of the connection.
pub(super) fn open(
    stream: &TcpStream,
    host: &str,
    port: u16,
    proxy: &ProxyServer,
    deadline: &Deadline,
) -> io::Result<()> {
    stream.set_write_timeout(Some(deadline.left()?))?;
    match &proxy.protocol {
        ProxyProtocol::Http { authorization } => {
            connect(stream, host, port, authorization.as_deref(), deadline)?;
        }
        ProxyProtocol::Socks(options) => open_socks(stream, host, port, options, deadline)?,
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)
}

/// Opens a tunnel through an HTTP proxy (RFC 9110, section 9.3.6).
fn connect(
    mut stream: &TcpStream,
    host: &str,
    port: u16,
    authorization: Option<&str>,
    deadline: &Deadline,
) -> io::Result<()> {
    stream.write_all(request(host, port, authorization).as_bytes())?;
    let mut head = Vec::new();
    // What follows the head belongs to the tunnel, so it is not read.
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        deadline.limit_read(stream)?;
        if stream.read(&mut byte)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        head.extend_from_slice(&byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of its response is too long"));
        }
    }
    check_response(&head, authorization.is_some())
}

fn request(host: &str, port: u16, authorization: Option<&str>) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let authorization =
        authorization.map(|it| format!("Proxy-Authorization: {it}\r\n")).unwrap_or_default();
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n")
}

fn check_response(head: &[u8], has_login: bool) -> io::Result<()> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(head) {
        Ok(Status::Complete(_)) => {}
        _ => return Err(io::Error::other("it does not speak HTTP")),
    }
    let (status, reason) = (response.code.unwrap_or_default(), response.reason.unwrap_or_default());
    match status {
        200..=299 => Ok(()),
        407 if has_login => Err(io::Error::other("it refused the user name and password (407)")),
        407 => Err(io::Error::other("it requires a user name and password (407)")),
        _ => Err(io::Error::other(format!("it refused to connect ({status} {reason})"))),
    }
}

/// Lets the proxy at the other end of `stream` connect to a host.
///
/// # Errors
///
/// What the proxy answered, if it refuses; an error of the connection.
fn open_socks(
    mut stream: &TcpStream,
    host: &str,
    port: u16,
    options: &SocksOptions,
    deadline: &Deadline,
) -> io::Result<()> {
    let methods: &[u8] = if options.login.is_some() { &[NO_LOGIN, LOGIN] } else { &[NO_LOGIN] };
    let count = u8::try_from(methods.len()).unwrap_or(u8::MAX);
    stream.write_all(&[&[SOCKS_VERSION, count], methods].concat())?;
    let [version, method] = read(stream, deadline)?;
    match (version, method, &options.login) {
        (SOCKS_VERSION, NO_LOGIN, _) => {}
        (SOCKS_VERSION, LOGIN, Some((user, password))) => {
            let mut request = vec![LOGIN_VERSION];
            push_text(&mut request, user)?;
            push_text(&mut request, password)?;
            stream.write_all(&request)?;
            let [_, status] = read(stream, deadline)?;
            if status != 0 {
                return Err(io::Error::other("it refused the user name and password"));
            }
        }
        (SOCKS_VERSION, NO_METHOD, None) => {
            return Err(io::Error::other("it requires a user name and password"));
        }
        (SOCKS_VERSION, ..) => {
            return Err(io::Error::other("it accepts neither a password nor its absence"));
        }
        _ => return Err(io::Error::other("it does not speak SOCKS, version 5")),
    }
    let mut request = vec![SOCKS_VERSION, CONNECT, 0];
    push_host(&mut request, host, port, options.resolves_here)?;
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request)?;
    read_reply(stream, deadline)
}

/// Reads the reply to the request, with the address that the proxy connects from.
fn read_reply(stream: &TcpStream, deadline: &Deadline) -> io::Result<()> {
    let [version, reply, _, kind] = read(stream, deadline)?;
    if version != SOCKS_VERSION {
        return Err(io::Error::other("it does not speak SOCKS, version 5"));
    }
    if reply != 0 {
        return Err(io::Error::other(format!("it refused to connect: {}", reason(reply))));
    }
    match kind {
        IPV4 => read::<6>(stream, deadline).map(drop),
        IPV6 => read::<18>(stream, deadline).map(drop),
        NAME => {
            let [length] = read(stream, deadline)?;
            for _ in 0..usize::from(length) + 2 {
                let [_] = read(stream, deadline)?;
            }
            Ok(())
        }
        _ => Err(io::Error::other("its reply has an unknown type of address")),
    }
}

/// Appends the type and the address of a host.
fn push_host(out: &mut Vec<u8>, host: &str, port: u16, resolves_here: bool) -> io::Result<()> {
    let address = match host.parse::<IpAddr>() {
        Ok(address) => Some(address),
        Err(_) if resolves_here => (host, port).to_socket_addrs()?.next().map(|it| it.ip()),
        Err(_) => None,
    };
    match address {
        Some(IpAddr::V4(address)) => {
            out.push(IPV4);
            out.extend_from_slice(&address.octets());
        }
        Some(IpAddr::V6(address)) => {
            out.push(IPV6);
            out.extend_from_slice(&address.octets());
        }
        None => {
            out.push(NAME);
            push_text(out, host.as_bytes())?;
        }
    }
    Ok(())
}

/// Appends a text with its length.
fn push_text(out: &mut Vec<u8>, text: &[u8]) -> io::Result<()> {
    let length = u8::try_from(text.len());
    out.push(length.map_err(|_| io::Error::other("a text is longer than 255 bytes"))?);
    out.extend_from_slice(text);
    Ok(())
}

fn read<const N: usize>(mut stream: &TcpStream, deadline: &Deadline) -> io::Result<[u8; N]> {
    let (mut bytes, mut length) = ([0; N], 0);
    while length < N {
        deadline.limit_read(stream)?;
        match stream.read(&mut bytes[length..])? {
            0 => {
                let text = "it closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            more => length += more,
        }
    }
    Ok(bytes)
}

/// Returns what a reply says (RFC 1928, section 6).
const fn reason(reply: u8) -> &'static str {
    match reply {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "the network is unreachable",
        4 => "the host is unreachable",
        5 => "the connection was refused",
        6 => "the time to live has expired",
        7 => "the command is not supported",
        8 => "the type of the address is not supported",
        _ => "an unknown reply",
    }
}
