//! Result of reading a resource (`resources/read`).

use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::model::{CacheHint, ReadResourceResultWriter, ResourceContents};

/// Result of a local or blocking resource handler: one content, or several if the resource is a
/// collection.
///
/// ```
/// use corelane::ReadResourceResult;
///
/// let result = ReadResourceResult::text("test://greeting", "Hello!");
/// # drop(result);
/// ```
#[derive(Clone, Debug)]
pub struct ReadResourceResult {
    contents: Vec<ResourceContents>,
    pub(in crate::service) cache_hint: Option<CacheHint>,
}

impl ReadResourceResult {
    /// A text content; `uri` is usually the requested URI.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        ResourceContents::text(uri, text).into()
    }

    /// A binary content, sent as base64; `uri` is usually the requested URI.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        ResourceContents::blob(uri, bytes).into()
    }

    /// Adds another content.
    #[must_use]
    pub fn with_content(mut self, content: ResourceContents) -> Self {
        self.contents.push(content);
        self
    }

    /// Sets how long clients may cache the contents (`ttlMs`, since 2026-07-28). Default: the hint
    /// of the resource.
    #[must_use]
    pub const fn cache_hint(mut self, cache: CacheHint) -> Self {
        self.cache_hint = Some(cache);
        self
    }

    /// Writes the contents to `writer`.
    #[doc(hidden)]
    pub fn write_to(&self, writer: &mut ReadResourceResultWriter<'_>) {
        for content in &self.contents {
            writer.content(content);
        }
    }
}

impl From<ResourceContents> for ReadResourceResult {
    fn from(content: ResourceContents) -> Self {
        Self { contents: vec![content], cache_hint: None }
    }
}

impl HeapBytes for ReadResourceResult {
    fn heap_bytes(&self) -> usize {
        self.contents.heap_bytes()
    }
}
