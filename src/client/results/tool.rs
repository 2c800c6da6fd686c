//! Tools and their results.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::MetaObject;
use super::content::ContentBlock;
use crate::client::error::{ClientError, ClientErrorKind};

/// A tool of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// Name for [`Client::call_tool`](crate::client::Client::call_tool).
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
    /// `_meta`.
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

/// How a tool may be called (2025-11-25).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether its calls may be tasks.
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
    #[serde(default)]
    pub content: Vec<ContentBlock>,
    /// The structured result.
    pub structured_content: Option<Value>,
    /// Whether the tool failed. Its content says why.
    #[serde(default)]
    pub is_error: bool,
    /// `_meta`.
    #[serde(rename = "_meta")]
    pub meta: Option<MetaObject>,
}

impl CallToolResult {
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
