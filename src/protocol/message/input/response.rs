//! What clients answer to questions, read strictly.
//!
//! Source: `CreateMessageResult` and `ListRootsResult` in the schema of each revision.

use super::spoken::Spoken;
use crate::protocol::error::Error;
use crate::protocol::message::content::{Content, Role};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// As whom it spoke.
    pub role: Role,
    /// What it said, one block in revisions that have no lists.
    pub content: Vec<Spoken>,
    /// Which model it was.
    pub model: String,
    /// Why it ended: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or a word of the client's.
    pub stop_reason: Option<String>,
}

impl Sampled {
    /// The first text that it said.
    pub fn text(&self) -> Option<&str> {
        self.content.iter().find_map(Spoken::as_text)
    }

    pub(super) fn read(result: &Map<String, Value>) -> Result<Self, Error> {
        let role = result.get("role").and_then(Value::as_str).and_then(Role::parse);
        let content = match result.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().map(Spoken::read).collect(),
            Some(block) => Spoken::read(block).map(|block| vec![block]),
            None => Err(malformed("content is missing")),
        };
        Ok(Self {
            role: role.ok_or_else(|| malformed("role must be \"user\" or \"assistant\""))?,
            content: content?,
            model: text(result, "model")?,
            stop_reason: text_if(result, "stopReason")?,
        })
    }
}

/// A folder or file that the client lets servers work in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Root {
    /// Where it is; a `file:` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

impl Root {
    pub(super) fn read_all(result: &Map<String, Value>) -> Result<Vec<Self>, Error> {
        let roots = result.get("roots").and_then(Value::as_array);
        let roots = roots.ok_or_else(|| malformed("roots must be a list"))?;
        let read = |root: &Value| {
            let root = root.as_object().ok_or_else(|| malformed("a root must be an object"))?;
            Ok(Self { uri: text(root, "uri")?, name: text_if(root, "name")? })
        };
        roots.iter().map(read).collect()
    }
}

impl Spoken {
    fn read(block: &Value) -> Result<Self, Error> {
        let block =
            block.as_object().ok_or_else(|| malformed("a block of content must be an object"))?;
        match block.get("type").and_then(Value::as_str) {
            Some("tool_use") => Ok(Self::ToolUse {
                id: text(block, "id")?,
                name: text(block, "name")?,
                input: match block.get("input") {
                    Some(Value::Object(input)) => input.clone(),
                    _ => return Err(malformed("input must be an object")),
                },
            }),
            Some("tool_result") => Err(malformed("a model does not give results of tools")),
            kind => read_content(kind, block).map(Self::Content),
        }
    }
}

fn read_content(kind: Option<&str>, block: &Map<String, Value>) -> Result<Content, Error> {
    match kind {
        Some("text") => Ok(Content::text(text(block, "text")?)),
        Some("image") => Ok(Content::image(bytes(block)?, text(block, "mimeType")?)),
        Some("audio") => Ok(Content::audio(bytes(block)?, text(block, "mimeType")?)),
        _ => Err(malformed("the type of a block of content is not known")),
    }
}

fn bytes(block: &Map<String, Value>) -> Result<Vec<u8>, Error> {
    let data = block.get("data").and_then(Value::as_str);
    let decoded = data.and_then(|data| STANDARD.decode(data).ok());
    decoded.ok_or_else(|| malformed("data must be base64"))
}

fn text(members: &Map<String, Value>, key: &'static str) -> Result<String, Error> {
    text_if(members, key)?.ok_or_else(|| Error::invalid_params(format!("{key} is missing")))
}

fn text_if(members: &Map<String, Value>, key: &'static str) -> Result<Option<String>, Error> {
    match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::invalid_params(format!("{key} must be a string"))),
    }
}

#[cold]
fn malformed(message: &'static str) -> Error {
    Error::invalid_params(message)
}
