//! The three kinds of handlers, and the wall around them.
//!
//! What it keeps true: a panic in a handler ends that call with an internal error (-32603) that
//! tells the caller nothing of it, and ends nothing else. The panic hook of the process still sees
//! the message. It does not run local or blocking work: it hands them out.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use crate::protocol::error::Error;
use crate::protocol::message::Answer;
use crate::service::call::{BlockingWork, Call, LocalWork, Reply};
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::worker::Worker;

/// How a tool is run, with the types of its arguments forgotten.
pub(super) enum Handler {
    /// On the shard, to completion.
    Inline(InlineHandler),
    /// On the shard, as a future.
    Local(LocalHandler),
    /// On the thread pool.
    Blocking(BlockingHandler),
}

type InlineHandler =
    Box<dyn Fn(&Call<'_>, &mut Answer<'_>) -> Result<(), HandlerError> + Send + Sync>;
type LocalHandler = Box<dyn Fn(&Call<'_>) -> Result<LocalWork, HandlerError> + Send + Sync>;
type BlockingHandler = Box<dyn Fn(&Call<'_>) -> Result<BlockingWork, HandlerError> + Send + Sync>;

impl Handler {
    pub(super) fn inline<T, F>(handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(T, &mut Answer<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        Self::Inline(Box::new(move |call, answer| handler(call.decode()?, answer)))
    }

    pub(super) fn inline_raw<F>(handler: F) -> Self
    where
        F: Fn(&Call<'_>, &mut Answer<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        Self::Inline(Box::new(handler))
    }

    pub(super) fn local<T, F, R>(handler: F) -> Self
    where
        T: DeserializeOwned + 'static,
        F: Fn(T, Live) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |call| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            Ok(Box::new(move |live| {
                Box::pin(async move {
                    let mut work = pin!(async move { handler(arguments, live).await });
                    // A future is not polled again after a panic: the wall makes it ready.
                    let step = |context: &mut Context<'_>| {
                        wall(|| Ok(work.as_mut().poll(context)))
                            .unwrap_or_else(|error| Poll::Ready(Err(error)))
                    };
                    poll_fn(step).await
                })
            }))
        }))
    }

    pub(super) fn blocking<T, F>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, Worker) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |call| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            Ok(Box::new(move |worker| wall(|| handler(arguments, worker))))
        }))
    }

    /// Runs an inline handler, or hands out the work of another kind.
    #[inline]
    pub(super) fn start(
        &self,
        call: &Call<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Reply, HandlerError> {
        wall(|| match self {
            Self::Inline(handler) => {
                handler(call, answer)?;
                Ok(Reply::Ready { is_failed: answer.is_failed() })
            }
            Self::Local(handler) => handler(call).map(Reply::Local),
            Self::Blocking(handler) => handler(call).map(Reply::Blocking),
        })
    }
}

/// Runs `work`; a panic becomes an internal error.
///
/// `AssertUnwindSafe` holds because what a panic may leave half done is not looked at again: the
/// answer is rolled back and arguments are dropped. State that a handler shares between calls is
/// the handler's own to protect, as under any server that outlives a panic.
#[inline]
fn wall<T>(work: impl FnOnce() -> Result<T, HandlerError>) -> Result<T, HandlerError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(HandlerError::Refused(Error::crashed())))
}
