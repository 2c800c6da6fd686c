//! Writer of a `ReadResourceResult` into the outgoing buffer.
//!
//! Invariants: in whatever order its methods are called, the result is one `ReadResourceResult`
//! that the revision allows. The caller must add at least one content: an unknown resource is an
//! error ([`crate::error::Error::resource_not_found`]), never an empty list.
//!
//! MCP schema: `ReadResourceResult` of each revision; `server/resources`.

use super::content::ResourceContents;
use super::list_results::CacheHint;
use crate::json::ObjectWriter;
use crate::revision::Revision;

/// Writes one result of `resources/read`.
#[derive(Debug)]
pub struct ReadResourceResultWriter<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    /// Offset of this result in `out`.
    start: usize,
    cache_hint: CacheHint,
    revision: Revision,
    is_empty: bool,
}

impl<'o> ReadResourceResultWriter<'o> {
    /// Starts a result at the end of `out`; `suffix` is the [`super::result_suffix`] of the
    /// revision, and `cache` is written for modern clients only.
    #[doc(hidden)]
    pub fn open(
        out: &'o mut Vec<u8>,
        revision: Revision,
        cache_hint: CacheHint,
        suffix: &'o [u8],
    ) -> Self {
        let start = out.len();
        out.extend_from_slice(br#"{"contents":["#);
        Self { out, suffix, start, cache_hint, revision, is_empty: true }
    }

    /// Returns the revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether no content was added.
    #[doc(hidden)]
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Replaces the cache hint that was given to [`ReadResourceResultWriter::open`].
    pub const fn cache_hint(&mut self, cache: CacheHint) -> &mut Self {
        self.cache_hint = cache;
        self
    }

    /// Adds text contents.
    pub fn text(&mut self, uri: &str, mime_type: Option<&str>, text: &str) -> &mut Self {
        let mut object = self.begin_item();
        object.string("uri", uri).string_opt("mimeType", mime_type).string("text", text);
        object.close();
        self
    }

    /// Adds binary contents, encoded as base64 directly into the buffer.
    pub fn blob(&mut self, uri: &str, mime_type: Option<&str>, bytes: &[u8]) -> &mut Self {
        let mut object = self.begin_item();
        object.string("uri", uri).string_opt("mimeType", mime_type).base64("blob", bytes);
        object.close();
        self
    }

    /// Adds contents that are already in memory.
    pub fn content(&mut self, content: &ResourceContents) -> &mut Self {
        self.write_separator();
        content.write(self.out, self.revision);
        self
    }

    /// Writes the end of the result.
    #[doc(hidden)]
    pub fn finish(mut self) {
        self.close();
    }

    /// Ends the result and takes it out of the buffer. What is written afterwards is void.
    #[cold]
    #[doc(hidden)]
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        self.out.split_off(self.start)
    }

    fn close(&mut self) {
        self.out.push(b']');
        if self.revision.dialect().cache_hints {
            self.cache_hint.write(self.out);
        }
        self.out.extend_from_slice(self.suffix);
        self.out.push(b'}');
    }

    fn begin_item(&mut self) -> ObjectWriter<'_> {
        self.write_separator();
        ObjectWriter::open(self.out)
    }

    fn write_separator(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }
}
