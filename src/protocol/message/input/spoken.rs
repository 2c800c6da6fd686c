//! What is said to a model, and what it says.
//!
//! What it keeps true: a conversation with a model knows text, pictures, sounds and the use of
//! tools; links and embedded resources, which it does not know, become text.
//!
//! Source: `SamplingMessageContentBlock` in the schemas of 2025-11-25 and later, and the unions of
//! the same members before.

use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::message::content::{Body, Content, write_text};
use crate::protocol::revision::Revision;
use serde_json::{Map, Value};

/// A block of a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Spoken {
    /// Text, a picture or a sound. Links are written as their URI, embedded resources as their
    /// text.
    Content(Content),
    /// The model uses a tool (2025-11-25 and later).
    ToolUse {
        /// Names this use.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Map<String, Value>,
    },
    /// What a tool gave (2025-11-25 and later).
    ToolResult {
        /// The use that it belongs to.
        tool_use_id: String,
        /// The result.
        content: Vec<Content>,
        /// The tool failed.
        is_error: bool,
    },
}

impl Spoken {
    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Content(Content::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) const fn is_of_tools(&self) -> bool {
        matches!(self, Self::ToolUse { .. } | Self::ToolResult { .. })
    }

    /// Appends a list of blocks.
    pub(super) fn write_all(blocks: &[Self], out: &mut Vec<u8>, revision: Revision) {
        out.push(b'[');
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            block.write(out, revision);
        }
        out.push(b']');
    }

    /// Appends the block as `revision` knows it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let has_tools = revision.dialect().sampling_tools;
        match self {
            Self::Content(content) => write_content(content, out, revision),
            Self::ToolUse { id, name, input } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.text("type", "tool_use").text("id", id).text("name", name);
                write::map(object.key("input"), input);
                object.close();
            }
            Self::ToolResult { tool_use_id, content, is_error } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.text("type", "tool_result").text("toolUseId", tool_use_id);
                let list = object.key("content");
                list.push(b'[');
                for (index, content) in content.iter().enumerate() {
                    if index > 0 {
                        list.push(b',');
                    }
                    content.write(list, None, None, revision);
                }
                list.push(b']');
                if *is_error {
                    object.boolean("isError", true);
                }
                object.close();
            }
            Self::ToolUse { name, .. } => say(out, format_args!("[used the tool {name}]")),
            Self::ToolResult { content, .. } => {
                let count = content.len();
                say(out, format_args!("[the tool gave {count} blocks of content]"));
            }
        }
    }
}

impl<C: Into<Content>> From<C> for Spoken {
    fn from(content: C) -> Self {
        Self::Content(content.into())
    }
}

/// Appends content of a kind that conversations know, or the text that stands for it.
fn write_content(content: &Content, out: &mut Vec<u8>, revision: Revision) {
    let text: &str = match content {
        Content::Link(link) => &link.uri,
        Content::Embedded(resource) => match &resource.body {
            Body::Text(text) => text,
            Body::Blob(_) => &resource.uri,
        },
        Content::Text(_) | Content::Image { .. } | Content::Audio { .. } => {
            content.write(out, None, None, revision);
            return;
        }
    };
    let mut object = ObjectWriter::open(out);
    write_text(&mut object, text);
    object.close();
}

fn say(out: &mut Vec<u8>, words: std::fmt::Arguments<'_>) {
    let mut object = ObjectWriter::open(out);
    object.text("type", "text");
    write::formatted(object.key("text"), words);
    object.close();
}
