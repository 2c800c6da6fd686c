//! The floor of a server on a ring: what comes is answered, and that is all.
//!
//! It stands on the very backend that Corelane uses, without its driver: its cost is the kernel's
//! and the backend's. What is answered is the caller's.

use std::io;
use std::net::{SocketAddr, TcpListener};

use corelane::engine::ring::{Completion, Operation, Patience, Registered, Ring, Socket, Source};
use socket2::{Domain, Protocol, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Listens on a free port of loopback, and says so on standard error.
pub(crate) fn listen() -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    eprintln!("listening tcp {}", listener.local_addr()?);
    Ok(listener)
}

/// What a ring floor keeps of one connection.
#[derive(Debug, Default)]
struct Lane {
    /// The beginning of what is not all there.
    begun: Vec<u8>,
    /// To be said.
    answers: Vec<u8>,
    /// The other buffer, while it is not being sent.
    spare: Vec<u8>,
    sending: bool,
    touched: bool,
}

/// One send a connection and turn, one enter a turn.
///
/// `answer` gets what arrived, the beginning of what is not all there, which is its to keep, and
/// where its answers go. Serves until the process is killed.
pub(crate) fn serve<R: Ring>(
    mut ring: R,
    listener: TcpListener,
    mut answer: impl FnMut(&[u8], &mut Vec<u8>, &mut Vec<u8>),
) -> io::Result<()> {
    let Registered::Listener(door) = ring.register(Source::Listener(listener.into()))? else {
        return Err(io::Error::other("a listener was registered as a socket"));
    };
    ring.submit(Operation::Accept(door));
    let mut lanes: Vec<Lane> = Vec::new();
    let mut touched: Vec<Socket> = Vec::new();
    let mut completions = Vec::with_capacity(1024);
    loop {
        ring.park(Patience::Forever);
        ring.reap(&mut completions);
        for completion in completions.drain(..) {
            let socket = match completion {
                Completion::Accepted { socket, .. } => {
                    if lanes.len() <= socket.index() {
                        lanes.resize_with(socket.index() + 1, Lane::default);
                    }
                    lanes[socket.index()] = Lane::default();
                    ring.submit(Operation::Receive(socket));
                    continue;
                }
                Completion::Received { socket, lease } => {
                    let bytes = &ring.bytes(&lease)[..lease.length as usize];
                    let Lane { begun, answers, .. } = &mut lanes[socket.index()];
                    answer(bytes, begun, answers);
                    ring.release(lease);
                    socket
                }
                Completion::Sent { socket, buffer, .. } => {
                    let lane = &mut lanes[socket.index()];
                    lane.spare = buffer;
                    lane.spare.clear();
                    lane.sending = false;
                    socket
                }
                Completion::Ended { socket, .. } => {
                    ring.submit(Operation::Close(socket));
                    continue;
                }
                _ => continue,
            };
            let lane = &mut lanes[socket.index()];
            if !lane.touched && !lane.sending && !lane.answers.is_empty() {
                lane.touched = true;
                touched.push(socket);
            }
        }
        for socket in touched.drain(..) {
            let lane = &mut lanes[socket.index()];
            lane.touched = false;
            lane.sending = true;
            let buffer = std::mem::replace(&mut lane.answers, std::mem::take(&mut lane.spare));
            ring.submit(Operation::Send { socket, buffer, from: 0 });
        }
    }
}

/// Shows `one` what begins at each message, for it to tell the length of that message once it is
/// all there. What takes several arrivals is put together in `begun`.
#[inline]
pub(crate) fn piece_together(
    arrived: &[u8],
    begun: &mut Vec<u8>,
    mut one: impl FnMut(&[u8]) -> Option<usize>,
) {
    let is_split = !begun.is_empty();
    if is_split {
        begun.extend_from_slice(arrived);
    }
    let bytes = if is_split { begun.as_slice() } else { arrived };
    let mut from = 0;
    while let Some(length) = one(&bytes[from..]) {
        from += length;
    }
    if is_split {
        begun.drain(..from);
    } else {
        begun.extend_from_slice(&arrived[from..]);
    }
}
