//! Content blocks of sampling messages.
//!
//! Invariants: sampling has text, images, audio and tool use only; resource links and embedded
//! resources are converted to text.
//!
//! MCP schema: `SamplingMessageContentBlock` of 2025-11-25 and later, and the unions of the same
//! members before.

use crate::json::{ObjectWriter, write};
use crate::model::content::{Content, ResourceBody, write_text};
use crate::revision::Revision;
use corelane_base::heap_bytes::HeapBytes;
use serde_json::{Map, Value};

/// A content block of a sampling message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SamplingMessageContentBlock {
    /// Text, image or audio. Resource links are sent as their URI, embedded resources as their
    /// text.
    Content(Content),
    /// Use of a tool by the model (2025-11-25 and later).
    ToolUse {
        /// Id of this use.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments.
        input: Map<String, Value>,
    },
    /// Result of a tool use (2025-11-25 and later).
    ToolResult {
        /// Id of the tool use.
        tool_use_id: String,
        /// Content of the result.
        content: Vec<Content>,
        /// Whether the tool failed.
        is_error: bool,
    },
}

impl SamplingMessageContentBlock {
    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Content(Content::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) const fn is_tool_content(&self) -> bool {
        matches!(self, Self::ToolUse { .. } | Self::ToolResult { .. })
    }

    /// Appends an array of blocks.
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

    /// Appends the block as `revision` defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let has_tools = revision.dialect().sampling_tools;
        match self {
            Self::Content(content) => write_content(content, out, revision),
            Self::ToolUse { id, name, input } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.string("type", "tool_use").string("id", id).string("name", name);
                write::map(object.key("input"), input);
                object.close();
            }
            Self::ToolResult { tool_use_id, content, is_error } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.string("type", "tool_result").string("toolUseId", tool_use_id);
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
            Self::ToolUse { name, .. } => write_text_block(out, format_args!("[tool use: {name}]")),
            Self::ToolResult { content, .. } => {
                let count = content.len();
                write_text_block(out, format_args!("[tool result: {count} content blocks]"));
            }
        }
    }
}

impl HeapBytes for SamplingMessageContentBlock {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Content(content) => content.heap_bytes(),
            Self::ToolUse { id, name, input } => {
                id.heap_bytes() + name.heap_bytes() + input.heap_bytes()
            }
            Self::ToolResult { tool_use_id, content, is_error: _ } => {
                tool_use_id.heap_bytes() + content.heap_bytes()
            }
        }
    }
}

impl<C: Into<Content>> From<C> for SamplingMessageContentBlock {
    fn from(content: C) -> Self {
        Self::Content(content.into())
    }
}

/// Appends content of a type that sampling has, or the text that replaces it.
fn write_content(content: &Content, out: &mut Vec<u8>, revision: Revision) {
    let text: &str = match content {
        Content::ResourceLink(link) => &link.uri,
        Content::EmbeddedResource(resource) => match &resource.body {
            ResourceBody::Text(text) => text,
            ResourceBody::Blob(_) => &resource.uri,
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

fn write_text_block(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let mut object = ObjectWriter::open(out);
    object.string("type", "text");
    write::formatted(object.key("text"), text);
    object.close();
}
