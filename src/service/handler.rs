//! What handlers of tools, prompts and resources share: panic isolation, and wrapping of local and
//! blocking work.
//!
//! A panic in a handler becomes an internal error (-32603) of that request, without its message.
//! The log has the message, and so does the panic hook of the process.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

#[cfg(feature = "tokio")]
use crate::service::call::TokioWork;
use crate::service::call::{BlockingWork, LocalWork, ResultSize};
#[cfg(feature = "tokio")]
use crate::service::context::TokioContext;
use crate::service::context::{BlockingContext, InlineEvents, RequestContext};
use crate::service::results::{HandlerError, HandlerOutput};

/// Wraps a local handler: `start` creates its future, `finish` converts the result.
pub(super) fn local_work<Y, R>(
    start: impl FnOnce(RequestContext) -> R + 'static,
    finish: impl FnOnce(Result<Y, HandlerError>) -> Result<HandlerOutput, HandlerError> + 'static,
) -> LocalWork
where
    R: Future<Output = Result<Y, HandlerError>>,
    Y: 'static,
{
    Box::new(move |ctx| {
        Box::pin(async move {
            let result = {
                // `start` may panic, too.
                let mut work = pin!(async move { start(ctx).await });
                poll_fn(|context| poll_caught(work.as_mut(), context)).await
            };
            finish(result)
        })
    })
}

/// Completes an inline handler that has sent messages: sends them, then ends with `output`.
#[cold]
pub(super) fn emitted_work(
    events: Box<InlineEvents>,
    output: Result<HandlerOutput, HandlerError>,
) -> LocalWork {
    Box::new(move |ctx| {
        Box::pin(async move {
            events.send(&ctx);
            output
        })
    })
}

/// Wraps a tokio handler: `start` creates its future, `finish` converts the result.
#[cfg(feature = "tokio")]
pub(super) fn tokio_work<Y, R, F>(
    start: impl FnOnce(TokioContext) -> R + Send + 'static,
    finish: F,
) -> TokioWork
where
    R: Future<Output = Result<Y, HandlerError>> + Send + 'static,
    Y: Send + 'static,
    F: FnOnce(Result<Y, HandlerError>) -> Result<HandlerOutput, HandlerError> + Send + 'static,
{
    Box::new(move |ctx| {
        Box::pin(async move {
            let result = {
                let mut work = pin!(async move { start(ctx).await });
                poll_fn(|context| poll_caught(work.as_mut(), context)).await
            };
            finish(result)
        })
    })
}

/// Polls `work`; a panic becomes an internal error, after which it must not be polled again.
fn poll_caught<T>(
    work: Pin<&mut impl Future<Output = Result<T, HandlerError>>>,
    context: &mut Context<'_>,
) -> Poll<Result<T, HandlerError>> {
    catch_panic(|| Ok(work.poll(context))).unwrap_or_else(|error| Poll::Ready(Err(error)))
}

/// Wraps a blocking handler: `work` runs on the pool, `finish` converts the result.
pub(super) fn blocking_work<Y, F>(
    result_size: ResultSize,
    work: impl FnOnce(BlockingContext) -> Result<Y, HandlerError> + Send + 'static,
    finish: F,
) -> BlockingWork
where
    Y: 'static,
    F: FnOnce(Result<Y, HandlerError>) -> Result<HandlerOutput, HandlerError> + Send + 'static,
{
    let run = Box::new(move |ctx| finish(catch_panic(|| work(ctx))));
    BlockingWork { run, result_size }
}

/// Runs `work`; a panic becomes an internal error.
///
/// `AssertUnwindSafe` holds because nothing that a panic may leave half done is used again: output
/// is truncated and arguments are dropped. State shared between calls is protected by the handler
/// itself (a `Mutex` is poisoned).
#[inline]
pub(super) fn catch_panic<T>(
    work: impl FnOnce() -> Result<T, HandlerError>,
) -> Result<T, HandlerError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(HandlerError::panicked(text.unwrap_or("the panic has no message")))
    })
}

/// Converts the error of a local or blocking handler of a prompt or resource.
pub(super) fn protocol_error(
    error: HandlerError,
    is_modern: bool,
    kind: &'static str,
    name: &str,
) -> HandlerError {
    match error.into_rpc_error(is_modern) {
        Ok(error) => HandlerError::Rpc(error),
        Err(error) => HandlerError::Internal(error).in_handler(kind, &name.into()),
    }
}
