//! How messages stand in the output of a connection: as lines, or as messages of a WebSocket.

use super::connection_state::ConnectionState;
use super::websocket::{CompressionParams, WebSocketFrontend};
use crate::base::slab::Key;
use crate::connection::{Codec, Connection, Connections};
use crate::transport::ndjson;
use crate::transport::websocket::writer::{self, FrameMark};

/// A message that is being written to the output of a connection that is not HTTP.
#[derive(Debug)]
#[must_use = "end or cancel the message"]
pub(super) enum BegunMessage {
    Line,
    Frame(FrameMark, CompressionParams),
}

impl BegunMessage {
    /// Begins a message; its text is to be appended to the output.
    #[inline]
    pub(super) fn new(connection: &mut Connection<ConnectionState>) -> Self {
        match connection.codec() {
            Codec::WebSocket => {
                let mark = writer::begin_message(&mut connection.outgoing);
                Self::Frame(mark, connection.state.compression)
            }
            Codec::Ndjson | Codec::Http => Self::Line,
        }
    }

    /// Ends and counts the message.
    #[inline]
    pub(super) fn end(
        self,
        connection: &mut Connection<ConnectionState>,
        websockets: &mut WebSocketFrontend,
    ) {
        let out = &mut connection.outgoing;
        match self {
            Self::Line => ndjson::end_line(out),
            Self::Frame(mark, compression) => websockets.end_frame(out, mark, compression),
        }
        connection.record.traffic.messages_out += 1;
    }

    /// Removes the message, whose text is empty.
    #[inline]
    pub(super) fn cancel(self, connection: &mut Connection<ConnectionState>) {
        match self {
            Self::Line => {}
            Self::Frame(mark, _) => writer::cancel_message(&mut connection.outgoing, mark),
        }
    }
}

/// Writes one message to a connection that is not HTTP. Returns whether it accepts output.
#[inline]
pub(super) fn write_message(
    connections: &mut Connections<ConnectionState>,
    websockets: &mut WebSocketFrontend,
    key: Key,
    write: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let Some(mut entry) = connections.entry(key) else { return false };
    let is_accepted = entry.reserve_output();
    if is_accepted {
        let begun = BegunMessage::new(entry.connection);
        write(&mut entry.connection.outgoing);
        begun.end(entry.connection, websockets);
    }
    is_accepted
}
