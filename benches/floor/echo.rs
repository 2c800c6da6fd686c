//! The floors: what the machine does when a server does nothing but say back what it heard, or one
//! and the same response to every request of HTTP.
//!
//! None of them knows of JSON or tools. The ring floor stands on the very backend that Corelane
//! uses, without its driver: its cost is the kernel's and the backend's. The tokio floor is what
//! the common alternative costs.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use corelane::engine::clock::Clock;
use corelane::engine::ring::poll::PollRing;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{
    Completion, Operation, Patience, Registered, Ring, RingOptions, Socket, Source,
};
use socket2::{Domain, Protocol, Type};

use crate::fixed::Fixed;

const BACKLOG: i32 = 4096;
const TOKIO_BUFFER_BYTES: usize = 4096;

/// What a floor says.
#[derive(Debug)]
pub(crate) enum Words {
    /// What it heard.
    Echo,
    /// The same response to every request.
    Fixed(Box<Fixed>),
}

impl Words {
    /// Puts what `arrived` gets on `out`. What is the beginning of something stays in `begun`.
    #[inline]
    fn answer(&self, arrived: &[u8], begun: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Self::Echo => out.extend_from_slice(arrived),
            Self::Fixed(fixed) => fixed.answer(arrived, begun, out),
        }
    }
}

/// Serves until it is killed.
pub(crate) fn serve(floor: &str, words: Words) -> io::Result<()> {
    let listener = listen()?;
    let address = listener.local_addr()?;
    match floor {
        "ring" => {
            let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
            serve_ring(ring, listener, &words)
        }
        "poll" => {
            let ring = PollRing::new(&RingOptions::default(), Clock::start())?;
            serve_ring(ring, listener, &words)
        }
        "tokio" => serve_tokio(listener, address, words),
        other => Err(io::Error::other(format!("there is no floor named {other}"))),
    }
}

fn listen() -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
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
fn serve_ring<R: Ring>(mut ring: R, listener: TcpListener, words: &Words) -> io::Result<()> {
    let address = listener.local_addr()?;
    let Registered::Listener(door) = ring.register(Source::Listener(listener.into()))? else {
        return Err(io::Error::other("a listener was registered as a socket"));
    };
    ring.submit(Operation::Accept(door));
    eprintln!("listening tcp {address}");
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
                    words.answer(bytes, begun, answers);
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

/// One task a connection, on one thread.
fn serve_tokio(listener: TcpListener, address: SocketAddr, words: Words) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    listener.set_nonblocking(true)?;
    let words = Arc::new(words);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        eprintln!("listening tcp {address}");
        loop {
            let (mut stream, _) = listener.accept().await?;
            let words = Arc::clone(&words);
            runtime.spawn(async move {
                let mut buffer = vec![0; TOKIO_BUFFER_BYTES];
                let (mut begun, mut answers) = (Vec::new(), Vec::new());
                while let Ok(length) = stream.read(&mut buffer).await {
                    answers.clear();
                    words.answer(&buffer[..length], &mut begun, &mut answers);
                    if length == 0 || stream.write_all(&answers).await.is_err() {
                        return;
                    }
                }
            });
        }
    })
}
