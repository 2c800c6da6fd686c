//! What a client reports of its connection.

use std::time::Duration;

use crate::error::ClientError;

/// A change of the connection of a client over TCP, Unix sockets, WebSocket or the standard
/// streams of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The handshake is complete.
    Connected,
    /// The connection was lost, or closed by the client.
    Disconnected {
        /// Why.
        reason: ClientError,
        /// Time to the next attempt to connect; `None` if none follows by itself.
        retry_in: Option<Duration>,
    },
    /// An attempt to connect has failed.
    ConnectFailed {
        /// Why.
        reason: ClientError,
        /// Time to the next attempt to connect; `None` if none follows by itself.
        retry_in: Option<Duration>,
    },
}
