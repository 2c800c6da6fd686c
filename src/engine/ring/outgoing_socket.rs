//! Sockets that connect, with the options that they have before.
//!
//! A port that is not specified is chosen by connect(2), not by bind(2), so that one local address
//! serves as many connections to each destination as there are ports (`IP_BIND_ADDRESS_NO_PORT`,
//! Linux 4.2, ip(7)).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

pub(super) const KEEPALIVE_SECONDS: u8 = 30;
pub(super) const KEEPALIVE_INTERVAL_SECONDS: u8 = 10;

/// How long nothing is received before the kernel probes the peer, if asked to.
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(KEEPALIVE_SECONDS as u64);
/// The time between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(KEEPALIVE_INTERVAL_SECONDS as u64);

/// A socket that is to connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingSocket {
    pub(super) address: SocketAddr,
    /// Address to bind before; `None` leaves it to connect(2).
    pub(super) local: Option<SocketAddr>,
    /// The kernel probes an idle peer.
    pub(super) keepalive: bool,
}

impl OutgoingSocket {
    /// Opens the socket, and binds it if it has a local address.
    ///
    /// Errors: those of the system, such as [`io::ErrorKind::AddrNotAvailable`] if the local
    /// address is not one of this machine.
    pub(super) fn open(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
        socket.set_tcp_nodelay(true)?;
        if self.keepalive {
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
            socket.set_tcp_keepalive(&keepalive.with_interval(KEEPALIVE_INTERVAL))?;
        }
        if let Some(local) = self.local {
            defer_port_choice(&socket);
            socket.bind(&SockAddr::from(local))?;
        }
        Ok(socket)
    }
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
