//! A call as its caller and the I/O thread share it.
//!
//! Invariants: a call ends also if the thread ends, for whatever reason: with the last
//! [`CallToken`]. A callback that panics ends nothing.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use crate::error::{ClientError, ClientErrorKind};
use crate::inputs::{CallInput, InputFuture};
use crate::session::{CallId, CallRequest, Progress, ReceivedMessage, ServerInfo};
use crate::sync::Oneshot;

/// What is called on the I/O thread for the notifications of a call.
#[derive(Clone, Default)]
pub struct CallCallbacks {
    /// For each progress notification.
    pub on_progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// For each notification of a subscription, and each state of a task.
    pub on_message: Option<Arc<dyn Fn(ReceivedMessage) + Send + Sync>>,
    /// For each input that the call requires.
    pub on_input: Option<InputCallback>,
}

/// Begins to provide an input of a call.
pub type InputCallback = Arc<dyn Fn(CallInput) -> InputFuture + Send + Sync>;

impl CallCallbacks {
    pub const fn is_empty(&self) -> bool {
        self.on_progress.is_none() && self.on_message.is_none() && self.on_input.is_none()
    }
}

/// How a call can end.
pub trait Outcome {
    /// Returns the outcome of a call that has failed.
    fn failed(error: ClientError) -> Self;
}

/// How a call of MCP has ended.
pub struct CallOutcome {
    pub result: Result<ReceivedMessage, ClientError>,
    /// A request that was answered, for the memory that it has.
    pub spare: Option<Box<CallRequest>>,
}

impl Outcome for CallOutcome {
    fn failed(error: ClientError) -> Self {
        Self { result: Err(error), spare: None }
    }
}

impl<T> Outcome for Result<T, ClientError> {
    fn failed(error: ClientError) -> Self {
        Err(error)
    }
}

/// What a caller and the I/O thread share of a call: where its outcome goes, and its callbacks.
pub struct CallSlot<O = CallOutcome, C = CallCallbacks> {
    outcome: Oneshot<O>,
    callbacks: C,
    /// Tokens of the call.
    tokens: AtomicU32,
    /// The [`CallId`] once the call is made; written and read on the I/O thread.
    id: AtomicU64,
}

impl<O, C> CallSlot<O, C> {
    /// Creates the slot of a call with one token, see [`CallToken::first`].
    pub const fn new(callbacks: C) -> Self {
        let (tokens, id) = (AtomicU32::new(1), AtomicU64::new(0));
        Self { outcome: Oneshot::new(), callbacks, tokens, id }
    }

    pub const fn outcome(&self) -> &Oneshot<O> {
        &self.outcome
    }

    pub(super) const fn callbacks(&self) -> &C {
        &self.callbacks
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

impl CallSlot {
    /// Ends the call, which has not ended before.
    pub fn complete(&self, result: Result<ReceivedMessage, ClientError>) {
        debug_assert!(self.outcome.is_pending(), "a call ends twice");
        self.outcome.set(CallOutcome { result, spare: None });
    }

    /// Reports progress to the caller.
    pub(super) fn report_progress(&self, progress: Progress) {
        if let Some(on_progress) = &self.callbacks.on_progress {
            run_callback(|| on_progress(progress));
        }
    }

    /// Begins to provide an input, if the caller does.
    pub(super) fn provide(&self, input: CallInput) -> Result<InputFuture, CallInput> {
        let Some(on_input) = &self.callbacks.on_input else { return Err(input) };
        let mut future = None;
        run_callback(|| future = Some(on_input(input)));
        Ok(future.unwrap_or_else(|| {
            let text = "the handler of the client panicked";
            Box::pin(std::future::ready(Err(ClientError::new(ClientErrorKind::Input, text))))
        }))
    }

    /// Reports a notification of a subscription, or a state of a task.
    pub(super) fn report_message(&self, message: ReceivedMessage) {
        if let Some(on_message) = &self.callbacks.on_message {
            run_callback(|| on_message(message));
        }
    }
}

impl<O, C> fmt::Debug for CallSlot<O, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallSlot").finish_non_exhaustive()
    }
}

/// The right to end a call, held by the I/O thread and on the way to it.
pub struct CallToken<O: Outcome = CallOutcome, C = CallCallbacks>(Option<Arc<CallSlot<O, C>>>);

impl<O: Outcome, C> CallToken<O, C> {
    /// Creates the first token of a slot. Others are clones of it.
    pub const fn first(slot: Arc<CallSlot<O, C>>) -> Self {
        Self(Some(slot))
    }

    fn slot(&self) -> &Arc<CallSlot<O, C>> {
        self.0.as_ref().expect("only `end`, which takes the token, takes its slot")
    }

    /// Ends the call. Returns what wakes the caller.
    pub(super) fn end(mut self, outcome: O) -> Option<Waker> {
        self.0.take()?.outcome.store(outcome)
    }
}

impl<O: Outcome, C> fmt::Debug for CallToken<O, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("CallToken").finish_non_exhaustive()
    }
}

impl<O: Outcome, C> Clone for CallToken<O, C> {
    fn clone(&self) -> Self {
        let slot = Arc::clone(self.slot());
        slot.tokens.fetch_add(1, Ordering::Relaxed);
        Self(Some(slot))
    }
}

impl<O: Outcome, C> Deref for CallToken<O, C> {
    type Target = CallSlot<O, C>;

    fn deref(&self) -> &CallSlot<O, C> {
        self.slot()
    }
}

impl<O: Outcome, C> Drop for CallToken<O, C> {
    fn drop(&mut self) {
        let Some(slot) = &self.0 else { return };
        if slot.tokens.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Has no effect after the outcome.
            slot.outcome.set(O::failed(stopped()));
        }
    }
}

/// Callers whose calls have ended. They are woken together, so that a thread that waits for several
/// calls of a turn is woken once and finds them all; also if this is dropped.
#[derive(Debug, Default)]
pub(super) struct WakeList(Vec<Waker>);

impl WakeList {
    /// Adds a caller, if one waits.
    pub(super) fn extend(&mut self, waker: Option<Waker>) {
        self.0.extend(waker);
    }

    /// Wakes all callers.
    pub(super) fn wake_all(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.wake_all();
    }
}

/// The right to report the outcome of a handshake. Dropping it reports that the thread has ended.
#[derive(Debug)]
pub(super) struct ConnectToken<S = ServerInfo>(ConnectSlot<S>);

/// Where the outcome of a handshake goes.
type ConnectSlot<S> = Arc<Oneshot<Result<Arc<S>, ClientError>>>;

impl<S> ConnectToken<S> {
    pub(super) const fn new(slot: ConnectSlot<S>) -> Self {
        Self(slot)
    }

    /// Reports the outcome.
    pub(super) fn complete(self, outcome: Result<Arc<S>, ClientError>) {
        self.0.set(outcome);
    }
}

impl<S> Drop for ConnectToken<S> {
    fn drop(&mut self) {
        // Has no effect after the outcome.
        self.0.set(Err(stopped()));
    }
}

/// The error of calls to a thread that has ended.
pub fn stopped() -> ClientError {
    ClientError::new(ClientErrorKind::Closed, "the I/O thread of the client has ended")
}

/// Runs a callback of the program.
pub(super) fn run_callback(callback: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        tracing::error!("a callback of a client panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn call_ends_with_its_last_token() {
        let slot = Arc::new(<CallSlot>::new(CallCallbacks::default()));
        let first = CallToken::first(Arc::clone(&slot));
        let second = first.clone();
        drop(first);
        assert!(slot.outcome().is_pending());
        drop(second);
        let error = block_on(slot.outcome().take()).result.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Closed);
    }

    #[test]
    fn panic_of_a_callback_is_caught() {
        let on_progress = |_| panic!("a test");
        let callbacks =
            CallCallbacks { on_progress: Some(Arc::new(on_progress)), ..Default::default() };
        <CallSlot>::new(callbacks).report_progress(Progress::default());
    }
}
