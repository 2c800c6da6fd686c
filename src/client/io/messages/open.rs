//! Begins a connection: starts its codec.

use super::stream::MessageStream;
use super::websocket::WebSocketCodec;
use crate::io::connect::OpenError;
use crate::io::http::{UpgradeAuthorization, request_writer};
use crate::io::peer_handle::PeerHandle;
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::ring::{Ring, Socket};

/// Starts the codec of a connection.
pub fn open_stream(
    handle: &PeerHandle,
    upgrades: &UpgradeAuthorization,
    ring: &mut dyn Ring,
    sockets: [Socket; 2],
    now: Instant,
) -> MessageStream {
    let Target::WebSocket(endpoint) = &*handle.target else {
        return MessageStream::open_lines(ring, sockets);
    };
    let message_bytes_max = handle.config.options().message_bytes_max;
    let writer = request_writer(endpoint, handle);
    let begun = upgrades
        .with_fields(handle, |fields| WebSocketCodec::begin(&writer, fields, message_bytes_max));
    let begun = begun.map_err(|error| OpenError::from(error).describe(&handle.target));
    let deadline = now.after(handle.connect.timeout);
    let ping_interval = handle.reconnect.ping_interval.filter(|interval| !interval.is_zero());
    MessageStream::open_websocket(ring, sockets, begun, deadline, ping_interval)
}
