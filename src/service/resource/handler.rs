//! Handlers of resources and resource templates.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::error::Error;
use corelane_protocol::model::{CacheHint, ReadResourceResultWriter};
use corelane_protocol::revision::Revision;

use crate::service::call::{BlockingWork, Dispatch, LocalWork};
use crate::service::context::BlockingContext;
use crate::service::context::RequestContext;
use crate::service::context::{InlineContext, InlineEnd, RequestView};
use crate::service::handler::{
    blocking_work, catch_panic, emitted_work, local_work, protocol_error,
};
use crate::service::resource::read_context::ReadContext;
use crate::service::results::{HandlerError, HandlerOutput, ReadResourceResult};

/// Source of the contents of a resource.
pub(super) enum ResourceHandler {
    /// Constant bytes.
    Blob(Bytes),
    /// A function that runs on the thread pool.
    Blocking(DeferredHandler<BlockingWork>),
    /// A function that runs on the shard, to completion.
    Inline(InlineHandler),
    /// A future that runs on the shard.
    Local(DeferredHandler<LocalWork>),
    /// A constant text.
    Text(Cow<'static, str>),
}

/// The resource or template that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTarget<'d> {
    /// Its URI or URI template.
    pub(super) uri: &'d str,
    pub(super) mime_type: Option<&'d str>,
    pub(super) cache_hint: CacheHint,
}

type DeferredHandler<W> = Box<dyn Fn(ReadContext<'static>, ReadTarget<'_>) -> W + Send + Sync>;

type InlineHandler = Box<
    dyn Fn(
            &ReadContext<'_>,
            &mut ReadResourceResultWriter<'_>,
            RequestView<'_>,
        ) -> Result<(), InlineEnd>
        + Send
        + Sync,
>;

impl ResourceHandler {
    pub(super) fn inline<S, F>(handler: F) -> Self
    where
        S: 'static,
        F: Fn(
                &ReadContext<'_>,
                &mut ReadResourceResultWriter<'_>,
                &InlineContext<'_, S>,
            ) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        Self::Inline(Box::new(move |read, contents, view| {
            let ctx = InlineContext::new(view);
            let written = handler(read, contents, &ctx);
            ctx.end(written)
        }))
    }

    pub(super) fn local<S, F, R, C>(handler: F) -> Self
    where
        S: 'static,
        F: Fn(ReadContext<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, HandlerError>> + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |request, target| {
            let handler = Arc::clone(&handler);
            let finish = convert_result(target, &request);
            local_work(move |ctx| handler(request, ctx.with_state()), finish)
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
        Self::Blocking(Box::new(move |request, target| {
            let handler = Arc::clone(&handler);
            let finish = convert_result(target, &request);
            blocking_work(move |ctx| handler(request, ctx), finish)
        }))
    }

    /// Writes the contents, or returns the work of a local or blocking handler.
    pub(super) fn start(
        &self,
        (ctx, view): (&ReadContext<'_>, RequestView<'_>),
        target: ReadTarget<'_>,
        contents: &mut ReadResourceResultWriter<'_>,
    ) -> Dispatch {
        let (is_modern, mime_type) = (ctx.revision().is_modern(), target.mime_type);
        let result = catch_panic(|| match self {
            Self::Text(text) => {
                contents.text(ctx.uri(), mime_type, text);
                Ok(Dispatch::Ready { is_error: false })
            }
            Self::Blob(bytes) => {
                contents.blob(ctx.uri(), mime_type, bytes);
                Ok(Dispatch::Ready { is_error: false })
            }
            Self::Inline(handler) => match handler(ctx, contents, view) {
                Ok(()) if contents.is_empty() => Err(HandlerError::NotFound),
                Ok(()) => Ok(Dispatch::Ready { is_error: false }),
                Err(InlineEnd::Failed(error)) => Err(error),
                Err(InlineEnd::Emitted(events, written)) => {
                    let output = take_result(ctx, target, contents, written);
                    Ok(Dispatch::Local(emitted_work(events, output)))
                }
            },
            Self::Local(handler) => Ok(Dispatch::Local(handler(ctx.clone().into_owned(), target))),
            Self::Blocking(handler) => {
                Ok(Dispatch::Blocking(handler(ctx.clone().into_owned(), target)))
            }
        });
        result.unwrap_or_else(|error| {
            let error = match error {
                HandlerError::NotFound => not_found(ctx.uri(), ctx.revision()),
                error => error.in_handler("resource", &target.uri.into()),
            };
            Dispatch::protocol_error(error, is_modern)
        })
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

/// Takes what an inline handler wrote as the output of a handler that ends later.
fn take_result(
    ctx: &ReadContext<'_>,
    target: ReadTarget<'_>,
    contents: &mut ReadResourceResultWriter<'_>,
    written: Result<(), HandlerError>,
) -> Result<HandlerOutput, HandlerError> {
    match written {
        Ok(()) if contents.is_empty() => Err(not_found(ctx.uri(), ctx.revision())),
        Err(HandlerError::NotFound) => Err(not_found(ctx.uri(), ctx.revision())),
        Ok(()) => Ok(HandlerOutput::Encoded { result: contents.take(), is_error: false }),
        Err(error) => {
            Err(protocol_error(error, ctx.revision().is_modern(), "resource", target.uri))
        }
    }
}

/// The error for a handler that finds or writes nothing: a result must not have empty contents (MCP
/// 2026-07-28, server/resources, "Error Handling").
fn not_found(uri: &str, revision: Revision) -> HandlerError {
    Error::resource_not_found(uri, revision).into()
}

/// Returns the conversion of the result of a local or blocking handler: it adds the cache hint of
/// the resource if it has none, and makes errors JSON-RPC errors.
fn convert_result<C: Into<ReadResourceResult>>(
    target: ReadTarget<'_>,
    ctx: &ReadContext<'_>,
) -> impl FnOnce(Result<C, HandlerError>) -> Result<HandlerOutput, HandlerError> + Send + use<C> {
    let (cache, uri) = (target.cache_hint, Box::<str>::from(target.uri));
    let (requested, revision) = (Box::<str>::from(ctx.uri()), ctx.revision());
    move |result| match result {
        Ok(contents) => {
            let mut contents = contents.into();
            contents.cache_hint.get_or_insert(cache);
            Ok(HandlerOutput::Resource(contents))
        }
        Err(HandlerError::NotFound) => Err(not_found(&requested, revision)),
        Err(error) => Err(protocol_error(error, revision.is_modern(), "resource", &uri)),
    }
}
