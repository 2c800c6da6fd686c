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
    /// Shares the address with other servers of the same user that set it, too (`SO_REUSEPORT`).
    /// Default false.
    pub reuse_port: bool,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            keepalive: true,
            nodelay: true,
            receive_buffer_bytes: 64 << 10,
            send_buffer_bytes: 64 << 10,
            backlog_max: 4_096,
            reuse_port: false,
        }
    }
}

/// Binds and listens on `address`, for one shard. Inherited socket options are set here, so that
/// accepting costs one operation.
///
/// # Errors
///
/// The kernel's error with the address, the call and a hint; [`io::ErrorKind::AddrInUse`] if
/// another socket listens there, unless both set [`ListenerOptions::reuse_port`].
pub fn listen(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    open(address, options, options.reuse_port)
}

/// Opens the listeners of `count` shards, at least one, on the same address. The first listener
/// resolves port 0.
///
/// The kernel accepts another listener on an address only if both sockets have `SO_REUSEPORT` and
/// belong to the same user (socket(7)). The first listener gets the option after it listens: of two
/// servers that start at the same time only one passes listen(2), without a gap between check and
/// use. The listeners keep the option, because the kernel distributes connections by it. Therefore
/// an address is not protected against a process of the same user that sets `SO_REUSEPORT` on its
/// first socket, as a server with [`ListenerOptions::reuse_port`] does.
///
/// # Errors
///
/// As [`listen`].
pub fn listen_shared(
    address: SocketAddr,
    count: usize,
    options: &ListenerOptions,
) -> io::Result<Vec<OwnedFd>> {
    let first = listen(address, options)?;
    let address = local_address(&first)?;
    SockRef::from(&first).set_reuse_port(true)?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(open(address, options, true)?);
    }
    Ok(listeners)
}

/// Binds `address` without listening, and closes the socket again. Several processes may do so at
/// once, also beside a server that starts.
///
/// # Errors
///
/// As [`listen`].
#[cfg(feature = "cli")]
pub fn probe(address: SocketAddr, options: &ListenerOptions) -> io::Result<()> {
    bind_socket(address, options, options.reuse_port).map(drop).map_err(with_hint(address))
}

fn open(address: SocketAddr, options: &ListenerOptions, reuse_port: bool) -> io::Result<OwnedFd> {
    bind_and_listen(address, options, reuse_port).map_err(with_hint(address))
}

/// Returns how an error names the address and what to do.
fn with_hint(address: SocketAddr) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another server listens there: stop it, choose another port, or set \
                 tcp.reuse_port for both"
            }
            io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
            io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{hint}"))
    }
}

/// Returns how an error names the system call that failed.
fn in_call(call: &'static str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{call}: {error}"))
}

fn bind_and_listen(
    address: SocketAddr,
    options: &ListenerOptions,
    reuse_port: bool,
) -> io::Result<OwnedFd> {
    let socket = bind_socket(address, options, reuse_port)?;
    let backlog = i32::try_from(options.backlog_max).unwrap_or(i32::MAX);
    socket.listen(backlog).map_err(in_call("listen"))?;
    Ok(socket.into())
}

fn bind_socket(
    address: SocketAddr,
    options: &ListenerOptions,
    reuse_port: bool,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_keepalive(options.keepalive)?;
    socket.set_tcp_nodelay(options.nodelay)?;
    socket.set_recv_buffer_size(options.receive_buffer_bytes as usize)?;
    socket.set_send_buffer_size(options.send_buffer_bytes as usize)?;
    socket.bind(&address.into()).map_err(in_call("bind"))?;
    Ok(socket)
}

/// Returns the local address of a listener, with the port assigned by the kernel for port 0.
pub fn local_address(listener: &OwnedFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(listener).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Opens the listeners of three shards.
    fn three_shards(address: SocketAddr, options: &ListenerOptions) -> io::Result<Vec<OwnedFd>> {
        listen_shared(address, 3, options)
    }

    fn free_port() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    #[test]
    fn listeners_of_shards_share_connections_of_one_address() {
        for reuse_port in [false, true] {
            let options = ListenerOptions { reuse_port, ..ListenerOptions::default() };
            let listeners = three_shards(free_port(), &options).unwrap();
            let address = local_address(&listeners[0]).unwrap();
            for listener in &listeners {
                assert_eq!(local_address(listener).unwrap(), address);
            }
            // The kernel selects a listener by a hash of the client's port: all are selected by
            // far fewer attempts than the limit.
            let mut has_accepted = [false; 3];
            for _ in 0..10_000 {
                let client = TcpStream::connect(address).unwrap();
                let accepts = |listener| SockRef::from(listener).accept().is_ok();
                for (listener, has_accepted) in listeners.iter().zip(&mut has_accepted) {
                    *has_accepted |= accepts(listener);
                }
                drop(client);
                if has_accepted == [true; 3] {
                    break;
                }
            }
            assert_eq!(has_accepted, [true; 3]);
        }
    }

    #[test]
    fn accepted_socket_has_the_options() {
        for (is_on, bytes) in [(true, 32 << 10), (false, 64 << 10)] {
            let options = ListenerOptions {
                keepalive: is_on,
                nodelay: is_on,
                receive_buffer_bytes: bytes,
                send_buffer_bytes: bytes,
                ..ListenerOptions::default()
            };
            let listeners = listen_shared(free_port(), 1, &options).unwrap();
            let _client = TcpStream::connect(local_address(&listeners[0]).unwrap()).unwrap();
            let (socket, _) = SockRef::from(&listeners[0]).accept().unwrap();
            assert_eq!(socket.tcp_nodelay().unwrap(), is_on);
            assert_eq!(socket.keepalive().unwrap(), is_on);
            // Linux doubles the size for its own records (socket(7)).
            let sizes = [bytes as usize, 2 * bytes as usize];
            assert!(sizes.contains(&socket.recv_buffer_size().unwrap()));
            assert!(sizes.contains(&socket.send_buffer_size().unwrap()));
        }
    }

    #[test]
    fn second_server_on_address_is_rejected() {
        let options = ListenerOptions::default();
        let shared = ListenerOptions { reuse_port: true, ..options };
        for first in [&options, &shared] {
            let listeners = three_shards(free_port(), first).unwrap();
            let address = local_address(&listeners[0]).unwrap();
            let wildcard = SocketAddr::from(([0; 4], address.port()));
            for address in [address, wildcard] {
                let error = three_shards(address, &options).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
                let text = error.to_string();
                let call = if address.ip().is_unspecified() { "" } else { "bind: " };
                let expected = format!("cannot listen on {address}: {call}");
                assert!(text.starts_with(&expected), "{text}");
                assert!(text.contains("tcp.reuse_port"), "{text}");
            }
            drop(listeners);
            three_shards(address, &options).unwrap();
        }
    }

    #[test]
    fn servers_with_reuse_port_share_address() {
        let options = ListenerOptions { reuse_port: true, ..ListenerOptions::default() };
        let first = three_shards(free_port(), &options).unwrap();
        let address = local_address(&first[0]).unwrap();
        let second = three_shards(address, &options).unwrap();
        assert_eq!(local_address(&second[2]).unwrap(), address);
    }

    #[test]
    fn one_of_servers_started_together_listens() {
        let options = ListenerOptions::default();
        let address = local_address(&listen(free_port(), &options).unwrap()).unwrap();
        let barrier = Barrier::new(4);
        let start = || {
            barrier.wait();
            let result = three_shards(address, &options);
            barrier.wait();
            result.is_ok()
        };
        let started: Vec<bool> = thread::scope(|scope| {
            let servers: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            servers.into_iter().map(|server| server.join().unwrap()).collect()
        });
        assert_eq!(started.into_iter().filter(|is_listening| *is_listening).count(), 1);
    }
}
