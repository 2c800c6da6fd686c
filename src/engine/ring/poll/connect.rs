//! Outgoing connections.
//!
//! Invariants: each attempt is completed exactly once, with a connected socket or an error; a
//! failed attempt leaves no descriptor open. The kernel and the shard limit how long an attempt may
//! take.

use std::io;

use polling::Poller;
use rustix::io::Errno;
use socket2::{SockAddr, SockRef};

use super::descriptor::Descriptor;
use super::streams::{Stream, Streams};
use crate::ring::outgoing_socket::OutgoingSocket;
use crate::ring::{Completion, Socket};

/// Starts to connect.
pub(super) fn start(
    poller: &Poller,
    streams: &mut Streams,
    outgoing: &OutgoingSocket,
    token: u64,
    completed: &mut Vec<Completion>,
) {
    match open(poller, streams, outgoing, token) {
        Ok(ConnectProgress::InProgress) => {}
        Ok(ConnectProgress::Connected(socket)) => {
            completed.push(Completion::Connected { token, result: Ok(socket) });
        }
        Err(error) => completed.push(Completion::Connected { token, result: Err(error) }),
    }
}

/// Completes an attempt: a socket that was connecting has become writable.
pub(super) fn complete(
    poller: &Poller,
    streams: &mut Streams,
    socket: Socket,
    completed: &mut Vec<Completion>,
) {
    let Some(stream) = streams.find(socket) else { return };
    let Some(token) = stream.connecting else { return };
    let error = match SockRef::from(&stream.descriptor).take_error() {
        Ok(None) => None,
        Ok(Some(error)) | Err(error) => Some(error),
    };
    let result = match error {
        None => {
            stream.connecting = None;
            streams.reduce_interest(poller, socket);
            Ok(socket)
        }
        Some(error) => {
            drop(streams.remove(poller, socket));
            Err(error)
        }
    };
    completed.push(Completion::Connected { token, result });
}

fn open(
    poller: &Poller,
    streams: &mut Streams,
    outgoing: &OutgoingSocket,
    token: u64,
) -> io::Result<ConnectProgress> {
    let descriptor = Descriptor::socket(outgoing.open()?.into())?;
    let connected = SockRef::from(&descriptor).connect(&SockAddr::from(outgoing.address));
    let mut stream = Stream::new(descriptor);
    match connected {
        Ok(()) => return streams.add(stream).map(ConnectProgress::Connected),
        // An interrupted connect continues asynchronously, like one in progress.
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INPROGRESS | Errno::INTR) => {}
            _ => return Err(error),
        },
    }
    stream.connecting = Some(token);
    let socket = streams.add(stream)?;
    if let Err(error) = streams.register(poller, socket) {
        drop(streams.remove(poller, socket));
        return Err(error);
    }
    Ok(ConnectProgress::InProgress)
}

/// The state of a connect attempt after the system call.
enum ConnectProgress {
    Connected(Socket),
    InProgress,
}
