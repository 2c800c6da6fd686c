//! Completions of the begin and the end of connections.
//!
//! Thousands of peers may connect or leave at once. Their connections are opened and closed behind
//! the input of open connections, a limited number in a turn, so that responses leave meanwhile.
//!
//! Invariant: begins and ends are handled in the order in which they came, since the socket of a
//! connection that has ended may be that of a new one.

use corelane_engine::ring::{Completion, Ring};
use corelane_engine::shard_loop::Driver;

use crate::connection::SocketPair;
use crate::server::acceptance::ListenerEntry;
use crate::server::shard::{Shard, Transports};

/// Begins and ends handled in one turn.
const PER_TURN_MAX: usize = 64;

/// Handles a completion of a connection's begin or end, now or late. Apart from the frequent ones,
/// which are inlined into the shard loop without it.
#[inline(never)]
pub(super) fn handle_rare(shard: &mut Shard, completion: Completion) {
    match completion {
        Completion::Accepted { .. } | Completion::EndOfStream { .. } => {
            shard.transports.late_completions.push_back(completion);
        }
        Completion::AcceptFailed { listener, error } => {
            let Shard { transports: Transports { acceptor, .. }, outbox, now, .. } = shard;
            let transport = acceptor.entry_of(listener).kind.transport();
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

/// Opens and closes connections whose begin or end is handled late. Returns whether more are left.
#[inline(never)]
pub(super) fn handle_late<R: Ring>(shard: &mut Shard, ring: &mut R) -> bool {
    for _ in 0..PER_TURN_MAX {
        match shard.transports.late_completions.pop_front() {
            Some(Completion::Accepted { listener, socket, peer }) => {
                let ListenerEntry { kind, codec, .. } =
                    shard.transports.acceptor.entry_of(listener);
                shard.open(ring, kind, SocketPair { receive: socket, send: socket, peer, codec });
            }
            Some(Completion::EndOfStream { socket, result }) => {
                shard.handle_end_of_stream(ring, socket, &result);
            }
            Some(other) => Driver::handle_completion(shard, ring, other, shard.now),
            None => break,
        }
        shard.apply_outbox(ring);
    }
    !shard.transports.late_completions.is_empty()
}
