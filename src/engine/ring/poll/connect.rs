//! Outgoing connections.
//!
//! Invariants: each attempt is completed exactly once, with a connected socket or an error; a
//! failed attempt leaves no descriptor open. The kernel and the shard limit how long an attempt may
//! take.

use std::io;
use std::net::SocketAddr;

use polling::Poller;
use rustix::io::Errno;
use socket2::{SockAddr, SockRef};

use super::descriptor::Descriptor;
use super::streams::{Stream, Streams};
use crate::engine::ring::{Completion, Socket, bound_socket};

/// Remote address, and local address if one is requested.
type ConnectAddresses = (SocketAddr, Option<SocketAddr>);

impl Streams {
    /// Starts to connect.
    pub(super) fn connect(&mut self, poller: &Poller, route: ConnectAddresses, token: u64) {
        match self.start_connect(poller, route, token) {
            Ok(ConnectProgress::InProgress) => {}
            Ok(ConnectProgress::Connected(socket)) => {
                self.completed.push(Completion::Connected { token, result: Ok(socket) });
            }
            Err(error) => {
                self.completed.push(Completion::Connected { token, result: Err(error) });
            }
        }
    }

    /// Completes an attempt: a socket that was connecting has become writable.
    pub(super) fn complete_connect(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let Some(token) = stream.connecting else { return };
        let error = match SockRef::from(&stream.descriptor).take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(error),
        };
        let result = match error {
            None => {
                stream.connecting = None;
                self.reduce_interest(poller, socket);
                Ok(socket)
            }
            Some(error) => {
                drop(self.remove(poller, socket));
                Err(error)
            }
        };
        self.completed.push(Completion::Connected { token, result });
    }

    fn start_connect(
        &mut self,
        poller: &Poller,
        (address, local): ConnectAddresses,
        token: u64,
    ) -> io::Result<ConnectProgress> {
        let socket = bound_socket::open(address, local)?;
        socket.set_tcp_nodelay(true)?;
        let descriptor = Descriptor::socket(socket.into())?;
        let connected = SockRef::from(&descriptor).connect(&SockAddr::from(address));
        let mut stream = Stream::new(descriptor);
        match connected {
            Ok(()) => return self.add(stream).map(ConnectProgress::Connected),
            // An interrupted connect continues asynchronously, like one in progress.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INPROGRESS | Errno::INTR) => {}
                _ => return Err(error),
            },
        }
        stream.connecting = Some(token);
        let socket = self.add(stream)?;
        if let Err(error) = self.register(poller, socket) {
            drop(self.remove(poller, socket));
            return Err(error);
        }
        Ok(ConnectProgress::InProgress)
    }
}

/// The state of a connect attempt after the system call.
enum ConnectProgress {
    Connected(Socket),
    InProgress,
}
