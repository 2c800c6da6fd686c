//! Contents of resources, and links to resources.
//!
//! MCP schema: `TextResourceContents`, `BlobResourceContents` and `ResourceLink` of each revision;
//! `server/resources`.

use super::annotations::Annotations;
use super::icon::Icon;
use crate::json::ObjectWriter;
use crate::revision::Revision;
use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use std::borrow::Cow;

/// Members of `_meta` (`MetaObject` in the schema), passed on unread.
pub type MetaObject = serde_json::Map<String, serde_json::Value>;

/// Contents of a resource: an item of `contents` in the result of `resources/read`, or the
/// `resource` of an embedded resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    /// URI of the resource or of a part of it.
    pub uri: String,
    /// MIME type.
    pub mime_type: Option<String>,
    /// Text or bytes.
    pub body: ResourceBody,
    /// `_meta`, for revisions that define it on contents (2025-06-18 and later).
    pub meta: Option<MetaObject>,
}

/// Text or bytes of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, encoded as base64 when written.
    Blob(Bytes),
}

impl ResourceContents {
    /// Creates text contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Text(text.into()), meta: None }
    }

    /// Creates binary contents.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            body: ResourceBody::Blob(bytes.into()),
            meta: None,
        }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_mime_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }

    /// Appends the object as `revision` defines it.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.string("uri", &self.uri).string_opt("mimeType", self.mime_type.as_ref());
        match &self.body {
            ResourceBody::Text(text) => object.string("text", text),
            ResourceBody::Blob(bytes) => object.base64("blob", bytes),
        };
        if revision.dialect().meta_on_types {
            object.map_opt("_meta", self.meta.as_ref());
        }
        object.close();
    }
}

/// A link to a resource that the client may read or display. Only name and URI are required.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceLink {
    /// URI of the resource.
    pub uri: Cow<'static, str>,
    /// Programmatic name.
    pub name: Cow<'static, str>,
    /// Display name.
    pub title: Option<Cow<'static, str>>,
    /// Description of the resource.
    pub description: Option<Cow<'static, str>>,
    /// MIME type.
    pub mime_type: Option<Cow<'static, str>>,
    /// Size in bytes, before base64 encoding.
    pub size_bytes: Option<u64>,
    /// Icons (2025-11-25 and later).
    pub icons: Vec<Icon>,
}

impl ResourceLink {
    /// Creates a link with the required fields.
    pub fn new(uri: impl Into<Cow<'static, str>>, name: impl Into<Cow<'static, str>>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// Appends the members to an open block, for a revision that defines resource links.
    pub(super) fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        object
            .string("uri", &self.uri)
            .string("name", &self.name)
            .string_opt("title", self.title.as_ref())
            .string_opt("description", self.description.as_ref())
            .string_opt("mimeType", self.mime_type.as_ref())
            .unsigned_opt("size", self.size_bytes);
        if revision.dialect().icons && !self.icons.is_empty() {
            Icon::write_all(&self.icons, object.key("icons"));
        }
    }
}

impl HeapBytes for ResourceContents {
    fn heap_bytes(&self) -> usize {
        let body = match &self.body {
            ResourceBody::Text(text) => text.heap_bytes(),
            ResourceBody::Blob(bytes) => bytes.heap_bytes(),
        };
        self.uri.heap_bytes() + self.mime_type.heap_bytes() + body + self.meta.heap_bytes()
    }
}

impl HeapBytes for ResourceLink {
    fn heap_bytes(&self) -> usize {
        let Self { uri, name, title, description, mime_type, size_bytes: _, icons } = self;
        let optional = [title, description, mime_type].map(Option::heap_bytes);
        let required = uri.heap_bytes() + name.heap_bytes() + icons.heap_bytes();
        required + optional.iter().sum::<usize>()
    }
}

/// Appends `annotations` and `_meta` to a content block.
pub(super) fn write_annotations_and_meta(
    object: &mut ObjectWriter<'_>,
    annotations: Option<&Annotations>,
    meta: Option<&MetaObject>,
    revision: Revision,
) {
    if let Some(annotations) = annotations {
        annotations.write(object, revision);
    }
    if revision.dialect().meta_on_types {
        object.map_opt("_meta", meta);
    }
}
