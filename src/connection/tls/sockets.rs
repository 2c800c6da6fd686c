//! The encrypted listeners of a ring, and the handshakes of their connections. A connection whose
//! handshake is complete is one of [`Streams`].

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::eviction::{Evictions, Scope};
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::id_map::IdHasher;
use corelane_base::time::Instant;
use corelane_engine::ring::{Completion, Listener, Operation, Ring, Socket};
use corelane_engine::stream::{ByteFilter, Streams};
use corelane_tls::{ServerSide, TlsError, TlsErrorKind, TlsFilter};

use super::handshakes::{
    EndedStep, Handshake, HandshakeCounts, HandshakeKey, PendingHandshakes, SilentClient,
};
use super::listeners::{HandshakeLimit, SILENT_FACTOR, TlsCounters, TlsLimits, TlsSlot};
use super::steps::{HandshakeStep, HandshakeSteps, StepRun, ThreadEnd};
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

/// Why a handshake ends that is one too many.
const TOO_MANY_HANDSHAKES: &str = "too many TLS handshakes (limits tls.handshakes_max and \
                                   tls.handshakes_per_address_max)";

/// The encrypted listeners and sockets of a ring.
#[derive(Debug)]
pub(super) struct TlsSockets {
    listeners: Vec<(Listener, TlsSlot)>,
    /// A filter is missing while a step of its handshake is done.
    pub(super) streams: Streams<Option<TlsFilter<ServerSide>>>,
    /// Sockets whose connection was refused; the owner does not know them.
    refused: HashSet<Socket, BuildHasherDefault<IdHasher>>,
    /// Sockets that have ended without TLS state, until they are closed; the owner knows that.
    ended: HashSet<Socket, BuildHasherDefault<IdHasher>>,
    pending: PendingHandshakes,
    /// Those from which a byte has arrived.
    handshakes: Places,
    /// Those from which none has.
    silent: Places,
    steps: HandshakeSteps,
    /// Threads may have completed steps.
    has_completed: bool,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    events: EventThrottle,
    now: Instant,
}

/// The handshakes of one kind, and which ends if there are too many.
#[derive(Debug, Default)]
struct Places {
    counts: HandshakeCounts,
    evictions: Evictions<HandshakeKey>,
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
            ended: HashSet::default(),
            pending: PendingHandshakes::default(),
            handshakes: Places::default(),
            silent: Places::default(),
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
        if is_due { Some(now) } else { self.pending.next_deadline(self.silent_max()) }
    }

    /// Returns the bytes that the sockets hold.
    #[inline]
    pub(super) const fn held_bytes(&self) -> usize {
        self.streams.held_bytes() + self.pending.held_bytes()
    }

    /// Returns the part of [`TlsSockets::held_bytes`] of one socket.
    pub(super) fn held_bytes_of(&self, socket: Socket) -> usize {
        self.streams.held_bytes_of(socket) + self.pending.held_bytes_of(socket)
    }

    const fn silent_max(&self) -> usize {
        self.limits.handshakes_max.saturating_mul(SILENT_FACTOR)
    }

    /// Submits an operation of the owner.
    #[inline]
    pub(super) fn submit<R: Ring>(&mut self, ring: &mut R, operation: Operation) {
        if self.pending.has_silent() || !self.ended.is_empty() {
            return self.submit_without_state(ring, operation);
        }
        self.submit_ending(ring, operation);
    }

    /// Submits an operation of the owner, which may be one of a connection without TLS state: what
    /// a silent one sends waits for the handshake, and one that has ended sends nothing.
    fn submit_without_state<R: Ring>(&mut self, ring: &mut R, operation: Operation) {
        match operation {
            Operation::Send { socket, buffer, .. } if self.ended.contains(&socket) => {
                let result = Err(io::ErrorKind::BrokenPipe.into());
                return self.streams.pass([Completion::Sent { socket, buffer, result }]);
            }
            Operation::Send { socket, buffer, .. }
                if let Some((address, slot)) = self.silent_of(socket)
                    && self.begin_unlimited(socket, address, &slot).is_err() =>
            {
                let result = Err(io::ErrorKind::BrokenPipe.into());
                return self.streams.pass([Completion::Sent { socket, buffer, result }]);
            }
            Operation::Close(socket) | Operation::Reset(socket)
                if self.silent_of(socket).is_some() =>
            {
                self.ended.insert(socket);
            }
            _ => {}
        }
        self.submit_ending(ring, operation);
    }

    /// Submits an operation of the owner, which ends the handshake of a socket that it closes.
    #[inline]
    fn submit_ending<R: Ring>(&mut self, ring: &mut R, operation: Operation) {
        if let Operation::Close(socket) | Operation::Reset(socket) = operation {
            self.end_handshake(socket);
        }
        self.streams.submit(ring, operation);
    }

    /// Passes a completion on, as one of plaintext if its socket is encrypted.
    pub(super) fn handle<R: Ring>(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        self.now = now;
        match completion {
            Completion::Accepted { listener, socket, peer } => {
                let slot = self.listeners.iter().find(|(encrypted, _)| *encrypted == listener);
                if let Some(slot) = slot.map(|(_, slot)| slot.clone())
                    && let Err(limit) = self.accept(ring, socket, peer, slot)
                {
                    self.counters.count_refused(limit);
                    self.refused.insert(socket);
                    return ring.submit(Operation::Reset(socket));
                }
                self.streams.pass([completion]);
            }
            Completion::Received { socket, buffer } if !self.admits_input(ring, socket) => {
                ring.release(buffer);
            }
            Completion::Received { socket, buffer } if self.streams.is_handshaking(socket) => {
                let bytes = &ring.bytes(&buffer)[..buffer.len as usize];
                let stops = self.pending.keep_input(socket, bytes);
                ring.release(buffer);
                if stops {
                    ring.submit(Operation::StopReceive(socket));
                }
            }
            Completion::EndOfStream { socket, .. } if self.ended.contains(&socket) => {}
            Completion::EndOfStream { socket, result } if self.is_in_handshake(socket) => {
                if let Some(result) = self.pending.keep_end(socket, result) {
                    self.handle_end(ring, socket, result);
                }
            }
            Completion::Closed { socket } if self.refused.remove(&socket) => {}
            completion => {
                if let Completion::Closed { socket } = completion {
                    self.end_handshake(socket);
                    self.ended.remove(&socket);
                }
                self.streams.handle(ring, completion);
            }
        }
    }

    /// Adds a new connection, which has no TLS state yet, unless a limit is reached.
    fn accept<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        peer: Option<SocketAddr>,
        slot: TlsSlot,
    ) -> Result<(), HandshakeLimit> {
        let address = self.limits.trusted_proxies.address_of_connection(peer);
        if self.counters.failures().is_some_and(|it| !it.admits(address, self.now)) {
            return Err(HandshakeLimit::Failures);
        }
        self.acquire(ring, address, true)?;
        let deadline = self.now.after(self.limits.handshake_timeout);
        let client = SilentClient { address, slot };
        self.pending.accept(self.now, deadline, socket, peer, client);
        Ok(())
    }

    /// Returns the address and the configuration of a silent connection.
    fn silent_of(&self, socket: Socket) -> Option<(Option<ClientAddress>, TlsSlot)> {
        if self.streams.is_filtered(socket) {
            return None;
        }
        self.pending.silent(socket).map(|(address, slot)| (address, slot.clone()))
    }

    /// Returns whether a connection is silent or its handshake is in progress.
    fn is_in_handshake(&self, socket: Socket) -> bool {
        self.streams.is_handshaking(socket) || self.silent_of(socket).is_some()
    }

    /// Begins the handshake of a connection whose first byte has arrived. Returns whether its input
    /// is read: not if that is one handshake too many.
    #[inline]
    fn admits_input<R: Ring>(&mut self, ring: &mut R, socket: Socket) -> bool {
        self.streams.is_filtered(socket)
            || !self.pending.has_silent() && self.ended.is_empty()
            || self.begin_silent(ring, socket)
    }

    #[cold]
    fn begin_silent<R: Ring>(&mut self, ring: &mut R, socket: Socket) -> bool {
        let Some((address, slot)) = self.silent_of(socket) else {
            return !self.ended.contains(&socket);
        };
        let acquired = self.acquire(ring, address, false);
        let begun = acquired.and_then(|()| self.begin(socket, address, &slot));
        if let Err(limit) = begun {
            self.counters.count_refused(limit);
            self.end_handshake(socket);
            self.end_socket(ring, socket, too_many_handshakes());
        }
        begun.is_ok()
    }

    /// Gives a silent connection, which counts as one that is not, its TLS state.
    fn begin(
        &mut self,
        socket: Socket,
        address: Option<ClientAddress>,
        slot: &TlsSlot,
    ) -> Result<(), HandshakeLimit> {
        let Ok(filter) = TlsFilter::accept(&slot.current()) else {
            self.handshakes.counts.end(address);
            return Err(HandshakeLimit::Shard);
        };
        self.silent.counts.end(address);
        self.streams.insert(socket, Some(filter), Vec::new());
        self.pending.begin(socket, self.now);
        Ok(())
    }

    /// Gives a silent connection TLS state because something is sent to it.
    fn begin_unlimited(
        &mut self,
        socket: Socket,
        address: Option<ClientAddress>,
        slot: &TlsSlot,
    ) -> Result<(), HandshakeLimit> {
        self.handshakes.counts.begin(address, usize::MAX, usize::MAX)?;
        self.begin(socket, address, slot)
    }

    /// Counts a connection that is silent, or one whose first byte has arrived. At a limit another
    /// one ends, if there is one that may.
    fn acquire<R: Ring>(
        &mut self,
        ring: &mut R,
        address: Option<ClientAddress>,
        is_silent: bool,
    ) -> Result<(), HandshakeLimit> {
        let Err(limit) = self.count(address, is_silent) else { return Ok(()) };
        let scope = match limit {
            HandshakeLimit::Shard => Scope::All,
            HandshakeLimit::Address => Scope::Address,
            HandshakeLimit::Failures => return Err(limit),
        };
        loop {
            let Self { pending, silent, handshakes, now, .. } = self;
            let places = if is_silent { silent } else { handshakes };
            let holders = |of| pending.holders(is_silent, of, *now);
            let victim = places.evictions.next(address, scope, *now, holders);
            let Some((socket, number)) = victim.map(|place| place.key) else { return Err(limit) };
            if pending.is_pending(socket, number) && pending.silent(socket).is_some() == is_silent {
                self.evict(ring, socket);
                return self.count(address, is_silent);
            }
        }
    }

    fn count(
        &mut self,
        address: Option<ClientAddress>,
        is_silent: bool,
    ) -> Result<(), HandshakeLimit> {
        let TlsLimits { handshakes_max, handshakes_per_address_max, .. } = self.limits;
        if is_silent {
            let per_address_max = handshakes_per_address_max.saturating_mul(SILENT_FACTOR);
            let silent_max = self.silent_max();
            self.silent.counts.begin(address, silent_max, per_address_max)
        } else {
            self.handshakes.counts.begin(address, handshakes_max, handshakes_per_address_max)
        }
    }

    /// Ends a handshake in favor of another one.
    fn evict<R: Ring>(&mut self, ring: &mut R, socket: Socket) {
        let Some(handshake) = self.end_handshake(socket) else { return };
        self.counters.count_evicted();
        let event = Event::TlsHandshakeFailed { peer: handshake.peer, cause: TOO_MANY_HANDSHAKES };
        event.emit_within(&mut self.events, self.now);
        self.end_socket(ring, socket, too_many_handshakes());
    }

    /// Ends the count of a handshake, which is returned unless it has ended before.
    fn end_handshake(&mut self, socket: Socket) -> Option<Handshake> {
        let handshake = self.pending.end(socket)?;
        let is_silent = handshake.silent.is_some();
        let places = if is_silent { &mut self.silent } else { &mut self.handshakes };
        places.counts.end(handshake.address);
        Some(handshake)
    }

    /// Passes on that nothing more is received from a socket, which may have no TLS state.
    fn end_socket<R: Ring>(&mut self, ring: &mut R, socket: Socket, error: io::Error) {
        if self.streams.is_filtered(socket) {
            return self.streams.fail(ring, socket, error);
        }
        self.ended.insert(socket);
        self.streams.pass([Completion::EndOfStream { socket, result: Err(error) }]);
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
        let silent_max = self.silent_max();
        while let Some(socket) =
            self.pending.pop_expired(now).or_else(|| self.pending.pop_silent(now, silent_max))
        {
            if self.is_in_handshake(socket) {
                let error = io::Error::new(io::ErrorKind::TimedOut, TlsError::client_timeout());
                self.end(ring, socket, TlsErrorKind::Timeout, error);
            }
        }
    }

    /// Handles the input of a handshake. Returns whether that was done on the shard.
    fn handle_handshake<R: Ring>(&mut self, ring: &mut R, socket: Socket) -> bool {
        let filter = self.streams.replace_filter(socket, None).flatten();
        let Some(filter) = filter else { return false };
        let Some(input) = self.pending.begin_step(socket, filter.heap_bytes()) else {
            return false;
        };
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
        match self.steps.run(step, self.now) {
            StepRun::Done(step) => {
                self.complete_step(ring, step);
                true
            }
            StepRun::OnThread(step) => {
                self.pending.keep_step(socket, step);
                false
            }
        }
    }

    /// Completes the steps that threads have done, some in each turn.
    pub(super) fn complete_steps<R: Ring>(&mut self, ring: &mut R) {
        self.has_completed |= self.steps.has_completed();
        for _ in 0..STEPS_PER_TURN_MAX {
            if !self.has_completed {
                return;
            }
            match self.steps.pop_completed() {
                Some(ThreadEnd::Completed(step)) => self.complete_step(ring, step),
                Some(ThreadEnd::Panicked { socket, number }) => {
                    self.end_panicked(ring, socket, number);
                }
                None => self.has_completed = false,
            }
        }
    }

    /// Completes a step, unless its handshake has ended meanwhile. Input that has arrived since the
    /// step began is read behind it.
    fn complete_step<R: Ring>(&mut self, ring: &mut R, mut step: Box<HandshakeStep>) {
        let socket = step.socket;
        let Some(ended) = self.pending.end_step(socket, step.number) else { return };
        let EndedStep { mut input, resumes } = ended;
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
        self.streams.replace_filter(socket, Some(filter));
        match result {
            Ok(()) if is_established || !has_ended => {
                self.streams.finish_input(ring, socket);
                if resumes {
                    ring.submit(Operation::Receive(socket));
                }
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

    /// Ends a handshake whose step has panicked, unless it has ended meanwhile.
    #[cold]
    fn end_panicked<R: Ring>(&mut self, ring: &mut R, socket: Socket, number: u64) {
        if self.pending.end_step(socket, number).is_some() && self.streams.is_handshaking(socket) {
            self.fail(ring, socket, TlsError::panicked());
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
        if self.is_in_handshake(socket) {
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
            // A probe of the port connects and closes; a silent client may have no time because of
            // others.
            if kind != TlsErrorKind::Closed
                && handshake.silent.is_none()
                && let Some(failures) = self.counters.failures()
            {
                let address = self.limits.trusted_proxies.address_of_connection(handshake.peer);
                failures.record_failure(address, self.now);
            }
            let event =
                Event::TlsHandshakeFailed { peer: handshake.peer, cause: &error.to_string() };
            event.emit_within(&mut self.events, self.now);
        }
        self.end_socket(ring, socket, error);
    }
}

fn too_many_handshakes() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, TOO_MANY_HANDSHAKES)
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
