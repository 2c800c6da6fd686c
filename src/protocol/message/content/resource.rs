//! Resources as they travel: what one holds, and a link to one.
//!
//! Source: `TextResourceContents`, `BlobResourceContents` and `ResourceLink` in the schema of each
//! revision; `server/resources`.

use super::annotations::ContentAnnotations;
use super::icon::Icon;
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;
use bytes::Bytes;
use std::borrow::Cow;

/// Members of `_meta` that the protocol passes on and does not read.
pub type MetaMembers = serde_json::Map<String, serde_json::Value>;

/// What a resource holds: an item of `contents` in the answer to `resources/read`, and the inside
/// of an embedded resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContent {
    /// Which resource, or which part of it.
    pub uri: String,
    /// What it is.
    pub mime_type: Option<String>,
    /// The content itself.
    pub body: Body,
    /// `_meta`, for revisions that have it there (2025-06-18 and later).
    pub meta: Option<MetaMembers>,
}

/// The content of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Bytes, written as base64.
    Blob(Bytes),
}

impl ResourceContent {
    /// A text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: Body::Text(text.into()), meta: None }
    }

    /// Bytes.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: Body::Blob(bytes.into()), meta: None }
    }

    /// The same content, with its MIME type.
    #[must_use]
    pub fn with_mime_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }

    /// Appends the object as `revision` knows it.
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.text("uri", &self.uri).text_if("mimeType", self.mime_type.as_ref());
        match &self.body {
            Body::Text(text) => object.text("text", text),
            Body::Blob(bytes) => object.base64("blob", bytes),
        };
        if revision.dialect().meta_on_types {
            object.map_if("_meta", self.meta.as_ref());
        }
        object.close();
    }
}

/// A link to a resource, for the client to read or to show. Its name and URI are all that it has to
/// have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceLink {
    /// Where it leads.
    pub uri: Cow<'static, str>,
    /// A name for programs.
    pub name: Cow<'static, str>,
    /// A name for people.
    pub title: Option<Cow<'static, str>>,
    /// What it is for.
    pub description: Option<Cow<'static, str>>,
    /// What it is.
    pub mime_type: Option<Cow<'static, str>>,
    /// How many bytes it has, before base64.
    pub size_bytes: Option<u64>,
    /// Pictures (2025-11-25 and later).
    pub icons: Vec<Icon>,
}

impl ResourceLink {
    /// A link.
    pub fn new(uri: impl Into<Cow<'static, str>>, name: impl Into<Cow<'static, str>>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// Appends the members, behind those that are there, of a block in a revision that has links.
    pub(super) fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        object
            .text("uri", &self.uri)
            .text("name", &self.name)
            .text_if("title", self.title.as_ref())
            .text_if("description", self.description.as_ref())
            .text_if("mimeType", self.mime_type.as_ref())
            .unsigned_if("size", self.size_bytes);
        if revision.dialect().icons && !self.icons.is_empty() {
            Icon::write_all(&self.icons, object.key("icons"));
        }
    }
}

/// Appends what stands at the end of content of every kind: annotations and `_meta`.
pub(super) fn write_hints(
    object: &mut ObjectWriter<'_>,
    annotations: Option<&ContentAnnotations>,
    meta: Option<&MetaMembers>,
    revision: Revision,
) {
    if let Some(annotations) = annotations {
        annotations.write(object, revision);
    }
    if revision.dialect().meta_on_types {
        object.map_if("_meta", meta);
    }
}
