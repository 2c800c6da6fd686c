//! Content of tool results, prompts and resources: blocks, annotations, contents of resources and
//! links to them, icons.
//!
//! Invariants: a block has only the members that its revision defines. A content type that the
//! revision lacks becomes a text block that describes it; a resource link becomes its URI.
//!
//! MCP schema: `ContentBlock` of each revision, and the union of the same members before it had a
//! name; `Annotations`, `TextResourceContents`, `BlobResourceContents` and `ResourceLink` of each
//! revision; `Icon` of 2025-11-25 and 2026-07-28; `server/resources`.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::{ObjectWriter, write, write_timestamp};
use crate::revision::Revision;
use corelane_base::heap_bytes::HeapBytes;

/// Content of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(Cow<'static, str>),
    /// An image.
    Image {
        /// Image bytes, encoded as base64 when written.
        data: Bytes,
        /// MIME type, such as `image/png`.
        mime_type: Cow<'static, str>,
    },
    /// Audio (2025-03-26 and later).
    Audio {
        /// Audio bytes, encoded as base64 when written.
        data: Bytes,
        /// MIME type, such as `audio/wav`.
        mime_type: Cow<'static, str>,
    },
    /// A resource link (2025-06-18 and later).
    ResourceLink(ResourceLink),
    /// An embedded resource.
    EmbeddedResource(ResourceContents),
}

impl Content {
    /// Creates text content.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Creates image content.
    pub fn image(data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::Image { data: data.into(), mime_type: mime_type.into() }
    }

    /// Creates audio content.
    pub fn audio(data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::Audio { data: data.into(), mime_type: mime_type.into() }
    }

    /// Converts the content to a block without annotations and `_meta`.
    #[doc(hidden)]
    pub const fn into_block(self) -> ContentBlock {
        ContentBlock { content: self, annotations: None, meta: None }
    }

    /// Appends a block with this content, annotations and `_meta`.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        annotations: Option<&Annotations>,
        meta: Option<&MetaObject>,
        revision: Revision,
    ) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Text(text) => write_text(&mut object, text),
            Self::Image { data, mime_type } => {
                write_binary(&mut object, BinaryContent::Image, data, mime_type, revision);
            }
            Self::Audio { data, mime_type } => {
                write_binary(&mut object, BinaryContent::Audio, data, mime_type, revision);
            }
            Self::ResourceLink(link) => write_resource_link(&mut object, link, revision),
            Self::EmbeddedResource(resource) => {
                write_embedded_resource(&mut object, resource, revision);
            }
        }
        write_annotations_and_meta(&mut object, annotations, meta, revision);
        object.close();
    }
}

impl HeapBytes for Content {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.heap_bytes(),
            Self::Image { data, mime_type } | Self::Audio { data, mime_type } => {
                data.heap_bytes() + mime_type.heap_bytes()
            }
            Self::ResourceLink(link) => link.heap_bytes(),
            Self::EmbeddedResource(resource) => resource.heap_bytes(),
        }
    }
}

/// A content block: content with annotations and `_meta`.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentBlock {
    /// The content.
    pub content: Content,
    /// Hints for clients.
    pub annotations: Option<Annotations>,
    /// `_meta`, for revisions that define it on content (2025-06-18 and later).
    pub meta: Option<MetaObject>,
}

impl ContentBlock {
    /// Sets the annotations.
    #[must_use]
    pub fn with_annotations(self, annotations: Annotations) -> Self {
        Self { annotations: Some(annotations), ..self }
    }

    /// Sets `_meta`.
    #[must_use]
    pub fn with_meta(self, meta: MetaObject) -> Self {
        Self { meta: Some(meta), ..self }
    }

    /// Appends the block as `revision` defines it.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.content.write(out, self.annotations.as_ref(), self.meta.as_ref(), revision);
    }
}

impl From<Content> for ContentBlock {
    fn from(content: Content) -> Self {
        content.into_block()
    }
}

impl HeapBytes for ContentBlock {
    fn heap_bytes(&self) -> usize {
        // Annotations own a few bytes at most.
        let Self { content, annotations: _, meta } = self;
        content.heap_bytes() + meta.heap_bytes()
    }
}

/// Content types with binary data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BinaryContent {
    Image,
    Audio,
}

pub(crate) fn write_text(object: &mut ObjectWriter<'_>, text: &str) {
    object.string("type", "text").string("text", text);
}

/// Writes image or audio content, or text that describes it if the revision lacks the type.
pub(crate) fn write_binary(
    object: &mut ObjectWriter<'_>,
    kind: BinaryContent,
    data: &[u8],
    mime_type: &str,
    revision: Revision,
) {
    if kind == BinaryContent::Audio && !revision.dialect().audio {
        object.string("type", "text");
        let bytes = data.len();
        let description = format_args!("[audio: {mime_type}, {bytes} bytes]");
        write::formatted(object.key("text"), description);
        return;
    }
    object
        .string("type", if kind == BinaryContent::Audio { "audio" } else { "image" })
        .base64("data", data)
        .string("mimeType", mime_type);
}

/// Writes a resource link, or its URI as text if the revision lacks links.
pub(crate) fn write_resource_link(
    object: &mut ObjectWriter<'_>,
    link: &ResourceLink,
    revision: Revision,
) {
    if revision.dialect().resource_link {
        object.string("type", "resource_link");
        link.write_members(object, revision);
    } else {
        write_text(object, &link.uri);
    }
}

/// Writes an embedded resource.
pub(crate) fn write_embedded_resource(
    object: &mut ObjectWriter<'_>,
    resource: &ResourceContents,
    revision: Revision,
) {
    object.string("type", "resource");
    resource.write(object.key("resource"), revision);
}

/// Sender or recipient of a message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// Returns the role with this name on the wire.
    #[doc(hidden)]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// Hints for clients about a piece of content (`Annotations` in the schema).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// Intended audience; empty means everyone.
    pub audience: Vec<Role>,
    /// Importance from 0 (optional) to 1 (required); clamped to this range when written.
    pub priority: Option<f64>,
    /// Time of the last change, in milliseconds since 1970 (2025-06-18 and later).
    pub last_modified_ms: Option<u64>,
}

impl Annotations {
    /// Writes the member `annotations` into `annotated`, unless `revision` defines none of the set
    /// fields.
    #[doc(hidden)]
    pub fn write(&self, annotated: &mut ObjectWriter<'_>, revision: Revision) {
        let last_modified_ms =
            self.last_modified_ms.filter(|_| revision.dialect().annotations_last_modified);
        let priority = self.priority.filter(|priority| priority.is_finite());
        if self.audience.is_empty() && priority.is_none() && last_modified_ms.is_none() {
            return;
        }
        let mut object = annotated.object("annotations");
        if !self.audience.is_empty() {
            object.strings("audience", self.audience.iter().map(|role| role.as_str()));
        }
        if let Some(priority) = priority {
            write::float(object.key("priority"), priority.clamp(0.0, 1.0));
        }
        if let Some(unix_ms) = last_modified_ms {
            write_timestamp(object.key("lastModified"), unix_ms);
        }
        object.close();
    }
}

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
    fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
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
fn write_annotations_and_meta(
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

/// An icon for display. Omitted in revisions before 2025-11-25.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Icon {
    /// Location: an `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// MIME type, if it does not follow from `src`.
    pub mime_type: Option<Cow<'static, str>>,
    /// Sizes in which it can be used, such as `"48x48"`, or `"any"` for scalable formats.
    pub sizes: Vec<Cow<'static, str>>,
    /// Theme that the icon is designed for.
    pub theme: Option<IconTheme>,
}

/// Theme of a user interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IconTheme {
    /// Light background.
    Light,
    /// Dark background.
    Dark,
}

impl HeapBytes for Icon {
    fn heap_bytes(&self) -> usize {
        self.src.heap_bytes() + self.mime_type.heap_bytes() + self.sizes.heap_bytes()
    }
}

impl Icon {
    /// Creates an icon from its URI alone.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Appends the object.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.string("src", &self.src).string_opt("mimeType", self.mime_type.as_ref());
        if !self.sizes.is_empty() {
            object.strings("sizes", &self.sizes);
        }
        object.string_opt("theme", self.theme.map(IconTheme::as_str));
        object.close();
    }

    /// Appends an array of icons.
    #[doc(hidden)]
    pub fn write_all(icons: &[Self], out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, icon) in icons.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            icon.write(out);
        }
        out.push(b']');
    }
}

impl IconTheme {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_unsupported_in_revision_are_omitted() {
        let annotations = Annotations { last_modified_ms: Some(0), ..Annotations::default() };
        let written = |revision| {
            let mut out = Vec::new();
            let mut object = ObjectWriter::open(&mut out);
            annotations.write(&mut object, revision);
            object.close();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Revision::V2025_03_26), "{}");
        let expected = r#"{"annotations":{"lastModified":"1970-01-01T00:00:00.000Z"}}"#;
        assert_eq!(written(Revision::V2025_06_18), expected);
    }
}
