//! A relay of connections that a test can break, or that breaks them after a number of bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread;

#[expect(clippy::disallowed_types, reason = "a test, whose threads share what they break")]
type Mutex<T> = std::sync::Mutex<T>;

/// Passes connections to a server; its threads run until the end of the test.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    server: SocketAddr,
    /// Bytes of the server after which each of the next connections is broken.
    breaks: Vec<usize>,
    open: Vec<TcpStream>,
}

impl Relay {
    /// Listens on a free port. The first connections are broken after these numbers of bytes of the
    /// server.
    pub(crate) fn start(server: SocketAddr, breaks: &[usize]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let breaks = breaks.iter().rev().copied().collect();
        let shared = Arc::new(Mutex::new(Shared { server, breaks, open: Vec::new() }));
        let relay = Self { address, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                // A server that is restarting refuses.
                let Ok(server) = TcpStream::connect(shared.server) else { continue };
                let bytes_max = shared.breaks.pop().unwrap_or(usize::MAX);
                shared.open.extend([clone(&client), clone(&server)]);
                pass(&client, &server, usize::MAX);
                pass(&server, &client, bytes_max);
            }
        });
        relay
    }

    /// Returns the target of a client.
    pub(crate) fn target(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// Breaks the open connections. Later ones go to `server`.
    pub(crate) fn break_connections(&self, server: SocketAddr) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.server = server;
        for socket in shared.open.drain(..) {
            // Either end may have closed.
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Passes the first connection of a Unix socket at `path` to a server. Returns the target of a
/// client.
pub(crate) fn unix_relay(path: &Path, server: SocketAddr) -> String {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a connection");
        let mut server = TcpStream::connect(server).expect("a server");
        let (mut requests, mut to_server) = (clone_unix(&client), clone(&server));
        thread::spawn(move || {
            // Either end may close.
            io::copy(&mut requests, &mut to_server).ok();
            to_server.shutdown(Shutdown::Write).ok();
        });
        io::copy(&mut server, &mut client).ok();
        client.shutdown(Shutdown::Write).ok();
    });
    format!("unix:{}", path.display())
}

fn clone_unix(socket: &UnixStream) -> UnixStream {
    socket.try_clone().expect("a descriptor")
}

fn clone(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("a descriptor")
}

/// Passes bytes in one direction; breaks the connection after `bytes_max`.
fn pass(from: &TcpStream, to: &TcpStream, bytes_max: usize) {
    let (mut from, mut to) = (clone(from), clone(to));
    thread::spawn(move || {
        // Either end may close.
        io::copy(&mut Read::by_ref(&mut from).take(bytes_max as u64), &mut to).ok();
        to.flush().ok();
        to.shutdown(Shutdown::Write).ok();
        if bytes_max < usize::MAX {
            from.shutdown(Shutdown::Both).ok();
        }
    });
}
