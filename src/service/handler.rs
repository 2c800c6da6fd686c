//! What all kinds of handlers share: the wall around them, and how their work is handed out.
//!
//! What it keeps true: a panic in a handler ends that request with an internal error (-32603) that
//! tells the caller nothing of it, and ends nothing else. The panic hook of the process still sees
//! the message. It does not run local or blocking work: it hands them out.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};

use crate::protocol::error::Error;
use crate::service::call::{BlockingWork, LocalWork};
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Yield};
use crate::service::worker::Worker;

/// A future to run on a shard: `start` makes it, `finish` judges what came of it.
pub(in crate::service) fn local_work<Y, R>(
    start: impl FnOnce(Live) -> R + 'static,
    finish: impl FnOnce(Result<Y, HandlerError>) -> Result<Yield, HandlerError> + 'static,
) -> LocalWork
where
    R: Future<Output = Result<Y, HandlerError>>,
    Y: 'static,
{
    Box::new(move |live| {
        Box::pin(async move {
            let result = {
                let mut work = pin!(async move { start(live).await });
                // A future is not polled again after a panic: the wall makes it ready.
                let step = |context: &mut Context<'_>| {
                    wall(|| Ok(work.as_mut().poll(context)))
                        .unwrap_or_else(|error| Poll::Ready(Err(error)))
                };
                poll_fn(step).await
            };
            finish(result)
        })
    })
}

/// A closure to run on the thread pool: `work` runs, `finish` judges what came of it.
pub(in crate::service) fn blocking_work<Y>(
    work: impl FnOnce(Worker) -> Result<Y, HandlerError> + Send + 'static,
    finish: impl FnOnce(Result<Y, HandlerError>) -> Result<Yield, HandlerError> + Send + 'static,
) -> BlockingWork
where
    Y: 'static,
{
    Box::new(move |worker| finish(wall(|| work(worker))))
}

/// Runs `work`; a panic becomes an internal error.
///
/// `AssertUnwindSafe` holds because what a panic may leave half done is not looked at again: the
/// answer is rolled back and arguments are dropped. State that a handler shares between calls is
/// the handler's own to protect, as under any server that outlives a panic.
#[inline]
pub(in crate::service) fn wall<T>(
    work: impl FnOnce() -> Result<T, HandlerError>,
) -> Result<T, HandlerError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(HandlerError::Refused(Error::crashed())))
}
