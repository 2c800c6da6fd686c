//! The encrypted listeners of a ring, and the handshakes of their connections. A connection whose
//! handshake is complete is one of [`Streams`].

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::id_map::IdHasher;
use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, Listener, Operation, Ring, Socket};
use corelane_engine::stream::{ByteFilter, Streams};
use corelane_tls::{ServerSide, TlsError, TlsErrorKind, TlsFilter};

use super::handshakes::{Handshake, HandshakeCounts, PendingHandshakes};
use super::listeners::{HandshakeLimit, TlsCounters, TlsLimits, TlsSlot};
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

/// The encrypted listeners and sockets of a ring.
#[derive(Debug)]
pub(super) struct TlsSockets {
    listeners: Vec<(Listener, TlsSlot)>,
    pub(super) streams: Streams<TlsFilter<ServerSide>>,
    /// Sockets whose connection was refused; the owner does not know them.
    refused: HashSet<Socket, BuildHasherDefault<IdHasher>>,
    pending: PendingHandshakes,
    handshakes: HandshakeCounts,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    events: EventThrottle,
    now: Instant,
}

impl TlsSockets {
    pub(super) fn new(limits: TlsLimits, counters: Arc<TlsCounters>) -> Self {
        Self {
            listeners: Vec::new(),
            streams: Streams::default(),
            refused: HashSet::default(),
            pending: PendingHandshakes::default(),
            handshakes: HandshakeCounts::default(),
            limits,
            counters,
            events: EventThrottle::default(),
            now: Instant::default(),
        }
    }

    /// Encrypts the connections that `listener` accepts.
    pub(super) fn add_listener(&mut self, listener: Listener, slot: TlsSlot) {
        self.listeners.push((listener, slot));
    }

    /// Returns when the next reap is due, at `now` if something waits for it.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let is_due = self.pending.is_ready() || self.streams.has_completions();
        if is_due { Some(now) } else { self.pending.next_deadline() }
    }

    /// Passes a completion on, as one of plaintext if its socket is encrypted.
    pub(super) fn handle<R: Ring>(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        self.now = now;
        match completion {
            Completion::Accepted { listener, socket, peer } => {
                let slot = self.listeners.iter().find(|(encrypted, _)| *encrypted == listener);
                if let Some(slot) = slot.map(|(_, slot)| slot.clone())
                    && let Err(limit) = self.begin(socket, peer, &slot)
                {
                    self.counters.count_refused(limit);
                    self.refused.insert(socket);
                    return ring.submit(Operation::Reset(socket));
                }
                self.streams.pass([completion]);
            }
            Completion::Received { socket, buffer } if self.streams.is_handshaking(socket) => {
                let bytes = &ring.bytes(&buffer)[..buffer.len as usize];
                let kept = self.pending.keep_input(socket, bytes);
                ring.release(buffer);
                if let Err(error) = kept {
                    self.fail(ring, socket, error);
                }
            }
            Completion::EndOfStream { socket, result } if self.streams.is_handshaking(socket) => {
                self.handle_handshake(ring, socket);
                if self.streams.is_handshaking(socket) {
                    let kind = io::ErrorKind::UnexpectedEof;
                    let closed = || io::Error::new(kind, TlsError::client_closed());
                    let error = result.err().unwrap_or_else(closed);
                    return self.end(ring, socket, TlsErrorKind::Closed, error);
                }
                self.streams.handle(ring, Completion::EndOfStream { socket, result });
            }
            Completion::Closed { socket } if self.refused.remove(&socket) => {}
            completion => {
                if let Completion::Closed { socket } = completion {
                    self.end_handshake(socket);
                }
                self.streams.handle(ring, completion);
            }
        }
    }

    /// Begins the handshake of a new connection, unless a limit is reached.
    fn begin(
        &mut self,
        socket: Socket,
        peer: Option<SocketAddr>,
        slot: &TlsSlot,
    ) -> Result<(), HandshakeLimit> {
        let address = self.limits.trusted_proxies.address_of_connection(peer);
        if self.counters.failures().is_some_and(|it| !it.admits(address, self.now)) {
            return Err(HandshakeLimit::Failures);
        }
        self.handshakes.begin(address, &self.limits)?;
        let Ok(filter) = TlsFilter::accept(&slot.current()) else {
            self.handshakes.end(address);
            return Err(HandshakeLimit::Shard);
        };
        self.streams.insert(socket, filter, Vec::new());
        let deadline = self.now.after(self.limits.handshake_timeout);
        self.pending.begin(deadline, socket, peer, address);
        Ok(())
    }

    /// Ends the count of a handshake, which is returned unless it has ended before.
    fn end_handshake(&mut self, socket: Socket) -> Option<Handshake> {
        let handshake = self.pending.end(socket)?;
        self.handshakes.end(handshake.address);
        Some(handshake)
    }

    /// Returns whether a handshake waits for its turn.
    pub(super) fn has_handshake(&self) -> bool {
        self.pending.is_ready()
    }

    /// Handles the input of the handshake whose turn it is, if there is one. The owner learns the
    /// result at the next reap.
    pub(super) fn handle_next_handshake<R: Ring>(&mut self, ring: &mut R) {
        while let Some(socket) = self.pending.pop_ready() {
            if self.streams.is_handshaking(socket) {
                return self.handle_handshake(ring, socket);
            }
        }
    }

    /// Ends the handshakes that have no time left.
    pub(super) fn end_expired<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while let Some(socket) = self.pending.pop_expired(now) {
            if self.streams.is_handshaking(socket) {
                let error = io::Error::new(io::ErrorKind::TimedOut, TlsError::client_timeout());
                self.end(ring, socket, TlsErrorKind::Timeout, error);
            }
        }
    }

    fn handle_handshake<R: Ring>(&mut self, ring: &mut R, socket: Socket) {
        let mut input = self.pending.take_input(socket);
        let first = input.first().copied().unwrap_or_default();
        let (buffer, decoded) = self.streams.decode(socket, &mut input);
        let Some(filter) = self.streams.filter(socket) else { return };
        let (is_established, has_ended) = (filter.is_established(), filter.has_ended());
        // Also if data after the handshake is invalid.
        if is_established {
            let handshake = filter.handshake();
            self.counters.count_open(handshake.is_resumed());
            let certificate = handshake.client_certificate().map(Box::from);
            self.streams.pass(
                certificate.map(|certificate| Completion::PeerCertificate { socket, certificate }),
            );
            self.streams.pass(buffer.map(|buffer| Completion::Received { socket, buffer }));
            self.end_handshake(socket);
        }
        match decoded {
            Ok(()) if is_established || !has_ended => {
                self.streams.finish_input(ring, socket);
            }
            Ok(()) => self.fail(ring, socket, TlsError::client_closed()),
            Err(error) => {
                if error.kind() == TlsErrorKind::NotTls {
                    self.streams.send_plain(ring, socket, plain_answer(first).as_bytes());
                }
                self.fail(ring, socket, error);
            }
        }
    }

    /// Ends a socket whose handshake, or what came with its end, is invalid, after an alert.
    fn fail<R: Ring>(&mut self, ring: &mut R, socket: Socket, error: TlsError) {
        let kind = error.kind();
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        self.end(ring, socket, kind, error);
    }

    /// Passes on the end of a socket, which is that of its handshake unless that is complete.
    fn end<R: Ring>(&mut self, ring: &mut R, socket: Socket, kind: TlsErrorKind, error: io::Error) {
        if let Some(handshake) = self.end_handshake(socket) {
            self.counters.count_failed(kind);
            // A probe of the port connects and closes.
            if kind != TlsErrorKind::Closed
                && let Some(failures) = self.counters.failures()
            {
                let address = self.limits.trusted_proxies.address_of_connection(handshake.peer);
                failures.record_failure(address, self.now);
            }
            let event =
                Event::TlsHandshakeFailed { peer: handshake.peer, cause: &error.to_string() };
            event.emit_within(&mut self.events, self.now);
        }
        self.streams.fail(ring, socket, error);
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
