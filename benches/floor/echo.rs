//! The floors: what the machine does when a server does nothing but say its [`Words`].
//!
//! The ring floor stands on the very backend that Corelane
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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::words::Words;

const BACKLOG: i32 = 4096;
const TOKIO_BUFFER_BYTES: usize = 4096;

/// Serves until it is killed.
pub(crate) fn serve(floor: &str, words: Words) -> io::Result<()> {
    match floor {
        "ring" => {
            let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
            serve_ring(ring, listen()?, &words)
        }
        "poll" => {
            let ring = PollRing::new(&RingOptions::default(), Clock::start())?;
            serve_ring(ring, listen()?, &words)
        }
        "tokio" => {
            let words = Arc::new(words);
            serve_tasks(move |stream| say(stream, Arc::clone(&words)))
        }
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

/// One task of tokio a connection, all of them on one thread; serves until it is killed.
pub(crate) fn serve_tasks<F>(task: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = listen()?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        eprintln!("listening tcp {address}");
        loop {
            let (stream, _) = listener.accept().await?;
            runtime.spawn(task(stream));
        }
    })
}

/// Says its words on one connection until it ends.
async fn say(mut stream: TcpStream, words: Arc<Words>) {
    let mut buffer = vec![0; TOKIO_BUFFER_BYTES];
    let (mut begun, mut answers) = (Vec::new(), Vec::new());
    while let Ok(length) = stream.read(&mut buffer).await {
        answers.clear();
        words.answer(&buffer[..length], &mut begun, &mut answers);
        if length == 0 || stream.write_all(&answers).await.is_err() {
            return;
        }
    }
}
