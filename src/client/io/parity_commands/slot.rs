//! A request as its caller and the I/O thread share it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::error::ClientError;
use crate::client::io::call_slot::{run_callback, stopped};
use crate::client::oneshot::Oneshot;
use crate::client::parity_session::ParityChunk;

/// Called on the I/O thread for each chunk of a stream.
pub(in crate::client) type ChunkCallback = Box<dyn Fn(ParityChunk) + Send + Sync>;

/// The outcome of a request and its callback.
pub(in crate::client) struct ParitySlot {
    outcome: Oneshot<Result<Vec<u8>, ClientError>>,
    on_chunk: Option<ChunkCallback>,
    /// The id of the request once it is made, 0 before; written and read on the I/O thread.
    id: AtomicU64,
}

impl ParitySlot {
    pub(in crate::client) const fn new(on_chunk: Option<ChunkCallback>) -> Self {
        Self { outcome: Oneshot::new(), on_chunk, id: AtomicU64::new(0) }
    }

    pub(in crate::client) const fn outcome(&self) -> &Oneshot<Result<Vec<u8>, ClientError>> {
        &self.outcome
    }

    /// Reports a chunk to the caller.
    pub(in crate::client::io) fn report_chunk(&self, chunk: ParityChunk) {
        if let Some(on_chunk) = &self.on_chunk {
            run_callback(|| on_chunk(chunk));
        }
    }

    /// Notes the id of the request.
    pub(in crate::client::io) fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Returns the id of the request, or `None` before it is made.
    pub(in crate::client::io) fn id(&self) -> Option<u64> {
        Some(self.id.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }
}

impl fmt::Debug for ParitySlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ParitySlot").finish_non_exhaustive()
    }
}

/// The right to end a request. The request fails with the last one.
#[derive(Clone, Debug)]
pub(in crate::client) struct ParityToken(Arc<TokenGuard>);

#[derive(Debug)]
struct TokenGuard(Arc<ParitySlot>);

impl Drop for TokenGuard {
    fn drop(&mut self) {
        // Has no effect after the outcome.
        self.0.outcome.set(Err(stopped()));
    }
}

impl ParityToken {
    pub(in crate::client) fn new(slot: Arc<ParitySlot>) -> Self {
        Self(Arc::new(TokenGuard(slot)))
    }

    /// Returns what the caller has of the request.
    pub(in crate::client::io) fn slot(&self) -> &ParitySlot {
        &self.0.0
    }

    /// Ends the request.
    pub(in crate::client::io) fn end(&self, result: Result<Vec<u8>, ClientError>) {
        self.slot().outcome.set(result);
    }
}
