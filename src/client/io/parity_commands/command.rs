//! What other threads ask of the I/O thread for a server of the parity dialect.

use std::fmt;
use std::sync::Arc;

use super::slot::{ParitySlot, ParityToken};
use crate::client::error::ClientError;
use crate::client::io::call_slot::ConnectToken;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::oauth::Secret;
use crate::client::parity_session::{ParityCallRequest, ParityConfig, ParityServerInfo};

/// A change of a session of the parity dialect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ParityEvent {
    /// The session is ready. `resumed` of [`ParityServerInfo`] says whether it continues.
    Ready(Arc<ParityServerInfo>),
    /// The server cannot continue the session whose connection was lost, and has begun another:
    /// open streams have failed with [`Restart`](crate::client::ClientErrorKind::Restart).
    Restarted {
        /// Why, in the words of the server: such as `expired`, `stale_window`, `unknown_server`.
        reason: String,
    },
    /// A request is sent again after an error that is retryable.
    Retried {
        /// The error.
        error: ClientError,
    },
    /// The connection was lost, or an attempt to connect has failed.
    Disconnected {
        /// Why.
        reason: ClientError,
    },
}

/// Called on the I/O thread for each event.
pub(in crate::client) type ParityEventCallback = Box<dyn Fn(ParityEvent) + Send + Sync>;

/// A server that is not connected yet.
pub(in crate::client) struct NewParityPeer {
    pub(in crate::client) handle: PeerHandle,
    pub(in crate::client) config: Arc<ParityConfig>,
    pub(in crate::client) on_event: Option<ParityEventCallback>,
}

impl fmt::Debug for NewParityPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NewParityPeer")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

/// A request to make.
#[derive(Debug)]
pub(in crate::client::io) struct ParityCall {
    pub(in crate::client::io) request: Box<ParityCallRequest>,
    pub(in crate::client::io) token: ParityToken,
}

/// A message to the server of a client.
#[derive(Debug)]
pub(in crate::client::io) enum ParityCommand {
    /// Connects, unless the session is ready, and reports the end of the handshake.
    Connect(ConnectToken<ParityServerInfo>),
    /// Makes a request.
    Call(ParityCall),
    /// Cancels a request.
    Cancel(Arc<ParitySlot>),
    /// Replaces the token of the caller.
    SetAuthToken(Secret),
}

impl ParityCommand {
    /// Fails a command whose server is gone.
    pub(in crate::client::io) fn fail(self, error: ClientError) {
        match self {
            Self::Connect(token) => token.complete(Err(error)),
            Self::Call(call) => call.token.end(Err(error)),
            Self::Cancel(_) | Self::SetAuthToken(_) => {}
        }
    }
}
