//! Ends what was opened with a credential that is valid no more: event streams, and connections of
//! TCP and WebSocket. A token expires, or its key was withdrawn.
//!
//! Requests are checked when they arrive; this is for peers that only listen.

use corelane_base::slab::Key;

use crate::connection::CloseReason;
use crate::guard::auth::AuthError;
use crate::guard::auth::proof::Proof;
use crate::server::auth::AuthTime;
use crate::server::outbox::Effect;
use crate::server::shard::Shard;
use crate::telemetry::label::Transport;

/// Checks the credentials of all connections, if the time for it has come. Requests that have
/// waited too long for the authorization server are read again, and refused.
pub(super) fn end_expired(shard: &mut Shard) {
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    for key in shard.dispatcher.auth.expire(time) {
        shard.outbox.resume_reading(key);
    }
    if !shard.dispatcher.auth.begins_check(shard.now) {
        return;
    }
    let (mut has_credentials, mut stale): (bool, Vec<Key>) = (false, Vec::new());
    for (key, connection) in shard.transports.connections.table.iter() {
        let state = &connection.state;
        let Some(known) = state.credential() else { continue };
        has_credentials = true;
        if state.transport == Transport::Http && state.exchange.is_none() {
            continue;
        }
        if !shard.dispatcher.auth.is_current(known, time) {
            stale.push(key);
        }
    }
    if has_credentials {
        shard.dispatcher.auth.schedule_check(shard.now);
    }
    for key in stale {
        if is_still_valid(shard, key) {
            continue;
        }
        shard.end_idle_stream(key);
        shard.complete_streams(key);
        let connection = shard.transports.connections.table.get(key);
        let transport = connection.map(|connection| connection.state.transport);
        if matches!(transport, Some(Transport::Tcp | Transport::WebSocket)) {
            let reason = CloseReason::InvalidCredential;
            shard.outbox.push(Effect::Close { key, reason });
        }
    }
}

/// Verifies the token of a connection again. One that cannot be verified at the moment is checked
/// the next time.
fn is_still_valid(shard: &mut Shard, key: Key) -> bool {
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return true };
    let (auth, facts) = (&mut shard.dispatcher.auth, &mut shard.dispatcher.facts);
    let Some(known) = connection.state.credential() else { return true };
    let certificate = connection.state.certificate();
    let counted = (time, &mut shard.outbox.counters.auth);
    let authenticated = match known.token() {
        _ if known.is_certificate() => auth.authenticate_certificate(certificate, counted),
        // The host answers for what it attaches.
        "" => return true,
        token => auth.authenticate(token, Proof { certificate, key: known.key_proof() }, counted),
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
