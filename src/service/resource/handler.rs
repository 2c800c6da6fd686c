//! Handlers of resources and resource templates.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::protocol::error::Error;
use crate::protocol::model::{CacheHint, ReadResourceResultWriter};
use crate::service::blocking_context::BlockingContext;
use crate::service::call::{BlockingWork, Dispatch, LocalWork};
use crate::service::context::RequestContext;
use crate::service::handler::{blocking_work, catch_panic, local_work};
use crate::service::resource::read_context::ReadContext;
use crate::service::results::{HandlerError, HandlerOutput, ReadResourceResult};

/// Source of the contents of a resource.
pub(super) enum ResourceHandler {
    /// Constant bytes.
    Blob(Bytes),
    /// A function that runs on the thread pool.
    Blocking(Box<dyn Fn(ReadContext<'static>, CacheHint) -> BlockingWork + Send + Sync>),
    /// A function that runs on the shard, to completion.
    Inline(InlineHandler),
    /// A future that runs on the shard.
    Local(Box<dyn Fn(ReadContext<'static>, CacheHint) -> LocalWork + Send + Sync>),
    /// A constant text.
    Text(Cow<'static, str>),
}

type InlineHandler = Box<
    dyn Fn(&ReadContext<'_>, &mut ReadResourceResultWriter<'_>) -> Result<(), HandlerError>
        + Send
        + Sync,
>;

impl ResourceHandler {
    pub(super) fn local<F, R, C>(handler: F) -> Self
    where
        F: Fn(ReadContext<'static>, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, HandlerError>> + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |request, cache| {
            let (handler, is_modern) = (Arc::clone(&handler), request.revision().is_modern());
            local_work(
                move |ctx| handler(request, ctx),
                move |result| convert_result(result, cache, is_modern),
            )
        }))
    }

    pub(super) fn blocking<F, C>(handler: F) -> Self
    where
        F: Fn(ReadContext<'static>, BlockingContext) -> Result<C, HandlerError>
            + Send
            + Sync
            + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |request, cache| {
            let (handler, is_modern) = (Arc::clone(&handler), request.revision().is_modern());
            blocking_work(
                move |ctx| handler(request, ctx),
                move |result| convert_result(result, cache, is_modern),
            )
        }))
    }

    /// Writes the contents, or returns the work of a local or blocking handler.
    pub(super) fn start(
        &self,
        ctx: &ReadContext<'_>,
        mime_type: Option<&str>,
        cache: CacheHint,
        contents: &mut ReadResourceResultWriter<'_>,
    ) -> Dispatch {
        let is_modern = ctx.revision().is_modern();
        let result = catch_panic(|| match self {
            Self::Text(text) => {
                contents.text(ctx.uri(), mime_type, text);
                Ok(Dispatch::Ready { is_error: false })
            }
            Self::Blob(bytes) => {
                contents.blob(ctx.uri(), mime_type, bytes);
                Ok(Dispatch::Ready { is_error: false })
            }
            Self::Inline(handler) => {
                handler(ctx, contents)?;
                if contents.is_empty() {
                    return Err(not_found(ctx));
                }
                Ok(Dispatch::Ready { is_error: false })
            }
            Self::Local(handler) => Ok(Dispatch::Local(handler(ctx.clone().into_owned(), cache))),
            Self::Blocking(handler) => {
                Ok(Dispatch::Blocking(handler(ctx.clone().into_owned(), cache)))
            }
        });
        result.unwrap_or_else(|error| Dispatch::Failed(error.into_rpc_error(is_modern)))
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Blob(_) => "blob",
            Self::Blocking(_) => "blocking",
            Self::Inline(_) => "inline",
            Self::Local(_) => "local",
            Self::Text(_) => "text",
        }
    }
}

/// The error for a handler that writes nothing: a result must not have empty contents (MCP
/// 2026-07-28, server/resources, "Error Handling").
fn not_found(ctx: &ReadContext<'_>) -> HandlerError {
    Error::resource_not_found(ctx.uri(), ctx.revision()).into()
}

/// Converts the result of a local or blocking handler: adds the cache hint of the resource if it
/// has none, and makes errors JSON-RPC errors.
fn convert_result<C: Into<ReadResourceResult>>(
    result: Result<C, HandlerError>,
    cache: CacheHint,
    is_modern: bool,
) -> Result<HandlerOutput, HandlerError> {
    match result {
        Ok(contents) => {
            let mut contents = contents.into();
            contents.cache_hint.get_or_insert(cache);
            Ok(HandlerOutput::Resource(contents))
        }
        Err(error) => Err(error.into_rpc_error(is_modern).into()),
    }
}
