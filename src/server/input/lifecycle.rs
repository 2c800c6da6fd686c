//! Opening connections, and closing them: the end of their input, violations, closed sockets, and
//! credentials that are valid no more.
//!
//! Invariants: a connection that violated a limit closes once the error is sent; a rejected
//! connection receives the reason.
//!
//! A credential ends what was opened with it, event streams and connections of TCP and WebSocket: a
//! token expires, or its key was withdrawn. Requests are checked when they arrive; this is for
//! peers that only listen.
//!
//! At the memory limit, connections of the address that holds most are closed. Of one address, a
//! connection that holds less than another one is closed after it; what a closed one holds is freed
//! at once, except a send that the ring still owns. One that does not take its error in time is
//! reset, so that the kernel frees its part as well.

use corelane_base::slab::Key;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_parity::error::ParityError;
use corelane_protocol::error::Error;
use corelane_protocol::model;

use crate::connection::{CloseReason, Codec, PeerAddress, SocketPair};
use crate::guard::auth::AuthError;
use crate::guard::auth::proof::Proof;
use crate::server::acceptance::{ListenerKind, count_close, refusal_error};
use crate::server::auth::AuthTime;
use crate::server::calls::CancelReason;
use crate::server::connection_state::{ConnectionState, ResponseOwner, Standing};
use crate::server::memory::{Holder, short_of_memory};
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, ParityKey, PeerId};
use crate::server::shard::{
    HalfClose, Shard, Transports, freeable_bytes, half_close_refused, half_close_timeout,
    held_memory,
};
use crate::server::shard_message::{CarrierAddress, ExchangeAddress, SessionMessage};
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};

/// What is closed to free memory.
#[derive(Clone, Copy, Debug)]
enum HolderKey {
    Connection(Key),
    /// A session of the parity dialect whose client is gone.
    Session(ParityKey),
}

impl Shard {
    /// Closes a connection once its pending responses are sent.
    pub(in crate::server) fn close_gracefully<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        reason: CloseReason,
    ) {
        self.transports.connections.close_gracefully(ring, key, reason, self.now);
    }

    /// Closes a connection with a violation once its error is sent.
    #[cold]
    pub(super) fn close_violating<R: Ring>(&mut self, ring: &mut R, key: Key, reason: CloseReason) {
        self.cancel_calls(key);
        self.close_gracefully(ring, key, reason);
    }

    /// Handles the end of input: an unterminated last line counts, then calls in flight are
    /// cancelled, except those over stdio, and the connection closes as soon as no response is
    /// outstanding.
    pub(super) fn finish_input(&mut self, key: Key) {
        if !self.transports.connections.table.is_input_over(key) {
            return;
        }
        let codec = self.transports.connections.table.codec(key);
        if codec == Some(Codec::Http) {
            self.abort_exchange(key);
        }
        if let Some(line) = self.transports.connections.table.last_line(key) {
            // The input ends when a large one is dispatched.
            let Some(line) = self.parse_text(key, line) else { return };
            self.dispatch_kept_line(key, line);
            if self.dispatcher.held.contains(key) {
                // Ends when it is answered.
                return;
            }
        }
        let connection = self.transports.connections.table.get(key);
        let transport = connection.map(|connection| connection.state.transport);
        match transport {
            // Without a close frame: no response can be delivered.
            Some(Transport::WebSocket) => self.cancel_calls(key),
            Some(Transport::Tcp) => self.end_calls(key),
            Some(Transport::Http | Transport::InProcess | Transport::Stdio) | None => {}
        }
        self.cancel_streams(key);
        // Before the connection closes: an idle one closes at once.
        self.fail_client_requests(PeerId::Connection(key));
        // Requests that wait are answered before.
        if self.dispatcher.waiting.is_empty() {
            self.outbox.push(Effect::Close { key, reason: CloseReason::PeerClosed });
        }
        if transport.is_some_and(Transport::is_only_connection) {
            self.outbox.push(Effect::EndInput);
        }
    }

    /// Cancels the calls of a TCP connection whose input has ended, unless they may complete for
    /// `tcp.half_close_timeout`.
    fn end_calls(&mut self, key: Key) {
        let Transports { connections, half_closed, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get(key) else { return };
        let peer = connection.record.peer();
        if connection.pending_work.pending_responses == 0 {
            return;
        }
        match half_closed.admit(key, self.now) {
            HalfClose::Wait => {}
            HalfClose::Cancel => self.cancel_calls(key),
            HalfClose::Refuse { waiting_max } => {
                self.outbox.counters.connections.refused_half_closed += 1;
                let shard = acceptor.shard().0;
                acceptor.log(&Event::HalfCloseRefused { shard, waiting_max, peer }, self.now);
                let reason = CancelReason::Error(half_close_refused(waiting_max));
                self.fail_calls(PeerId::Connection(key), &reason);
            }
        }
    }

    /// Cancels the calls of half-closed connections whose time has passed, with an error.
    #[inline]
    pub(in crate::server) fn expire_half_closed(&mut self) {
        while let Some((key, timeout)) = self.transports.half_closed.pop_expired(self.now) {
            let reason = CancelReason::Error(half_close_timeout(timeout));
            self.fail_calls(PeerId::Connection(key), &reason);
        }
    }

    /// Closes the exchange of a disconnected client. A modern request is cancelled by that; a
    /// legacy session continues, and its client may resume the stream.
    ///
    /// Source: 2026-07-28 `basic/patterns/cancellation`; 2025-11-25 `basic/transports`.
    fn abort_exchange(&mut self, key: Key) {
        let Some(connection) = self.transports.connections.table.get(key) else { return };
        let Some(exchange) = connection.state.exchange.as_ref() else { return };
        if exchange.owner == ResponseOwner::Connection {
            self.cancel_calls(key);
        }
        self.exchanges().close(key, false);
    }

    /// Cleans up after a closed socket.
    pub(in crate::server) fn finish_close(&mut self, socket: Socket) {
        let Transports {
            connections,
            websockets,
            acceptor,
            half_closed,
            input_pool,
            holder_search,
            ..
        } = &mut self.transports;
        let Some(key) = connections.table.key_of(socket) else { return };
        if connections.table.is_input_over(key) {
            half_closed.remove(key);
        }
        let record = if Event::is_debug_enabled() {
            connections.table.get(key).map(|connection| connection.record)
        } else {
            None
        };
        let held_bytes = connections.shared.memory.held_bytes();
        let Some((mut state, reason)) = connections.handle_closed(socket) else { return };
        holder_search.record_freed(held_bytes - connections.shared.memory.held_bytes());
        input_pool.release(key, self.now);
        if let Some(mut record) = record {
            state.proxy().inspect(|proxy| record.set_peer(*proxy));
            acceptor.log_close(state.transport, &record, reason, self.now);
        }
        // Rejected connections were never counted.
        self.outbox.counters.connections.accepted += u64::from(state.standing == Standing::Silent);
        if state.standing.is_counted() {
            count_close(reason, &mut self.outbox);
        }
        if state.transport == Transport::WebSocket {
            websockets.count_connection_end(reason, state.is_closing);
        }
        acceptor.release(&state);
        if let Some(exchange) = state.exchange.take() {
            self.exchanges().release(key, &exchange, false);
        }
        if let Some(session) = state.parity_session() {
            let mut parity = self.parity_path();
            parity.detach(session);
        }
        let Self { transports: Transports { large_messages, .. }, dispatcher, outbox, now, .. } =
            self;
        let peer = Some((PeerId::Connection(key), None));
        large_messages.remove(key);
        dispatcher.held.take(key);
        dispatcher.facts.release(&mut state);
        dispatcher.deferred.fail_client_requests(peer, *now, outbox);
        dispatcher.remove_streams(&mut state.subscriptions, outbox);
        dispatcher.deferred.abandon_calls(&mut state.in_flight, outbox);
        dispatcher.deferred.tasks.table.remove_owner(PeerId::Connection(key));
        dispatcher.rate.end_session(PeerId::Connection(key));
    }
}

impl Shard {
    /// Opens a connection, or sends an error and closes it: at once if the time of a drain is over,
    /// also for the error.
    pub(in crate::server) fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        kind: ListenerKind,
        sockets: SocketPair,
    ) {
        let acceptor = &mut self.transports.acceptor;
        let (transport, socket, peer) = (kind.transport(), sockets.receive, sockets.peer);
        let trusted = &acceptor.proxies.trusted;
        // Its requests name their clients.
        let proxy = peer.filter(|_| transport == Transport::Http && trusted.has_peer(peer));
        let client = match proxy {
            Some(_) => None,
            None => peer.and_then(|peer| trusted.client_at(peer.ip())),
        };
        let shortage = ring.shortage(socket);
        if let Some(shortage) = shortage {
            acceptor.log_shortage(shortage, self.now);
        }
        let admission = self.admit_connection(kind, client, shortage);
        if let Err(reason) | Ok((_, Some(reason))) = admission {
            let acceptor = &mut self.transports.acceptor;
            acceptor.record_refusal(reason, transport, peer, self.now, &mut self.outbox);
        }
        let Ok((standing, refusal)) = admission else {
            ring.submit(Operation::Close(socket));
            return;
        };
        if standing == Standing::Silent {
            self.transports.acceptor.begin_silent();
        }
        let mut state = ConnectionState::new(transport, client, standing);
        self.dispatcher.facts.keep_proxy(&mut state, proxy.map(PeerAddress::from));
        if transport != Transport::Http {
            self.dispatcher.require_handshake(&mut state);
        }
        let Transports { acceptor, connections, .. } = &mut self.transports;
        match (connections.open_connection(ring, sockets, state, self.now), refusal) {
            (Ok(key), None) => {
                let is_accepted = standing.is_counted() && standing != Standing::Silent;
                self.outbox.counters.connections.accepted += u64::from(is_accepted);
                if matches!(standing, Standing::Undecided | Standing::Surplus) {
                    self.note_uncounted(key);
                }
                self.parity_path().begin(key);
            }
            (Ok(key), Some(reason)) => {
                self.note_uncounted(key);
                self.reject(ring, key, sockets.codec, reason);
            }
            (Err(mut state), _) => {
                // The limits were raised beyond the table, which keeps its size.
                acceptor.release(&state);
                self.dispatcher.facts.release(&mut state);
                if refusal.is_none() {
                    let reason = RefusalReason::ConnectionLimit;
                    acceptor.record_refusal(reason, transport, peer, self.now, &mut self.outbox);
                }
                ring.submit(Operation::Close(socket));
            }
        }
        let connections = &mut self.transports.connections;
        if self.phase.is_aborted()
            && let Some(key) = connections.table.key_of(socket)
        {
            connections.close(ring, key, CloseReason::Drain);
        }
    }

    /// Sends the reason to a connection that is not served, and closes it.
    pub(super) fn reject<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        codec: Codec,
        reason: RefusalReason,
    ) {
        let error = refusal_error(reason);
        self.outbox.count_error(&error);
        if codec == Codec::Http {
            self.send_closing_error(key, &error);
        } else {
            let outcome = Outcome::Error(error.kind);
            let write = |out: &mut Vec<u8>| model::write_error_response(out, None, &error, None);
            self.transports.write_message(key, outcome, &mut self.outbox, self.now, write);
        }
        self.close_gracefully(ring, key, CloseReason::Refused);
    }
}

/// Checks the credentials of all connections, if the time for it has come; those that need it are
/// verified again in this turn and the following ones. Requests that have waited too long for the
/// authorization server are read again, and refused.
pub fn end_expired_credentials(shard: &mut Shard) {
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    for key in shard.dispatcher.auth.expire(time) {
        shard.outbox.resume_reading(key);
    }
    if shard.dispatcher.auth.begins_check(shard.now) {
        check_credentials(shard, time);
    }
    shard.dispatcher.auth.begin_open(shard.now);
    while let Some(key) = shard.dispatcher.auth.next_open() {
        if !is_still_valid(shard, key, time) {
            end_authenticated(shard, key);
        }
    }
}

/// Finds the connections whose credential is to be verified again.
fn check_credentials(shard: &mut Shard, time: AuthTime) {
    let mut has_credentials = false;
    for (key, connection) in shard.transports.connections.table.iter() {
        let state = &connection.state;
        let Some(known) = state.credential() else { continue };
        has_credentials = true;
        if state.transport == Transport::Http && state.exchange.is_none() {
            continue;
        }
        if !shard.dispatcher.auth.is_current(known, time) {
            shard.dispatcher.auth.verify_later(key);
        }
    }
    if has_credentials {
        shard.dispatcher.auth.schedule_check(shard.now);
    }
}

/// Ends what was opened with the credential of a connection.
pub fn end_authenticated(shard: &mut Shard, key: Key) {
    if end_parity(shard, key) {
        return;
    }
    let reason = ParityError::token_expired("the token is no longer valid");
    shard.end_idle_stream(key, &reason);
    shard.complete_streams(key);
    let connection = shard.transports.connections.table.get(key);
    let transport = connection.map(|connection| connection.state.transport);
    if matches!(transport, Some(Transport::Tcp | Transport::WebSocket)) {
        let reason = CloseReason::InvalidCredential;
        shard.outbox.push(Effect::Close { key, reason });
    }
}

/// Ends what was begun with the token of a connection, if that is in the parity dialect: its
/// session ends it. Returns whether the connection is in that dialect.
fn end_parity(shard: &mut Shard, key: Key) -> bool {
    let Some(connection) = shard.transports.connections.table.get(key) else { return false };
    let state = &connection.state;
    if let Some(session) = state.parity_session() {
        shard.parity_path().end_expired(key, session);
        return true;
    }
    let Some(exchange) = &state.exchange else { return false };
    let ResponseOwner::Parity(session) = exchange.owner else { return false };
    let (http, serial) = (&shard.transports.http, exchange.serial);
    // During a handshake there is nothing to end, and of a complete response neither.
    if let Some(session) = session.filter(|_| !exchange.is_complete) {
        let address = ExchangeAddress { shard: shard.id, connection: key, serial };
        let carrier = CarrierAddress::Exchange(address);
        let message = SessionMessage::Expired { session, carrier };
        shard.outbox.forward(http.owner_of(session), message);
    }
    true
}

/// Verifies the credential of a connection again, unless it has sent a valid one meanwhile. One
/// that cannot be verified at the moment is checked the next time.
fn is_still_valid(shard: &mut Shard, key: Key, time: AuthTime) -> bool {
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return true };
    let (auth, facts) = (&mut shard.dispatcher.auth, &mut shard.dispatcher.facts);
    let Some(known) = connection.state.credential() else { return true };
    if auth.is_current(known, time) {
        return true;
    }
    let certificate = connection.state.certificate();
    let counters = &mut shard.outbox.counters.auth;
    let authenticated = match known.token() {
        _ if known.is_certificate() => auth.authenticate_certificate(certificate, time, counters),
        // The host answers for what it attaches.
        "" => return true,
        token => {
            let proof = Proof { certificate, key: known.key_proof() };
            // It has sent nothing: failures of its address do not count.
            auth.authenticate(token, proof, None, time, counters)
        }
    };
    match authenticated {
        Ok(credential) => {
            facts.keep_credential(&mut connection.state, Some(credential));
            true
        }
        Err(AuthError::Unavailable(_) | AuthError::Pending) => true,
        Err(_) => false,
    }
}

impl Shard {
    /// Accounts the memory of a connection after input or output. A connection with a
    /// violation closes once the error is sent.
    #[inline]
    pub(in crate::server) fn check_memory<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let mut violation = None;
        if let Some(mut entry) = self.transports.connections.entry(key) {
            entry.account_memory();
            violation = entry.connection.state.violation;
        }
        self.relieve_memory(ring);
        if let Some(reason) = violation {
            self.close_violating(ring, key, reason);
        }
    }

    /// Closes the connections that hold most, if the memory limit of the shard is exceeded.
    #[inline]
    pub(in crate::server) fn relieve_memory<R: Ring>(&mut self, ring: &mut R) {
        self.transports.tls_bytes = ring.held_bytes();
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        let limit = self.dispatcher.handlers.memory.limit();
        if self.transports.holder_search.is_due(held_bytes, limit) {
            self.free_memory(ring);
        }
    }

    /// Frees what is kept for large messages, then closes the connections that hold most, if that
    /// is not enough.
    #[cold]
    pub(in crate::server) fn free_memory<R: Ring>(&mut self, ring: &mut R) {
        self.transports.free_kept_memory(&mut self.parser);
        self.close_largest(ring);
        self.transports.tls_bytes = ring.held_bytes();
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        self.transports.holder_search.record(held_bytes);
    }

    /// Closes the connections that have to go. Cost: one pass over all connections, and a sort of
    /// those that hold something.
    ///
    /// The connections are counted anew: the account of one may be that of the turn before, and
    /// contains what the ring holds of closed ones.
    #[cold]
    fn close_largest<R: Ring>(&mut self, ring: &mut R) {
        let Self { transports, dispatcher, .. } = &*self;
        let accounted = held_memory(transports, dispatcher);
        let mut held_bytes = accounted.total() - accounted.connections - accounted.tls;
        let mut holders = Vec::new();
        for (key, connection) in transports.connections.table.iter() {
            let large_bytes = transports.large_messages.bytes_of(key);
            let bytes = freeable_bytes(connection, &dispatcher.deferred);
            if connection.is_closed() {
                held_bytes = held_bytes.saturating_sub(bytes - connection.held_bytes());
            } else {
                let tls_bytes = connection.ring_bytes(ring);
                held_bytes += connection.held_bytes() + tls_bytes;
                let bytes = bytes + large_bytes + tls_bytes;
                let key = HolderKey::Connection(key);
                holders.push(Holder { key, client: connection.state.client, bytes });
            }
        }
        holders.extend(transports.parity.detached_holders().map(
            |Holder { key, client, bytes }| Holder { key: HolderKey::Session(key), client, bytes },
        ));
        let limit = dispatcher.handlers.memory.limit();
        if !limit.is_exceeded_by(held_bytes) {
            return;
        }
        let results_bytes = accounted.blocking_results;
        for key in limit.largest_holders(held_bytes, results_bytes, holders.into_iter()) {
            match key {
                HolderKey::Connection(key) => self.close_holder(ring, key, &short_of_memory()),
                HolderKey::Session(key) => self.end_detached(key),
            }
        }
    }

    /// Ends a session of the parity dialect that waits for its client.
    fn end_detached(&mut self, key: ParityKey) {
        let Some(session) = self.transports.parity.get(key) else { return };
        let (transport, held_bytes) = (session.state.transport, session.freeable_bytes());
        self.record_relief(transport, held_bytes);
        self.parity_path().end_session(key, None);
    }

    /// Closes a connection. It receives `error` first if that does not keep what it holds.
    pub(super) fn close_holder<R: Ring>(&mut self, ring: &mut R, key: Key, error: &Error) {
        let transports = &mut self.transports;
        let connections = &mut transports.connections;
        let Some(connection) = connections.table.get_mut(key) else { return };
        let codec = connection.codec();
        let transport = connection.state.transport;
        let held_bytes = connection.held_bytes() + transports.large_messages.bytes_of(key);
        // The only connection of a server is not closed: it loses the current message.
        if transport.is_only_connection() {
            if connections.skip_line(key) {
                self.record_relief(transport, held_bytes);
                self.send_memory_error(key, codec, error);
            }
            return;
        }
        if transports.large_messages.remove(key) {
            connection.pending_work.count_response();
        }
        let holds_output = connection.queued_bytes() > held_bytes / 2;
        // The rest of an HTTP response cannot be replaced by an error.
        let is_begun = connection.sending_bytes() > 0 || codec == Codec::Http;
        // Nothing has arrived of one whose TLS handshake is in progress, and it can read nothing.
        let is_cut =
            connection.is_discarding() || connection.is_silent() || holds_output && is_begun;
        connection.state.violation = Some(CloseReason::MemoryLimit);
        let tls_bytes = connection.ring_bytes(ring);
        self.record_relief(transport, held_bytes + tls_bytes);
        self.cancel_calls(key);
        let connections = &mut self.transports.connections;
        if is_cut {
            connections.close(ring, key, CloseReason::MemoryLimit);
            return;
        }
        if holds_output {
            connections.discard_output(key);
        }
        self.send_memory_error(key, codec, error);
        self.close_gracefully(ring, key, CloseReason::MemoryLimit);
    }

    fn send_memory_error(&mut self, key: Key, codec: Codec, error: &Error) {
        if codec == Codec::Http {
            self.outbox.count_error(error);
            self.send_closing_error(key, error);
        } else {
            self.send_error(key, error);
        }
        self.transports.connections.account_memory(key);
    }

    fn record_relief(&mut self, transport: Transport, held_bytes: usize) {
        self.outbox.counters.input_errors.memory += 1;
        let acceptor = &mut self.transports.acceptor;
        let shard = acceptor.shard().0;
        acceptor.log(&Event::MemoryFreed { shard, transport, held_bytes }, self.now);
    }
}
