//! A WebSocket echo server: text is returned as text, binary data as binary data.
//!
//! It runs on the server's shard loop, ring, connections and codec, and implements only what the
//! server does after them: the UTF-8 check and decompression. `permessage-deflate` is accepted if
//! offered; text is returned compressed, binary data, which MCP does not use, uncompressed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use corelane::internal::{
    CloseReason, Codec, ConnectionEvent, ConnectionOptions, Connections, ListenerOptions,
    MessageEvent, SocketPair, listener,
};
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::clock::{self, Clock};
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions, Socket,
    Source, Waker,
};
use corelane_engine::shard_loop::{Driver, ShardLoop, TurnStatus};
use corelane_transport::http::head::{Head, RequestLimits};
use corelane_transport::http::head_template::Date;
use corelane_transport::http::reader;
use corelane_transport::websocket::deflate::{Deflater, InflateLimits, Inflater};
use corelane_transport::websocket::handshake::{self, HandshakeOptions, PermessageDeflate};
use corelane_transport::websocket::limits::{FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::FrameReader;
use corelane_transport::websocket::{utf8, writer};

/// The ring backend of the echo server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Poll,
    Uring,
}

/// An echo server on its own thread; stopped when dropped.
pub(crate) struct EchoServer {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Starts the server on a free loopback port.
    pub(crate) fn start(backend: Backend) -> Self {
        let (is_over, clock) = (Arc::new(AtomicBool::new(false)), Clock::start());
        match backend {
            Backend::Poll => Self::start_on(is_over, move || PollRing::new(&RING, clock)),
            Backend::Uring => Self::start_on(is_over, move || UringRing::new(&RING, clock)),
        }
    }

    fn start_on<R: Ring>(
        is_stopped: Arc<AtomicBool>,
        ring: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listener::listen(any, &ListenerOptions::default()).expect("a free port");
        let address = listener::local_address(&listener).expect("an address");
        let driver = EchoDriver::new(Arc::clone(&is_stopped));
        let (sender, wakers) = std::sync::mpsc::channel();
        // A ring is bound to the thread that created it.
        let thread = thread::spawn(move || {
            let mut ring = ring().expect("a small ring");
            sender.send(ring.waker()).expect("the test receives the waker");
            let registered =
                ring.register(Source::Listener(listener)).expect("the listener can be registered");
            let Registered::Listener(listener) = registered else { panic!("not a listener") };
            ring.submit(Operation::Accept(listener));
            let mut shard = ShardLoop::new(ring, driver);
            while shard.run_turn(ParkTimeout::Infinite) == TurnStatus::Continue {}
        });
        let waker = wakers.recv().expect("the ring is created");
        Self { address, is_stopped, waker, thread: Some(thread) }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the echo panicked");
    }
}

/// The driver of the echo shard. The state of a connection is its negotiated compression.
struct EchoDriver {
    connections: Connections<Option<PermessageDeflate>>,
    inflater: Inflater,
    deflater: Deflater,
    /// Buffer of decompressed messages.
    inflated: Vec<u8>,
    is_stopped: Arc<AtomicBool>,
}

impl EchoDriver {
    fn new(is_stopped: Arc<AtomicBool>) -> Self {
        Self {
            connections: Connections::new(ConnectionOptions::default()),
            inflater: Inflater::new(),
            deflater: Deflater::new(),
            inflated: Vec::new(),
            is_stopped,
        }
    }

    fn handle_received<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
        now: Instant,
    ) {
        let Some(key) = self.connections.table.key_of(socket) else { return ring.release(buffer) };
        let arrival = &mut ring.bytes(&buffer)[..buffer.len as usize];
        let entry = self.connections.entry(key);
        let is_held = entry.is_some_and(|mut entry| entry.record_received(arrival.len()));
        let read = if is_held { 0 } else { self.read(key, arrival, now) };
        let has_rest = read < arrival.len();
        if has_rest {
            self.connections.append_pending_input(key, &arrival[read..]);
        }
        ring.release(buffer);
        if has_rest {
            self.connections.table.pause(ring, key);
        }
    }

    /// Processes received bytes until more are needed; returns how many were consumed.
    fn read(&mut self, key: Key, arrival: &mut [u8], now: Instant) -> usize {
        let mut from = 0;
        if self.connections.table.codec(key) == Some(Codec::Http) {
            match self.connections.next_request(
                key,
                arrival,
                &mut from,
                &RequestLimits::default(),
                now,
            ) {
                reader::RequestEvent::InPlace { head, start, .. } => {
                    self.upgrade(key, &head, &arrival[start..], now);
                }
                reader::RequestEvent::Assembled => {
                    let request =
                        self.connections.table.take_request(key).expect("the request is complete");
                    self.upgrade(key, &request.head, &request.bytes, now);
                    self.connections.shared.pool.put(request.bytes);
                }
                reader::RequestEvent::NeedMore => return from,
                next => panic!("not an upgrade request: {next:?}"),
            }
        }
        let limits = FrameLimits { is_binary_allowed: true, ..FrameLimits::default() };
        loop {
            match self.connections.next_message(key, arrival, &mut from, &limits, now) {
                MessageEvent::InPlace { start, end, is_compressed } => {
                    self.echo(key, &arrival[start..end], is_compressed, now);
                }
                MessageEvent::Assembled { is_compressed } => {
                    let message = self.connections.table.take_message(key);
                    self.echo(key, message.as_bytes(), is_compressed, now);
                    self.connections.shared.pool.put(message.into_buffer());
                }
                MessageEvent::Invalid(fault) => self.connections.fail_websocket(key, fault, now),
                MessageEvent::Closed(_) => {}
                MessageEvent::NeedMore => return from,
            }
        }
    }

    fn upgrade(&mut self, key: Key, head: &Head, bytes: &[u8], now: Instant) {
        let upgrade = handshake::check_upgrade(head, bytes, HandshakeOptions { deflate: true });
        let upgrade = upgrade.expect("a valid handshake (RFC 6455, section 4.1)");
        let out = self.connections.outgoing(key).expect("the connection is open");
        handshake::write_response(
            out,
            &upgrade,
            None,
            b"echo",
            &Date::new(clock::unix_ms() / 1000),
        );
        let reader = match upgrade.deflate {
            Some(_) => FrameReader::with_compression(),
            None => FrameReader::new(),
        };
        assert!(
            self.connections.upgrade_to_websocket(key, reader, now),
            "the connection speaks HTTP"
        );
        self.connections.table.get_mut(key).expect("the connection is open").state =
            upgrade.deflate;
    }

    /// Echoes a message, or fails the connection if it is invalid.
    fn echo(&mut self, key: Key, message: &[u8], is_compressed: bool, now: Instant) {
        let message = if is_compressed {
            let limits = InflateLimits::default();
            match self.inflater.inflate(message, &mut self.inflated, &limits) {
                Ok(length) => &self.inflated[..length],
                Err(fault) => return self.connections.fail_websocket(key, fault, now),
            }
        } else {
            message
        };
        let is_binary = self.connections.table.is_binary(key);
        if !is_binary && !utf8::is_utf8(message) {
            return self.connections.fail_websocket(key, ProtocolError::INVALID_UTF8, now);
        }
        let Some(connection) = self.connections.table.get(key) else { return };
        let deflate = connection.state;
        let Some(out) = self.connections.outgoing(key) else { return };
        let mark = writer::begin_message(out);
        out.extend_from_slice(message);
        match deflate {
            _ if is_binary => writer::end_binary_message(out, mark),
            Some(params) => {
                let deflater = self.deflater.with_window_bits(params.window_bits());
                writer::end_compressed_message(out, mark, deflater);
            }
            None => writer::end_message(out, mark),
        }
    }

    fn handle_event<R: Ring>(&mut self, ring: &mut R, next: ConnectionEvent, now: Instant) {
        match next {
            ConnectionEvent::Resume(key) => {
                let (mut bytes, from) = self.connections.table.take_pending_input(key);
                let read = self.read(key, &mut bytes[from..], now);
                self.connections.restore_pending_input(key, bytes, from + read);
                self.connections.table.resume_receive(ring, key);
            }
            ConnectionEvent::EndOfStream(key) => {
                self.connections.close_gracefully(ring, key, CloseReason::PeerClosed, now);
            }
            ConnectionEvent::Failed(_) | ConnectionEvent::None => {}
        }
    }
}

impl<R: Ring> Driver<R> for EchoDriver {
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        match completion {
            Completion::Accepted { socket, peer, .. } => {
                let framing = Codec::Http;
                let stream = SocketPair { receive: socket, send: socket, peer, codec: framing };
                self.connections
                    .open_connection(ring, stream, None, now)
                    .expect("the table has a free entry");
            }
            Completion::Received { socket, buffer } => {
                self.handle_received(ring, socket, buffer, now);
            }
            Completion::Sent { socket, buffer, result } => {
                let next = self.connections.handle_sent(ring, socket, buffer, &result, now);
                if let Some((_, next)) = next {
                    self.handle_event(ring, next, now);
                }
            }
            Completion::EndOfStream { socket, result } => {
                let next = self.connections.handle_end_of_stream(ring, socket, &result);
                self.handle_event(ring, next, now);
            }
            Completion::Closed { socket } => drop(self.connections.handle_closed(socket)),
            other => panic!("unexpected completion: {other:?}"),
        }
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        self.connections.expire_timers(ring, now);
    }

    fn receive_messages(&mut self, _: &mut R, _: Instant) -> bool {
        false
    }

    fn poll_futures(&mut self, _: &mut R, _: Instant) -> bool {
        false
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        self.connections.flush(ring, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.connections.deadline()
    }

    fn prepare_park(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

/// A small ring, because many run in parallel.
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
