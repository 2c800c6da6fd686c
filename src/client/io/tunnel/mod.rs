//! A tunnel through a proxy, on a thread that may block.

mod socks;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use httparse::{EMPTY_HEADER, Status};

use crate::proxy::{ProxyProtocol, ProxyServer};
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

/// Bytes of the head of a response.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields of the head of a response.
const FIELDS_MAX: usize = 64;

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
        ProxyProtocol::Socks(options) => socks::open(stream, host, port, options, deadline)?,
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
