//! The encrypted sockets of a ring: completions of ciphertext become completions of plaintext.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, Listener, Operation, ReceiveBuffer, Ring, Socket};
use corelane_tls::{TlsError, TlsErrorKind, TlsFilter};

use super::handshake_counts::HandshakeCounts;
use super::listeners::{HandshakeLimit, TlsCounters, TlsLimits, TlsSlot};
use super::pending::PendingHandshakes;
use super::plaintexts::Plaintexts;
use super::socket::{TlsBuffers, TlsSocket};
use crate::telemetry::event::Event;
use crate::telemetry::throttle::EventThrottle;

/// The answer to a client that speaks HTTP without TLS.
const HTTP_WITHOUT_TLS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 50\r\nConnection: close\r\n\r\n\
    This port speaks TLS only: use https:// or wss://\n";
/// The answer to a client that sends JSON lines without TLS.
const LINE_WITHOUT_TLS: &str = concat!(
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#,
    r#""message":"this port speaks TLS only: use tls://"}}"#,
    "\n"
);

/// What is known of a socket.
#[derive(Debug, Default)]
enum Entry {
    /// It is not encrypted.
    #[default]
    Plain,
    /// Its connection was refused; the owner does not know it.
    Refused,
    /// It is encrypted, and has the number of its connection.
    Encrypted(Box<TlsSocket>, u64),
}

/// The encrypted listeners and sockets of a ring.
#[derive(Debug)]
pub(super) struct TlsSockets {
    listeners: Vec<(Listener, TlsSlot)>,
    /// By socket; shorter if the later ones are not encrypted.
    entries: Vec<Entry>,
    pending: PendingHandshakes,
    handshakes: HandshakeCounts,
    connections: u64,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    buffers: TlsBuffers,
    pub(super) plaintexts: Plaintexts,
    /// What the owner learns at the next reap.
    completions: Vec<Completion>,
    events: EventThrottle,
    now: Instant,
}

impl TlsSockets {
    pub(super) fn new(limits: TlsLimits, counters: Arc<TlsCounters>) -> Self {
        Self {
            listeners: Vec::new(),
            entries: Vec::new(),
            pending: PendingHandshakes::default(),
            handshakes: HandshakeCounts::default(),
            connections: 0,
            limits,
            counters,
            buffers: TlsBuffers::default(),
            plaintexts: Plaintexts::default(),
            completions: Vec::new(),
            events: EventThrottle::default(),
            now: Instant::default(),
        }
    }

    /// Encrypts the connections that `listener` accepts.
    pub(super) fn add_listener(&mut self, listener: Listener, slot: TlsSlot) {
        self.listeners.push((listener, slot));
    }

    fn socket_mut(&mut self, socket: Socket) -> Option<&mut TlsSocket> {
        match self.entries.get_mut(socket.index())? {
            Entry::Encrypted(socket, _) => Some(socket),
            Entry::Plain | Entry::Refused => None,
        }
    }

    /// Returns whether a socket is encrypted.
    pub(super) fn is_encrypted(&self, socket: Socket) -> bool {
        matches!(self.entries.get(socket.index()), Some(Entry::Encrypted(..)))
    }

    /// Returns when the next reap is due, at `now` if something waits for it.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let is_due = self.pending.is_ready() || !self.completions.is_empty();
        if is_due { Some(now) } else { self.pending.next_deadline() }
    }

    /// Passes a completion on, as one of plaintext if its socket is encrypted.
    pub(super) fn handle<R: Ring>(
        &mut self,
        ring: &mut R,
        completion: Completion,
        now: Instant,
        completions: &mut Vec<Completion>,
    ) {
        self.now = now;
        match completion {
            Completion::Accepted { listener, socket, peer } => {
                let slot = self.listeners.iter().find(|(encrypted, _)| *encrypted == listener);
                if let Some(slot) = slot.map(|(_, slot)| slot.clone())
                    && let Err(limit) = self.begin((socket, peer), &slot, now)
                {
                    self.counters.count_refused(limit);
                    self.set(socket, Entry::Refused);
                    ring.submit(Operation::Reset(socket));
                    return;
                }
                completions.push(completion);
            }
            Completion::Received { socket, buffer } if self.is_encrypted(socket) => {
                self.receive(ring, (socket, buffer), completions);
            }
            Completion::Sent { socket, buffer, result } if self.is_encrypted(socket) => {
                let Self { entries, buffers, .. } = self;
                let Some(Entry::Encrypted(entry, _)) = entries.get_mut(socket.index()) else {
                    return;
                };
                completions.extend(entry.handle_sent((ring, socket), (buffer, result), buffers));
                self.advance(ring, socket);
            }
            Completion::EndOfStream { socket, result } if self.is_encrypted(socket) => {
                self.handle_end_of_stream(ring, (socket, result), completions);
            }
            Completion::Closed { socket } => match self.take(socket) {
                Entry::Refused => {}
                Entry::Plain => completions.push(completion),
                Entry::Encrypted(mut entry, _) => {
                    if entry.end_count() {
                        self.handshakes.end(entry.client_address());
                    }
                    completions.push(completion);
                }
            },
            completion => completions.push(completion),
        }
    }

    /// Handles the end of the ciphertext, after what was received before it.
    fn handle_end_of_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, result): (Socket, io::Result<()>),
        completions: &mut Vec<Completion>,
    ) {
        let has_input = |entry: &mut TlsSocket| !entry.handshake_input().is_empty();
        if self.socket_mut(socket).is_some_and(has_input) {
            self.handle_handshake(ring, socket, completions);
        }
        let is_handshake = self.socket_mut(socket).is_some_and(|entry| entry.is_handshaking());
        let error = match result {
            Err(error) => error,
            Ok(()) if is_handshake => {
                io::Error::new(io::ErrorKind::UnexpectedEof, TlsError::client_closed())
            }
            Ok(()) => {
                let text = "the client closed the TLS connection without close_notify";
                io::Error::new(io::ErrorKind::UnexpectedEof, text)
            }
        };
        self.end(socket, Err((TlsErrorKind::Closed, error)), completions);
    }

    fn set(&mut self, socket: Socket, entry: Entry) {
        if self.entries.len() <= socket.index() {
            self.entries.resize_with(socket.index() + 1, Entry::default);
        }
        self.entries[socket.index()] = entry;
    }

    fn take(&mut self, socket: Socket) -> Entry {
        self.entries.get_mut(socket.index()).map(std::mem::take).unwrap_or_default()
    }

    /// Begins the handshake of a new connection, unless a limit is reached.
    fn begin(
        &mut self,
        (socket, peer): (Socket, Option<SocketAddr>),
        slot: &TlsSlot,
        now: Instant,
    ) -> Result<(), HandshakeLimit> {
        let address = peer.and_then(|peer| ClientAddress::new(peer.ip()));
        self.handshakes.begin(address, &self.limits)?;
        let Ok(filter) = TlsFilter::accept(&slot.current()) else {
            self.handshakes.end(address);
            return Err(HandshakeLimit::Shard);
        };
        self.connections += 1;
        self.set(
            socket,
            Entry::Encrypted(Box::new(TlsSocket::new(filter, peer)), self.connections),
        );
        self.pending.begin(now.after(self.limits.handshake_timeout), socket, self.connections);
        Ok(())
    }

    fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, mut buffer): (Socket, ReceiveBuffer),
        completions: &mut Vec<Completion>,
    ) {
        let Self { entries, buffers, pending, plaintexts, .. } = self;
        let Some(Entry::Encrypted(entry, connection)) = entries.get_mut(socket.index()) else {
            return ring.release(buffer);
        };
        let bytes = &mut ring.bytes(&buffer)[..buffer.len as usize];
        if !entry.is_open() {
            return ring.release(buffer);
        }
        if entry.is_handshaking() {
            let kept = entry.keep_handshake_input(bytes);
            ring.release(buffer);
            match kept {
                Ok(true) => pending.push_ready(socket, *connection),
                Ok(false) => {}
                Err(error) => self.fail(ring, socket, error, completions),
            }
            return;
        }
        match entry.receive(bytes, buffers) {
            Ok(Some(length)) if length > 0 => {
                // No longer than the ciphertext.
                buffer.len = u32::try_from(length).unwrap_or(buffer.len);
                completions.push(Completion::Received { socket, buffer });
            }
            Ok(Some(_)) => ring.release(buffer),
            Ok(None) => {
                ring.release(buffer);
                let buffer = plaintexts.insert(&mut buffers.scratch.plaintext);
                let received = buffer.map(|buffer| Completion::Received { socket, buffer });
                completions.extend(received);
            }
            Err(error) => {
                ring.release(buffer);
                return self.fail(ring, socket, error, completions);
            }
        }
        self.finish_input(ring, socket, completions);
    }

    /// Passes on the end of the input after `close_notify`, and sends what TLS has to send.
    fn finish_input<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        completions: &mut Vec<Completion>,
    ) {
        if self.socket_mut(socket).is_some_and(|entry| entry.filter().is_closed()) {
            self.end(socket, Ok(()), completions);
        }
        self.advance(ring, socket);
    }

    /// Moves what the owner has not learned into `completions`.
    pub(super) fn take_completions(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completions);
    }

    /// Returns whether a handshake waits for its turn.
    pub(super) fn has_handshake(&self) -> bool {
        self.pending.is_ready()
    }

    /// Handles the input of the handshake whose turn it is, if there is one. The owner learns the
    /// result at the next reap.
    pub(super) fn handle_next_handshake<R: Ring>(&mut self, ring: &mut R) {
        while let Some((socket, connection)) = self.pending.pop_ready() {
            if self.is_handshaking(socket, connection) {
                let mut completions = std::mem::take(&mut self.completions);
                self.handle_handshake(ring, socket, &mut completions);
                completions.append(&mut self.completions);
                self.completions = completions;
                return;
            }
        }
    }

    /// Ends the handshakes that have no time left.
    pub(super) fn end_expired(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        while let Some((socket, connection)) = self.pending.pop_expired(now) {
            if self.is_handshaking(socket, connection) {
                let error = io::Error::new(io::ErrorKind::TimedOut, TlsError::client_timeout());
                self.end(socket, Err((TlsErrorKind::Timeout, error)), completions);
            }
        }
    }

    fn is_handshaking(&self, socket: Socket, connection: u64) -> bool {
        matches!(self.entries.get(socket.index()), Some(Entry::Encrypted(entry, number))
            if *number == connection && entry.is_handshaking())
    }

    fn handle_handshake<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        completions: &mut Vec<Completion>,
    ) {
        let Self { entries, buffers, plaintexts, .. } = self;
        let Some(Entry::Encrypted(entry, _)) = entries.get_mut(socket.index()) else { return };
        let first = entry.handshake_input().first().copied().unwrap_or_default();
        let handled = entry.handle_handshake_input(buffers);
        // Also if data after the handshake is invalid.
        if entry.filter().is_established() && entry.end_count() {
            self.handshakes.end(entry.client_address());
            let handshake = entry.filter().handshake();
            self.counters.count_open(handshake.is_resumed());
            let certificate = handshake.client_certificate().map(Box::from);
            completions.extend(
                certificate.map(|certificate| Completion::PeerCertificate { socket, certificate }),
            );
            let buffer = plaintexts.insert(&mut buffers.scratch.plaintext);
            completions.extend(buffer.map(|buffer| Completion::Received { socket, buffer }));
        }
        match handled {
            Ok(()) if entry.filter().is_established() => {
                self.finish_input(ring, socket, completions);
            }
            Ok(()) if entry.filter().is_closed() => {
                self.fail(ring, socket, TlsError::client_closed(), completions);
            }
            Ok(()) => self.advance(ring, socket),
            Err(error) => {
                if error.kind() == TlsErrorKind::NotTls {
                    entry.answer_plain((ring, socket), plain_answer(first));
                }
                self.fail(ring, socket, error, completions);
            }
        }
    }

    /// Sends the messages of TLS, or what waits for the end of the handshake.
    fn advance<R: Ring>(&mut self, ring: &mut R, socket: Socket) {
        let Self { entries, buffers, .. } = self;
        let Some(Entry::Encrypted(entry, _)) = entries.get_mut(socket.index()) else { return };
        if let Err(error) = entry.advance((ring, socket), buffers) {
            self.fail_send(socket, error);
        }
    }

    /// The data of the owner cannot be sent: it learns so at the next reap.
    fn fail_send(&mut self, socket: Socket, error: TlsError) {
        let Some(entry) = self.socket_mut(socket) else { return };
        let failed = entry.fail_waiting(socket, io::Error::other(error));
        self.completions.extend(failed);
    }

    /// Ends a socket whose handshake or data is invalid, after an alert.
    fn fail<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        error: TlsError,
        completions: &mut Vec<Completion>,
    ) {
        self.advance(ring, socket);
        let kind = error.kind();
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        self.end(socket, Err((kind, error)), completions);
    }

    /// Passes on the end of the input, once.
    fn end(
        &mut self,
        socket: Socket,
        result: Result<(), (TlsErrorKind, io::Error)>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(Entry::Encrypted(entry, _)) = self.entries.get_mut(socket.index()) else { return };
        let (is_handshake, peer) = (!entry.filter().is_established(), entry.peer());
        if entry.end_count() {
            self.handshakes.end(entry.client_address());
        }
        if !entry.end() {
            return;
        }
        if let (true, Err((kind, error))) = (is_handshake, &result) {
            self.counters.count_failed(*kind);
            let event = Event::TlsHandshakeFailed { peer, cause: &error.to_string() };
            event.emit_within(&mut self.events, self.now);
        }
        let result = result.map_err(|(_, error)| error);
        completions.push(Completion::EndOfStream { socket, result });
    }

    /// Submits an operation of the owner on an encrypted socket.
    pub(super) fn submit<R: Ring>(&mut self, ring: &mut R, operation: Operation) {
        let (Operation::Receive(socket)
        | Operation::StopReceive(socket)
        | Operation::Send { socket, .. }
        | Operation::ShutdownWrite(socket)
        | Operation::Close(socket)
        | Operation::Reset(socket)) = operation
        else {
            return ring.submit(operation);
        };
        let Self { entries, buffers, completions, .. } = self;
        let Some(Entry::Encrypted(entry, _)) = entries.get_mut(socket.index()) else {
            return ring.submit(operation);
        };
        match operation {
            Operation::Send { buffer, offset, .. } => {
                if let Err(error) = entry.submit((ring, socket), (buffer, offset), buffers) {
                    self.fail_send(socket, error);
                }
            }
            Operation::ShutdownWrite(_) => entry.shut_down((ring, socket)),
            Operation::Close(_) | Operation::Reset(_) => {
                completions.extend(entry.close((ring, socket), operation));
            }
            operation => ring.submit(operation),
        }
    }
}

/// Returns the answer to a client that does not speak TLS, by the first byte that it has sent.
const fn plain_answer(first: u8) -> &'static str {
    match first {
        b'A'..=b'Z' => HTTP_WITHOUT_TLS,
        b'{' | b'[' => LINE_WITHOUT_TLS,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_without_tls_has_its_length() {
        let (_, body) = HTTP_WITHOUT_TLS.split_once("\r\n\r\n").unwrap();
        assert!(HTTP_WITHOUT_TLS.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert_eq!(plain_answer(b'G'), HTTP_WITHOUT_TLS);
    }
}
