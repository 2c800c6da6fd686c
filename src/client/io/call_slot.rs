//! A call as its caller and the I/O thread share it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::error::ClientError;
use crate::client::oneshot::Oneshot;
use crate::client::session::{CallId, Progress, ReceivedMessage};

/// What is called on the I/O thread for the notifications of a call.
#[derive(Clone, Default)]
pub(in crate::client) struct CallCallbacks {
    /// For each progress notification.
    pub(in crate::client) on_progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// For each notification of a subscription.
    pub(in crate::client) on_message: Option<Arc<dyn Fn(ReceivedMessage) + Send + Sync>>,
}

/// The outcome of a call and its callbacks.
pub(in crate::client) struct CallSlot {
    outcome: Oneshot<Result<ReceivedMessage, ClientError>>,
    callbacks: CallCallbacks,
    /// The [`CallId`] once the call is made; written and read on the I/O thread.
    id: AtomicU64,
}

impl CallSlot {
    pub(in crate::client) const fn new(callbacks: CallCallbacks) -> Self {
        Self { outcome: Oneshot::new(), callbacks, id: AtomicU64::new(0) }
    }

    pub(in crate::client) const fn outcome(
        &self,
    ) -> &Oneshot<Result<ReceivedMessage, ClientError>> {
        &self.outcome
    }

    /// Ends the call.
    pub(super) fn complete(&self, outcome: Result<ReceivedMessage, ClientError>) {
        self.outcome.set(outcome);
    }

    /// Reports progress to the caller.
    pub(super) fn report_progress(&self, progress: Progress) {
        if let Some(on_progress) = &self.callbacks.on_progress {
            on_progress(progress);
        }
    }

    /// Reports a notification of a subscription.
    pub(super) fn report_message(&self, message: ReceivedMessage) {
        if let Some(on_message) = &self.callbacks.on_message {
            on_message(message);
        }
    }

    /// Notes the id of the call.
    pub(super) fn set_id(&self, id: CallId) {
        self.id.store(id.0, Ordering::Relaxed);
    }

    /// Returns the id of the call, or `None` before it is made.
    pub(super) fn id(&self) -> Option<CallId> {
        Some(self.id.load(Ordering::Relaxed)).filter(|id| *id != 0).map(CallId)
    }
}

impl fmt::Debug for CallSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallSlot").finish_non_exhaustive()
    }
}
