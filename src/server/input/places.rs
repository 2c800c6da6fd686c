//! The places of connections: a connection is silent until its first byte, and then takes a place
//! among those of its transport.
//!
//! Invariants: a silent connection has no place, so that many of them keep no client from one that
//! sends at once; there are so many at most, and a new one ends the oldest of the network with
//! most. Where clients are authenticated, a part of the places is left to them: at the limit of the
//! others the first request decides, over TCP the first message.

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_engine::ring::{Ring, Shortage};

use crate::connection::{CloseReason, Codec};
use crate::server::acceptance::ListenerKind;
use crate::server::connection_state::Standing;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::label::{RefusalReason, Transport};

/// Silent connections of a shard that are few: they are no reason why sockets are short.
const SILENT_FEW: usize = 64;

impl Shard {
    /// Decides about a new connection. If it is not served, it may stay open for an error response,
    /// or until its first request decides about it; returns its standing, and why it is rejected.
    ///
    /// # Errors
    ///
    /// The reason to close it without a response.
    pub(super) fn admit_connection(
        &mut self,
        kind: ListenerKind,
        client: Option<ClientAddress>,
        shortage: Option<Shortage>,
    ) -> Result<(Standing, Option<RefusalReason>), RefusalReason> {
        let admitted = match self.transports.acceptor.admit(kind, client, shortage, self.now) {
            Ok(Standing::Silent) => self.admit_silent(kind.transport(), client),
            Err(RefusalReason::Descriptors)
                if self.transports.acceptor.silent() > SILENT_FEW && self.evict_silent(client) =>
            {
                Ok(Standing::Silent)
            }
            admitted => admitted,
        };
        match admitted {
            Ok(standing) => Ok((standing, None)),
            Err(reason) => self.admit_uncounted(kind, reason, shortage),
        }
    }

    /// Returns the standing of a new connection that has sent nothing.
    fn admit_silent(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
    ) -> Result<Standing, RefusalReason> {
        let Transports { connections, acceptor, .. } = &self.transports;
        if acceptor.silent() >= connections.shared.options.silent_max && !self.evict_silent(client)
        {
            return Err(RefusalReason::ConnectionLimit);
        }
        // A client over TCP may wait for what the server has to say.
        if transport == Transport::Tcp
            && !self.dispatcher.auth.requires_tokens()
            && let Err(reached) = self.transports.acceptor.check(transport, client)
            && !self.has_idle(transport, client, reached)
        {
            return Err(reached);
        }
        Ok(Standing::Silent)
    }

    /// Decides about a connection that is not served for `reason`.
    fn admit_uncounted(
        &mut self,
        kind: ListenerKind,
        reason: RefusalReason,
        shortage: Option<Shortage>,
    ) -> Result<(Standing, Option<RefusalReason>), RefusalReason> {
        let needs_token = self.dispatcher.auth.requires_tokens();
        if let Some(excess) = self.excess_uncounted(kind, reason, shortage, needs_token) {
            self.evict(excess);
        }
        self.transports.acceptor.admit_uncounted(kind, reason, shortage, needs_token)
    }

    /// Gives a connection its place, since its first byte has arrived. One that gets none is
    /// rejected, unless its first request decides.
    #[cold]
    pub(super) fn take_place<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Some(connection) = self.transports.connections.table.get(key) else { return };
        let state = &connection.state;
        if state.standing != Standing::Silent {
            return;
        }
        let (transport, client) = (state.transport, state.counted_address());
        let acceptor = &mut self.transports.acceptor;
        acceptor.end_silent();
        let acquired = acceptor.acquire(transport, client, false).or_else(|reached| {
            self.evict_idle(transport, client, reached);
            self.transports.acceptor.acquire(transport, client, false)
        });
        let (standing, refusal) = match acquired {
            Ok(()) => {
                self.outbox.counters.connections.accepted += 1;
                (Standing::Served, None)
            }
            Err(reached) => self
                .admit_uncounted(ListenerKind::Clients(transport), reached, None)
                .unwrap_or((Standing::Evicted, Some(reached))),
        };
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.state.standing = standing;
        }
        match refusal {
            Some(reason) => self.reject_open(ring, key, reason),
            None if standing == Standing::Served => {}
            None => self.note_uncounted(key),
        }
    }

    /// Ends a connection that was open and is not served.
    #[cold]
    fn reject_open<R: Ring>(&mut self, ring: &mut R, key: Key, reason: RefusalReason) {
        let Transports { connections, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return };
        let (codec, peer) = (connection.codec(), connection.record.peer());
        let transport = connection.state.transport;
        acceptor.record_refusal(reason, transport, peer, self.now, &mut self.outbox);
        if connection.state.standing == Standing::Evicted {
            return connections.close(ring, key, CloseReason::Refused);
        }
        connection.state.standing = Standing::Rejected;
        self.note_uncounted(key);
        self.reject(ring, key, codec, reason);
    }

    /// Counts a connection as that of an authenticated client once it is; decides about one over
    /// TCP whose first message has been read.
    #[inline]
    pub(super) fn update_place<R: Ring>(&mut self, ring: &mut R, key: Key) {
        if !self.dispatcher.auth.verifies_tokens() {
            return;
        }
        let Transports { connections, acceptor, parity, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return };
        let codec = connection.codec();
        let state = &mut connection.state;
        match state.standing {
            Standing::Served if !state.is_proven && parity.is_authenticated(state) => {
                acceptor.prove(state);
            }
            Standing::Undecided if codec == Codec::Ndjson => self.decide(ring, key),
            _ => {}
        }
    }

    #[cold]
    fn decide<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Transports { connections, parity, .. } = &mut self.transports;
        let Some(connection) = connections.table.get(key) else { return };
        if parity.is_authenticated(&connection.state) {
            match self.serve(key) {
                Ok(()) => self.outbox.counters.connections.accepted += 1,
                Err(reason) => self.reject_open(ring, key, reason),
            }
        } else if !connection.is_inside_message()
            && !self.dispatcher.held.contains(key)
            && !self.transports.large_messages.contains(key)
        {
            self.reject_open(ring, key, RefusalReason::ConnectionLimit);
        }
    }

    /// Gives a connection its place whose first request is one of a client. At a limit it gets that
    /// of an idle one.
    pub(super) fn serve(&mut self, key: Key) -> Result<(), RefusalReason> {
        let Transports { connections, acceptor, parity, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return Ok(()) };
        let state = &mut connection.state;
        let (transport, client) = (state.transport, state.counted_address());
        let is_proven = parity.is_authenticated(state);
        acceptor.serve(state, is_proven).or_else(|reached| {
            self.evict_idle(transport, client, reached);
            let Transports { connections, acceptor, .. } = &mut self.transports;
            let connection = connections.table.get_mut(key).ok_or(reached)?;
            acceptor.serve(&mut connection.state, is_proven)
        })
    }
}
