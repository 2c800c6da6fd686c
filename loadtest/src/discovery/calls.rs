//! Choice of a tool and of its arguments.

use std::borrow::Cow;

use corelane_client::ToolInfo;
use serde_json::{Map, Value};

use super::DiscoveryError;
use super::arguments::ArgumentMaker;
use crate::mcp::RequestTemplate;
use crate::nearest::nearest;
use crate::plan::call::DEFAULT_ECHO_BYTES;
use crate::plan::{CallPlan, Plan};

/// Names that an error lists.
const LISTED_MAX: usize = 20;

/// Completes the calls of a plan, and chooses a tool for those without. Returns a note for each
/// choice.
pub(super) fn complete_calls(
    plan: &mut Plan,
    tools: &[ToolInfo],
) -> Result<Vec<String>, DiscoveryError> {
    if plan.calls_mut().is_empty() {
        plan.calls.push(CallPlan::default());
    }
    let mut notes = Vec::new();
    for call in plan.calls_mut().into_iter().filter(|call| call.method.is_none()) {
        if call.tool.as_deref().is_some_and(|name| name.contains("{{")) {
            // The name is known during the run.
            call.arguments.get_or_insert_default();
            continue;
        }
        let Some(name) = call.tool.clone() else {
            let Some((tool, arguments)) = choose_tool(tools, call.bytes) else {
                notes.push(list_tools_instead(call, tools)?);
                continue;
            };
            (call.tool, call.arguments) = (Some(tool.name.clone()), Some(arguments));
            call.output_schema.clone_from(&tool.output_schema);
            let reason = if is_echo(tool) { "named like an echo" } else { "read-only" };
            notes.push(format!("{} ({reason}; choose another with --tool)", call.describe()));
            continue;
        };
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            let instead = instead_of(&name, &names);
            return Err(DiscoveryError::UnknownTool { name, instead });
        };
        if let Some(arguments) = &call.arguments {
            check_arguments(tool, arguments)?;
        } else {
            let flags = || format!("--arguments {}", sample_arguments(tool));
            let unmade = |why| DiscoveryError::Arguments { name, why, flags: flags() };
            call.arguments = Some(make_arguments(tool, call.bytes).map_err(unmade)?);
            notes.push(call.describe());
        }
        call.output_schema.clone_from(&tool.output_schema);
    }
    Ok(notes)
}

/// Has a call without a tool request `tools/list`, which changes nothing on any server. Returns the
/// note that says so.
///
/// # Errors
///
/// If the call is one of a tool, of which more is said than its name.
fn list_tools_instead(call: &mut CallPlan, tools: &[ToolInfo]) -> Result<String, DiscoveryError> {
    let flags = match tools.first() {
        Some(tool) => format!("--tool {} --arguments {}", tool.name, sample_arguments(tool)),
        None => "--tool NAME --arguments JSON".into(),
    };
    let described = list(tools, describe_refusal);
    if *call != CallPlan::default() {
        return Err(DiscoveryError::NoTool { flags, tools: described });
    }
    call.method = Some("tools/list".into());
    Ok(format!(
        "tools/list, because no tool is called that may change something or needs arguments: \
         {described}. To call one, add for example {flags}"
    ))
}

/// Checks the names of the arguments of a call by the schema of its tool. Their values are checked
/// by the server.
fn check_arguments(tool: &ToolInfo, given: &Map<String, Value>) -> Result<(), DiscoveryError> {
    let schema = &tool.input_schema;
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    let unused = properties.keys().map(String::as_str).filter(|name| !given.contains_key(*name));
    let unused: Vec<&str> = unused.collect();
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none();
    for name in given.keys().filter(|name| !properties.contains_key(*name)) {
        if is_closed || nearest(name, unused.iter().copied()).is_some() {
            let instead = instead_of(name, &unused);
            let (tool, name) = (tool.name.clone(), name.clone());
            return Err(DiscoveryError::UnknownArgument { tool, name, instead });
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    match required.filter_map(Value::as_str).find(|name| !given.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let (tool, name) = (tool.name.clone(), name.to_owned());
            Err(DiscoveryError::MissingArgument { tool, name })
        }
    }
}

/// Returns which name may be meant instead of an unknown one, or all that are known.
fn instead_of(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("it has {}", list(known, |name| (*name).to_owned())),
    }
}

/// Returns sample arguments of a tool, quoted for a shell.
fn sample_arguments(tool: &ToolInfo) -> String {
    let sample = ArgumentMaker::sample(&tool.input_schema).to_string();
    shlex::try_quote(&sample).map_or_else(|_| sample.clone(), Cow::into_owned)
}

/// Chooses a tool that returns its arguments, else one that is read-only.
fn choose_tool(
    tools: &[ToolInfo],
    bytes: Option<usize>,
) -> Option<(&ToolInfo, Map<String, Value>)> {
    let exact = tools.iter().filter(|tool| tool.name == "echo" && is_echo(tool));
    let similar = tools.iter().filter(|tool| tool.name != "echo" && is_echo(tool));
    let read_only = tools.iter().filter(|tool| is_read_only(tool));
    let mut candidates = exact.chain(similar).chain(read_only);
    candidates.find_map(|tool| Some((tool, make_arguments(tool, bytes).ok()?)))
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

fn list<T>(items: &[T], describe: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = items.iter().take(LISTED_MAX).map(describe).collect();
    let more = items.len().saturating_sub(LISTED_MAX);
    match (items.len(), more) {
        (0, _) => "none".into(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
