//! Builder of resources and resource templates.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::{Annotations, CacheHint, Icon, ReadResourceResultWriter};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;
use serde_json::Value;

use crate::service::call::{HandlerIdentity, ResultSize};
use crate::service::completer::{Completer, CompletionContext};
#[cfg(feature = "gateway")]
use crate::service::completer::{CompletionForwarder, ForwardedCompletion};
use crate::service::context::{BlockingContext, InlineContext, RequestContext, StateType};
use crate::service::entry::Metadata;
use crate::service::resource::handler::{ReadContext, ReadTarget, ResourceHandler};
use crate::service::resource::{Resource, ResourceTemplate};
#[cfg(feature = "gateway")]
use crate::service::results::HandlerOutput;
use crate::service::results::{Completion, HandlerError, ReadResourceResult};

/// Definition of a resource or a resource template.
#[derive(Debug)]
pub(super) struct ResourceDefinition {
    /// The URI, or the URI template.
    pub(super) uri: Box<str>,
    /// The text that all spellings of the URI have in common, if it is another one.
    pub(super) comparison_key: Option<Box<str>>,
    pub(super) metadata: Metadata,
    pub(super) mime_type: Option<Box<str>>,
    size_bytes: Option<u64>,
    annotations: Option<Annotations>,
    pub(super) cache_hint: CacheHint,
    pub(super) completers: Vec<(Box<str>, Completer)>,
    /// Passes completions on to another server.
    #[cfg(feature = "gateway")]
    pub(super) completion_forwarder: Option<CompletionForwarder>,
    /// The variable that the URIs of the listed resources complete.
    pub(super) listed_variable: Option<Box<str>>,
    /// The shard state that the handler needs.
    pub(super) required_state: Option<StateType>,
    /// The URI of what it is a link to.
    pub(super) target_uri: Option<Box<str>>,
}

impl ResourceDefinition {
    pub(super) fn new(uri: Box<str>, name: Box<str>) -> Self {
        Self {
            uri,
            comparison_key: None,
            metadata: Metadata::new(name),
            mime_type: None,
            size_bytes: None,
            annotations: None,
            cache_hint: CacheHint { ttl_ms: 0, is_public: false },
            completers: Vec::new(),
            #[cfg(feature = "gateway")]
            completion_forwarder: None,
            listed_variable: None,
            required_state: None,
            target_uri: None,
        }
    }

    /// Computes how its URI is compared with that of a request.
    pub(super) fn set_comparison_key(&mut self) {
        let key = uri::comparison_key(&self.uri);
        self.comparison_key = (*key != *self.uri).then(|| key.into());
    }

    /// Returns what the handler needs to read it.
    pub(super) fn target(&self) -> ReadTarget<'_> {
        let mime_type = self.mime_type.as_deref();
        ReadTarget { uri: &self.uri, mime_type, cache_hint: self.cache_hint }
    }

    /// Appends the object of a list; `uri_key` is `uri` or `uriTemplate`.
    ///
    /// Source: MCP `schema/<revision>`, types `Resource` and `ResourceTemplate`.
    pub(super) fn write(&self, uri_key: &str, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.string(uri_key, &self.uri);
        self.metadata.write_leading_members(&mut object, revision);
        object.string_opt("mimeType", self.mime_type.as_ref());
        object.unsigned_opt("size", self.size_bytes);
        if let Some(annotations) = &self.annotations {
            annotations.write(&mut object, revision);
        }
        self.metadata.write_trailing_members(&mut object, revision);
        object.close();
    }
}

/// Builder of a [`Resource`] or a [`ResourceTemplate`]. Set its properties first; constant contents
/// or one of the handler methods complete it.
///
/// `S` is the state of the shard that the handler reads; see [`ResourceBuilder::state`].
#[must_use = "complete it with contents or a handler: text, blob, inline, local or blocking"]
pub struct ResourceBuilder<T, S = ()> {
    definition: ResourceDefinition,
    build: fn(ResourceDefinition, ResourceHandler) -> T,
    state: PhantomData<fn() -> S>,
}

impl<T> ResourceBuilder<T> {
    pub(super) const fn new(
        definition: ResourceDefinition,
        build: fn(ResourceDefinition, ResourceHandler) -> T,
    ) -> Self {
        Self { definition, build, state: PhantomData }
    }
}

impl<T, S: 'static> ResourceBuilder<T, S> {
    /// Lets an inline or local handler, and completers that are added later, read the state of
    /// their shard, as a tool does; see
    /// [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    pub fn state<R: 'static>(mut self) -> ResourceBuilder<T, R> {
        self.definition.required_state = Some(StateType::of::<R>());
        let Self { definition, build, .. } = self;
        ResourceBuilder { definition, build, state: PhantomData }
    }

    /// Display name for people, sent since 2025-06-18. Default none.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.definition.metadata.title = Some(title.into());
        self
    }

    /// Description for people and models. Default none.
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.definition.metadata.description = Some(description.into());
        self
    }

    /// The URI of what it is a link to: rules for that apply to the link, too.
    #[cfg(feature = "files")]
    pub(crate) fn leads_to(mut self, uri: impl Into<Box<str>>) -> Self {
        self.definition.target_uri = Some(uri.into());
        self
    }

    /// Media type of all contents. Default none. Constant contents (`text`, `blob`) are sent with
    /// it; handlers set that of their contents themselves.
    pub fn mime_type(mut self, mime_type: impl Into<Box<str>>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Audience, priority and time of the last modification. Default none.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds an icon, sent since 2025-11-25.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.metadata.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta`, sent since 2025-06-18.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.metadata.meta.insert(key.into(), value.into());
        self
    }

    /// How long clients may cache contents (`ttlMs`), and whether shared caches may
    /// (`cacheScope`), sent since 2026-07-28. Default: no caching.
    pub const fn cache_hint(mut self, cache: CacheHint) -> Self {
        self.definition.cache_hint = cache;
        self
    }

    /// Completes it with a constant text.
    pub fn text(self, text: impl Into<Cow<'static, str>>) -> T {
        self.finish(ResourceHandler::Text(text.into()))
    }

    /// Completes it with constant bytes, sent as base64.
    pub fn blob(self, bytes: impl Into<Bytes>) -> T {
        self.finish(ResourceHandler::Blob(bytes.into()))
    }

    /// Completes it with a function that runs on the shard and writes the contents. If it writes
    /// nothing, the request fails with resource not found.
    pub fn inline<F>(self, handler: F) -> T
    where
        F: Fn(
                &ReadContext<'_>,
                &mut ReadResourceResultWriter<'_>,
                &InlineContext<'_, S>,
            ) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.finish(ResourceHandler::inline(handler))
    }

    /// Completes it with an async function that runs on the shard that received the request. Its
    /// future may be `!Send`; it returns a [`ReadResourceResult`] or a single content.
    pub fn local<F, R, C>(self, handler: F) -> T
    where
        F: Fn(ReadContext<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, HandlerError>> + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        self.finish(ResourceHandler::local(handler))
    }

    /// Completes it with a function on the shard that passes the request on to another server.
    /// Its result is encoded already.
    #[cfg(feature = "gateway")]
    pub(crate) fn forward<F, R>(self, handler: F) -> T
    where
        F: Fn(ReadContext<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        self.finish(ResourceHandler::forward(handler))
    }

    /// Completes it with a function that runs on the thread pool, for work that blocks, such as
    /// reading a file. It returns a [`ReadResourceResult`] or a single content.
    pub fn blocking<F, C>(self, handler: F) -> T
    where
        F: Fn(ReadContext<'static>, BlockingContext) -> Result<C, HandlerError>
            + Send
            + Sync
            + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        let identity = HandlerIdentity::default();
        let size = move |_: &ReadContext<'_>| ResultSize::Unknown(Arc::clone(&identity));
        self.finish(ResourceHandler::blocking(size, handler))
    }

    /// [`ResourceBuilder::blocking`] with the largest size of the contents in bytes, before base64.
    /// The server has room for them before it calls the handler.
    #[cfg(feature = "files")]
    pub(crate) fn blocking_sized<F, C>(
        self,
        size: impl Fn(&ReadContext<'_>) -> usize + Send + Sync + 'static,
        handler: F,
    ) -> T
    where
        F: Fn(ReadContext<'static>, BlockingContext) -> Result<C, HandlerError>
            + Send
            + Sync
            + 'static,
        C: Into<ReadResourceResult> + 'static,
    {
        let size = move |read: &ReadContext<'_>| ResultSize::Declared(size(read));
        self.finish(ResourceHandler::blocking(size, handler))
    }

    fn finish(self, handler: ResourceHandler) -> T {
        (self.build)(self.definition, handler)
    }
}

impl<S> ResourceBuilder<Resource, S> {
    /// Size of the contents in bytes, before base64. Default unknown.
    pub const fn size(mut self, size_bytes: u64) -> Self {
        self.definition.size_bytes = Some(size_bytes);
        self
    }
}

impl<S: 'static> ResourceBuilder<ResourceTemplate, S> {
    /// Completes the variable `name`, which is `{+name}` after the first literal, with its values
    /// in the URIs of the resources of the catalog. Cost: a step for each resource.
    #[cfg(feature = "files")]
    pub(crate) fn complete_from_resources(mut self, name: impl Into<Box<str>>) -> Self {
        self.definition.listed_variable = Some(name.into());
        self
    }

    /// Sets the function that completes the variable `name`. It runs inline on the shard.
    pub fn completer(
        mut self,
        name: impl Into<Box<str>>,
        completer: impl Fn(&CompletionContext<'_, S>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        let completer = Completer::new(completer, self.definition.required_state);
        self.definition.completers.push((name.into(), completer));
        self
    }
}

#[cfg(feature = "gateway")]
impl<S> ResourceBuilder<ResourceTemplate, S> {
    /// Passes the completion of variables on to another server. The result is encoded already.
    pub(crate) fn forward_completions<F, R>(mut self, forward: F) -> Self
    where
        F: Fn(ForwardedCompletion, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        self.definition.completion_forwarder = Some(CompletionForwarder::new(forward));
        self
    }
}

impl<T, S> fmt::Debug for ResourceBuilder<T, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ResourceBuilder");
        debug.field("definition", &self.definition).finish_non_exhaustive()
    }
}
