//! The result of a tool, written straight into the outgoing buffer.
//!
//! What it keeps true: whatever the handler says, and in whatever order, the body is one JSON
//! object that the revision knows. It does not know the id: the caller writes
//! [`super::result_open`] before and [`super::result_close`] behind it, and cuts the buffer back
//! when the handler gives up.
//!
//! Source: `CallToolResult` in the schema of each revision; `server/tools`.

use super::content::{
    Binary, Block, ResourceContent, ResourceLink, write_binary, write_embedded, write_link,
};
use crate::protocol::error::Error;
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::revision::{Dialect, Revision};
use serde::Serialize;
use std::fmt;

/// The writer of one result of `tools/call`.
#[derive(Debug)]
pub struct Answer<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    /// Where the members of this result start, behind its brace.
    start: usize,
    revision: Revision,
    blocks: bool,
    structured: bool,
    /// How long the JSON of the structured result is, where the result holds it as such.
    structured_length: Option<usize>,
    failed: bool,
}

impl<'o> Answer<'o> {
    /// Starts a result at the end of `out`; `suffix` is that of [`super::result_suffix`] for the
    /// same revision.
    #[inline]
    pub fn open(out: &'o mut Vec<u8>, revision: Revision, suffix: &'o [u8]) -> Self {
        let start = out.len() + 1;
        out.extend_from_slice(CONTENT_OPEN);
        Self {
            out,
            suffix,
            start,
            revision,
            blocks: false,
            structured: false,
            structured_length: None,
            failed: false,
        }
    }

    /// The revision that the caller speaks.
    #[inline]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether the result says so far that the tool failed.
    #[inline]
    pub const fn is_failed(&self) -> bool {
        self.failed
    }

    /// Whether a structured result was given, in whatever form the revision has for it.
    #[inline]
    pub const fn has_structured(&self) -> bool {
        self.structured
    }

    /// The structured result as it was written, JSON; none where there is none or the revision has
    /// no place for it.
    #[inline]
    pub fn structured_json(&self) -> Option<&[u8]> {
        let json_start = self.start + STRUCTURED_OPEN.len();
        self.out.get(json_start..json_start + self.structured_length?)
    }

    /// Adds a block of text.
    #[inline]
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.block_open(TEXT_OPEN);
        write::string(self.out, text);
        self.out.push(b'}');
        self
    }

    /// Adds a block of formatted text, without a string in between:
    /// `answer.format(format_args!(…))`.
    pub fn format(&mut self, arguments: fmt::Arguments<'_>) -> &mut Self {
        self.block_open(TEXT_OPEN);
        write::formatted(self.out, arguments);
        self.out.push(b'}');
        self
    }

    /// Adds a block of any kind; one that the revision lacks becomes text.
    pub fn block(&mut self, block: &Block) -> &mut Self {
        self.block_open(b"");
        block.write(self.out, self.revision);
        self
    }

    /// Adds a picture, written as base64 straight into the buffer.
    pub fn image(&mut self, data: &[u8], mime_type: &str) -> &mut Self {
        self.binary(Binary::Image, data, mime_type)
    }

    /// Adds a sound; text that says what it was before 2025-03-26.
    pub fn audio(&mut self, data: &[u8], mime_type: &str) -> &mut Self {
        self.binary(Binary::Audio, data, mime_type)
    }

    /// Adds a link to a resource; its URI as text before 2025-06-18.
    pub fn link(&mut self, link: &ResourceLink) -> &mut Self {
        self.block_open(b"");
        let mut object = ObjectWriter::open(self.out);
        write_link(&mut object, link, self.revision);
        object.close();
        self
    }

    /// Adds a resource with what it holds.
    pub fn embed(&mut self, resource: &ResourceContent) -> &mut Self {
        self.block_open(b"");
        let mut object = ObjectWriter::open(self.out);
        write_embedded(&mut object, resource, self.revision);
        object.close();
        self
    }

    fn binary(&mut self, kind: Binary, data: &[u8], mime_type: &str) -> &mut Self {
        self.block_open(b"");
        let mut object = ObjectWriter::open(self.out);
        write_binary(&mut object, kind, data, mime_type, self.revision);
        object.close();
        self
    }

    /// Adds a structured result: as `structuredContent` where the revision has it (before
    /// 2026-07-28 an object only), and as a block of text with the same JSON in every revision, as
    /// the specification advises. Once per answer.
    ///
    /// # Errors
    ///
    /// Internal (-32603) when `value` does not serialize, or on a second call; the answer is then
    /// as it was.
    pub fn structured(&mut self, value: &impl Serialize) -> Result<&mut Self, Error> {
        if self.structured {
            return Err(Error::internal("a tool gave two structured results"));
        }
        let blocks_end = self.out.len();
        self.out.extend_from_slice(STRUCTURED_OPEN);
        let json_start = self.out.len();
        if let Err(error) = serde_json::to_writer(&mut *self.out, value) {
            self.out.truncate(blocks_end);
            return Err(Error::internal(format!("a structured result is no JSON: {error}")));
        }
        self.structured = true;
        if takes_structured(self.revision.dialect(), self.out[json_start]) {
            self.keep_structured(blocks_end);
        } else {
            let json_end = self.out.len();
            self.quote(json_start, json_end);
            self.out.drain(blocks_end..json_end);
        }
        Ok(self)
    }

    /// Marks the result as the failure of the tool: `"isError":true`.
    #[inline]
    pub const fn mark_failed(&mut self) -> &mut Self {
        self.failed = true;
        self
    }

    /// Closes the result.
    #[inline]
    pub fn finish(self) {
        self.out.push(b']');
        if self.failed {
            self.out.extend_from_slice(br#","isError":true"#);
        }
        self.out.extend_from_slice(self.suffix);
        self.out.push(b'}');
    }

    /// Starts a block of the `content` array.
    #[inline]
    fn block_open(&mut self, open: &[u8]) {
        if self.blocks {
            self.out.push(b',');
        }
        self.blocks = true;
        self.out.extend_from_slice(open);
    }

    /// Moves the member behind `blocks_end` in front of the blocks, which are still growing, and
    /// quotes its JSON as a block of text. Members of an object have no order.
    fn keep_structured(&mut self, blocks_end: usize) {
        let json_length = self.out.len() - blocks_end - STRUCTURED_OPEN.len();
        self.out.push(b',');
        self.out[self.start..].rotate_left(blocks_end - self.start);
        self.structured_length = Some(json_length);
        let json_start = self.start + STRUCTURED_OPEN.len();
        self.quote(json_start, json_start + json_length);
    }

    /// Adds a block of text that says the JSON between `start` and `end`.
    fn quote(&mut self, start: usize, end: usize) {
        self.block_open(TEXT_OPEN);
        write::string_within(self.out, start, end);
        self.out.push(b'}');
    }
}

/// Whether JSON that starts with `first` may be the structured content of a result.
const fn takes_structured(dialect: &Dialect, first: u8) -> bool {
    dialect.structured_any || (dialect.structured_content && first == b'{')
}

const CONTENT_OPEN: &[u8] = br#"{"content":["#;
const STRUCTURED_OPEN: &[u8] = br#""structuredContent":"#;
const TEXT_OPEN: &[u8] = br#"{"type":"text","text":"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SUFFIX: &[u8] = br#","resultType":"complete""#;

    fn answered(revision: Revision, say: impl FnOnce(&mut Answer<'_>)) -> Value {
        let mut out = b"before".to_vec();
        let suffix = if revision.is_modern() { SUFFIX } else { b"" };
        let mut answer = Answer::open(&mut out, revision, suffix);
        say(&mut answer);
        answer.finish();
        serde_json::from_slice(out.strip_prefix(b"before").unwrap()).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn blocks_come_in_the_order_they_were_said() {
        let answer = answered(Revision::LATEST, |answer| {
            answer.text("one\n").format(format_args!("{}\"", 2)).mark_failed();
        });
        assert_eq!(
            answer,
            json!({
                "content": [text("one\n"), text("2\"")],
                "isError": true,
                "resultType": "complete",
            })
        );
    }

    #[test]
    fn an_answer_without_words_is_an_empty_list() {
        assert_eq!(answered(Revision::V2024_11_05, |_| ()), json!({"content": []}));
    }

    #[test]
    fn a_structured_result_stands_beside_its_text_wherever_it_is_said() {
        let sum = json!({"sum": 3, "of": ["a\"b"]});
        let said = sum.to_string();
        for before in [false, true] {
            let answer = answered(Revision::V2025_06_18, |answer| {
                if before {
                    answer.text("first");
                }
                answer.structured(&sum).unwrap().text("last");
            });
            assert_eq!(answer["structuredContent"], sum);
            let mut blocks = vec![text(&said), text("last")];
            if before {
                blocks.insert(0, text("first"));
            }
            assert_eq!(answer["content"], Value::Array(blocks));
        }
    }

    #[test]
    fn a_revision_without_structured_results_gets_the_text_alone() {
        for revision in [Revision::V2024_11_05, Revision::V2025_03_26] {
            let answer = answered(revision, |answer| {
                answer.text("first").structured(&json!({"a": 1})).unwrap();
            });
            assert_eq!(answer, json!({"content": [text("first"), text(r#"{"a":1}"#)]}));
        }
        let answer = answered(Revision::V2025_11_25, |answer| {
            answer.structured(&[1, 2]).unwrap();
        });
        assert_eq!(answer, json!({"content": [text("[1,2]")]}));
        let answer = answered(Revision::LATEST, |answer| {
            answer.structured(&7).unwrap();
        });
        assert_eq!(answer["structuredContent"], json!(7));
    }

    #[test]
    fn what_does_not_serialize_leaves_the_answer_as_it_was() {
        struct Broken;
        impl Serialize for Broken {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("broken"))
            }
        }
        let answer = answered(Revision::LATEST, |answer| {
            answer.text("kept");
            assert_eq!(answer.structured(&(1, Broken)).unwrap_err().code, -32603);
            answer.structured(&1).unwrap();
            assert!(answer.structured(&2).is_err());
        });
        assert_eq!(answer["content"], json!([text("kept"), text("1")]));
    }
}
