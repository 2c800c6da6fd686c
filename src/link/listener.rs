//! Listening: one socket a shard on the same address, the kernel deals connections out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// What a listener, and through it every connection it accepts, is set to. Defaults follow the TCP
/// contract (seed 001, section 2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerOptions {
    /// `SO_KEEPALIVE`: the kernel finds peers that vanished. Default true.
    pub keepalive: bool,
    /// `TCP_NODELAY`: answers leave at once. Without it a delayed acknowledgement may hold an
    /// answer for 40 ms. Default true.
    pub nodelay: bool,
    /// `SO_RCVBUF`. Cost: kernel memory while the peer is ahead of us. Default 64 KiB.
    pub receive_buffer_bytes: u32,
    /// `SO_SNDBUF`. Cost: kernel memory while we are ahead of the peer. Default 64 KiB.
    pub send_buffer_bytes: u32,
    /// Connections that wait in the kernel to be accepted. Default 4,096.
    pub backlog_max: u32,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            keepalive: true,
            nodelay: true,
            receive_buffer_bytes: 64 << 10,
            send_buffer_bytes: 64 << 10,
            backlog_max: 4_096,
        }
    }
}

/// Binds and listens on `address`, shared with the listeners of other shards (`SO_REUSEPORT`).
/// Options that accepted sockets inherit are set here, so that accepting costs one operation.
///
/// # Errors
///
/// The kernel's refusal with the address and, where there is one, the remedy.
pub fn listen(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    listen_plainly(address, options).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => "; another process listens there: choose another port",
            io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
            io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{remedy}"))
    })
}

fn listen_plainly(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_keepalive(options.keepalive)?;
    socket.set_tcp_nodelay(options.nodelay)?;
    socket.set_recv_buffer_size(options.receive_buffer_bytes as usize)?;
    socket.set_send_buffer_size(options.send_buffer_bytes as usize)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog_max).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// The address that a listener really has: the port that the kernel chose for port 0.
pub fn local_address(listener: &OwnedFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(listener).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_listen_on_one_address_side_by_side() {
        let options = ListenerOptions::default();
        let first = listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = local_address(&first).unwrap();
        let second = listen(address, &options).unwrap();
        assert_eq!(local_address(&second).unwrap(), address);
    }

    #[test]
    fn a_refusal_names_the_address_and_the_remedy() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address, &ListenerOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("choose another port"), "{error}");
    }
}
