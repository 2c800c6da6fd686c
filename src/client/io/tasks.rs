//! Futures of the program that run on an I/O thread: its tasks, and its handlers of input.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::peer_settings::PeerId;
use crate::error::{ClientError, ClientErrorKind};
use crate::inputs::InputFuture;
use crate::session::InputKey;
use crate::sync::Oneshot;
use corelane_engine::executor::{Executor, LocalFuture, NativeExecutor, Task};
use corelane_engine::ring::Waker;

/// Where the output of a task goes.
type OutputSlot<T> = Arc<Oneshot<Result<T, ClientError>>>;

/// The output of a task, see [`IoThread::spawn`](super::IoThread::spawn). The task goes on if this
/// is dropped.
#[must_use = "it ends when the task ends"]
pub struct IoTask<T>(OutputSlot<T>);

impl<T> Future for IoTask<T> {
    type Output = Result<T, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_take(context)
    }
}

impl<T> fmt::Debug for IoTask<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IoTask").finish_non_exhaustive()
    }
}

/// A task on its way to the thread.
pub(super) struct NewTask(Box<dyn FnOnce() -> LocalFuture + Send>);

impl NewTask {
    /// Returns the task that `make` makes on the thread, and its output.
    pub(super) fn new<F, O>(make: F) -> (Self, IoTask<O::Output>)
    where
        F: FnOnce() -> O + Send + 'static,
        O: Future + 'static,
        O::Output: Send + 'static,
    {
        let slot = Arc::new(Oneshot::new());
        let report = TaskReport(Arc::clone(&slot));
        let start = move || -> LocalFuture {
            Box::pin(async move {
                let report = report;
                report.0.set(Ok(make().await));
            })
        };
        (Self(Box::new(start)), IoTask(slot))
    }

    /// Makes the future.
    pub(super) fn start(self) -> LocalFuture {
        (self.0)()
    }
}

impl fmt::Debug for NewTask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NewTask").finish_non_exhaustive()
    }
}

/// Reports the end of a task when it is dropped, also after a panic.
struct TaskReport<T>(OutputSlot<T>);

impl<T> Drop for TaskReport<T> {
    fn drop(&mut self) {
        // Has no effect after the output.
        let text = "the task has panicked, or its I/O thread has ended";
        self.0.set(Err(ClientError::new(ClientErrorKind::Closed, text)));
    }
}

/// Handlers polled per turn.
const POLLS_PER_TURN_MAX: usize = 256;

/// An input that a handler has provided, or why it has not.
#[derive(Debug)]
pub(super) struct FinishedInput {
    pub(super) peer: PeerId,
    pub(super) key: InputKey,
    pub(super) result: Result<Vec<u8>, ClientError>,
}

/// Reports the end of a handler when it is dropped, also after a panic.
struct InputReport {
    finished: Rc<RefCell<Vec<FinishedInput>>>,
    peer: PeerId,
    key: InputKey,
    result: Option<Result<Vec<u8>, ClientError>>,
}

impl InputReport {
    fn finish(mut self, result: Result<Vec<u8>, ClientError>) {
        self.result = Some(result);
    }
}

impl Drop for InputReport {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| {
            let text = "the handler of the client panicked or was cancelled";
            Err(ClientError::new(ClientErrorKind::Input, text))
        });
        let (peer, key) = (self.peer, self.key);
        self.finished.borrow_mut().push(FinishedInput { peer, key, result });
    }
}

/// The handlers that run, and the results of those that have ended.
pub(super) struct InputTasks {
    executor: NativeExecutor,
    finished: Rc<RefCell<Vec<FinishedInput>>>,
}

impl InputTasks {
    /// Creates it for the thread whose ring is behind `waker`.
    pub(super) fn new(waker: Waker) -> Self {
        Self { executor: NativeExecutor::new(waker), finished: Rc::default() }
    }

    /// Runs a handler until it ends or its task is dropped.
    pub(super) fn spawn(&self, peer: PeerId, key: InputKey, input: InputFuture) -> Task {
        let finished = Rc::clone(&self.finished);
        let report = InputReport { finished, peer, key, result: None };
        self.executor.spawn(Box::pin(async move {
            let result = input.await;
            report.finish(result);
        }))
    }

    /// Runs a task of the program until it ends.
    pub(super) fn run(&self, task: LocalFuture) {
        self.executor.spawn(task).detach();
    }

    /// Polls handlers and tasks; returns what they have provided, and whether more are
    /// ready.
    pub(super) fn poll(&self) -> (Vec<FinishedInput>, bool) {
        let has_more = self.executor.poll_futures(POLLS_PER_TURN_MAX);
        (self.finished.take(), has_more)
    }

    /// Announces that the thread is about to park; returns `false` if a handler is ready.
    pub(super) fn prepare_park(&self) -> bool {
        self.executor.prepare_park()
    }
}

impl fmt::Debug for InputTasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InputTasks").finish_non_exhaustive()
    }
}
