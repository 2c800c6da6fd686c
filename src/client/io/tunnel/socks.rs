//! A tunnel through a SOCKS proxy, version 5 (RFC 1928), with a user name and password (RFC 1929).

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};

use super::Deadline;
use crate::proxy::SocksOptions;

const VERSION: u8 = 5;
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

/// Lets the proxy at the other end of `stream` connect to a host.
///
/// # Errors
///
/// What the proxy answered, if it refuses; an error of the connection.
pub(super) fn open(
    mut stream: &TcpStream,
    host: &str,
    port: u16,
    options: &SocksOptions,
    deadline: &Deadline,
) -> io::Result<()> {
    let methods: &[u8] = if options.login.is_some() { &[NO_LOGIN, LOGIN] } else { &[NO_LOGIN] };
    let count = u8::try_from(methods.len()).unwrap_or(u8::MAX);
    stream.write_all(&[&[VERSION, count], methods].concat())?;
    let [version, method] = read(stream, deadline)?;
    match (version, method, &options.login) {
        (VERSION, NO_LOGIN, _) => {}
        (VERSION, LOGIN, Some((user, password))) => {
            let mut request = vec![LOGIN_VERSION];
            push_text(&mut request, user)?;
            push_text(&mut request, password)?;
            stream.write_all(&request)?;
            let [_, status] = read(stream, deadline)?;
            if status != 0 {
                return Err(io::Error::other("it refused the user name and password"));
            }
        }
        (VERSION, NO_METHOD, None) => {
            return Err(io::Error::other("it requires a user name and password"));
        }
        (VERSION, ..) => {
            return Err(io::Error::other("it accepts neither a password nor its absence"));
        }
        _ => return Err(io::Error::other("it does not speak SOCKS, version 5")),
    }
    let mut request = vec![VERSION, CONNECT, 0];
    push_host(&mut request, host, port, options.resolves_here)?;
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request)?;
    read_reply(stream, deadline)
}

/// Reads the reply to the request, with the address that the proxy connects from.
fn read_reply(stream: &TcpStream, deadline: &Deadline) -> io::Result<()> {
    let [version, reply, _, kind] = read(stream, deadline)?;
    if version != VERSION {
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
