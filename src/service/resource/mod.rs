//! Resources: what a client may read, each under a URI, and whole families of them under a
//! template.
//!
//! What it keeps true: a handler sees a `file:` URI only after it was found safe, and a URI of a
//! template only with its variables found. It does not find resources; the catalog does. Links
//! between files are not followed here: this room opens none.
//!
//! Source: server/resources of each revision; RFC 6570 for templates.

mod percent;

mod file;

mod pattern;

mod read;

mod handler;

mod builder;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use self::builder::ResourceBuilder;
pub use self::read::Read;

use self::builder::Told;
pub(in crate::service) use self::file::without_localhost;
use self::handler::Handler;
use self::pattern::Pattern;
use crate::protocol::message::{CacheHint, ContentsWriter, Listed};
use crate::protocol::revision::Revision;
use crate::service::call::Reply;
use crate::service::completing::Completer;
use crate::service::entry::Entry;

/// One resource of a catalog.
pub struct Resource {
    told: Told,
    handler: Handler,
}

impl Resource {
    /// Begins a resource under `uri`, which is unique in its catalog, with a `name` for programs.
    ///
    /// ```
    /// use corelane::service::Resource;
    ///
    /// let resource = Resource::new("test://greeting", "greeting")
    ///     .describe("What to say first.")
    ///     .mime_type("text/plain")
    ///     .text("Hello!");
    /// assert_eq!(resource.uri(), "test://greeting");
    /// ```
    pub fn new(uri: impl Into<Box<str>>, name: impl Into<Box<str>>) -> ResourceBuilder<Self> {
        let make = |told, handler| Self { told, handler };
        ResourceBuilder::new(Told::new(uri.into(), name.into()), make)
    }

    /// Its URI.
    pub fn uri(&self) -> &str {
        &self.told.uri
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.told.about.name
    }

    /// How long its contents are fresh, and for whom.
    pub(in crate::service) const fn cache(&self) -> CacheHint {
        self.told.cache
    }

    /// Writes what it holds, or hands out the work. After [`Reply::Ready`] the contents are
    /// written; after any other reply what stands in `contents` is void.
    pub(in crate::service) fn read(
        &self,
        read: &Read<'_>,
        contents: &mut ContentsWriter<'_>,
    ) -> Reply {
        self.handler.start(read, self.told.mime_type.as_deref(), self.told.cache, contents)
    }
}

impl Entry for Resource {
    const LISTED: Listed = Listed::Resources;
    const KIND: &'static str = "resource";

    fn key(&self) -> &str {
        self.uri()
    }

    fn fit(&mut self) -> Result<(), Cow<'static, str>> {
        if !has_scheme(self.uri()) {
            return Err("its URI does not begin with a scheme, such as `https:`".into());
        }
        if self.uri().contains(|letter: char| letter.is_control() || letter == ' ') {
            return Err("its URI holds spaces or control characters; encode them".into());
        }
        match file::path(self.uri()) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.message),
        }
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.told.write("uri", out, revision);
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

/// A family of resources of a catalog: one handler for every URI that fits a template.
pub struct ResourceTemplate {
    told: Told,
    handler: Handler,
    /// The template taken apart, once it stands in a catalog.
    pattern: Option<Arc<Pattern>>,
}

impl ResourceTemplate {
    /// Begins a template, which is unique in its catalog, with a `name` for programs. Expressions
    /// are `{name}` (one segment), `{+name}` (the rest, slashes included) and `{?a,b}` (a query);
    /// at most 8 variables.
    ///
    /// ```
    /// use corelane::service::ResourceTemplate;
    ///
    /// let template = ResourceTemplate::new("test://users/{id}/name", "user-name")
    ///     .mime_type("text/plain")
    ///     .inline(|read, contents| {
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
        let make = |told, handler| Self { told, handler, pattern: None };
        ResourceBuilder::new(Told::new(uri_template.into(), name.into()), make)
    }

    /// The template.
    pub fn uri_template(&self) -> &str {
        &self.told.uri
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.told.about.name
    }

    /// How long what it gives is fresh, and for whom.
    pub(in crate::service) const fn cache(&self) -> CacheHint {
        self.told.cache
    }

    /// Whether `read` asks for one of this family; fills in its variables then.
    pub(in crate::service) fn accept(&self, read: &mut Read<'_>) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| read.fill(pattern))
    }

    /// [`Resource::read`].
    pub(in crate::service) fn read(
        &self,
        read: &Read<'_>,
        contents: &mut ContentsWriter<'_>,
    ) -> Reply {
        self.handler.start(read, self.told.mime_type.as_deref(), self.told.cache, contents)
    }

    /// The completer of the variable called `name`, where it has one.
    pub(in crate::service) fn completer(&self, name: &str) -> Option<&Completer> {
        let (_, completer) = self.told.completers.iter().find(|(known, _)| **known == *name)?;
        Some(completer)
    }

    /// Whether any variable has a completer.
    pub(in crate::service) const fn is_completed(&self) -> bool {
        !self.told.completers.is_empty()
    }
}

impl Entry for ResourceTemplate {
    const LISTED: Listed = Listed::ResourceTemplates;
    const KIND: &'static str = "resource template";

    fn key(&self) -> &str {
        self.uri_template()
    }

    fn fit(&mut self) -> Result<(), Cow<'static, str>> {
        let pattern = Pattern::parse(self.uri_template())?;
        let unknown = |(name, _): &&(Box<str>, Completer)| pattern.place(name).is_none();
        if let Some((name, _)) = self.told.completers.iter().find(unknown) {
            return Err(format!("it completes `{name}`, which is none of its variables").into());
        }
        self.pattern = Some(Arc::new(pattern));
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.told.write("uriTemplate", out, revision);
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

/// Whether a URI begins with a scheme (RFC 3986, section 3.1).
fn has_scheme(uri: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(is_allowed)
    })
}
