//! Completions of the begin and the end of connections.
//!
//! Thousands of peers may connect or leave at once. Their connections are opened and closed behind
//! the input of open connections, a limited number in a turn, so that responses leave meanwhile.
//!
//! Invariant: begins and ends are handled in the order in which they came, since the socket of a
//! connection that has ended may be that of a new one.

use crate::engine::ring::{Completion, Ring};
use crate::engine::shard_loop::Driver;
use crate::server::connections::Transports;
use crate::server::shard::Shard;

/// Begins and ends handled in one turn.
const PER_TURN_MAX: usize = 64;

/// Handles or defers a completion of a connection's begin or end. Apart from the frequent ones,
/// which are inlined into the shard loop without it.
#[inline(never)]
pub(super) fn handle_rare(shard: &mut Shard, completion: Completion) {
    match completion {
        Completion::Accepted { .. } | Completion::EndOfStream { .. } => {
            shard.transports.deferred.push_back(completion);
        }
        Completion::AcceptFailed { listener, error } => {
            let Shard { transports: Transports { acceptor, .. }, outbox, now, .. } = shard;
            let transport = acceptor.kind_of(listener).transport();
            acceptor.record_failure(transport, &error, *now, outbox);
        }
        Completion::PeerCertificate { socket, certificate } => {
            shard.keep_certificate(socket, &certificate);
        }
        Completion::Closed { socket } => shard.finish_close(socket),
        // Frequent; and the server opens no outgoing connections.
        Completion::Received { .. } | Completion::Sent { .. } | Completion::Connected { .. } => {}
    }
}

/// Opens and closes connections whose begin or end was deferred. Returns whether more are left.
#[inline(never)]
pub(super) fn handle_deferred<R: Ring>(shard: &mut Shard, ring: &mut R) -> bool {
    for _ in 0..PER_TURN_MAX {
        match shard.transports.deferred.pop_front() {
            Some(Completion::Accepted { listener, socket, peer }) => {
                let kind = shard.transports.acceptor.kind_of(listener);
                shard.open_connection(ring, kind, socket, peer);
            }
            Some(Completion::EndOfStream { socket, result }) => {
                shard.handle_end_of_stream(ring, socket, &result);
            }
            Some(other) => Driver::handle_completion(shard, ring, other, shard.now),
            None => break,
        }
        shard.apply_outbox(ring);
    }
    !shard.transports.deferred.is_empty()
}
