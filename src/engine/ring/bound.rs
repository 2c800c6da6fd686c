//! A stream socket with a local address, before it is connected.
//!
//! What it keeps true: a port that nobody named is chosen when the socket connects, not when it is
//! bound, so that one local address serves as many connections to each destination as there are
//! ports, and not to all of them together (`IP_BIND_ADDRESS_NO_PORT`, Linux 4.2, ip(7)).

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, SockAddr, Socket, Type};

/// A socket that will connect to an address of the family of `address`, bound to `from` where that
/// is given.
///
/// Errors: what the system says; [`io::ErrorKind::AddrNotAvailable`] where `from` is not ours.
pub(super) fn open(address: SocketAddr, from: Option<SocketAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(from) = from {
        put_off_port(&socket);
        socket.bind(&SockAddr::from(from))?;
    }
    Ok(socket)
}

/// Has the kernel choose the port when the socket connects.
#[cfg(target_os = "linux")]
fn put_off_port(socket: &Socket) {
    use std::os::fd::AsRawFd;

    let on: libc::c_int = 1;
    #[expect(clippy::cast_possible_truncation, reason = "the size of an int fits a socklen_t")]
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket`, and the kernel reads `length` bytes of a
    // variable that outlives the call.
    let refusal = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        )
    };
    // A refusal costs ports, nothing else: the bind then chooses one.
    let _: libc::c_int = refusal;
}

/// Elsewhere the bind chooses the port.
#[cfg(not(target_os = "linux"))]
const fn put_off_port(_socket: &Socket) {}
