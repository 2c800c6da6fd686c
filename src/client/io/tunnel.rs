//! A tunnel through an HTTP proxy (RFC 9110, section 9.3.6), on a thread that may block.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use httparse::{EMPTY_HEADER, Status};

use crate::base::time::Instant;
use crate::client::proxy::ProxyServer;
use crate::engine::clock::Clock;

/// Bytes of the head of a response.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields of the head of a response.
const FIELDS_MAX: usize = 64;

/// Lets the proxy at the other end of `stream` connect to a host, within `timeout`.
///
/// # Errors
///
/// What the proxy answered, if it refuses; an error of the connection.
pub(super) fn open(
    mut stream: &TcpStream,
    (host, port): (&str, u16),
    proxy: &ProxyServer,
    timeout: Duration,
) -> io::Result<()> {
    let clock = Clock::start();
    let deadline = clock.now().after(timeout);
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(request(host, port, proxy).as_bytes())?;
    let mut head = Vec::new();
    // What follows the head belongs to the tunnel, so it is not read.
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        limit_read(stream, &clock, deadline)?;
        if stream.read(&mut byte)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        head.extend_from_slice(&byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of its response is too long"));
        }
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    check_response(&head, proxy)
}

/// Ends the reads of `stream` at `deadline`.
pub(super) fn limit_read(stream: &TcpStream, clock: &Clock, deadline: Instant) -> io::Result<()> {
    let left = deadline.since(clock.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))
}

fn request(host: &str, port: u16, proxy: &ProxyServer) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let authorization = proxy.authorization.as_deref();
    let authorization =
        authorization.map(|it| format!("Proxy-Authorization: {it}\r\n")).unwrap_or_default();
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n")
}

fn check_response(head: &[u8], proxy: &ProxyServer) -> io::Result<()> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(head) {
        Ok(Status::Complete(_)) => {}
        _ => return Err(io::Error::other("it does not speak HTTP")),
    }
    let (status, reason) = (response.code.unwrap_or_default(), response.reason.unwrap_or_default());
    match status {
        200..=299 => Ok(()),
        407 if proxy.authorization.is_some() => {
            Err(io::Error::other("it refused the user name and password (407)"))
        }
        407 => Err(io::Error::other("it requires a user name and password (407)")),
        _ => Err(io::Error::other(format!("it refused to connect ({status} {reason})"))),
    }
}
