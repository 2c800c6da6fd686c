//! Which requests are served: a connection has a place among those of clients, or is that of an
//! operator, and the request has a valid token where one is needed.

use std::net::SocketAddr;

use corelane_base::slab::Key;
use corelane_transport::http::checks::RequestKind;

use super::IncomingRequest;
use super::authentication::{Authenticated, RequestPart, authenticate};
use crate::server::connection_state::{ResponseFormat, Standing};
use crate::server::shard::Shard;
use crate::telemetry::label::{RefusalReason, Transport};

impl Shard {
    /// Counts the connection of a request as that of a client or of an operator, and authenticates
    /// the request; refuses that of a client beyond the connection limit. Clients that are
    /// authenticated have a part of the places for themselves.
    #[cold]
    pub(super) fn admit(
        &mut self,
        incoming: &IncomingRequest<'_>,
        kind: &RequestKind<'_>,
        part: RequestPart,
    ) -> Authenticated {
        let Err(reached) = self.take_standing(incoming, kind) else {
            return authenticate(self, incoming, kind, part);
        };
        if reached == RefusalReason::ConnectionLimit && self.dispatcher.auth.verifies_tokens() {
            let format = ResponseFormat { closes: true, ..incoming.format };
            match authenticate(self, &IncomingRequest { format, ..*incoming }, kind, part) {
                Authenticated::Served if self.take_standing(incoming, kind).is_ok() => {
                    return Authenticated::Served;
                }
                Authenticated::Served => {}
                Authenticated::Refused => {
                    if let Some((transport, peer)) = self.reject_undecided(incoming.key) {
                        let Self { transports, outbox, now, .. } = self;
                        transports.acceptor.record_refusal(reached, transport, peer, *now, outbox);
                    }
                    return Authenticated::Refused;
                }
                Authenticated::Waits => return Authenticated::Waits,
            }
        }
        self.refuse(incoming, reached);
        Authenticated::Refused
    }

    /// Counts the connection of a request as that of a client or of an operator.
    ///
    /// # Errors
    ///
    /// The limit of the connections of clients that is reached.
    fn take_standing(
        &mut self,
        incoming: &IncomingRequest<'_>,
        kind: &RequestKind<'_>,
    ) -> Result<(), RefusalReason> {
        let Some(connection) = self.transports.connections.table.get_mut(incoming.key) else {
            return Err(RefusalReason::ConnectionLimit);
        };
        let state = &mut connection.state;
        if kind.is_operators() {
            let was_counted = state.standing.is_counted();
            let was_served = state.standing == Standing::Served;
            self.transports.acceptor.exempt(state);
            if was_served && state.standing == Standing::Exempt {
                self.note_uncounted(incoming.key);
            }
            self.outbox.counters.connections.accepted += u64::from(!was_counted);
            return Ok(());
        }
        if state.standing == Standing::Served {
            return Ok(());
        }
        let was_counted = state.standing.is_counted();
        self.serve(incoming.key)?;
        self.outbox.counters.connections.accepted += u64::from(!was_counted);
        Ok(())
    }

    /// Responds that the connection limit is reached, and closes the connection.
    #[cold]
    fn refuse(&mut self, incoming: &IncomingRequest<'_>, reason: RefusalReason) {
        if let Some((transport, peer)) = self.reject_undecided(incoming.key) {
            let format = ResponseFormat { closes: true, ..incoming.format };
            self.respond_refused(&IncomingRequest { format, ..*incoming }, transport, peer, reason);
        }
    }

    /// Counts a connection whose first request is refused as one that closes. Returns its transport
    /// and its peer.
    fn reject_undecided(&mut self, key: Key) -> Option<(Transport, Option<SocketAddr>)> {
        let connection = self.transports.connections.table.get_mut(key)?;
        let state = &mut connection.state;
        if matches!(state.standing, Standing::Undecided | Standing::Surplus) {
            state.standing = Standing::Rejected;
        }
        Some((state.transport, connection.record.peer()))
    }
}
