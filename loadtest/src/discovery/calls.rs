//! Choice of a tool and of its arguments.

use corelane_client::ToolInfo;
use serde_json::{Map, Value};

use super::DiscoveryError;
use super::arguments::ArgumentMaker;
use crate::mcp::RequestTemplate;
use crate::plan::CallPlan;
use crate::plan::call::DEFAULT_ECHO_BYTES;

/// Tools that an error lists.
const LISTED_MAX: usize = 20;

/// Completes the calls of a plan, and chooses a tool for those without. Returns a note for each
/// choice.
pub(super) fn complete_calls(
    calls: &mut Vec<CallPlan>,
    tools: &[ToolInfo],
) -> Result<Vec<String>, DiscoveryError> {
    if calls.is_empty() {
        calls.push(CallPlan::default());
    }
    let mut notes = Vec::new();
    for call in calls.iter_mut().filter(|call| call.method.is_none()) {
        let Some(name) = call.tool.clone() else {
            let (tool, arguments) = choose_tool(tools, call.bytes)?;
            (call.tool, call.arguments) = (Some(tool.name.clone()), Some(arguments));
            call.output_schema.clone_from(&tool.output_schema);
            let reason = if is_echo(tool) { "named like an echo" } else { "read-only" };
            notes.push(format!("{} ({reason}; choose another with --tool)", call.describe()));
            continue;
        };
        let tool = tools.iter().find(|tool| tool.name == name);
        match (tool, &call.arguments) {
            (Some(tool), None) => {
                let arguments = make_arguments(tool, call.bytes)
                    .map_err(|why| DiscoveryError::Arguments { name, why })?;
                call.arguments = Some(arguments);
                notes.push(call.describe());
            }
            (Some(_), Some(_)) => {}
            (None, None) => {
                let tools = list(tools, |tool| tool.name.clone());
                return Err(DiscoveryError::UnknownTool { name, tools });
            }
            (None, Some(_)) => notes.push(format!("the tool {name} is not in tools/list")),
        }
        call.output_schema = tool.and_then(|tool| tool.output_schema.clone());
    }
    Ok(notes)
}

/// Chooses a tool that returns its arguments, else one that is read-only.
fn choose_tool(
    tools: &[ToolInfo],
    bytes: Option<usize>,
) -> Result<(&ToolInfo, Map<String, Value>), DiscoveryError> {
    let exact = tools.iter().filter(|tool| tool.name == "echo" && is_echo(tool));
    let similar = tools.iter().filter(|tool| tool.name != "echo" && is_echo(tool));
    let read_only = tools.iter().filter(|tool| is_read_only(tool));
    let mut candidates = exact.chain(similar).chain(read_only);
    let found = candidates.find_map(|tool| Some((tool, make_arguments(tool, bytes).ok()?)));
    found.ok_or_else(|| DiscoveryError::NoTool { tools: list(tools, describe_refusal) })
}

/// Returns whether the tool says that it changes nothing.
fn is_read_only(tool: &ToolInfo) -> bool {
    tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint == Some(true))
}

/// Returns whether its name says that it returns its arguments.
fn is_echo(tool: &ToolInfo) -> bool {
    let hints = tool.annotations.as_ref();
    let destroys = hints.is_some_and(|hints| hints.destructive_hint == Some(true));
    tool.name.to_ascii_lowercase().contains("echo") && (!destroys || is_read_only(tool))
}

/// Returns why a tool is not called by itself.
fn describe_refusal(tool: &ToolInfo) -> String {
    let name = &tool.name;
    match make_arguments(tool, None) {
        Err(why) => format!("{name} ({why})"),
        Ok(_) => format!("{name} (not marked as read-only)"),
    }
}

fn make_arguments(tool: &ToolInfo, bytes: Option<usize>) -> Result<Map<String, Value>, String> {
    let text = RequestTemplate::message(bytes.unwrap_or(DEFAULT_ECHO_BYTES));
    let text = (is_echo(tool) || bytes.is_some()).then_some(text.as_str());
    ArgumentMaker::new(&tool.input_schema, text).make()
}

fn list(tools: &[ToolInfo], describe: impl Fn(&ToolInfo) -> String) -> String {
    let shown: Vec<String> = tools.iter().take(LISTED_MAX).map(describe).collect();
    let more = tools.len().saturating_sub(LISTED_MAX);
    match (tools.len(), more) {
        (0, _) => "none".into(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
