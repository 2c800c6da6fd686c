//! TCP listeners: one socket per shard on the same address; the kernel distributes connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Socket options of a listener, inherited by the connections it accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerOptions {
    /// `SO_KEEPALIVE`: detects dead peers. Default true.
    pub keepalive: bool,
    /// `TCP_NODELAY`: sends responses immediately. Without it delayed acknowledgements add up to
    /// 40 ms of latency. Default true.
    pub nodelay: bool,
    /// `SO_RCVBUF` in bytes. Cost: kernel memory while input is unread. Default 64 KiB.
    pub receive_buffer_bytes: u32,
    /// `SO_SNDBUF` in bytes. Cost: kernel memory while the peer reads slowly. Default 64 KiB.
    pub send_buffer_bytes: u32,
    /// Backlog of `listen(2)`. Default 4,096.
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
/// Inherited socket options are set here, so that accepting costs one operation.
///
/// # Errors
///
/// The kernel's error with the address and a hint.
pub fn listen(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    bind_and_listen(address, options).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; another process listens there: choose another port",
            io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
            io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{hint}"))
    })
}

fn bind_and_listen(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
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

/// Returns the local address of a listener, with the port assigned by the kernel for port 0.
pub fn local_address(listener: &OwnedFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(listener).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_shards_share_one_address() {
        let options = ListenerOptions::default();
        let first = listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = local_address(&first).unwrap();
        let second = listen(address, &options).unwrap();
        assert_eq!(local_address(&second).unwrap(), address);
    }

    #[test]
    fn listen_error_names_address_and_hint() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address, &ListenerOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("choose another port"), "{error}");
    }
}
