//! The result of a prompt, written straight into the outgoing buffer.
//!
//! What it keeps true: whatever is said, the body is one `GetPromptResult` that the revision knows.
//! The caller writes [`super::result_open`] before and [`super::result_close`] behind it.
//!
//! Source: `GetPromptResult` in the schema of each revision; `server/prompts`.

use super::content::{Block, Role};
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::revision::Revision;
use std::fmt;

/// The writer of one result of `prompts/get`.
#[derive(Debug)]
pub struct PromptWriter<'o> {
    out: &'o mut Vec<u8>,
    suffix: &'o [u8],
    revision: Revision,
    is_empty: bool,
}

impl<'o> PromptWriter<'o> {
    /// Starts a result at the end of `out`; `suffix` is that of [`super::result_suffix`].
    pub fn open(
        out: &'o mut Vec<u8>,
        revision: Revision,
        description: Option<&str>,
        suffix: &'o [u8],
    ) -> Self {
        let mut object = ObjectWriter::open(out);
        object.text_if("description", description);
        object.key("messages").push(b'[');
        Self { out, suffix, revision, is_empty: true }
    }

    /// The revision that the caller speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Adds a message of any content; a kind that the revision lacks becomes text.
    pub fn message(&mut self, role: Role, block: &Block) -> &mut Self {
        self.open_message(role);
        block.write(self.out, self.revision);
        self.out.push(b'}');
        self
    }

    /// Adds a message of text.
    pub fn text(&mut self, role: Role, text: &str) -> &mut Self {
        self.open_message(role);
        self.out.extend_from_slice(TEXT_OPEN);
        write::string(self.out, text);
        self.out.extend_from_slice(b"}}");
        self
    }

    /// Adds a message of formatted text, without a string in between.
    pub fn format(&mut self, role: Role, arguments: fmt::Arguments<'_>) -> &mut Self {
        self.open_message(role);
        self.out.extend_from_slice(TEXT_OPEN);
        write::formatted(self.out, arguments);
        self.out.extend_from_slice(b"}}");
        self
    }

    /// Closes the result.
    pub fn finish(self) {
        self.out.push(b']');
        self.out.extend_from_slice(self.suffix);
        self.out.push(b'}');
    }

    fn open_message(&mut self, role: Role) {
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

/// Appends a whole result of `prompts/get`.
pub fn prompt_result<'b>(
    out: &mut Vec<u8>,
    revision: Revision,
    description: Option<&str>,
    messages: impl IntoIterator<Item = (Role, &'b Block)>,
    suffix: &[u8],
) {
    let mut writer = PromptWriter::open(out, revision, description, suffix);
    for (role, block) in messages {
        writer.message(role, block);
    }
    writer.finish();
}

const TEXT_OPEN: &[u8] = br#"{"type":"text","text":"#;
