//! Writer of a `CallToolResult` into the outgoing buffer.
//!
//! Invariants: in whatever order its methods are called, the result is one JSON object that the
//! revision allows. The caller writes [`super::begin_response`] before it and
//! [`super::end_response`] after it, and truncates the buffer if the handler fails.
//!
//! MCP schema: `CallToolResult` of each revision; `server/tools`.

use super::content::{
    BinaryContent, ContentBlock, ResourceContents, ResourceLink, write_binary,
    write_embedded_resource, write_resource_link,
};
use super::implementation::suffix_meta;
use super::left_out::{LEFT_OUT_BYTES_MIN, LeftOutTexts};
use crate::error::Error;
use crate::json::{ObjectWriter, write};
use crate::revision::{Dialect, Revision};
use serde::Serialize;
use std::fmt;

/// Writes one result of `tools/call`.
#[derive(Debug)]
pub struct CallToolResultWriter<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    /// Offset of the first member of this result in `out`.
    start: usize,
    revision: Revision,
    has_blocks: bool,
    structured_content: bool,
    /// Length of the JSON of `structuredContent`, if that member was written.
    structured_content_len: Option<usize>,
    /// Members of `_meta`, each with a leading comma.
    meta: Vec<u8>,
    is_error: bool,
    /// Takes the large texts of the message that the result is for.
    left_out: Option<&'o mut LeftOutTexts>,
}

impl<'o> CallToolResultWriter<'o> {
    /// Starts a result at the end of `out`; `suffix` is the [`super::result_suffix`] of the same
    /// revision.
    #[doc(hidden)]
    #[inline]
    pub fn open(out: &'o mut Vec<u8>, revision: Revision, suffix: &'o [u8]) -> Self {
        let start = out.len() + 1;
        out.extend_from_slice(CONTENT_OPEN);
        Self {
            out,
            suffix,
            start,
            revision,
            has_blocks: false,
            structured_content: false,
            structured_content_len: None,
            meta: Vec::new(),
            is_error: false,
            left_out: None,
        }
    }

    /// Leaves out the large texts that `left_out` takes.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn leave_out(self, left_out: Option<&'o mut LeftOutTexts>) -> Self {
        Self { left_out, ..self }
    }

    /// Returns the revision of the client.
    #[inline]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether the result is marked with `isError`.
    #[inline]
    pub const fn is_error(&self) -> bool {
        self.is_error
    }

    /// Returns whether a structured result was added, in either representation.
    #[doc(hidden)]
    #[inline]
    pub const fn has_structured_content(&self) -> bool {
        self.structured_content
    }

    /// Returns the JSON of `structuredContent`, or `None` if that member was not written.
    #[doc(hidden)]
    #[inline]
    pub fn structured_content_json(&self) -> Option<&[u8]> {
        let json_start = self.start + STRUCTURED_OPEN.len();
        self.out.get(json_start..json_start + self.structured_content_len?)
    }

    /// Adds a text block.
    #[inline]
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.begin_block(TEXT_OPEN);
        if text.len() < LEFT_OUT_BYTES_MIN || !self.leaves_out(text) {
            write::string(self.out, text);
        }
        self.out.push(b'}');
        self
    }

    /// Returns whether a large text is left out here.
    #[cold]
    fn leaves_out(&mut self, text: &str) -> bool {
        let at = self.out.len();
        self.left_out.as_mut().is_some_and(|left_out| left_out.leave_out(text, at))
    }

    /// Adds a text block, formatted without an intermediate string:
    /// `result.format(format_args!(…))`.
    pub fn format(&mut self, arguments: fmt::Arguments<'_>) -> &mut Self {
        self.begin_block(TEXT_OPEN);
        write::formatted(self.out, arguments);
        self.out.push(b'}');
        self
    }

    /// Adds a content block; a type that the revision lacks becomes text.
    pub fn content_block(&mut self, block: &ContentBlock) -> &mut Self {
        self.begin_block(b"");
        block.write(self.out, self.revision);
        self
    }

    /// Adds an image, encoded as base64 directly into the buffer.
    pub fn image(&mut self, data: &[u8], mime_type: &str) -> &mut Self {
        self.binary(BinaryContent::Image, data, mime_type)
    }

    /// Adds audio; before 2025-03-26, text that describes it.
    pub fn audio(&mut self, data: &[u8], mime_type: &str) -> &mut Self {
        self.binary(BinaryContent::Audio, data, mime_type)
    }

    /// Adds a resource link; before 2025-06-18, its URI as text.
    pub fn resource_link(&mut self, link: &ResourceLink) -> &mut Self {
        self.begin_block(b"");
        let mut object = ObjectWriter::open(self.out);
        write_resource_link(&mut object, link, self.revision);
        object.close();
        self
    }

    /// Adds an embedded resource.
    pub fn embedded_resource(&mut self, resource: &ResourceContents) -> &mut Self {
        self.begin_block(b"");
        let mut object = ObjectWriter::open(self.out);
        write_embedded_resource(&mut object, resource, self.revision);
        object.close();
        self
    }

    fn binary(&mut self, kind: BinaryContent, data: &[u8], mime_type: &str) -> &mut Self {
        self.begin_block(b"");
        let mut object = ObjectWriter::open(self.out);
        write_binary(&mut object, kind, data, mime_type, self.revision);
        object.close();
        self
    }

    /// Adds a structured result: as `structuredContent` if the revision has it (before 2026-07-28
    /// objects only), and in every revision as a text block with the same JSON, as the
    /// specification recommends. At most once per result.
    ///
    /// # Errors
    ///
    /// Internal error (-32603) if `value` does not serialize, or on a second call; the result is
    /// unchanged.
    pub fn structured_content(&mut self, value: &impl Serialize) -> Result<&mut Self, Error> {
        if self.structured_content {
            return Err(Error::internal("structuredContent was set twice by the tool"));
        }
        let blocks_end = self.out.len();
        self.out.extend_from_slice(STRUCTURED_OPEN);
        let json_start = self.out.len();
        if let Err(error) = serde_json::to_writer(&mut *self.out, value) {
            self.out.truncate(blocks_end);
            return Err(Error::internal(format!("structuredContent is not JSON: {error}")));
        }
        self.structured_content = true;
        if is_structured_content_allowed(self.revision.dialect(), self.out[json_start]) {
            self.insert_structured_content(blocks_end);
        } else {
            let json_end = self.out.len();
            self.append_as_text(json_start, json_end);
            self.out.drain(blocks_end..json_end);
        }
        Ok(self)
    }

    /// Marks the result as a failure of the tool: `"isError":true`.
    #[inline]
    pub const fn mark_error(&mut self) -> &mut Self {
        self.is_error = true;
        self
    }

    /// Adds a member to `_meta` of the result. Each key at most once; keys whose prefix contains
    /// `modelcontextprotocol` or `mcp` are reserved.
    pub fn meta(&mut self, key: &str, value: &serde_json::Value) -> &mut Self {
        self.meta.push(b',');
        write::string(&mut self.meta, key);
        self.meta.push(b':');
        write::json(&mut self.meta, value);
        self
    }

    /// Writes the end of the result.
    #[doc(hidden)]
    #[inline]
    pub fn finish(mut self) {
        self.close();
    }

    /// Ends the result and takes it out of the buffer. What is written afterwards is void.
    #[cold]
    #[doc(hidden)]
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        self.out.split_off(self.start - 1)
    }

    #[inline]
    fn close(&mut self) {
        self.out.push(b']');
        if self.is_error {
            self.out.extend_from_slice(br#","isError":true"#);
        }
        self.out.extend_from_slice(self.suffix);
        if !self.meta.is_empty() {
            write_meta(self.out, &self.meta, self.suffix);
        }
        self.out.push(b'}');
    }

    /// Starts an item of the `content` array.
    #[inline]
    fn begin_block(&mut self, open: &[u8]) {
        if self.has_blocks {
            self.out.push(b',');
        }
        self.has_blocks = true;
        self.out.extend_from_slice(open);
    }

    /// Moves the member behind `blocks_end` in front of the `content` array, which is still open,
    /// and adds its JSON as a text block.
    fn insert_structured_content(&mut self, blocks_end: usize) {
        let json_length = self.out.len() - blocks_end - STRUCTURED_OPEN.len();
        self.out.push(b',');
        self.out[self.start..].rotate_left(blocks_end - self.start);
        if let Some(left_out) = &mut self.left_out {
            left_out.move_back(self.start, self.out.len() - blocks_end);
        }
        self.structured_content_len = Some(json_length);
        let json_start = self.start + STRUCTURED_OPEN.len();
        self.append_as_text(json_start, json_start + json_length);
    }

    /// Adds a text block with the JSON between `start` and `end`.
    fn append_as_text(&mut self, start: usize, end: usize) {
        self.begin_block(TEXT_OPEN);
        write::string_within(self.out, start, end);
        self.out.push(b'}');
    }
}

/// Adds members to the `_meta` that ends the `suffix`, or begins one.
#[cold]
fn write_meta(out: &mut Vec<u8>, members: &[u8], suffix: &[u8]) {
    if suffix_meta(suffix).is_empty() {
        out.extend_from_slice(META_OPEN);
        out.extend_from_slice(members.strip_prefix(b",").unwrap_or(members));
    } else {
        out.pop();
        out.extend_from_slice(members);
    }
    out.push(b'}');
}

/// Returns whether JSON with the first byte `first` is allowed as `structuredContent`.
const fn is_structured_content_allowed(dialect: &Dialect, first: u8) -> bool {
    dialect.structured_content_any || (dialect.structured_content && first == b'{')
}

const CONTENT_OPEN: &[u8] = br#"{"content":["#;
const STRUCTURED_OPEN: &[u8] = br#""structuredContent":"#;
const META_OPEN: &[u8] = br#","_meta":{"#;
const TEXT_OPEN: &[u8] = br#"{"type":"text","text":"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SUFFIX: &[u8] = br#","resultType":"complete""#;

    fn written(revision: Revision, write: impl FnOnce(&mut CallToolResultWriter<'_>)) -> Value {
        let mut out = b"before".to_vec();
        let suffix = if revision.is_modern() { SUFFIX } else { b"" };
        let mut result = CallToolResultWriter::open(&mut out, revision, suffix);
        write(&mut result);
        result.finish();
        serde_json::from_slice(out.strip_prefix(b"before").unwrap()).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn content_blocks_keep_call_order() {
        let result = written(Revision::LATEST, |result| {
            result.text("one\n").format(format_args!("{}\"", 2)).mark_error();
        });
        assert_eq!(
            result,
            json!({
                "content": [text("one\n"), text("2\"")],
                "isError": true,
                "resultType": "complete",
            })
        );
    }

    #[test]
    fn empty_result_has_empty_content() {
        assert_eq!(written(Revision::V2024_11_05, |_| ()), json!({"content": []}));
    }

    #[test]
    fn structured_content_is_independent_of_call_order() {
        let sum = json!({"sum": 3, "of": ["a\"b"]});
        let sum_text = sum.to_string();
        for has_first in [false, true] {
            let result = written(Revision::V2025_06_18, |result| {
                if has_first {
                    result.text("first");
                }
                result.structured_content(&sum).unwrap().text("last");
            });
            assert_eq!(result["structuredContent"], sum);
            let mut blocks = vec![text(&sum_text), text("last")];
            if has_first {
                blocks.insert(0, text("first"));
            }
            assert_eq!(result["content"], Value::Array(blocks));
        }
    }

    #[test]
    fn structured_content_unsupported_revision_gets_text() {
        for revision in [Revision::V2024_11_05, Revision::V2025_03_26] {
            let result = written(revision, |result| {
                result.text("first").structured_content(&json!({"a": 1})).unwrap();
            });
            assert_eq!(result, json!({"content": [text("first"), text(r#"{"a":1}"#)]}));
        }
        let result = written(Revision::V2025_11_25, |result| {
            result.structured_content(&[1, 2]).unwrap();
        });
        assert_eq!(result, json!({"content": [text("[1,2]")]}));
        let result = written(Revision::LATEST, |result| {
            result.structured_content(&7).unwrap();
        });
        assert_eq!(result["structuredContent"], json!(7));
    }

    #[test]
    fn structured_content_error_leaves_result_unchanged() {
        struct Broken;
        impl Serialize for Broken {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("broken"))
            }
        }
        let result = written(Revision::LATEST, |result| {
            result.text("kept");
            assert_eq!(result.structured_content(&(1, Broken)).unwrap_err().code, -32603);
            result.structured_content(&1).unwrap();
            assert!(result.structured_content(&2).is_err());
        });
        assert_eq!(result["content"], json!([text("kept"), text("1")]));
    }
}
