//! Upgrade of an HTTP connection to WebSocket.
//!
//! Invariants: the connection keeps its key and its slot; it is a peer of its own with a unique
//! session id; an invalid handshake, and one beyond the limit of WebSocket connections, gets an
//! error response, and the connection stays HTTP.
//!
//! Source: RFC 6455, section 4.2.

use corelane_transport::websocket::handshake;
use corelane_transport::websocket::reader::FrameReader;

use super::IncomingRequest;
use crate::server::owner_id::SessionId;
use crate::server::shard::Shard;

/// Handles an upgrade request. After the response head the connection carries frames.
pub(super) fn handle(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    let IncomingRequest { key, head, bytes, .. } = *incoming;
    let upgrade =
        match handshake::check_upgrade(head, bytes, shard.transports.websockets.accepted_handshake)
        {
            Ok(upgrade) => upgrade,
            Err(rejection) => {
                shard.transports.websockets.counters.handshakes_refused += 1;
                shard.record_invalid(key);
                return shard.reject_request(incoming, &rejection);
            }
        };
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return };
    if let Err(reason) = shard.transports.acceptor.upgrade(&mut connection.state) {
        return shard.refuse_upgrade(incoming, reason);
    }
    // For the client's logs; it grants no access.
    let session = shard.transports.http.sessions.generate_id().map(SessionId::to_text);
    let heads = shard.transports.http.heads(shard.now);
    let Some(out) = shard.transports.connections.outgoing(key) else { return };
    let session = session.as_ref().map(|name| &name[..]);
    let request_id = incoming.echoed().request_id_or(heads);
    handshake::write_response(out, &upgrade, session, request_id, heads.date());
    let (reader, window_bits) = match upgrade.deflate {
        Some(deflate) => (FrameReader::with_compression(), deflate.window_bits()),
        None => (FrameReader::new(), 0),
    };
    if shard.transports.connections.upgrade_to_websocket(key, reader, shard.now)
        && let Some(connection) = shard.transports.connections.table.get_mut(key)
    {
        connection.set_window_bits(window_bits);
        let fields = handshake::other_fields(head, bytes);
        shard.dispatcher.facts.keep_upgrade_fields(&mut connection.state, fields);
        shard.dispatcher.require_handshake(&mut connection.state);
    }
}
