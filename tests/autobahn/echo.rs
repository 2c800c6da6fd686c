//! A server that says back what it hears over WebSocket: text as text, binary data as binary data.
//!
//! It stands on what the server stands on, a shard over a ring, the link and the frames, and has
//! nothing of its own but what the server takes from its road: looking whether a text is UTF-8, and
//! inflating. Compressed messages are agreed on where a client offers them; text goes back
//! compressed, and binary data, which MCP has none of, goes back as it is.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use corelane::base::slab::Key;
use corelane::base::time::Moment;
use corelane::engine::clock::{self, Clock};
use corelane::engine::ring::poll::PollRing;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{
    Completion, Lease, Operation, Patience, Registered, Ring, RingOptions, Socket, Source, Waker,
};
use corelane::engine::shard::{Driver, Shard, Turn};
use corelane::link::listener::{self, ListenerOptions};
use corelane::link::{Ending, Frame, Framing, Link, LinkOptions, Next, Stream};
use corelane::transport::http::date::Date;
use corelane::transport::http::head::Head;
use corelane::transport::http::limits::Limits;
use corelane::transport::http::reader;
use corelane::transport::websocket::deflate::{Deflater, InflateLimits, Inflater};
use corelane::transport::websocket::handshake::{self, Accepts, Deflate};
use corelane::transport::websocket::limits::{Fault, FrameLimits};
use corelane::transport::websocket::reader::FrameReader;
use corelane::transport::websocket::{utf8, writer};

/// The ring that an echo runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Poll,
    Uring,
}

/// An echo, running on a thread of its own. Dropping it ends it.
pub(crate) struct Echo {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts it on a free port of the loopback.
    pub(crate) fn start(backend: Backend) -> Self {
        let (is_over, clock) = (Arc::new(AtomicBool::new(false)), Clock::start());
        match backend {
            Backend::Poll => Self::on(is_over, move || PollRing::new(&RING, clock)),
            Backend::Uring => Self::on(is_over, move || UringRing::new(&RING, clock)),
        }
    }

    fn on<R: Ring>(
        is_over: Arc<AtomicBool>,
        ring: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listener::listen(any, &ListenerOptions::default()).expect("a free port");
        let address = listener::local_address(&listener).expect("an address");
        let driver = EchoDriver::new(Arc::clone(&is_over));
        let (sender, wakers) = std::sync::mpsc::channel();
        // A ring stays on the thread that made it.
        let thread = thread::spawn(move || {
            let mut ring = ring().expect("a small ring");
            sender.send(ring.waker()).expect("the test waits for it");
            let registered = ring.register(Source::Listener(listener)).expect("it fits");
            let Registered::Listener(door) = registered else { panic!("a listener is one") };
            ring.submit(Operation::Accept(door));
            let mut shard = Shard::new(ring, driver);
            while shard.turn(Patience::Forever) == Turn::More {}
        });
        let waker = wakers.recv().expect("the ring is made");
        Self { address, is_over, waker, thread: Some(thread) }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the echo panicked");
    }
}

/// What a shard does for an echo. Its sessions are what was agreed on about compression.
struct EchoDriver {
    link: Link<Option<Deflate>>,
    inflater: Inflater,
    deflater: Deflater,
    /// The message that was inflated last.
    inflated: Vec<u8>,
    is_over: Arc<AtomicBool>,
}

impl EchoDriver {
    fn new(is_over: Arc<AtomicBool>) -> Self {
        Self {
            link: Link::new(LinkOptions::default()),
            inflater: Inflater::new(),
            deflater: Deflater::new(),
            inflated: Vec::new(),
            is_over,
        }
    }

    fn received<R: Ring>(&mut self, ring: &mut R, socket: Socket, lease: Lease, now: Moment) {
        let Some(key) = self.link.key(socket) else { return ring.release(lease) };
        let arrival = &mut ring.bytes(&lease)[..lease.length as usize];
        let read = if self.link.is_stashed(key) { 0 } else { self.read(key, arrival, now) };
        let is_left = read < arrival.len();
        if is_left {
            self.link.stash(key, &arrival[read..]);
        }
        ring.release(lease);
        if is_left {
            self.link.pause(ring, key);
        }
    }

    /// Reads an arrival as far as the connection is read at present, and says how far that is.
    fn read(&mut self, key: Key, arrival: &mut [u8], now: Moment) -> usize {
        let mut from = 0;
        if self.link.framing(key) == Framing::Requests {
            match self.link.next_request(key, arrival, &mut from, &Limits::default(), now) {
                reader::Next::Inside { head, start, .. } => {
                    self.upgrade(key, &head, &arrival[start..], now);
                }
                reader::Next::Assembled => {
                    let request = self.link.take_request(key).expect("it was announced");
                    self.upgrade(key, &request.head, &request.bytes, now);
                    self.link.pool.give(request.bytes);
                }
                reader::Next::NeedMore => return from,
                next => panic!("this is no upgrade: {next:?}"),
            }
        }
        let limits = FrameLimits { is_binary_allowed: true, ..FrameLimits::default() };
        loop {
            match self.link.next_frame(key, arrival, &mut from, &limits, now) {
                Frame::Inside { start, end, is_compressed } => {
                    self.answer(key, &arrival[start..end], is_compressed, now);
                }
                Frame::Assembled { is_compressed } => {
                    let (message, length) = self.link.take_message(key);
                    self.answer(key, &message[..length], is_compressed, now);
                    self.link.pool.give(message);
                }
                Frame::Broken(fault) => self.link.break_off(key, fault, now),
                Frame::Closed(_) => {}
                Frame::NeedMore => return from,
            }
        }
    }

    fn upgrade(&mut self, key: Key, head: &Head, bytes: &[u8], now: Moment) {
        let upgrade = handshake::accept(head, bytes, &Accepts { deflate: true });
        let upgrade = upgrade.expect("the suite asks as RFC 6455 wants it");
        let out = self.link.outgoing(key).expect("it has only just begun");
        handshake::write(out, &upgrade, &Date::new(clock::unix_ms() / 1000));
        let reader = match upgrade.deflate {
            Some(_) => FrameReader::compressed(),
            None => FrameReader::new(),
        };
        assert!(self.link.adopt(key, reader, now), "what asks is a connection of requests");
        self.link.connections.get_mut(key).expect("it is open").session = upgrade.deflate;
    }

    /// Says a message back, or why it is none.
    fn answer(&mut self, key: Key, message: &[u8], is_compressed: bool, now: Moment) {
        let message = if is_compressed {
            let limits = InflateLimits::default();
            match self.inflater.inflate(message, &mut self.inflated, &limits) {
                Ok(length) => &self.inflated[..length],
                Err(fault) => return self.link.break_off(key, fault, now),
            }
        } else {
            message
        };
        let is_binary = self.link.is_binary(key);
        if !is_binary && !utf8::is_text(message) {
            return self.link.break_off(key, Fault::NOT_UTF8, now);
        }
        let Some(connection) = self.link.connections.get(key) else { return };
        let deflate = connection.session;
        let Some(out) = self.link.outgoing(key) else { return };
        let mark = writer::begin(out);
        out.extend_from_slice(message);
        match deflate {
            _ if is_binary => writer::end_binary(out, mark),
            Some(agreed) => {
                let deflater = self.deflater.within(agreed.window_bits());
                writer::end_compressed(out, mark, deflater);
            }
            None => writer::end(out, mark),
        }
    }

    fn follow<R: Ring>(&mut self, ring: &mut R, next: Next, now: Moment) {
        match next {
            Next::Resume(key) => {
                let (mut bytes, from) = self.link.unstash(key);
                let read = self.read(key, &mut bytes[from..], now);
                self.link.restash(key, bytes, from + read);
                self.link.receive_again(ring, key);
            }
            Next::LastLine(key) => self.link.finish(ring, key, Ending::Peer, now),
            Next::Abandon(_) | Next::Nothing => {}
        }
    }
}

impl<R: Ring> Driver<R> for EchoDriver {
    fn arrive(&mut self, ring: &mut R, completion: Completion, now: Moment) {
        match completion {
            Completion::Accepted { socket, peer, .. } => {
                let framing = Framing::Requests;
                let stream = Stream { receive: socket, send: socket, peer, framing };
                self.link.open(ring, stream, None, now).expect("there is room for it");
            }
            Completion::Received { socket, lease } => self.received(ring, socket, lease, now),
            Completion::Sent { socket, buffer, result } => {
                let next = self.link.sent(ring, socket, buffer, &result, now);
                self.follow(ring, next, now);
            }
            Completion::Ended { socket, result } => {
                let next = self.link.ended(ring, socket, &result);
                self.follow(ring, next, now);
            }
            Completion::Closed { socket } => drop(self.link.closed(socket)),
            other => panic!("nothing was done that brings {other:?}"),
        }
    }

    fn expire(&mut self, ring: &mut R, now: Moment) {
        self.link.expire(ring, now);
    }

    fn take_letters(&mut self, _: &mut R, _: Moment) -> bool {
        false
    }

    fn run_ready(&mut self, _: &mut R, _: Moment) -> bool {
        false
    }

    fn flush(&mut self, ring: &mut R, now: Moment) {
        self.link.flush(ring, now);
    }

    fn deadline(&self) -> Option<Moment> {
        self.link.deadline()
    }

    fn prepare_park(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// A ring so small that many of them fit on a machine.
const RING: RingOptions = RingOptions {
    sockets_max: 64,
    submissions_max: 64,
    completions_max: 512,
    receive_buffers: 64,
    receive_buffer_bytes: 4096,
    burst_buffers_max: 64,
    accepts_in_flight: 2,
    zero_copy_bytes_min: u32::MAX,
};
