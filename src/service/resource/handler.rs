//! Handlers of resources and resource templates, and the context of a `resources/read` request:
//! URI, path and template variables.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::error::Error;
use corelane_protocol::model::{CacheHint, ReadResourceResultWriter};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

use crate::service::call::{BlockingWork, Dispatch, LocalWork, ResultSize};
use crate::service::context::{
    BlockingContext, InlineContext, InlineEnd, RequestContext, RequestView,
};
use crate::service::handler::{
    blocking_work, catch_panic, emitted_work, local_work, protocol_error,
};
use crate::service::resource::uri_decoder;
use crate::service::resource::uri_template::{UriTemplate, VariableSpans};
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

    /// Passes the request on to another server; the result is encoded already.
    #[cfg(feature = "gateway")]
    pub(super) fn forward<S, F, R>(handler: F) -> Self
    where
        S: 'static,
        F: Fn(ReadContext<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |request, target| {
            let handler = Arc::clone(&handler);
            let (uri, revision) = (Box::<str>::from(target.uri), request.revision());
            let is_modern = revision.is_modern();
            local_work(
                move |ctx| handler(request, ctx.with_state()),
                move |result| {
                    result.map_err(|error| protocol_error(error, is_modern, "resource", &uri))
                },
            )
        }))
    }

    /// `size` returns how large the contents can be.
    pub(super) fn blocking<F, C>(
        size: impl Fn(&ReadContext<'_>) -> ResultSize + Send + Sync + 'static,
        handler: F,
    ) -> Self
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
            blocking_work(size(&request), move |ctx| handler(request, ctx), finish)
        }))
    }

    /// Writes the contents, or returns the work of a local or blocking handler.
    pub(super) fn start(
        &self,
        ctx: &ReadContext<'_>,
        view: RequestView<'_>,
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

/// A `resources/read` request, as a resource handler sees it.
///
/// The URI is untrusted input. Validate parts of it before using them as a path, in a query or in a
/// command; for `file:` URIs use [`ReadContext::path`], which is validated.
#[derive(Clone, Debug)]
pub struct ReadContext<'a> {
    uri: Cow<'a, str>,
    path: Option<Cow<'a, str>>,
    variables: Option<(Arc<UriTemplate>, VariableSpans)>,
    revision: Revision,
}

impl<'a> ReadContext<'a> {
    /// A request for `uri`. Fails with invalid params (-32602) if it is an unsafe `file:` URI.
    pub(in crate::service) fn new(uri: Cow<'a, str>, revision: Revision) -> Result<Self, Error> {
        let path = match &uri {
            Cow::Borrowed(uri) => uri_decoder::decode_path(uri)?,
            Cow::Owned(uri) => {
                uri_decoder::decode_path(uri)?.map(|path| Cow::Owned(path.into_owned()))
            }
        };
        Ok(Self { uri, path, variables: None, revision })
    }

    /// The URI of the resource, as it was registered. For a template it is the requested one, with
    /// the scheme in lower case, a `file:` URI as `file:///…`, and percent-encoding as RFC 3986,
    /// section 6.2.2, has it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The decoded path of a `file:` URI: absolute, without `.` and `..` segments, NUL, control
    /// characters and encoded separators. `None` for other schemes. Symbolic links in it are not
    /// resolved.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The decoded value of a template variable; empty if the URI omits it (only possible for query
    /// parameters). `None` if the template has no such variable.
    pub fn variable(&self, name: &str) -> Option<Cow<'_, str>> {
        let (pattern, spans) = self.variables.as_ref()?;
        let value = spans.value(pattern.index_of(name)?, &self.uri);
        // URIs with values that do not decode did not match.
        Some(uri_decoder::decode(value).unwrap_or_default())
    }

    /// Protocol revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Copies the request, so that it outlives the message.
    pub fn into_owned(self) -> ReadContext<'static> {
        ReadContext {
            uri: Cow::Owned(self.uri.into_owned()),
            path: self.path.map(|path| Cow::Owned(path.into_owned())),
            variables: self.variables,
            revision: self.revision,
        }
    }

    /// Matches the URI against `pattern` and sets the variables. Returns `false` if it does not
    /// match or a value does not decode.
    pub(super) fn match_template(&mut self, pattern: &Arc<UriTemplate>) -> bool {
        // The key has the length of the URI: their values have equal places.
        let key = uri::comparison_key(&self.uri);
        let Some(spans) = pattern.match_uri(&key) else { return false };
        let count = pattern.variable_names().count();
        if (0..count).any(|index| uri_decoder::decode(spans.value(index, &self.uri)).is_none()) {
            return false;
        }
        self.variables = Some((Arc::clone(pattern), spans));
        true
    }
}
