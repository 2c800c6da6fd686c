//! Upgrade of an HTTP connection to WebSocket.
//!
//! Invariants: the connection keeps its key and its slot; it is a peer of its own with a unique
//! session id; an invalid handshake, and one beyond the limit of WebSocket connections, gets an
//! error response, and the connection stays HTTP.
//!
//! Source: RFC 6455, section 4.2.

use super::incoming::IncomingRequest;
use super::path::HttpPath;
use crate::server::dispatch::require_handshake;
use crate::server::owner_id::SessionId;
use crate::server::websocket::CompressionParams;
use crate::transport::websocket::handshake;
use crate::transport::websocket::reader::FrameReader;

/// Handles an upgrade request. After the response head the connection carries frames.
pub(in crate::server::http) fn handle(path: &mut HttpPath<'_>, incoming: &IncomingRequest<'_>) {
    let IncomingRequest { key, head, bytes, .. } = *incoming;
    let upgrade = match handshake::check_upgrade(head, bytes, path.websockets.accepted_handshake) {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            path.websockets.counters.handshakes_refused += 1;
            path.record_invalid(key);
            return path.reject_request(incoming, &rejection);
        }
    };
    let Some(connection) = path.connections.table.get_mut(key) else { return };
    if let Err(reason) = path.acceptor.upgrade(&mut connection.state) {
        return path.refuse_upgrade(incoming, reason);
    }
    // For the client's logs; it grants no access.
    let session = path.http.sessions.generate_id().map(SessionId::to_text);
    let heads = path.http.heads(path.now);
    let Some(out) = path.connections.outgoing(key) else { return };
    let session = session.as_ref().map(|name| &name[..]);
    let request_id = incoming.echoed().request_id_or(heads);
    handshake::write_response(out, &upgrade, session, request_id, heads.date());
    let (reader, window_bits) = match upgrade.deflate {
        Some(deflate) => (FrameReader::with_compression(), deflate.window_bits()),
        None => (FrameReader::new(), 0),
    };
    if path.connections.upgrade_to_websocket(key, reader, path.now)
        && let Some(connection) = path.connections.table.get_mut(key)
    {
        connection.state.compression = CompressionParams { window_bits };
        let fields = handshake::other_fields(head, bytes);
        path.dispatcher.facts.keep_upgrade_fields(&mut connection.state, fields);
        require_handshake(path.dispatcher, &mut connection.state);
    }
}
