//! Resources, which clients read by URI, and resource templates for families of URIs.
//!
//! Invariants: a handler receives a `file:` URI only after it was found safe, and a URI of a
//! template only with its variables extracted. Symbolic links are not resolved here.
//!
//! Source: MCP server/resources of each revision; RFC 6570 for templates.

mod uri_decoder;

mod uri_template;

mod handler;

mod builder;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use corelane_protocol::model::{CacheHint, ListKind, ReadResourceResultWriter};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

pub use self::builder::ResourceBuilder;
use self::builder::ResourceDefinition;
pub use self::handler::ReadContext;
use self::handler::ResourceHandler;
use self::uri_template::UriTemplate;
use crate::service::call::Dispatch;
use crate::service::completer::Completer;
#[cfg(feature = "gateway")]
use crate::service::completer::CompletionForwarder;
use crate::service::context::{RequestView, StateType};
use crate::service::entry::Entry;

/// A resource of a catalog.
pub struct Resource {
    definition: ResourceDefinition,
    handler: ResourceHandler,
}

impl Resource {
    /// Starts a resource with a `uri`, unique in its catalog, and a `name` for programs.
    ///
    /// ```
    /// use corelane::Resource;
    ///
    /// let resource = Resource::new("test://greeting", "greeting")
    ///     .description("A greeting.")
    ///     .mime_type("text/plain")
    ///     .text("Hello!");
    /// assert_eq!(resource.uri(), "test://greeting");
    /// ```
    pub fn new(uri: impl Into<Box<str>>, name: impl Into<Box<str>>) -> ResourceBuilder<Self> {
        let make = |definition, handler| Self { definition, handler };
        ResourceBuilder::new(ResourceDefinition::new(uri.into(), name.into()), make)
    }

    /// URI of the resource.
    pub fn uri(&self) -> &str {
        &self.definition.uri
    }

    /// URI of what it is a link to; `None` if it is no link.
    pub(crate) fn target_uri(&self) -> Option<&str> {
        self.definition.target_uri.as_deref()
    }

    /// Name of the resource.
    pub fn name(&self) -> &str {
        &self.definition.metadata.name
    }

    /// Checks it as a catalog does that it enters. `Err` is phrased to follow
    /// "resource `uri`: ".
    #[cfg(feature = "gateway")]
    pub(crate) fn checked(mut self) -> Result<Self, Cow<'static, str>> {
        self.prepare()?;
        Ok(self)
    }

    /// The shard state that the handler needs, or `None`.
    pub const fn required_state(&self) -> Option<StateType> {
        self.definition.required_state
    }

    /// How long clients may cache its contents, and whether shared caches may.
    pub(super) const fn cache_hint(&self) -> CacheHint {
        self.definition.cache_hint
    }

    /// Writes constant contents, runs an inline handler, or returns the work of another kind. After
    /// [`Dispatch::Ready`] the contents are written; otherwise what was written is void.
    pub(super) fn read(
        &self,
        ctx: &ReadContext<'_>,
        view: RequestView<'_>,
        contents: &mut ReadResourceResultWriter<'_>,
    ) -> Dispatch {
        self.handler.start(ctx, view, self.definition.target(), contents)
    }
}

impl Entry for Resource {
    const LIST: ListKind = ListKind::Resources;
    const KIND: &'static str = "resource";

    fn key(&self) -> &str {
        self.uri()
    }

    fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        if !has_scheme(self.uri()) {
            return Err("the URI must begin with a scheme, such as `https:`".into());
        }
        if self.uri().contains(|character: char| character.is_control() || character == ' ') {
            return Err("the URI contains spaces or control characters; percent-encode them".into());
        }
        if let Err(error) = uri_decoder::decode_path(self.uri()) {
            return Err(error.message);
        }
        self.definition.set_comparison_key();
        Ok(())
    }

    fn other_key(&self) -> Option<&str> {
        self.definition.comparison_key.as_deref()
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.definition.write("uri", out, revision);
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Resource")
            .field("uri", &self.uri())
            .field("kind", &self.handler.kind())
            .finish_non_exhaustive()
    }
}

/// A resource template of a catalog: a handler for all URIs that match.
pub struct ResourceTemplate {
    definition: ResourceDefinition,
    handler: ResourceHandler,
    /// The parsed template, once it is in a catalog.
    pattern: Option<Arc<UriTemplate>>,
}

impl ResourceTemplate {
    /// Starts a template with a `uri_template`, unique in its catalog, and a `name` for programs.
    /// Expressions are `{name}` (one path segment), `{+name}` (any characters, including `/`) and
    /// `{?a,b}` (query parameters), with at most 8 variables.
    ///
    /// ```
    /// use corelane::ResourceTemplate;
    ///
    /// let template = ResourceTemplate::new("test://users/{id}/name", "user-name")
    ///     .mime_type("text/plain")
    ///     .inline(|read, contents, _| {
    ///         let id = read.variable("id").unwrap_or_default();
    ///         contents.text(read.uri(), Some("text/plain"), &format!("User {id}"));
    ///         Ok(())
    ///     });
    /// assert_eq!(template.uri_template(), "test://users/{id}/name");
    /// ```
    pub fn new(
        uri_template: impl Into<Box<str>>,
        name: impl Into<Box<str>>,
    ) -> ResourceBuilder<Self> {
        let make = |definition, handler| Self { definition, handler, pattern: None };
        ResourceBuilder::new(ResourceDefinition::new(uri_template.into(), name.into()), make)
    }

    /// URI template (RFC 6570).
    pub fn uri_template(&self) -> &str {
        &self.definition.uri
    }

    /// Name of the template.
    pub fn name(&self) -> &str {
        &self.definition.metadata.name
    }

    /// Checks it as a catalog does that it enters. `Err` is phrased to follow
    /// "resource template `uri`: ".
    #[cfg(feature = "gateway")]
    pub(crate) fn checked(mut self) -> Result<Self, Cow<'static, str>> {
        self.prepare()?;
        Ok(self)
    }

    /// The shard states that the handler and the completers need.
    pub fn required_states(&self) -> impl Iterator<Item = StateType> {
        let completers = self.definition.completers.iter();
        let of_completers = completers.filter_map(|(_, completer)| completer.required_state);
        self.definition.required_state.into_iter().chain(of_completers)
    }

    /// How long clients may cache contents, and whether shared caches may.
    pub(super) const fn cache_hint(&self) -> CacheHint {
        self.definition.cache_hint
    }

    /// Whether the URI of `ctx` matches; if so, sets its variables.
    pub(super) fn match_uri(&self, ctx: &mut ReadContext<'_>) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| ctx.match_template(pattern))
    }

    /// As [`Resource::read`], for a URI that the template matches.
    pub(super) fn read(
        &self,
        ctx: &ReadContext<'_>,
        view: RequestView<'_>,
        contents: &mut ReadResourceResultWriter<'_>,
    ) -> Dispatch {
        self.handler.start(ctx, view, self.definition.target(), contents)
    }

    /// The completer of the variable `name`, or `None`.
    pub(super) fn completer(&self, name: &str) -> Option<&Completer> {
        let (_, completer) =
            self.definition.completers.iter().find(|(known, _)| **known == *name)?;
        Some(completer)
    }

    /// What passes the completion of variables on to another server.
    #[cfg(feature = "gateway")]
    pub(super) const fn completion_forwarder(&self) -> Option<&CompletionForwarder> {
        self.definition.completion_forwarder.as_ref()
    }

    /// Whether any variable has a completer.
    pub(super) const fn has_completer(&self) -> bool {
        #[cfg(feature = "gateway")]
        if self.definition.completion_forwarder.is_some() {
            return true;
        }
        !self.definition.completers.is_empty() || self.definition.listed_variable.is_some()
    }

    /// Whether the URIs of resources complete the variable `name`.
    pub(super) fn completes_from_resources(&self, name: &str) -> bool {
        self.definition.listed_variable.as_deref() == Some(name)
    }

    /// The value of the variable that the resource `uri` completes, as a client inserts it in
    /// `{+name}`; `None` if the URI does not begin like the template.
    pub(super) fn value_in(&self, uri: &str) -> Option<String> {
        let normalized = uri::normalize(uri);
        let key = uri::comparison_key(&normalized);
        let rest = key.strip_prefix(self.pattern.as_ref()?.first_literal())?;
        let value = uri_decoder::decode(&normalized[normalized.len() - rest.len()..])?;
        // These would end the path or begin a code: reserved expansion does not encode them.
        let value = value.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        (!value.is_empty()).then_some(value)
    }
}

impl Entry for ResourceTemplate {
    const LIST: ListKind = ListKind::ResourceTemplates;
    const KIND: &'static str = "resource template";

    fn key(&self) -> &str {
        self.uri_template()
    }

    fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        let pattern = UriTemplate::parse(&uri::comparison_key(self.uri_template()))?;
        let unknown = |(name, _): &&(Box<str>, Completer)| pattern.index_of(name).is_none();
        if let Some((name, _)) = self.definition.completers.iter().find(unknown) {
            return Err(format!("`{name}` has a completer but is not a variable").into());
        }
        self.pattern = Some(Arc::new(pattern));
        self.definition.set_comparison_key();
        Ok(())
    }

    fn other_key(&self) -> Option<&str> {
        self.definition.comparison_key.as_deref()
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.definition.write("uriTemplate", out, revision);
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ResourceTemplate")
            .field("uri_template", &self.uri_template())
            .field("kind", &self.handler.kind())
            .finish_non_exhaustive()
    }
}

/// Whether `uri` begins with a scheme (RFC 3986, section 3.1).
fn has_scheme(uri: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(is_allowed)
    })
}
