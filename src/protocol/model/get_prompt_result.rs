//! Writer of a `GetPromptResult` into the outgoing buffer.
//!
//! Invariants: in whatever order its methods are called, the result is one `GetPromptResult` that
//! the revision allows. The caller writes [`super::begin_response`] before it and
//! [`super::end_response`] after it.
//!
//! MCP schema: `GetPromptResult` of each revision; `server/prompts`.

use super::content::{ContentBlock, Role};
use crate::json::{ObjectWriter, write};
use crate::revision::Revision;
use std::fmt;

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
