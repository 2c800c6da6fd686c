//! Opening connections.
//!
//! Invariant: a rejected connection receives the reason.

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_engine::ring::{Operation, Ring};
use corelane_protocol::model;

use crate::connection::{CloseReason, Codec, SocketPair};
use crate::server::acceptance::{ListenerKind, refusal_error};
use crate::server::connection_state::ConnectionState;
use crate::server::reply_to::Outcome;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::label::{RefusalReason, Transport};

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
        let client = peer.and_then(|peer| ClientAddress::new(peer.ip()));
        let shortage = ring.shortage(socket);
        if let Some(shortage) = shortage {
            acceptor.log_shortage(shortage, self.now);
        }
        let admission = acceptor.admit(kind, client, shortage, self.now);
        if let Err(reason) | Ok((_, Some(reason))) = admission {
            acceptor.record_refusal(reason, transport, peer, self.now, &mut self.outbox);
        }
        let Ok((standing, refusal)) = admission else {
            ring.submit(Operation::Close(socket));
            return;
        };
        let mut state = ConnectionState::new(transport, client, standing);
        if transport != Transport::Http {
            self.dispatcher.require_handshake(&mut state);
        }
        let Transports { acceptor, connections, .. } = &mut self.transports;
        match (connections.open_connection(ring, sockets, state, self.now), refusal) {
            (Ok(key), None) => {
                self.outbox.counters.connections.accepted += u64::from(standing.is_counted());
                self.parity_path().begin(key);
            }
            (Ok(key), Some(reason)) => self.reject(ring, key, sockets.codec, reason),
            (Err(state), _) => {
                // The limits were raised beyond the table, which keeps its size.
                acceptor.release(&state);
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
    fn reject<R: Ring>(&mut self, ring: &mut R, key: Key, codec: Codec, reason: RefusalReason) {
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
