//! Begins a connection: registers its streams with the ring, and starts its codec.

use std::io;

use super::stream::MessageStream;
use super::websocket::WebSocketCodec;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::connect::OpenStreams;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::process::ServerProcess;
use crate::client::target::{HttpEndpoint, Target};
use crate::engine::ring::{Registered, Ring, Socket, Source};
use crate::transport::http::client::request_writer::RequestWriter;

/// Registers the streams of a connection with the ring, if they were opened: the socket to receive
/// from, and the one to send to.
pub(in crate::client::io) fn register<R: Ring>(
    handle: &PeerHandle,
    ring: &mut R,
    opened: io::Result<OpenStreams>,
) -> Result<([Socket; 2], Option<ServerProcess>), ClientError> {
    let mut socket = |source: Source| match ring.register(source)? {
        Registered::Socket(socket) => Ok(socket),
        Registered::Listener(_) => Err(io::Error::other("the ring registered a listener")),
    };
    let mut register = |OpenStreams { receive, send, process }| {
        let receive = socket(receive)?;
        let send = send.map_or(Ok(receive), &mut socket)?;
        Ok(([receive, send], process))
    };
    opened.and_then(&mut register).map_err(|error| connect_error(handle, error))
}

/// Starts the codec of a connection.
pub(in crate::client::io) fn open_stream<R: Ring>(
    handle: &PeerHandle,
    ring: &mut R,
    sockets: [Socket; 2],
    now: Instant,
) -> MessageStream {
    let Target::WebSocket(endpoint) = &*handle.target else {
        return MessageStream::open_lines(ring, sockets);
    };
    let message_bytes_max = handle.config.options().message_bytes_max;
    let begun = WebSocketCodec::begin(&request_writer(endpoint, handle), message_bytes_max);
    let begun = begun.map_err(|error| connect_error(handle, error));
    MessageStream::open_websocket(ring, sockets, begun, now.after(handle.connect_timeout))
}

/// Returns what writes the requests to an endpoint.
pub(in crate::client::io) fn request_writer(
    endpoint: &HttpEndpoint,
    handle: &PeerHandle,
) -> RequestWriter {
    RequestWriter::new(&endpoint.authority(), &endpoint.path, &handle.extra_fields)
}

/// Returns the error of an attempt to connect.
fn connect_error(handle: &PeerHandle, error: io::Error) -> ClientError {
    let text = format!("cannot connect to {}: {error}", handle.target);
    ClientError::with_source(ClientErrorKind::Connect, text, error)
}
