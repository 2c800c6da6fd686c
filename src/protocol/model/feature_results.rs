//! Writers of the results of `prompts/get`, `resources/read` and `completion/complete` into the
//! outgoing buffer.
//!
//! Invariants: in whatever order the methods of a writer are called, the result is one that the
//! revision allows. The caller writes [`super::begin_response`] before it and
//! [`super::end_response`] after it. To a `ReadResourceResult` the caller must add at least one
//! content: an unknown resource is an error ([`crate::error::Error::resource_not_found`]), never an
//! empty list.
//!
//! MCP schema: `GetPromptResult`, `ReadResourceResult` and `CompleteResult` of each revision;
//! `server/prompts`, `server/resources`, `server/utilities/completion`.

use std::fmt;

use super::constant_results::CacheHint;
use super::content::{ContentBlock, ResourceContents, Role};
use crate::json::{ObjectWriter, write};
use crate::revision::Revision;

/// Writes one result of `prompts/get`.
#[derive(Debug)]
pub struct GetPromptResultWriter<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    /// Offset of this result in `out`.
    start: usize,
    revision: Revision,
    is_empty: bool,
}

impl<'o> GetPromptResultWriter<'o> {
    /// Starts a result at the end of `out`; `suffix` is the [`super::result_suffix`] of the
    /// revision.
    #[doc(hidden)]
    pub fn open(
        out: &'o mut Vec<u8>,
        revision: Revision,
        description: Option<&str>,
        suffix: &'o [u8],
    ) -> Self {
        let start = out.len();
        let mut object = ObjectWriter::open(out);
        object.string_opt("description", description);
        object.key("messages").push(b'[');
        Self { out, suffix, start, revision, is_empty: true }
    }

    /// Returns the revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Adds a message; a content type that the revision lacks becomes text.
    pub fn message(&mut self, role: Role, block: &ContentBlock) -> &mut Self {
        self.begin_message(role);
        block.write(self.out, self.revision);
        self.out.push(b'}');
        self
    }

    /// Adds a text message.
    pub fn text(&mut self, role: Role, text: &str) -> &mut Self {
        self.begin_message(role);
        self.out.extend_from_slice(TEXT_OPEN);
        write::string(self.out, text);
        self.out.extend_from_slice(b"}}");
        self
    }

    /// Adds a text message, formatted without an intermediate string.
    pub fn format(&mut self, role: Role, arguments: fmt::Arguments<'_>) -> &mut Self {
        self.begin_message(role);
        self.out.extend_from_slice(TEXT_OPEN);
        write::formatted(self.out, arguments);
        self.out.extend_from_slice(b"}}");
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
        self.out.extend_from_slice(self.suffix);
        self.out.push(b'}');
    }

    fn begin_message(&mut self, role: Role) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.extend_from_slice(match role {
            Role::User => br#"{"role":"user","content":"#,
            Role::Assistant => br#"{"role":"assistant","content":"#,
        });
    }
}

const TEXT_OPEN: &[u8] = br#"{"type":"text","text":"#;

/// Highest number of values in one result.
pub const COMPLETION_VALUES_MAX: usize = 100;

/// Appends a `CompleteResult` with the first [`COMPLETION_VALUES_MAX`] of `values`, best first.
/// `hasMore` is true if `has_more` is or values were cut off; `total` is the number of all values,
/// if known; `suffix` is the [`super::result_suffix`] of the revision.
pub fn write_complete_result<T: AsRef<str>>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    total: Option<u64>,
    has_more: bool,
    suffix: &[u8],
) {
    out.extend_from_slice(br#"{"completion":{"values":["#);
    let mut values = values.into_iter();
    for (index, value) in values.by_ref().take(COMPLETION_VALUES_MAX).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write::string(out, value.as_ref());
    }
    out.push(b']');
    let mut completion = ObjectWriter::resume(out);
    let has_more = has_more || values.next().is_some();
    completion.unsigned_opt("total", total).boolean("hasMore", has_more);
    completion.close();
    out.extend_from_slice(suffix);
    out.push(b'}');
}

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
