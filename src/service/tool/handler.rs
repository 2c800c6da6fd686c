//! The three kinds of handlers of a tool, with the types of their arguments forgotten.
//!
//! What it keeps true: arguments are read before work is handed out, so that what is wrong with
//! them is said at once. It does not run local or blocking work: it hands them out.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::protocol::message::Answer;
use crate::service::call::{BlockingWork, Call, LocalWork, Reply};
use crate::service::handler::{blocking_work, local_work, wall};
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Outcome, Yield};
use crate::service::tool::promise::Promise;
use crate::service::worker::Worker;

/// How a tool is run.
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
type LocalHandler =
    Box<dyn Fn(&Call<'_>, &Promise) -> Result<LocalWork, HandlerError> + Send + Sync>;
type BlockingHandler =
    Box<dyn Fn(&Call<'_>, &Promise) -> Result<BlockingWork, HandlerError> + Send + Sync>;

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
        Self::Local(Box::new(move |call, promise| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let promise = promise.clone();
            Ok(local_work(
                move |live| handler(arguments, live),
                move |result| promise.look(result).map(Yield::Tool),
            ))
        }))
    }

    pub(super) fn blocking<T, F>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, Worker) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |call, promise| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let promise = promise.clone();
            Ok(blocking_work(
                move |worker| handler(arguments, worker),
                move |result| promise.look(result).map(Yield::Tool),
            ))
        }))
    }

    /// Runs an inline handler, or hands out the work of another kind.
    #[inline]
    pub(super) fn start(
        &self,
        call: &Call<'_>,
        answer: &mut Answer<'_>,
        promise: &Promise,
    ) -> Result<Reply, HandlerError> {
        wall(|| match self {
            Self::Inline(handler) => {
                handler(call, answer)?;
                promise.look_at(answer)?;
                Ok(Reply::Ready { is_failed: answer.is_failed() })
            }
            Self::Local(handler) => handler(call, promise).map(Reply::Local),
            Self::Blocking(handler) => handler(call, promise).map(Reply::Blocking),
        })
    }
}
