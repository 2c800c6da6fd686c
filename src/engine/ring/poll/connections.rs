//! Connections that this side opens.
//!
//! What it keeps true: each attempt is answered exactly once, by a socket that is connected or by
//! the reason why there is none; an attempt that fails leaves no descriptor behind. How long an
//! attempt may take is the kernel's and the shard's business, not decided here.

use std::io;
use std::net::SocketAddr;

use polling::Poller;
use rustix::io::Errno;
use socket2::{SockAddr, SockRef};

use super::descriptor::Descriptor;
use super::streams::{Stream, Streams};
use crate::engine::ring::{Completion, Socket, bound};

/// Where an attempt leads, and the local address that it has to have.
type Route = (SocketAddr, Option<SocketAddr>);

impl Streams {
    /// Begins to connect.
    pub(super) fn connect(&mut self, poller: &Poller, route: Route, token: u64) {
        match self.dial(poller, route, token) {
            Ok(Attempt::Waiting) => {}
            Ok(Attempt::Connected(socket)) => {
                self.completed.push(Completion::Connected { token, result: Ok(socket) });
            }
            Err(error) => {
                self.completed.push(Completion::Connected { token, result: Err(error) });
            }
        }
    }

    /// The attempt is over, one way or the other: a socket that was being connected is writable.
    pub(super) fn conclude_connect(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let Some(token) = stream.connecting else { return };
        let error = match SockRef::from(&stream.descriptor).take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(error),
        };
        let result = match error {
            None => {
                stream.connecting = None;
                self.trim(poller, socket);
                Ok(socket)
            }
            Some(error) => {
                drop(self.remove(poller, socket));
                Err(error)
            }
        };
        self.completed.push(Completion::Connected { token, result });
    }

    fn dial(&mut self, poller: &Poller, (address, from): Route, token: u64) -> io::Result<Attempt> {
        let dialled = bound::open(address, from)?;
        dialled.set_tcp_nodelay(true)?;
        let descriptor = Descriptor::socket(dialled.into())?;
        let connected = SockRef::from(&descriptor).connect(&SockAddr::from(address));
        let mut stream = Stream::new(descriptor);
        match connected {
            Ok(()) => return self.open(stream).map(Attempt::Connected),
            // An interrupted attempt goes on by itself, like one that is in progress.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INPROGRESS | Errno::INTR) => {}
                _ => return Err(error),
            },
        }
        stream.connecting = Some(token);
        let socket = self.open(stream)?;
        if let Err(error) = self.watch(poller, socket) {
            drop(self.remove(poller, socket));
            return Err(error);
        }
        Ok(Attempt::Waiting)
    }
}

/// How far an attempt has come at once.
enum Attempt {
    Connected(Socket),
    Waiting,
}
