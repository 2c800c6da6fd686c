//! Client sockets that are bound to a local address before they connect.
//!
//! A port that is not specified is chosen by connect(2), not by bind(2), so that one local address
//! serves as many connections to each destination as there are ports (`IP_BIND_ADDRESS_NO_PORT`,
//! Linux 4.2, ip(7)).

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, SockAddr, Socket, Type};

/// Opens a socket of the family of `address`, bound to `local` if given.
///
/// Errors: those of the system, such as [`io::ErrorKind::AddrNotAvailable`] if `local` is not an
/// address of this machine.
pub(super) fn open(address: SocketAddr, local: Option<SocketAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(local) = local {
        defer_port_choice(&socket);
        socket.bind(&SockAddr::from(local))?;
    }
    Ok(socket)
}

/// Has connect(2) choose the port.
#[cfg(target_os = "linux")]
fn defer_port_choice(socket: &Socket) {
    use std::os::fd::AsRawFd;

    let on: libc::c_int = 1;
    #[expect(clippy::cast_possible_truncation, reason = "the size of an int fits a socklen_t")]
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket`, and the kernel reads `length` bytes of a
    // variable that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        )
    };
    // On failure bind(2) chooses the port, which uses up more ports.
    let _: libc::c_int = result;
}

/// Without the option, bind(2) chooses the port.
#[cfg(not(target_os = "linux"))]
const fn defer_port_choice(_socket: &Socket) {}
