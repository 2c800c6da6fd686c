//! The arguments that calls over HTTP repeat in headers, by tool.
//!
//! MCP 2026-07-28 `basic/transports/streamable-http`, "x-mcp-header".

use std::collections::HashMap;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use serde_json::Value;

use super::results::ToolInfo;
use super::session::ParameterField;
use crate::protocol::parameter_header::{ParameterHeader, collect_headers};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// The headers of each tool that has any, as the last list of tools declared them.
#[derive(Default)]
pub(super) struct ToolHeaders(Mutex<HeadersByTool>);

type HeadersByTool = HashMap<Box<str>, Box<[ParameterHeader]>>;

impl ToolHeaders {
    /// Replaces the headers by those of a list of tools. Removes the tools whose annotations are
    /// invalid from the list.
    pub(super) fn learn(&self, tools: &mut Vec<ToolInfo>) {
        let mut by_tool = HashMap::new();
        tools.retain(|tool| match collect_headers(&tool.input_schema) {
            Ok(headers) => {
                if !headers.is_empty() {
                    by_tool.insert(tool.name.as_str().into(), headers);
                }
                true
            }
            Err(problem) => {
                tracing::warn!(tool = %tool.name, %problem, "a tool is ignored");
                false
            }
        });
        *self.lock() = by_tool;
    }

    /// Returns the headers of a call of the tool `name` with these params.
    pub(super) fn of_call(&self, name: &str, params: &[u8]) -> Vec<ParameterField> {
        let by_tool = self.lock();
        let Some(headers) = by_tool.get(name) else { return Vec::new() };
        let params: Value = serde_json::from_slice(params).unwrap_or_default();
        let field = |header: &ParameterHeader| {
            let mut keys = header.path.iter();
            let argument = keys.try_fold(params.get("arguments")?, |value, key| value.get(&**key));
            Some((header.name.clone(), plain_text(argument?)?))
        };
        headers.iter().filter_map(field).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HeadersByTool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ToolHeaders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToolHeaders").finish_non_exhaustive()
    }
}

/// Returns the value of a header for an argument: none for `null`, and for what no header carries.
fn plain_text(argument: &Value) -> Option<Box<str>> {
    match argument {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(_) => Some(argument.to_string().into()),
        Value::Number(number) => Some(match number.as_f64() {
            // `42.0` is the integer 42. `Display` of a float has no exponent.
            Some(float) if number.is_f64() => float.to_string().into(),
            _ => number.to_string().into(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(schemas: &[(&str, Value)]) -> Vec<ToolInfo> {
        let tool = |(name, properties): &(&str, Value)| {
            let schema = json!({ "type": "object", "properties": properties });
            serde_json::from_value(json!({ "name": name, "inputSchema": schema })).unwrap()
        };
        schemas.iter().map(tool).collect()
    }

    fn fields(headers: &ToolHeaders, name: &str, arguments: &Value) -> Vec<String> {
        let params = json!({ "name": name, "arguments": arguments }).to_string();
        let fields = headers.of_call(name, params.as_bytes());
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let headers = ToolHeaders::default();
        headers.learn(&mut tools(&[(
            "a",
            json!({
                "text": { "type": "string", "x-mcp-header": "Text" },
                "count": { "type": "integer", "x-mcp-header": "Count" },
                "flag": { "type": "boolean", "x-mcp-header": "Flag" },
                "inner": { "type": "object", "properties": {
                    "key": { "type": "string", "x-mcp-header": "Key" },
                } },
                "other": { "type": "string" },
            }),
        )]));
        let arguments = json!({
            "text": " ä", "count": 42, "flag": false, "inner": { "key": "" }, "other": "b",
        });
        let expected = ["Text:  ä", "Count: 42", "Flag: false", "Key: "];
        assert_eq!(fields(&headers, "a", &arguments), expected);
        let arguments = json!({ "text": null, "count": 42.0, "inner": 7 });
        assert_eq!(fields(&headers, "a", &arguments), ["Count: 42"]);
        assert!(fields(&headers, "b", &arguments).is_empty());
    }

    #[test]
    fn tools_with_invalid_annotations_are_left_out() {
        let headers = ToolHeaders::default();
        let valid = json!({ "a": { "type": "string", "x-mcp-header": "A" } });
        let invalid = json!({ "a": { "type": "number", "x-mcp-header": "A" } });
        let mut list = tools(&[("valid", valid), ("invalid", invalid), ("plain", json!({}))]);
        headers.learn(&mut list);
        let names: Vec<&str> = list.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["valid", "plain"]);
        assert_eq!(fields(&headers, "valid", &json!({ "a": "b" })), ["A: b"]);

        headers.learn(&mut tools(&[("plain", json!({}))]));
        assert!(fields(&headers, "valid", &json!({ "a": "b" })).is_empty());
    }
}
