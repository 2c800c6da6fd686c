//! Content blocks of tool results and prompt messages.
//!
//! Invariants: a block has only the members that its revision defines. A content type that the
//! revision lacks becomes a text block that describes it; a resource link becomes its URI.
//!
//! MCP schema: `ContentBlock` of each revision, and the union of the same members before it had a
//! name.

use super::annotations::Annotations;
use super::resource::{MetaObject, ResourceContents, ResourceLink, write_annotations_and_meta};
use crate::json::{ObjectWriter, write};
use crate::revision::Revision;
use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use std::borrow::Cow;

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
