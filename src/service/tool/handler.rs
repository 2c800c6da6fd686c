//! The three kinds of tool handlers, with the types of their arguments erased.
//!
//! Arguments are decoded before a local or blocking handler is started, so that invalid arguments
//! are reported immediately.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::protocol::model::CallToolResultWriter;
use crate::service::blocking_context::BlockingContext;
use crate::service::call::{BlockingWork, CallToolRequest, Dispatch, LocalWork};
use crate::service::context::RequestContext;
use crate::service::handler::{blocking_work, catch_panic, local_work};
use crate::service::results::{CallToolResult, HandlerError, HandlerOutput};
use crate::service::tool::output_validator::OutputValidator;

/// Handler of a tool.
pub(super) enum ToolHandler {
    /// On the shard, to completion.
    Inline(InlineHandler),
    /// On the shard, as a future.
    Local(LocalHandler),
    /// On the thread pool.
    Blocking(BlockingHandler),
}

type InlineHandler = Box<
    dyn Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
        + Send
        + Sync,
>;
type LocalHandler = Box<
    dyn Fn(&CallToolRequest<'_>, &OutputValidator) -> Result<LocalWork, HandlerError> + Send + Sync,
>;
type BlockingHandler = Box<
    dyn Fn(&CallToolRequest<'_>, &OutputValidator) -> Result<BlockingWork, HandlerError>
        + Send
        + Sync,
>;

impl ToolHandler {
    pub(super) fn inline<T, F>(handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(T, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        Self::Inline(Box::new(move |call, writer| handler(call.decode()?, writer)))
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

    pub(super) fn local<T, F, R>(handler: F) -> Self
    where
        T: DeserializeOwned + 'static,
        F: Fn(T, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CallToolResult, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(local_work(
                move |ctx| handler(arguments, ctx),
                move |result| validator.validate(result).map(HandlerOutput::Tool),
            ))
        }))
    }

    pub(super) fn blocking<T, F>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, BlockingContext) -> Result<CallToolResult, HandlerError> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |call, validator| {
            let (handler, arguments) = (Arc::clone(&handler), call.decode::<T>()?);
            let validator = validator.clone();
            Ok(blocking_work(
                move |ctx| handler(arguments, ctx),
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
        })
    }
}
