//! Upgrade of an HTTP connection to WebSocket.
//!
//! Invariants: the connection keeps its key and its slot; it is a peer of its own with a unique
//! session id; an invalid handshake gets an error response, and the connection stays HTTP.
//!
//! Source: RFC 6455, section 4.2.

use super::IncomingRequest;
use crate::server::http::SessionId;
use crate::server::shard::Shard;
use crate::server::websocket::CompressionParams;
use crate::telemetry::label::Transport;
use crate::transport::websocket::handshake;
use crate::transport::websocket::reader::FrameReader;

impl Shard {
    /// Handles an upgrade request. After the response head the connection carries frames.
    pub(super) fn upgrade_to_websocket(&mut self, incoming: &IncomingRequest<'_>) {
        let IncomingRequest { key, head, bytes, now, .. } = *incoming;
        let upgrade =
            match handshake::check_upgrade(head, bytes, self.websockets.accepted_handshake) {
                Ok(upgrade) => upgrade,
                Err(refusal) => {
                    self.websockets.counters.handshakes_refused += 1;
                    return self.reject_request(incoming, &refusal);
                }
            };
        // For the client's logs; it grants no access.
        let session = self.http.sessions.generate_id().map(SessionId::to_text);
        let date = *self.http.date();
        let Some(out) = self.connections.outgoing(key) else { return };
        handshake::write_response(out, &upgrade, session.as_ref().map(|name| &name[..]), &date);
        let (reader, window_bits) = match upgrade.deflate {
            Some(deflate) => (FrameReader::with_compression(), deflate.window_bits()),
            None => (FrameReader::new(), 0),
        };
        if self.connections.upgrade_to_websocket(key, reader, now)
            && let Some(connection) = self.connections.table.get_mut(key)
        {
            connection.state.transport = Transport::WebSocket;
            connection.state.compression = CompressionParams { window_bits };
        }
    }
}
