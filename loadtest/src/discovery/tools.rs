//! The tools of the server, read page by page.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::peer::Peer;
use super::request_error::RequestError;

/// Highest number of tools that are read.
const TOOLS_MAX: usize = 10_000;

/// A tool as `tools/list` describes it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    /// Its name.
    pub(super) name: String,
    /// Schema of its arguments.
    #[serde(default)]
    pub(super) input_schema: Value,
    /// Schema of `structuredContent` in its results.
    #[serde(default)]
    pub(super) output_schema: Option<Value>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    #[serde(default)]
    read_only_hint: Option<bool>,
    #[serde(default)]
    destructive_hint: Option<bool>,
}

impl Tool {
    /// Returns whether the tool says that it changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.annotations.read_only_hint == Some(true)
    }

    /// Returns whether its name says that it returns its arguments.
    pub(super) fn is_echo(&self) -> bool {
        let destroys = self.annotations.destructive_hint == Some(true) && !self.is_read_only();
        self.name.to_ascii_lowercase().contains("echo") && !destroys
    }
}

/// Reads all pages of `tools/list`.
pub(super) fn list_tools(peer: &mut Peer<'_>) -> Result<Vec<Tool>, RequestError> {
    let (mut tools, mut cursors) = (Vec::new(), BTreeSet::new());
    let mut cursor: Option<String> = None;
    loop {
        let mut page = peer.request("tools/list", cursor.as_deref().and_then(page_params))?;
        let Some(Value::Array(listed)) = page.get_mut("tools").map(Value::take) else {
            return Err(RequestError::Invalid("the result of tools/list has no tools".into()));
        };
        for tool in listed {
            let tool = serde_json::from_value(tool);
            tools.push(tool.map_err(|error| {
                RequestError::Invalid(format!("tools/list has an invalid tool: {error}"))
            })?);
        }
        cursor = page.get("nextCursor").and_then(Value::as_str).map(String::from);
        match &cursor {
            // A cursor that comes again would never end.
            Some(next) if tools.len() < TOOLS_MAX && cursors.insert(next.clone()) => {}
            _ => return Ok(tools),
        }
    }
}

fn page_params(cursor: &str) -> Option<Map<String, Value>> {
    json!({ "cursor": cursor }).as_object().cloned()
}
