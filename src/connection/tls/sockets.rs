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
use super::steps::{HandshakeStep, HandshakeSteps};
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

/// Steps of handshakes that are passed to threads, and taken from them, in one turn.
const STEPS_PER_TURN_MAX: usize = 64;

/// The encrypted listeners and sockets of a ring.
#[derive(Debug)]
pub(super) struct TlsSockets {
    listeners: Vec<(Listener, TlsSlot)>,
    /// A filter is missing while a step of its handshake is done.
    pub(super) streams: Streams<Option<TlsFilter<ServerSide>>>,
    /// Sockets whose connection was refused; the owner does not know them.
    refused: HashSet<Socket, BuildHasherDefault<IdHasher>>,
    pending: PendingHandshakes,
    handshakes: HandshakeCounts,
    steps: HandshakeSteps,
    /// Threads may have completed steps.
    has_completed: bool,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    events: EventThrottle,
    now: Instant,
}

impl TlsSockets {
    pub(super) fn new(
        limits: TlsLimits,
        counters: Arc<TlsCounters>,
        steps: HandshakeSteps,
    ) -> Self {
        Self {
            listeners: Vec::new(),
            streams: Streams::default(),
            refused: HashSet::default(),
            pending: PendingHandshakes::default(),
            handshakes: HandshakeCounts::default(),
            steps,
            has_completed: false,
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
        let is_due =
            self.pending.is_ready() || self.has_completed || self.streams.has_completions();
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
                if let Some(result) = self.pending.keep_end(socket, result) {
                    self.handle_end(ring, socket, result);
                }
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
        self.streams.insert(socket, Some(filter), Vec::new());
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

    /// Handles the input of the handshakes whose turn it is: of at most one on the shard. The owner
    /// learns the results at a later reap.
    pub(super) fn handle_next_handshakes<R: Ring>(&mut self, ring: &mut R) {
        for _ in 0..STEPS_PER_TURN_MAX {
            let Some(socket) = self.pending.pop_ready() else { return };
            if self.streams.is_handshaking(socket) && self.handle_handshake(ring, socket) {
                return;
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

    /// Handles the input of a handshake. Returns whether that was done on the shard.
    fn handle_handshake<R: Ring>(&mut self, ring: &mut R, socket: Socket) -> bool {
        let filter = self.streams.filter_mut(socket).and_then(Option::take);
        let Some(filter) = filter else { return false };
        let Some(input) = self.pending.begin_step(socket) else { return false };
        let step = Box::new(HandshakeStep {
            socket,
            number: input.number,
            address: input.address,
            filter,
            first_byte: input.bytes.first().copied().unwrap_or_default(),
            input: input.bytes,
            plaintext: Vec::new(),
            result: Ok(()),
        });
        let step = self.steps.run(step, self.now);
        step.map(|step| self.complete_step(ring, step)).is_some()
    }

    /// Completes the steps that threads have done, some in each turn.
    pub(super) fn complete_steps<R: Ring>(&mut self, ring: &mut R) {
        self.has_completed |= self.steps.has_completed();
        for _ in 0..STEPS_PER_TURN_MAX {
            if !self.has_completed {
                return;
            }
            match self.steps.pop_completed() {
                Some(step) => self.complete_step(ring, step),
                None => self.has_completed = false,
            }
        }
    }

    /// Completes a step, unless its handshake has ended meanwhile. Input that has arrived since the
    /// step began is read behind it.
    fn complete_step<R: Ring>(&mut self, ring: &mut R, mut step: Box<HandshakeStep>) {
        let socket = step.socket;
        let Some(mut input) = self.pending.end_step(socket, step.number) else { return };
        if !self.streams.is_handshaking(socket) {
            return;
        }
        let is_established = step.filter.is_established();
        if is_established && step.result.is_ok() && !input.is_empty() {
            step.input = std::mem::take(&mut input);
            step.run();
        }
        let HandshakeStep { filter, mut plaintext, result, first_byte, .. } = *step;
        let has_ended = filter.has_ended();
        let end = if is_established {
            self.open(socket, &filter, &mut plaintext)
        } else {
            self.pending.restore_input(socket, input)
        };
        if let Some(place) = self.streams.filter_mut(socket) {
            *place = Some(filter);
        }
        match result {
            Ok(()) if is_established || !has_ended => {
                self.streams.finish_input(ring, socket);
            }
            Ok(()) => self.fail(ring, socket, TlsError::client_closed()),
            Err(error) => {
                if error.kind() == TlsErrorKind::NotTls {
                    self.streams.send_plain(ring, socket, plain_answer(first_byte).as_bytes());
                }
                self.fail(ring, socket, error);
            }
        }
        if let Some(result) = end {
            self.handle_end(ring, socket, result);
        }
    }

    /// Passes on what a handshake has established, also if data after it is invalid, and what has
    /// arrived behind it. Returns the end of the stream, if that has arrived, too.
    fn open(
        &mut self,
        socket: Socket,
        filter: &TlsFilter<ServerSide>,
        plaintext: &mut Vec<u8>,
    ) -> Option<io::Result<()>> {
        let handshake = filter.handshake();
        self.counters.count_open(handshake.is_resumed());
        let certificate = handshake.client_certificates();
        self.streams.pass(
            certificate.map(|certificate| Completion::PeerCertificate { socket, certificate }),
        );
        self.streams.pass_decoded(socket, plaintext);
        self.end_handshake(socket)?.end
    }

    /// Passes on the end of a stream, which is that of its handshake unless that is complete.
    fn handle_end<R: Ring>(&mut self, ring: &mut R, socket: Socket, result: io::Result<()>) {
        if self.streams.is_handshaking(socket) {
            let kind = io::ErrorKind::UnexpectedEof;
            let closed = || io::Error::new(kind, TlsError::client_closed());
            let error = result.err().unwrap_or_else(closed);
            return self.end(ring, socket, TlsErrorKind::Closed, error);
        }
        self.streams.handle(ring, Completion::EndOfStream { socket, result });
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
