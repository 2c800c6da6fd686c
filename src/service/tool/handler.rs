//! The kinds of tool handlers, with the types of their arguments erased.
//!
//! Arguments are decoded before a local or blocking handler is started, so that invalid arguments
//! are reported immediately.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::protocol::model::CallToolResultWriter;
#[cfg(feature = "tokio")]
use crate::service::call::TokioWork;
use crate::service::call::{BlockingWork, CallToolRequest, Dispatch, LocalWork};
use crate::service::context::BlockingContext;
use crate::service::context::InlineContext;
use crate::service::context::RequestContext;
#[cfg(feature = "tokio")]
use crate::service::context::TokioContext;
#[cfg(feature = "tokio")]
use crate::service::handler::tokio_work;
use crate::service::handler::{blocking_work, catch_panic, local_work};
use crate::service::results::{HandlerError, HandlerOutput, IntoCallToolResult};
use crate::service::tool::output_validator::OutputValidator;

/// Handler of a tool.
pub(super) enum ToolHandler {
    /// On the shard, to completion.
    Inline(InlineHandler),
    /// On the shard, as a future.
    Local(DeferredHandler<LocalWork>),
    /// On the thread pool.
    Blocking(DeferredHandler<BlockingWork>),
    /// On a tokio runtime, as a future.
    #[cfg(feature = "tokio")]
    Tokio(DeferredHandler<TokioWork>),
}

type InlineHandler = Box<
    dyn Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
        + Send
        + Sync,
>;

/// Decodes the arguments and returns the work.
type DeferredHandler<W> =
    Box<dyn Fn(&CallToolRequest<'_>, &OutputValidator) -> Result<W, HandlerError> + Send + Sync>;

impl ToolHandler {
    pub(super) fn inline<S, T, F, R>(handler: F) -> Self
    where
        S: 'static,
        T: DeserializeOwned,
        F: Fn(T, &InlineContext<'_, S>) -> R + Send + Sync + 'static,
        R: IntoCallToolResult,
    {
        Self::Inline(Box::new(move |call, writer| {
            handler(call.decode()?, &InlineContext::new(call.view())).write_as_result(writer)
        }))
    }

    pub(super) fn inline_writer<S, T, F>(handler: F) -> Self
    where
        S: 'static,
        T: DeserializeOwned,
        F: Fn(T, &mut CallToolResultWriter<'_>, &InlineContext<'_, S>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        Self::Inline(Box::new(move |call, writer| {
            handler(call.decode()?, writer, &InlineContext::new(call.view()))
        }))
    }

    pub(super) fn inline_raw<F>(handler: F) -> Self
    where
        F: Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        Self::Inline(Box::new(handler))
    }

    pub(super) fn local<S, T, F, R>(handler: F) -> Self
    where
        S: 'static,
        T: DeserializeOwned + 'static,
        F: Fn(T, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallToolResult> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(local_work(
                move |ctx| async move {
                    handler(arguments, ctx.with_state()).await.into_call_tool_result()
                },
                move |result| validator.validate(result).map(HandlerOutput::Tool),
            ))
        }))
    }

    pub(super) fn blocking<T, F, R>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, BlockingContext) -> R + Send + Sync + 'static,
        R: IntoCallToolResult,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(blocking_work(
                move |ctx| handler(arguments, ctx).into_call_tool_result(),
                move |result| validator.validate(result).map(HandlerOutput::Tool),
            ))
        }))
    }

    #[cfg(feature = "tokio")]
    pub(super) fn tokio<T, F, R>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, TokioContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallToolResult> + Send + 'static,
    {
        let handler = Arc::new(handler);
        Self::Tokio(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(tokio_work(
                move |ctx| {
                    let running = handler(arguments, ctx);
                    async move { running.await.into_call_tool_result() }
                },
                move |result| validator.validate(result).map(HandlerOutput::Tool),
            ))
        }))
    }

    /// Runs an inline handler, or returns the work of another kind.
    #[inline]
    pub(super) fn start(
        &self,
        call: &CallToolRequest<'_>,
        writer: &mut CallToolResultWriter<'_>,
        validator: &OutputValidator,
    ) -> Result<Dispatch, HandlerError> {
        catch_panic(|| match self {
            Self::Inline(handler) => {
                handler(call, writer)?;
                validator.validate_written(writer)?;
                Ok(Dispatch::Ready { is_error: writer.is_error() })
            }
            Self::Local(handler) => handler(call, validator).map(Dispatch::Local),
            Self::Blocking(handler) => handler(call, validator).map(Dispatch::Blocking),
            #[cfg(feature = "tokio")]
            Self::Tokio(handler) => handler(call, validator).map(Dispatch::Tokio),
        })
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Inline(_) => "inline",
            Self::Local(_) => "local",
            Self::Blocking(_) => "blocking",
            #[cfg(feature = "tokio")]
            Self::Tokio(_) => "tokio",
        }
    }
}
