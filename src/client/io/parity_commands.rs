//! What a client of the parity dialect asks of its I/O thread.

use std::fmt;
use std::sync::Arc;

use super::call_slot::{CallSlot, CallToken, ConnectToken, run_callback};
use super::peer_handle::PeerHandle;
use crate::error::ClientError;
use crate::oauth::Secret;
use crate::parity_session::{ParityCallRequest, ParityChunk, ParityConfig, ParityServerInfo};

/// A change of a session of the parity dialect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ParityEvent {
    /// The session is ready. `resumed` of [`ParityServerInfo`] says whether it continues.
    Ready(Arc<ParityServerInfo>),
    /// The server cannot continue the session whose connection was lost, and has begun another:
    /// open streams have failed with [`Restart`](crate::ClientErrorKind::Restart).
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

/// Called on the I/O thread for each chunk of a stream.
pub type ChunkCallback = Box<dyn Fn(ParityChunk) + Send + Sync>;

/// How a request ends: with its result as JSON text.
type ParityOutcome = Result<Vec<u8>, ClientError>;

/// A request as its caller and the I/O thread share it.
pub type ParitySlot = CallSlot<ParityOutcome, Option<ChunkCallback>>;

/// The right to end a request.
pub(super) type ParityToken = CallToken<ParityOutcome, Option<ChunkCallback>>;

/// Called on the I/O thread for each event.
pub type ParityEventCallback = Box<dyn Fn(ParityEvent) + Send + Sync>;

/// A server that is not connected yet.
pub struct NewParityPeer {
    pub handle: PeerHandle,
    pub config: Arc<ParityConfig>,
    pub on_event: Option<ParityEventCallback>,
}

impl ParitySlot {
    /// Reports a chunk to the caller.
    pub(super) fn report_chunk(&self, chunk: ParityChunk) {
        if let Some(on_chunk) = self.callbacks() {
            run_callback(|| on_chunk(chunk));
        }
    }
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
pub(super) struct ParityCall {
    pub(super) request: Box<ParityCallRequest>,
    pub(super) token: ParityToken,
}

/// A message to the server of a client.
#[derive(Debug)]
pub(super) enum ParityCommand {
    /// Connects, unless the session is ready, and reports the end of the handshake.
    Connect(ConnectToken<ParityServerInfo>),
    /// Makes a request.
    Call(ParityCall),
    /// Cancels a request.
    Cancel(Arc<ParitySlot>),
    /// Replaces the token of the caller.
    SetAuthToken(Secret),
}
