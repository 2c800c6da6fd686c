//! The kinds of tool handlers, with the types of their arguments erased, and which types those may
//! be.
//!
//! Arguments are decoded before a local or blocking handler is started, so that invalid arguments
//! are reported immediately.

use std::sync::Arc;

use corelane_protocol::model::CallToolResultWriter;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

#[cfg(feature = "tokio")]
use crate::service::call::TokioWork;
use crate::service::call::{
    BlockingWork, CallToolRequest, Dispatch, HandlerIdentity, LocalWork, ResultSize,
};
#[cfg(feature = "tokio")]
use crate::service::context::TokioContext;
use crate::service::context::{BlockingContext, InlineContext, InlineEnd, RequestContext};
#[cfg(feature = "tokio")]
use crate::service::handler::tokio_work;
use crate::service::handler::{blocking_work, catch_panic, emitted_work, local_work};
use crate::service::results::{HandlerError, HandlerOutput, IntoCallToolResult};
use crate::service::tool::schema::OutputValidator;

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
    dyn Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), InlineEnd>
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
            let (arguments, ctx) = (call.decode()?, InlineContext::new(call.view()));
            let written = handler(arguments, &ctx).write_as_result(writer);
            ctx.end(written)
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
            let (arguments, ctx) = (call.decode()?, InlineContext::new(call.view()));
            let written = handler(arguments, writer, &ctx);
            ctx.end(written)
        }))
    }

    pub(super) fn inline_raw<F>(handler: F) -> Self
    where
        F: Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        Self::Inline(Box::new(move |call, writer| handler(call, writer).map_err(InlineEnd::Failed)))
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

    #[cfg(feature = "gateway")]
    pub(super) fn forward<S, F, R>(handler: F) -> Self
    where
        S: 'static,
        F: Fn(Vec<u8>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |call, _| {
            let handler = Arc::clone(&handler);
            let mut arguments = Vec::new();
            match call.arguments() {
                Some(given) => given.write(&mut arguments),
                None => arguments.extend_from_slice(b"{}"),
            }
            Ok(local_work(move |ctx| handler(arguments, ctx.with_state()), |output| output))
        }))
    }

    pub(super) fn blocking<T, F, R>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, BlockingContext) -> R + Send + Sync + 'static,
        R: IntoCallToolResult,
    {
        let (handler, identity) = (Arc::new(handler), HandlerIdentity::default());
        Self::Blocking(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(blocking_work(
                ResultSize::Unknown(Arc::clone(&identity)),
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
            Self::Inline(handler) => match handler(call, writer) {
                Ok(()) => {
                    validator.validate_written(writer)?;
                    Ok(Dispatch::Ready { is_error: writer.is_error() })
                }
                Err(InlineEnd::Failed(error)) => Err(error),
                Err(InlineEnd::Emitted(events, written)) => {
                    let output = take_result(written, writer, validator);
                    Ok(Dispatch::Local(emitted_work(events, output)))
                }
            },
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

/// Takes what an inline handler wrote as the output of a handler that ends later.
#[cold]
fn take_result(
    written: Result<(), HandlerError>,
    writer: &mut CallToolResultWriter<'_>,
    validator: &OutputValidator,
) -> Result<HandlerOutput, HandlerError> {
    if let Err(error) = written {
        return validator.validate(Err(error)).map(HandlerOutput::Tool);
    }
    validator.validate_written(writer)?;
    let is_error = writer.is_error();
    Ok(HandlerOutput::Encoded { result: writer.take(), is_error })
}

/// The arguments of a tool: every type that implements [`serde::Deserialize`] without borrowing,
/// and [`schemars::JsonSchema`]. Derive both; do not implement this trait.
///
/// The schema of the type becomes the input schema of the tool, and doc comments its descriptions.
/// A tool without arguments takes [`NoArguments`](crate::service::NoArguments).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool: derive `serde::Deserialize` and \
               `schemars::JsonSchema` (schemars 1), or take `NoArguments`",
    label = "not the arguments of a tool",
    note = "fields own their data: `String` instead of `&str`"
)]
pub trait ToolArguments: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> ToolArguments for T {}
