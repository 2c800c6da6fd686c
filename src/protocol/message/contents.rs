//! What resources hold, written straight into the outgoing buffer.
//!
//! What it keeps true: whatever is said, the body is one `ReadResourceResult` that the revision
//! knows. It does not see to it that there is any content: a resource that is not there is an error
//! ([`crate::protocol::error::Error::resource_not_found`]), never an empty list.
//!
//! Source: `ReadResourceResult` in the schema of each revision; `server/resources`.

use super::body::CacheHint;
use super::content::ResourceContent;
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;

/// The writer of one result of `resources/read`.
#[derive(Debug)]
pub struct ContentsWriter<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    cache: CacheHint,
    revision: Revision,
    is_empty: bool,
}

impl<'o> ContentsWriter<'o> {
    /// Starts a result at the end of `out`; `suffix` is that of [`super::result_suffix`], and
    /// `cache` is said to modern clients alone.
    pub fn open(
        out: &'o mut Vec<u8>,
        revision: Revision,
        cache: CacheHint,
        suffix: &'o [u8],
    ) -> Self {
        out.extend_from_slice(br#"{"contents":["#);
        Self { out, suffix, cache, revision, is_empty: true }
    }

    /// The revision that the caller speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether nothing was added yet.
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Says how long the answer may be kept, in place of what it was opened with.
    pub const fn cache(&mut self, cache: CacheHint) -> &mut Self {
        self.cache = cache;
        self
    }

    /// Adds a text.
    pub fn text(&mut self, uri: &str, mime_type: Option<&str>, text: &str) -> &mut Self {
        let mut object = self.item();
        object.text("uri", uri).text_if("mimeType", mime_type).text("text", text);
        object.close();
        self
    }

    /// Adds bytes, written as base64 straight into the buffer.
    pub fn blob(&mut self, uri: &str, mime_type: Option<&str>, bytes: &[u8]) -> &mut Self {
        let mut object = self.item();
        object.text("uri", uri).text_if("mimeType", mime_type).base64("blob", bytes);
        object.close();
        self
    }

    /// Adds content that is held already.
    pub fn content(&mut self, content: &ResourceContent) -> &mut Self {
        self.separate();
        content.write(self.out, self.revision);
        self
    }

    /// Closes the result.
    pub fn finish(self) {
        self.out.push(b']');
        if self.revision.dialect().cache_hints {
            self.cache.write(self.out);
        }
        self.out.extend_from_slice(self.suffix);
        self.out.push(b'}');
    }

    fn item(&mut self) -> ObjectWriter<'_> {
        self.separate();
        ObjectWriter::open(self.out)
    }

    fn separate(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }
}

/// Appends a whole result of `resources/read`.
pub fn read_result<'c>(
    out: &mut Vec<u8>,
    revision: Revision,
    contents: impl IntoIterator<Item = &'c ResourceContent>,
    cache: CacheHint,
    suffix: &[u8],
) {
    let mut writer = ContentsWriter::open(out, revision, cache, suffix);
    for content in contents {
        writer.content(content);
    }
    writer.finish();
}
