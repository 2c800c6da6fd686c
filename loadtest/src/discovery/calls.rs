//! Choice of a tool and of its arguments.

use serde_json::{Map, Value};

use super::DiscoveryError;
use super::arguments::ArgumentMaker;
use super::tools::Tool;
use crate::mcp::RequestTemplate;
use crate::plan::CallPlan;
use crate::plan::call::DEFAULT_ECHO_BYTES;

/// Tools that an error lists.
const LISTED_MAX: usize = 20;

/// Completes the calls of a plan, and chooses a tool for those without. Returns a note for each
/// choice.
pub(super) fn complete_calls(
    calls: &mut Vec<CallPlan>,
    tools: &[Tool],
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
            let reason = if tool.is_echo() { "named like an echo" } else { "read-only" };
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
    tools: &[Tool],
    bytes: Option<usize>,
) -> Result<(&Tool, Map<String, Value>), DiscoveryError> {
    let exact = tools.iter().filter(|tool| tool.name == "echo" && tool.is_echo());
    let similar = tools.iter().filter(|tool| tool.name != "echo" && tool.is_echo());
    let read_only = tools.iter().filter(|tool| tool.is_read_only());
    let mut candidates = exact.chain(similar).chain(read_only);
    let found = candidates.find_map(|tool| Some((tool, make_arguments(tool, bytes).ok()?)));
    found.ok_or_else(|| DiscoveryError::NoTool { tools: list(tools, describe_refusal) })
}

/// Returns why a tool is not called by itself.
fn describe_refusal(tool: &Tool) -> String {
    let name = &tool.name;
    match make_arguments(tool, None) {
        Err(why) => format!("{name} ({why})"),
        Ok(_) => format!("{name} (not marked as read-only)"),
    }
}

fn make_arguments(tool: &Tool, bytes: Option<usize>) -> Result<Map<String, Value>, String> {
    let text = RequestTemplate::message(bytes.unwrap_or(DEFAULT_ECHO_BYTES));
    let text = (tool.is_echo() || bytes.is_some()).then_some(text.as_str());
    ArgumentMaker::new(&tool.input_schema, text).make()
}

fn list(tools: &[Tool], describe: impl Fn(&Tool) -> String) -> String {
    let shown: Vec<String> = tools.iter().take(LISTED_MAX).map(describe).collect();
    let more = tools.len().saturating_sub(LISTED_MAX);
    match (tools.len(), more) {
        (0, _) => "none".into(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
