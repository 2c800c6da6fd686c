//! What a resource holds.

use bytes::Bytes;

use crate::protocol::message::{CacheHint, ContentsWriter, ResourceContent};

/// What a resource holds, kept until the shard that received the request writes it: one content,
/// or several where a resource is a collection.
///
/// ```
/// use corelane::service::ResourceContents;
///
/// let contents = ResourceContents::text("test://greeting", "Hello!");
/// # drop(contents);
/// ```
#[derive(Clone, Debug)]
pub struct ResourceContents {
    contents: Vec<ResourceContent>,
    pub(in crate::service) cache: Option<CacheHint>,
}

impl ResourceContents {
    /// A text, under the URI that was read.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        ResourceContent::text(uri, text).into()
    }

    /// Bytes, under the URI that was read; they are sent as base64.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        ResourceContent::blob(uri, bytes).into()
    }

    /// The same contents and one more.
    #[must_use]
    pub fn and(mut self, content: ResourceContent) -> Self {
        self.contents.push(content);
        self
    }

    /// The same contents, with how long a client may keep them (`ttlMs`, from 2026-07-28 on) in
    /// place of what the resource says.
    #[must_use]
    pub const fn cache(mut self, cache: CacheHint) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Writes the contents.
    pub fn write(&self, writer: &mut ContentsWriter<'_>) {
        for content in &self.contents {
            writer.content(content);
        }
    }
}

impl From<ResourceContent> for ResourceContents {
    fn from(content: ResourceContent) -> Self {
        Self { contents: vec![content], cache: None }
    }
}
