//! Tools, their results, and tasks of the server.

use std::time::Duration;

use corelane_protocol::json::{self, SourcePlace};
use corelane_protocol::model::TaskStatus;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::content::ContentBlock;
use super::{MetaObject, MetaReader, null_as_default, whole_number};
use crate::error::{ClientError, ClientErrorKind};

/// A tool of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// Name for [`Client::call_tool`](crate::Client::call_tool).
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// Hints about its effects.
    pub annotations: Option<ToolAnnotations>,
    /// How it may be called (2025-11-25).
    pub execution: Option<ToolExecution>,
    /// The members of `_meta`, if there are any.
    #[serde(rename = "_meta")]
    pub meta: Option<MetaObject>,
}

impl ToolInfo {
    /// Returns whether calls of the tool may be tasks (2025-11-25). Default
    /// [`TaskSupport::Forbidden`].
    pub fn task_support(&self) -> TaskSupport {
        self.execution.as_ref().map_or(TaskSupport::Forbidden, |it| it.task_support)
    }
}

impl ToolInfo {
    /// Returns whether the tool is declared to change nothing, or nothing more when it is called
    /// again with the same arguments.
    #[doc(hidden)]
    pub fn may_run_twice(&self) -> bool {
        self.annotations.as_ref().is_some_and(|annotations| {
            [annotations.read_only_hint, annotations.idempotent_hint].contains(&Some(true))
        })
    }
}

/// How a tool may be called (2025-11-25).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether its calls may be tasks.
    #[serde(deserialize_with = "null_as_default")]
    pub task_support: TaskSupport,
}

/// Whether calls of a tool may be tasks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskSupport {
    /// No call may be a task.
    #[default]
    Forbidden,
    /// The client decides for each call.
    Optional,
    /// Every call must be a task.
    Required,
}

/// Hints about the effects of a tool. They come from the server and are not to be trusted.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Display name.
    pub title: Option<String>,
    /// It changes nothing.
    pub read_only_hint: Option<bool>,
    /// Its changes may destroy something.
    pub destructive_hint: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent_hint: Option<bool>,
    /// It reaches systems that the server does not control.
    pub open_world_hint: Option<bool>,
}

/// The result of a tool call, failed or not.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// The content, for the model.
    #[serde(default, deserialize_with = "null_as_default")]
    pub content: Vec<ContentBlock>,
    /// The structured result.
    pub structured_content: Option<Value>,
    /// Whether the tool failed. Its content says why.
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_error: bool,
    /// The members of `_meta`, if there are any.
    #[serde(rename = "_meta")]
    pub meta: Option<MetaObject>,
}

impl CallToolResult {
    /// Reads a result from a message that is parsed. `source` is the text of the message, and where
    /// it was parsed. Returns `None` if the result has another shape; reading the text of the
    /// message then fails with the reason.
    pub(crate) fn read(
        result: json::Value<'_>,
        source: (Option<SourcePlace>, &[u8]),
        reader: &mut MetaReader,
    ) -> Option<Self> {
        let known = ["content", "structuredContent", "isError", "_meta"];
        let [content, structured, is_error, meta] = result.as_object()?.find_unique(known).ok()?;
        let [content, structured, is_error, meta] =
            [content, structured, is_error, meta].map(|value| value.filter(|it| !it.is_null()));
        let content = content.map_or(Ok(Vec::new()), Deserialize::deserialize);
        let structured = structured.map(Value::deserialize).transpose();
        Some(Self {
            content: content.ok()?,
            structured_content: structured.ok()?,
            is_error: is_error.map_or(Some(false), json::Value::as_bool)?,
            meta: meta.map_or(Some(None), |meta| reader.read(meta, source).map(Some))?,
        })
    }

    /// Returns the text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n")
    }

    /// Returns the structured result as a `T`.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Tool`] with the text of the result if the tool failed;
    /// [`ClientErrorKind::Protocol`] if the result has no structured content or another shape.
    pub fn structured<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        if self.is_error {
            return Err(ClientError::new(ClientErrorKind::Tool, self.text()));
        }
        let content = self.structured_content.ok_or_else(|| {
            let text = "the result of the tool has no structuredContent";
            ClientError::new(ClientErrorKind::Protocol, text)
        })?;
        serde_json::from_value(content).map_err(|error| {
            let text = format!("structuredContent has another shape: {error}");
            ClientError::with_source(ClientErrorKind::Protocol, text, error)
        })
    }
}

/// A task as the server describes it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id for [`Client::task`](crate::Client::task).
    pub task_id: String,
    /// What it is doing.
    #[serde(deserialize_with = "read_status")]
    pub status: TaskStatus,
    /// The same in words.
    pub status_message: Option<String>,
    /// When it was created: a timestamp of RFC 3339.
    pub created_at: Option<String>,
    /// When its status changed: a timestamp of RFC 3339.
    pub last_updated_at: Option<String>,
    /// Time in milliseconds from its creation to its removal; `None` if it is not removed.
    #[serde(alias = "ttl", default, deserialize_with = "whole_number")]
    pub ttl_ms: Option<u64>,
    /// Time in milliseconds that the client is to wait between two looks at it.
    #[serde(alias = "pollInterval", default, deserialize_with = "whole_number")]
    pub poll_interval_ms: Option<u64>,
}

impl TaskInfo {
    /// Returns the time from its creation to its removal; `None` if it is not removed.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl_ms.map(Duration::from_millis)
    }
}

fn read_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskStatus, D::Error> {
    let name = String::deserialize(deserializer)?;
    TaskStatus::parse(&name).ok_or_else(|| D::Error::custom(format!("unknown status {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};

    fn read(text: &str) -> Option<CallToolResult> {
        read_with(&mut MetaReader::default(), text)
    }

    fn read_with(reader: &mut MetaReader, text: &str) -> Option<CallToolResult> {
        let mut buffer = PaddedBuffer::new(text.as_bytes().to_vec());
        let source = (SourcePlace::of_text(&buffer.text()), text.as_bytes());
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(buffer.text()).unwrap();
        CallToolResult::read(document.root(), source, reader)
    }

    #[test]
    fn each_result_has_its_own_meta() {
        let mut reader = MetaReader::default();
        for text in [
            r#"{"_meta":{"a":1}}"#,
            r#"{"content":[],"_meta":{"a":1}}"#,
            r#"{"_meta":{"a":12}}"#,
            r#"{"_meta":{"a":1}}"#,
            r#"{"content":[{"type":"text","text":"t","_meta":{"a":1}}],"_meta":{"a":2}}"#,
            r#"{"_meta":{}}"#,
            r#"{"_meta":{ "a" : 2 }}"#,
        ] {
            let expected: CallToolResult = serde_json::from_str(text).unwrap();
            assert_eq!(read_with(&mut reader, text), Some(expected), "{text}");
        }
    }

    #[test]
    fn result_of_parsed_message_equals_its_text() {
        for text in [
            "{}",
            r#"{"content": null, "isError": null}"#,
            r#"{"content": [], "structuredContent": null, "_meta": null, "more": [1]}"#,
            r#"{"content": [{"type": "text", "text": "a\n\u00e9"}], "isError": true}"#,
            r#"{"content": [{"type": "resource_link", "uri": "u", "name": "n", "size": 7}]}"#,
            r#"{"structuredContent": {"a": [1, -2, 0.5, "s", null]}, "_meta": {"b": {"c": "d"}}}"#,
        ] {
            assert_eq!(read(text), Some(serde_json::from_str(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn result_of_another_shape_is_not_read() {
        for text in [
            "7",
            r#"{"content": {}}"#,
            r#"{"content": [{"type": "text"}]}"#,
            r#"{"isError": "no"}"#,
            r#"{"_meta": 7}"#,
            r#"{"content": [], "content": []}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
            assert!(serde_json::from_str::<CallToolResult>(text).is_err(), "{text}");
        }
    }
}
