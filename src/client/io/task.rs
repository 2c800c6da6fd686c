//! Tasks of the program that run on an I/O thread.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::{ClientError, ClientErrorKind};
use crate::oneshot::Oneshot;
use corelane_engine::executor::LocalFuture;

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
