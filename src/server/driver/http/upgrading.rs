//! A connection of HTTP becomes one of WebSocket.
//!
//! What it keeps true: the connection stays what it is to everybody else, its place and its key; a
//! request that is no handshake is refused as every other, and the next one may follow.
//!
//! Source: RFC 6455, section 4.2.

use super::Incoming;
use crate::observe::label::Transport;
use crate::server::driver::ShardDriver;
use crate::server::websocket::Manner;
use crate::transport::websocket::handshake;
use crate::transport::websocket::reader::FrameReader;

impl ShardDriver {
    /// Answers a request for the path of WebSocket. From the byte behind its head on the connection
    /// speaks in frames.
    pub(super) fn upgrade(&mut self, incoming: &Incoming<'_>) {
        let Incoming { key, head, bytes, now, .. } = *incoming;
        let upgrade = match handshake::accept(head, bytes, &self.websockets.accepts) {
            Ok(upgrade) => upgrade,
            Err(refusal) => {
                self.websockets.counters.refused += 1;
                return self.refuse(incoming, &refusal);
            }
        };
        let date = *self.http.date();
        let Some(out) = self.link.outgoing(key) else { return };
        handshake::write(out, &upgrade, &date);
        let (reader, window_bits) = match upgrade.deflate {
            Some(deflate) => (FrameReader::compressed(), deflate.window_bits()),
            None => (FrameReader::new(), 0),
        };
        if self.link.adopt(key, reader, now)
            && let Some(connection) = self.link.connections.get_mut(key)
        {
            connection.session.transport = Transport::WebSocket;
            connection.session.manner = Manner { window_bits };
        }
    }
}
