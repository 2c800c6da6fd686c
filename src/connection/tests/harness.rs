//! Connections over a scripted ring with a minimal driver: it receives lines, HTTP requests or
//! WebSocket messages and responds as the test asks. Every HTTP request is upgraded to WebSocket.
//!
//! The ring records submitted operations, which the tests complete. It checks the contract of
//! `Ring`: one send per socket at a time, no operation on a socket after its close.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source, Waker,
};
use corelane_transport::http::head::RequestLimits;
use corelane_transport::http::reader;
use corelane_transport::ndjson::LineEvent;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits};
use corelane_transport::websocket::reader::FrameReader;
use corelane_transport::websocket::writer;

use super::websocket_peer;
use crate::connection::{
    CloseReason, Codec, ConnectionEvent, ConnectionOptions, Connections, MessageEvent, SocketPair,
    WebSocketFrameOptions,
};

/// The driver's reaction to each received message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reaction {
    /// Sends it back immediately.
    Echo,
    /// Counts a pending response, sent later by the test.
    Defer,
    /// Does not respond.
    Ignore,
}

/// A connection table on a scripted ring.
pub struct Harness {
    pub connections: Connections<&'static str>,
    pub ring: ScriptedRing,
    pub now: Instant,
    pub reaction: Reaction,
    /// The messages received so far.
    pub received: Vec<String>,
    /// The transport and close reason of each closed connection.
    pub closed_connections: Vec<(&'static str, CloseReason)>,
    /// Connections whose pending calls were to be cancelled.
    pub abandoned: Vec<Key>,
    /// Connections whose peer has sent a close frame, with its code.
    pub peer_closes: Vec<(Key, Option<u16>)>,
}

/// Small limits, reached within a test.
pub fn options() -> ConnectionOptions {
    ConnectionOptions {
        connections_max: 4,
        idle_timeout: Duration::from_secs(10),
        first_message_timeout: Duration::from_secs(3),
        linger_timeout: Duration::from_secs(1),
        message_bytes_max: 100,
        outgoing_bytes_max: 40,
        websocket: WebSocketFrameOptions {
            outgoing_bytes_max: 40,
            send_timeout: Duration::from_millis(500),
            first_message_timeout: Duration::from_hours(10),
            fragment_timeout: Duration::from_secs(4),
            idle_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(3),
        },
        ..ConnectionOptions::default()
    }
}

/// The driver's response to an upgrade.
pub const UPGRADE_RESPONSE: &str = "101\r\n\r\n";

/// An upgrade request.
pub const UPGRADE_REQUEST: &[u8] = b"GET /mcp/ws HTTP/1.1\r\nHost: here\r\n\r\n";

impl Harness {
    pub fn new(reaction: Reaction) -> Self {
        Self {
            connections: Connections::new(options()),
            ring: ScriptedRing::default(),
            now: Instant::from_milliseconds(1_000),
            reaction,
            received: Vec::new(),
            closed_connections: Vec::new(),
            abandoned: Vec::new(),
            peer_closes: Vec::new(),
        }
    }

    /// Opens a connection of lines over one socket.
    pub fn open(&mut self, socket: Socket) -> Key {
        self.open_pipes("tcp", socket, socket)
    }

    /// Opens an HTTP connection over one socket.
    pub fn open_http(&mut self, socket: Socket) -> Key {
        let framing = Codec::Http;
        let stream = SocketPair { receive: socket, send: socket, peer: None, codec: framing };
        self.connections.open_connection(&mut self.ring, stream, "http", self.now).unwrap()
    }

    /// Opens a WebSocket connection, after its upgrade.
    pub fn open_websocket(&mut self, socket: Socket) -> Key {
        let key = self.open_http(socket);
        self.receive(socket, UPGRADE_REQUEST);
        assert_eq!(self.drain(socket), UPGRADE_RESPONSE);
        key
    }

    /// Opens a connection of lines over two sockets.
    pub fn open_pipes(&mut self, name: &'static str, receive: Socket, send: Socket) -> Key {
        let stream = SocketPair { receive, send, peer: None, codec: Codec::Ndjson };
        self.connections.open_connection(&mut self.ring, stream, name, self.now).unwrap()
    }

    /// Feeds received bytes to the connection of `socket`.
    pub fn receive(&mut self, socket: Socket, bytes: &[u8]) {
        let Some(key) = self.connections.table.key_of(socket) else { return };
        let stashed = self.connections.entry(key).unwrap().record_received(bytes.len());
        let read = if stashed { 0 } else { self.read(key, &mut bytes.to_vec()) };
        if self.connections.append_pending_input(key, &bytes[read..]) {
            let mut entry = self.connections.entry(key).unwrap();
            entry.limit_unread_input(&mut self.ring, bytes.len());
        }
        self.connections.account_memory(key);
    }

    fn read(&mut self, key: Key, bytes: &mut [u8]) -> usize {
        let mut from = 0;
        match self.connections.table.codec(key) {
            Some(Codec::Ndjson) | None => return self.read_lines(key, bytes),
            Some(Codec::Http) => self.read_http(key, bytes, &mut from),
            Some(Codec::WebSocket) => {}
        }
        if self.connections.table.codec(key) == Some(Codec::WebSocket) {
            self.read_websocket(key, bytes, &mut from);
        }
        from
    }

    fn read_http(&mut self, key: Key, bytes: &[u8], from: &mut usize) {
        loop {
            match self.connections.next_request(
                key,
                bytes,
                from,
                &RequestLimits::default(),
                self.now,
            ) {
                reader::RequestEvent::InPlace { .. } => {}
                reader::RequestEvent::Assembled => drop(self.connections.table.take_request(key)),
                reader::RequestEvent::NeedMore => return,
                other => panic!("{other:?}"),
            }
            self.connections.outgoing(key).unwrap().extend_from_slice(UPGRADE_RESPONSE.as_bytes());
            assert!(self.connections.upgrade_to_websocket(key, FrameReader::new(), self.now));
        }
    }

    fn read_websocket(&mut self, key: Key, bytes: &mut [u8], from: &mut usize) {
        let limits = FrameLimits { message_bytes_max: 100, ..FrameLimits::default() };
        loop {
            match self.connections.next_message(key, bytes, from, &limits, self.now) {
                MessageEvent::InPlace { start, end, .. } => {
                    self.handle_message(key, &bytes[start..end]);
                }
                MessageEvent::Assembled { .. } => {
                    let mut message = self.connections.table.take_message(key);
                    self.handle_message(key, message.text().as_bytes());
                    self.connections.shared.pool.put(message.into_buffer());
                }
                MessageEvent::Closed(code) => {
                    self.peer_closes.push((key, code.map(CloseCode::as_u16)));
                }
                MessageEvent::Invalid(fault) => {
                    self.connections.fail_websocket(key, fault, self.now);
                }
                MessageEvent::NeedMore => return,
            }
        }
    }

    fn read_lines(&mut self, key: Key, bytes: &[u8]) -> usize {
        let mut from = 0;
        loop {
            match self.connections.next_line(key, bytes, &mut from, self.now) {
                LineEvent::InPlace { start, end } => self.handle_message(key, &bytes[start..end]),
                LineEvent::Assembled => {
                    let mut line = self.connections.table.take_line(key);
                    self.handle_message(key, line.text().as_bytes());
                    self.connections.shared.pool.put(line.into_buffer());
                }
                LineEvent::TooLarge => self.handle_message(key, b"too large"),
                LineEvent::NeedMore => return from,
            }
            self.connections.apply_backpressure(key);
        }
    }

    fn handle_message(&mut self, key: Key, line: &[u8]) {
        let line = String::from_utf8(line.to_vec()).unwrap();
        match self.reaction {
            Reaction::Echo => self.send_text(key, &line),
            Reaction::Defer => {
                self.connections.table.get_mut(key).unwrap().pending_work.pending_responses += 1;
            }
            Reaction::Ignore => {}
        }
        self.received.push(line);
    }

    /// Sends a text to a peer whose connection accepts output.
    pub fn send_text(&mut self, key: Key, text: &str) {
        let framing = self.connections.table.codec(key);
        let Some(out) = self.connections.outgoing(key) else { return };
        if framing == Some(Codec::WebSocket) {
            let mark = writer::begin_message(out);
            out.extend_from_slice(text.as_bytes());
            writer::end_message(out, mark);
        } else {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
    }

    /// Sends a pending response.
    pub fn send_deferred(&mut self, key: Key, line: &str) {
        self.connections.table.get_mut(key).unwrap().count_response(self.now);
        self.send_text(key, line);
        let next = self.connections.try_resume(key, self.now);
        self.handle_event(next);
    }

    /// Flushes all connections, as at the end of a turn.
    pub fn flush(&mut self) {
        self.connections.flush(&mut self.ring, self.now);
    }

    /// Completes the send in flight of `socket` with `result`.
    pub fn complete_send(&mut self, socket: Socket, result: &io::Result<usize>) {
        let (buffer, _) = self.ring.sends.remove(&socket).expect("a send is in flight");
        let next = self.connections.handle_sent(&mut self.ring, socket, buffer, result, self.now);
        if let Some((_, next)) = next {
            self.handle_event(next);
        }
    }

    /// Completes the send in flight of `socket` in full; returns its text.
    pub fn complete_send_text(&mut self, socket: Socket) -> String {
        String::from_utf8(self.complete_send_bytes(socket)).unwrap()
    }

    /// Like [`Self::complete_send_text`], for bytes.
    pub fn complete_send_bytes(&mut self, socket: Socket) -> Vec<u8> {
        let (buffer, from) = &self.ring.sends[&socket];
        let bytes = buffer[*from..].to_vec();
        self.complete_send(socket, &Ok(bytes.len()));
        bytes
    }

    /// Completes all sends until none is left; returns their text.
    pub fn drain(&mut self, socket: Socket) -> String {
        String::from_utf8(self.drain_bytes(socket)).unwrap()
    }

    /// Like [`Self::drain`], for bytes.
    pub fn drain_bytes(&mut self, socket: Socket) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.flush();
        while self.ring.sends.contains_key(&socket) {
            bytes.extend(self.complete_send_bytes(socket));
            self.flush();
        }
        bytes
    }

    /// Like [`Self::drain`], as WebSocket frames with kind and text.
    pub fn drain_frames(&mut self, socket: Socket) -> Vec<String> {
        websocket_peer::decode_frames(&self.drain_bytes(socket))
    }

    /// Completes the receive of `socket` with the end of its stream.
    pub fn complete_end_of_stream(&mut self, socket: Socket, result: &io::Result<()>) {
        self.ring.receiving.remove(&socket);
        let next = self.connections.handle_end_of_stream(&mut self.ring, socket, result);
        self.handle_event(next);
    }

    /// Completes the close of `socket`.
    pub fn complete_close(&mut self, socket: Socket) {
        assert!(self.ring.closing.remove(&socket), "{socket:?} was not closed");
        self.ring.write_shutdowns.remove(&socket);
        self.closed_connections.extend(self.connections.handle_closed(socket));
    }

    /// Advances the time and expires deadlines.
    pub fn advance_time(&mut self, span: Duration) {
        self.now = self.now.after(span);
        self.connections.expire_timers(&mut self.ring, self.now);
    }

    /// Returns the accounted memory of all connections.
    pub fn accounted_bytes(&mut self) -> usize {
        let keys: Vec<Key> = self.connections.table.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.connections.account_memory(key);
        }
        self.connections.shared.memory.held_bytes()
    }

    pub fn handle_event(&mut self, next: ConnectionEvent) {
        match next {
            ConnectionEvent::None => {}
            ConnectionEvent::Resume(key) => {
                let (mut bytes, from) = self.connections.table.take_pending_input(key);
                let read = self.read(key, &mut bytes[from..]);
                self.connections.restore_pending_input(key, bytes, from + read);
                self.connections.table.resume_receive(&mut self.ring, key);
                self.handle_end_of_stream(key);
            }
            ConnectionEvent::EndOfStream(key) => self.handle_end_of_stream(key),
            ConnectionEvent::Failed(key) => self.abandoned.push(key),
        }
    }

    fn handle_end_of_stream(&mut self, key: Key) {
        if !self.connections.table.is_input_over(key) {
            return;
        }
        if let Some(line) = self.connections.table.last_line(key) {
            self.handle_message(key, line.as_bytes());
            self.connections.shared.pool.put(line.into_buffer());
        }
        self.connections.close_gracefully(&mut self.ring, key, CloseReason::PeerClosed, self.now);
    }
}

/// The operations in flight.
#[derive(Debug, Default)]
pub struct ScriptedRing {
    /// Buffers in flight, with the start of their unsent part.
    pub sends: BTreeMap<Socket, (Vec<u8>, usize)>,
    /// Sockets that receive.
    pub receiving: BTreeSet<Socket>,
    /// Sockets whose sending side was shut down.
    pub write_shutdowns: BTreeSet<Socket>,
    /// Sockets whose close is in flight.
    pub closing: BTreeSet<Socket>,
    /// Sockets whose connection was reset.
    pub resets: BTreeSet<Socket>,
    /// Stopped receives so far.
    pub receive_stops: usize,
}

impl Ring for ScriptedRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Send { socket, buffer, offset: from } => {
                assert!(!self.closing.contains(&socket), "send after close");
                assert!(!self.write_shutdowns.contains(&socket), "send after shutdown");
                assert!(from < buffer.len(), "empty send");
                let before = self.sends.insert(socket, (buffer, from));
                assert_eq!(before, None, "second send in flight");
            }
            Operation::Receive(socket) => {
                assert!(!self.closing.contains(&socket), "receive after close");
                self.receiving.insert(socket);
            }
            Operation::StopReceive(socket) => {
                assert!(!self.closing.contains(&socket), "stop of receive after close");
                self.receive_stops += usize::from(self.receiving.remove(&socket));
            }
            Operation::ShutdownWrite(socket) => {
                assert!(!self.sends.contains_key(&socket), "shutdown with a send in flight");
                assert!(self.write_shutdowns.insert(socket), "second shutdown");
            }
            Operation::Close(socket) => {
                assert!(self.closing.insert(socket), "closed twice");
                self.receiving.remove(&socket);
            }
            Operation::Reset(socket) => {
                self.resets.insert(socket);
                self.submit(Operation::Close(socket));
            }
            Operation::Accept(_) | Operation::CloseListener(_) | Operation::Connect { .. } => {
                panic!("connections neither listen nor connect");
            }
        }
    }

    fn reap(&mut self, _: &mut Vec<Completion>) {}

    fn park(&mut self, _: ParkTimeout) -> Instant {
        panic!("connections do not park");
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, _: &ReceiveBuffer) -> &mut [u8] {
        panic!("connections do not read receive buffers");
    }

    fn release(&mut self, _: ReceiveBuffer) {
        panic!("connections hold no receive buffers");
    }

    fn describe(&self) -> String {
        "script".to_owned()
    }
}
