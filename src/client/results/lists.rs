//! Pages of lists, prompts and completions.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::content::PromptMessage;
use super::{null_as_default, whole_number};

/// One page of a list.
#[derive(Debug)]
pub struct ListResult<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T: DeserializeOwned> ListResult<T> {
    /// Reads a page whose items are in the member `key`.
    pub fn read(
        mut result: serde_json::Map<String, serde_json::Value>,
        key: &str,
    ) -> Result<Self, serde_json::Error> {
        let items = match result.remove(key) {
            // Go encodes an empty list so.
            Some(serde_json::Value::Null) => Vec::new(),
            items => serde_json::from_value(items.unwrap_or_default())?,
        };
        let next_cursor = result.remove("nextCursor").unwrap_or_default();
        Ok(Self { items, next_cursor: serde_json::from_value(next_cursor)? })
    }
}

/// A prompt of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Name for [`Client::get_prompt`](crate::Client::get_prompt).
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "null_as_default")]
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default, deserialize_with = "null_as_default")]
    pub required: bool,
}

/// The messages of a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is for.
    pub description: Option<String>,
    /// The messages.
    #[serde(deserialize_with = "null_as_default")]
    pub messages: Vec<PromptMessage>,
}

/// The result of a completion.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The completion.
    pub completion: Completion,
}

/// Values that complete an argument.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most 100 values.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(default, deserialize_with = "whole_number")]
    pub total: Option<u64>,
    /// Whether there are more.
    #[serde(default, deserialize_with = "null_as_default")]
    pub has_more: bool,
}
