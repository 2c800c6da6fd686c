//! Handlers of input and tasks of the program that run on the I/O thread.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use super::commands::PeerId;
use crate::error::{ClientError, ClientErrorKind};
use crate::inputs::InputFuture;
use crate::session::InputKey;
use corelane_engine::executor::{Executor, LocalFuture, NativeExecutor, Task};
use corelane_engine::ring::Waker;

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
