//! A resource or a template in the making.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use crate::protocol::json::ObjectWriter;
use crate::protocol::message::{CacheHint, ContentAnnotations, ContentsWriter, Icon};
use crate::protocol::revision::Revision;
use crate::service::completing::{Completer, Completing};
use crate::service::entry::About;
use crate::service::live::Live;
use crate::service::outcome::{Completion, HandlerError, ResourceContents};
use crate::service::resource::handler::Handler;
use crate::service::resource::read::Read;
use crate::service::resource::{Resource, ResourceTemplate};
use crate::service::worker::Worker;

/// Everything that is told about a resource or a template.
#[derive(Debug)]
pub(super) struct Told {
    /// The URI, or the template of URIs.
    pub(super) uri: Box<str>,
    pub(super) about: About,
    pub(super) mime_type: Option<Box<str>>,
    size_bytes: Option<u64>,
    annotations: Option<ContentAnnotations>,
    pub(super) cache: CacheHint,
    pub(super) completers: Vec<(Box<str>, Completer)>,
}

impl Told {
    pub(super) fn new(uri: Box<str>, name: Box<str>) -> Self {
        Self {
            uri,
            about: About::new(name),
            mime_type: None,
            size_bytes: None,
            annotations: None,
            cache: CacheHint { fresh_ms: 0, shared: false },
            completers: Vec::new(),
        }
    }

    /// Appends the object of a list; `uri_key` is what it calls the URI.
    ///
    /// Source: `schema/<revision>`, types `Resource` and `ResourceTemplate`.
    pub(super) fn write(&self, uri_key: &str, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.text(uri_key, &self.uri);
        self.about.open(&mut object, revision);
        object.text_if("mimeType", self.mime_type.as_ref());
        object.unsigned_if("size", self.size_bytes);
        if let Some(annotations) = &self.annotations {
            annotations.write(&mut object, revision);
        }
        self.about.close(&mut object, revision);
        object.close();
    }
}

/// A [`Resource`] or a [`ResourceTemplate`] that still waits for what it holds. What is said about
/// it comes first, the contents or the handler last: they end the sentence.
#[must_use = "it begins to exist with what it holds: text, blob, inline, local or blocking"]
pub struct ResourceBuilder<T> {
    told: Told,
    make: fn(Told, Handler) -> T,
}

impl<T> ResourceBuilder<T> {
    pub(super) const fn new(told: Told, make: fn(Told, Handler) -> T) -> Self {
        Self { told, make }
    }

    /// A name for people. Told to clients from 2025-06-18 on.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.told.about.title = Some(title.into());
        self
    }

    /// What it is, for people and models.
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.told.about.description = Some(description.into());
        self
    }

    /// Its media type, where all it ever gives is of one. `text` and `blob` say it with the
    /// contents, too.
    pub fn mime_type(mut self, mime_type: impl Into<Box<str>>) -> Self {
        self.told.mime_type = Some(mime_type.into());
        self
    }

    /// Whom it is for, how important it is and when it last changed.
    pub fn annotations(mut self, annotations: ContentAnnotations) -> Self {
        self.told.annotations = Some(annotations);
        self
    }

    /// Adds a picture. Told to clients from 2025-11-25 on.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.told.about.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta`, for extensions. Told to clients from 2025-06-18 on.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.told.about.meta.insert(key.into(), value.into());
        self
    }

    /// How long a client may keep what it read (`ttlMs`), and whether a cache may give it to other
    /// callers. Default: not at all, to nobody. Told to clients from 2026-07-28 on.
    pub const fn cache(mut self, cache: CacheHint) -> Self {
        self.told.cache = cache;
        self
    }

    /// Ends with a text that does not change.
    pub fn text(self, text: impl Into<Cow<'static, str>>) -> T {
        self.with(Handler::Text(text.into()))
    }

    /// Ends with bytes that do not change; they are sent as base64.
    pub fn blob(self, bytes: impl Into<Bytes>) -> T {
        self.with(Handler::Blob(bytes.into()))
    }

    /// Ends with a handler that runs to completion on the shard and writes the contents as it goes.
    /// One that writes nothing says that there is no such resource.
    pub fn inline<F>(self, handler: F) -> T
    where
        F: Fn(&Read<'_>, &mut ContentsWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.with(Handler::Inline(Box::new(handler)))
    }

    /// Ends with a future that runs on the shard that received the request; it may wait, and ask
    /// the client through its [`Live`]. It gives [`ResourceContents`], or one content.
    pub fn local<F, R, C>(self, handler: F) -> T
    where
        F: Fn(Read<'static>, Live) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, HandlerError>> + 'static,
        C: Into<ResourceContents> + 'static,
    {
        self.with(Handler::local(handler))
    }

    /// Ends with a closure that runs on the thread pool: for what blocks, such as reading a file.
    /// It gives [`ResourceContents`], or one content.
    pub fn blocking<F, C>(self, handler: F) -> T
    where
        F: Fn(Read<'static>, Worker) -> Result<C, HandlerError> + Send + Sync + 'static,
        C: Into<ResourceContents> + 'static,
    {
        self.with(Handler::blocking(handler))
    }

    fn with(self, handler: Handler) -> T {
        (self.make)(self.told, handler)
    }
}

impl ResourceBuilder<Resource> {
    /// How many bytes it has, before base64.
    pub const fn size(mut self, size_bytes: u64) -> Self {
        self.told.size_bytes = Some(size_bytes);
        self
    }
}

impl ResourceBuilder<ResourceTemplate> {
    /// Says how the variable `name` may go on while somebody types it. Runs on the shard, at once.
    pub fn complete(
        mut self,
        name: impl Into<Box<str>>,
        completer: impl Fn(&Completing<'_>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        self.told.completers.push((name.into(), Completer::new(completer)));
        self
    }
}

impl<T> fmt::Debug for ResourceBuilder<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResourceBuilder").field("told", &self.told).finish_non_exhaustive()
    }
}
