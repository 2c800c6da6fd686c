//! Connections that end although their client has done nothing: they are as old as
//! `connection_lifetime`, or their certificate was revoked, or its authority withdrawn.
//!
//! Invariant: nothing more is read of them, and what runs is answered before they close.

use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_parity::error::ParityError;

use super::lifecycle::end_authenticated;
use crate::connection::{CloseReason, Connection};
use crate::guard::auth::certificates::RevokedCertificates;
use crate::server::connection_state::ConnectionState;
use crate::server::outbox::Effect;
use crate::server::reply_to::PeerId;
use crate::server::shard::Shard;

/// The longest time between two passes over all connections.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// The shortest one.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Returns when the ages of connections are looked at next; `None` if they have no limit.
pub fn next_age_check(shard: &Shard) -> Option<Instant> {
    let is_limited = !shard.limits.connection_lifetime.is_zero();
    (is_limited && !shard.transports.connections.table.is_empty())
        .then_some(shard.transports.acceptor.age_check_at)
}

/// Closes the connections that have reached their lifetime, if the time for it has come.
pub fn end_old_connections(shard: &mut Shard) {
    let (lifetime, now) = (shard.limits.connection_lifetime, shard.now);
    if lifetime.is_zero() || now < shard.transports.acceptor.age_check_at {
        return;
    }
    shard.transports.acceptor.age_check_at =
        now.after((lifetime / 10).clamp(INTERVAL_MIN, INTERVAL_MAX));
    // One that holds a message ends after the next check.
    let is_old = |connection: &Connection<ConnectionState>| {
        !connection.state.transport.is_only_connection()
            && now.since(connection.record.opened_at()) >= lifetime
    };
    let reason = &ParityError::connection_lifetime();
    for key in open_connections(shard, is_old) {
        if shard.holds_message(key) {
            continue;
        }
        shard.parity_path().announce_end(key, reason);
        shard.end_idle_stream(key, reason);
        shard.complete_streams(key);
        // Before the connection closes: an idle one closes at once.
        shard.fail_client_requests(PeerId::Connection(key));
        shard.outbox.push(Effect::Close { key, reason: CloseReason::Lifetime });
    }
}

/// Ends what was opened with revoked certificates, and their connections.
pub fn end_revoked(shard: &mut Shard, revoked: &RevokedCertificates) {
    let is_revoked = |connection: &Connection<ConnectionState>| {
        connection.state.certificate().is_some_and(|it| revoked.contains(it))
    };
    for key in open_connections(shard, is_revoked) {
        end_authenticated(shard, key);
        shard.outbox.push(Effect::Close { key, reason: CloseReason::InvalidCredential });
    }
}

fn open_connections(
    shard: &Shard,
    is_over: impl Fn(&Connection<ConnectionState>) -> bool,
) -> Vec<Key> {
    let table = shard.transports.connections.table.iter();
    let ended = table.filter(|(_, connection)| connection.is_open() && is_over(connection));
    ended.map(|(key, _)| key).collect()
}
