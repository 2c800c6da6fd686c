//! Blocks of content: what the results of tools and the messages of prompts are made of.
//!
//! What it keeps true: a block says only what the revision knows. A kind that the revision lacks
//! becomes a block of text that says what it was; a link becomes its URI; fields it lacks are left
//! out.
//!
//! Source: `ContentBlock` in the schema of each revision, and the union of the same members where
//! it has no name yet.

use super::annotations::ContentAnnotations;
use super::resource::{MetaMembers, ResourceContent, ResourceLink, write_hints};
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::revision::Revision;
use bytes::Bytes;
use std::borrow::Cow;

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text.
    Text(Cow<'static, str>),
    /// A picture.
    Image {
        /// The file, written as base64.
        data: Bytes,
        /// What it is: `image/png`.
        mime_type: Cow<'static, str>,
    },
    /// A sound (2025-03-26 and later).
    Audio {
        /// The file, written as base64.
        data: Bytes,
        /// What it is: `audio/wav`.
        mime_type: Cow<'static, str>,
    },
    /// A link to a resource (2025-06-18 and later).
    Link(ResourceLink),
    /// A resource with what it holds.
    Embedded(ResourceContent),
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// A picture.
    pub fn image(data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::Image { data: data.into(), mime_type: mime_type.into() }
    }

    /// A sound.
    pub fn audio(data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::Audio { data: data.into(), mime_type: mime_type.into() }
    }

    /// A block of this content and nothing else.
    pub const fn block(self) -> Block {
        Block { content: self, annotations: None, meta: None }
    }

    /// Appends a block of this content, with what is said about it.
    pub(in crate::protocol::message) fn write(
        &self,
        out: &mut Vec<u8>,
        annotations: Option<&ContentAnnotations>,
        meta: Option<&MetaMembers>,
        revision: Revision,
    ) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Text(text) => write_text(&mut object, text),
            Self::Image { data, mime_type } => {
                write_binary(&mut object, Binary::Image, data, mime_type, revision);
            }
            Self::Audio { data, mime_type } => {
                write_binary(&mut object, Binary::Audio, data, mime_type, revision);
            }
            Self::Link(link) => write_link(&mut object, link, revision),
            Self::Embedded(resource) => write_embedded(&mut object, resource, revision),
        }
        write_hints(&mut object, annotations, meta, revision);
        object.close();
    }
}

/// A block: content, and what is said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The content.
    pub content: Content,
    /// Hints for whoever shows it.
    pub annotations: Option<ContentAnnotations>,
    /// `_meta`, for revisions that have it there (2025-06-18 and later).
    pub meta: Option<MetaMembers>,
}

impl Block {
    /// The same block with hints.
    #[must_use]
    pub fn annotated(self, annotations: ContentAnnotations) -> Self {
        Self { annotations: Some(annotations), ..self }
    }

    /// The same block with members of `_meta`.
    #[must_use]
    pub fn with_meta(self, meta: MetaMembers) -> Self {
        Self { meta: Some(meta), ..self }
    }

    /// Appends the block as `revision` knows it.
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.content.write(out, self.annotations.as_ref(), self.meta.as_ref(), revision);
    }
}

impl From<Content> for Block {
    fn from(content: Content) -> Self {
        content.block()
    }
}

/// The two kinds of content that are a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::protocol::message) enum Binary {
    Image,
    Audio,
}

pub(in crate::protocol::message) fn write_text(object: &mut ObjectWriter<'_>, text: &str) {
    object.text("type", "text").text("text", text);
}

/// Writes a picture or a sound, or says in words that it was there.
pub(in crate::protocol::message) fn write_binary(
    object: &mut ObjectWriter<'_>,
    kind: Binary,
    data: &[u8],
    mime_type: &str,
    revision: Revision,
) {
    if kind == Binary::Audio && !revision.dialect().audio {
        object.text("type", "text");
        let bytes = data.len();
        let words = format_args!("[audio: {mime_type}, {bytes} bytes]");
        write::formatted(object.key("text"), words);
        return;
    }
    object
        .text("type", if kind == Binary::Audio { "audio" } else { "image" })
        .base64("data", data)
        .text("mimeType", mime_type);
}

/// Writes a link, or its URI as text.
pub(in crate::protocol::message) fn write_link(
    object: &mut ObjectWriter<'_>,
    link: &ResourceLink,
    revision: Revision,
) {
    if revision.dialect().resource_link {
        object.text("type", "resource_link");
        link.write_members(object, revision);
    } else {
        write_text(object, &link.uri);
    }
}

/// Writes a resource with what it holds.
pub(in crate::protocol::message) fn write_embedded(
    object: &mut ObjectWriter<'_>,
    resource: &ResourceContent,
    revision: Revision,
) {
    object.text("type", "resource");
    resource.write(object.key("resource"), revision);
}
