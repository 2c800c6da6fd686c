//! What the list of tools says about their calls: the arguments that calls over HTTP repeat in
//! headers, whether a call may be a task, and whether it may run twice.
//!
//! MCP 2026-07-28 `basic/transports/streamable-http`, "x-mcp-header"; 2025-11-25
//! `basic/utilities/tasks`, "Tool-Level Negotiation".

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use super::results::{TaskSupport, ToolInfo};
use super::session::ParameterField;
use corelane_protocol::parameter_header::{ParameterHeader, collect_headers};
use corelane_protocol::revision::Revision;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Tools that are remembered.
const TOOLS_MAX: usize = 65_536;

/// The tools that the last list of tools declared.
pub struct KnownTools {
    /// Calls carry headers: the server is reached over HTTP.
    has_headers: bool,
    /// Set by the first list.
    by_name: OnceLock<Box<Mutex<ToolsByName>>>,
    /// A tool that was listed may run twice without harm.
    has_idempotent: AtomicBool,
}

type ToolsByName = HashMap<Box<str>, KnownTool>;

#[derive(Debug)]
struct KnownTool {
    headers: Box<[ParameterHeader]>,
    /// `None` where the server decides.
    task_support: Option<TaskSupport>,
    /// Declared with `readOnlyHint` or `idempotentHint`.
    is_idempotent: bool,
}

impl KnownTools {
    pub(super) fn new(has_headers: bool) -> Self {
        Self { has_headers, by_name: OnceLock::new(), has_idempotent: AtomicBool::new(false) }
    }

    /// Returns whether calls carry headers.
    pub(super) const fn has_headers(&self) -> bool {
        self.has_headers
    }

    /// Notes the tools of a page of their list; the first page replaces all.
    pub(super) fn learn(&self, tools: &[ToolInfo], is_first_page: bool, revision: Revision) {
        let mut by_name = lock(self.by_name.get_or_init(Box::default));
        if is_first_page {
            by_name.clear();
        }
        for tool in tools {
            let headers = match collect_headers(&tool.input_schema) {
                Ok(headers) => headers,
                Err(problem) => {
                    if self.has_headers {
                        tracing::warn!(tool = %tool.name, %problem, "a tool is ignored");
                    }
                    Box::default()
                }
            };
            if by_name.len() < TOOLS_MAX {
                let task_support = revision.dialect().core_tasks.then(|| tool.task_support());
                let is_idempotent = tool.may_run_twice();
                self.has_idempotent.fetch_or(is_idempotent, Ordering::Relaxed);
                let tool_facts = KnownTool { headers, task_support, is_idempotent };
                by_name.insert(tool.name.as_str().into(), tool_facts);
            }
        }
    }

    /// Returns whether a tool may be called: over HTTP, its annotations must be valid.
    pub(super) fn is_usable(&self, tool: &ToolInfo) -> bool {
        !self.has_headers || collect_headers(&tool.input_schema).is_ok()
    }

    /// Returns whether calls of a tool may be tasks; `None` if the server decides, or the tool is
    /// unknown.
    pub(super) fn task_support(&self, name: &str) -> Option<TaskSupport> {
        lock(self.by_name.get()?).get(name)?.task_support
    }

    /// Returns whether the tool `name` was declared to change nothing, or nothing more when it is
    /// called again with the same arguments.
    pub(super) fn is_idempotent(&self, name: &str) -> bool {
        self.has_idempotent.load(Ordering::Relaxed)
            && self.by_name.get().is_some_and(|by_name| {
                lock(by_name).get(name).is_some_and(|tool| tool.is_idempotent)
            })
    }

    /// Returns the headers of a call of the tool `name` with these params.
    pub(super) fn headers_of_call(&self, name: &str, params: &[u8]) -> Vec<ParameterField> {
        if !self.has_headers {
            return Vec::new();
        }
        let Some(by_name) = self.by_name.get() else { return Vec::new() };
        let by_name = lock(by_name);
        let known = by_name.get(name).filter(|tool| !tool.headers.is_empty());
        let Some(KnownTool { headers, .. }) = known else { return Vec::new() };
        let params: Value = serde_json::from_slice(params).unwrap_or_default();
        let field = |header: &ParameterHeader| {
            let mut keys = header.path.iter();
            let argument = keys.try_fold(params.get("arguments")?, |value, key| value.get(&**key));
            Some((header.name.clone(), plain_text(argument?)?))
        };
        headers.iter().filter_map(field).collect()
    }
}

fn lock(by_name: &Mutex<ToolsByName>) -> MutexGuard<'_, ToolsByName> {
    by_name.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for KnownTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KnownTools").finish_non_exhaustive()
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

    fn fields(known: &KnownTools, name: &str, arguments: &Value) -> Vec<String> {
        let params = json!({ "name": name, "arguments": arguments }).to_string();
        let fields = known.headers_of_call(name, params.as_bytes());
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let headers = KnownTools::new(true);
        let list = tools(&[(
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
        )]);
        headers.learn(&list, true, Revision::LATEST);
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
        let known = KnownTools::new(true);
        let valid = json!({ "a": { "type": "string", "x-mcp-header": "A" } });
        let invalid = json!({ "a": { "type": "number", "x-mcp-header": "A" } });
        let list = tools(&[("valid", valid), ("invalid", invalid), ("plain", json!({}))]);
        known.learn(&list[..1], true, Revision::LATEST);
        known.learn(&list[1..], false, Revision::LATEST);
        let usable = list.iter().filter(|tool| known.is_usable(tool));
        let names: Vec<&str> = usable.map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["valid", "plain"]);
        assert_eq!(fields(&known, "valid", &json!({ "a": "b" })), ["A: b"]);
        // Without headers every tool may be called.
        assert!(list.iter().all(|tool| KnownTools::new(false).is_usable(tool)));

        known.learn(&tools(&[("plain", json!({}))]), true, Revision::LATEST);
        assert!(fields(&known, "valid", &json!({ "a": "b" })).is_empty());
    }
}
