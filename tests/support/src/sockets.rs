//! Blocking sockets and pipes with timeouts.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, SockRef, Socket, Type};

use crate::TIMEOUT;

/// Connects a socket with timeouts.
pub fn connect(address: SocketAddr) -> TcpStream {
    with_timeouts(TcpStream::connect(address).expect("connection is accepted"))
}

/// Like [`connect`], with socket buffers of about `bytes` in each direction.
pub fn connect_with_buffers(address: SocketAddr, bytes: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket is created");
    socket.set_recv_buffer_size(bytes).expect("SO_RCVBUF is set");
    socket.set_send_buffer_size(bytes).expect("SO_SNDBUF is set");
    socket.connect(&address.into()).expect("connection is accepted");
    with_timeouts(socket.into())
}

/// Like [`connect`], from the local address `from`, such as 127.0.0.2: on Linux every address of
/// 127.0.0.0/8 is local.
pub fn connect_from(from: IpAddr, address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket is created");
    socket.bind(&SocketAddr::new(from, 0).into()).expect("address is local");
    socket.connect(&address.into()).expect("connection is accepted");
    with_timeouts(socket.into())
}

fn with_timeouts(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).expect("TCP_NODELAY is set");
    stream.set_read_timeout(Some(TIMEOUT)).expect("SO_RCVTIMEO is set");
    stream.set_write_timeout(Some(TIMEOUT)).expect("SO_SNDTIMEO is set");
    stream
}

/// Shuts down the sending side; data can still be received.
pub(crate) fn shutdown_write(socket: &TcpStream) {
    socket.shutdown(Shutdown::Write).expect("connection is open");
}

/// Closes the connection of a socket with a TCP reset when the socket is dropped.
pub(crate) fn reset_on_close(socket: &TcpStream) {
    SockRef::from(socket).set_linger(Some(Duration::ZERO)).expect("SO_LINGER is set");
}

/// Waits until a pipe has data or has ended.
pub fn wait_until_readable(pipe: impl AsFd) -> io::Result<()> {
    let timeout = Timespec::try_from(TIMEOUT).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timeout))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// A proxy whose address is known before the server behind it starts; runs until the end of the
/// test.
pub struct Front {
    address: SocketAddr,
    behind: Sender<SocketAddr>,
}

impl Front {
    /// Listens on a free port. Connections wait until [`Front::open`].
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (behind, opened) = channel();
        thread::spawn(move || {
            let Ok(behind) = opened.recv() else { return };
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(behind)) else { return };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                    let (mut from, mut to) = (clone(from), clone(to));
                    thread::spawn(move || {
                        // Either end may close.
                        io::copy(&mut from, &mut to).ok();
                        to.shutdown(Shutdown::Write).ok();
                    });
                }
            }
        });
        Self { address, behind }
    }

    /// Passes connections to the server at this address.
    pub fn open(&self, behind: SocketAddr) {
        self.behind.send(behind).expect("the proxy runs");
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}
