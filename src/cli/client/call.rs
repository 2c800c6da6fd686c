//! `corelane call`: calls a tool.

use std::time::Duration;

use clap::ArgMatches;
use corelane_client::{CallToolResult, ClientError, ClientErrorKind, ToolInfo};
use corelane_engine::clock::Clock;
use corelane_protocol::eras::Method;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::arguments::{Argument, GivenArguments, arguments_of, describe, find_mistakes};
use super::connection::{Connection, read, read_item};
use super::failure::Failure;
use super::flags::{NAME, REPEAT, TASK, TTL, given_arguments};
use super::output::{Output, error_text};
use super::repeat::RepeatedCalls;
use super::tasks::follow;
use super::text::clip;
use crate::config::unit::nearest;

/// Longest list of names in a message, in characters.
const NAMES_WIDTH_MAX: usize = 400;
/// Code of an unknown tool or prompt, and of invalid arguments (MCP 2025-11-25 server/tools,
/// "Error Handling").
const INVALID_PARAMS: i64 = -32602;

/// A call as the command line gives it.
#[derive(Debug)]
pub(crate) struct ToolCall {
    name: String,
    given: GivenArguments,
    task: TaskChoice,
    /// How often it is made, if what the calls take is printed.
    repeat: Option<u32>,
}

/// Whether a call runs as a task.
#[derive(Clone, Copy, Debug)]
enum TaskChoice {
    /// If the server decides so.
    Default,
    /// The server keeps it for this time, or as long as it likes.
    Task { ttl: Option<Duration> },
}

impl ToolCall {
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self, Failure> {
        let name = matches.get_one::<String>(NAME).cloned().unwrap_or_default();
        let task = if matches.get_flag(TASK) {
            TaskChoice::Task { ttl: matches.get_one(TTL).copied() }
        } else {
            TaskChoice::Default
        };
        let repeat = matches.get_one(REPEAT).copied();
        Ok(Self { name, given: given_arguments(matches)?, task, repeat })
    }

    /// Calls the tool and prints its result. The server decides whether the arguments are valid;
    /// what its schema says is only part of the error.
    pub(crate) fn run(&self, server: &Connection, output: &mut Output) -> Result<(), Failure> {
        let mut tools = None;
        let declared = if self.given.depend_on_types() {
            let tools = tools.insert(list_tools(server)?);
            self.find(tools).map(|tool| arguments_of(&tool.input_schema)).unwrap_or_default()
        } else {
            Vec::new()
        };
        let arguments = self.given.to_object(&declared);
        if let Some(count) = self.repeat {
            return self.run_repeatedly(count, &arguments, server, output);
        }
        let sent = match self.send(server, &arguments) {
            Err(error) if tools.is_none() && server.repeats_declared(&error) => {
                // Whether the call may run twice is known once the tools are listed.
                let tools = tools.insert(list_tools(server)?);
                match self.find(tools) {
                    Some(tool)
                        if tool.may_run_twice() && server.wait_to_repeat(&self.name, &error) =>
                    {
                        self.send(server, &arguments)
                    }
                    _ => Err(error),
                }
            }
            sent => sent,
        };
        let document = match sent {
            Ok(document) => document,
            Err(error) => {
                let hint = match error.kind() {
                    kind if is_about_arguments(&kind) => self.hint(server, tools, &arguments),
                    _ => None,
                };
                return Err(Failure::from(error).with_hint(hint));
            }
        };
        if output.is_json() {
            output.write_document(&document)?;
        }
        let result: CallToolResult = read(&document)?;
        if result.is_error {
            let text = format!("the tool {} failed: {}", self.name, error_text(&result));
            return Err(Failure::call(text, None));
        }
        if output.is_json() { Ok(()) } else { output.write_result(&result) }
    }

    /// Makes the call `count` times and prints what the calls took. A call that is refused counts
    /// as failed; without a connection no further one is made.
    fn run_repeatedly(
        &self,
        count: u32,
        arguments: &Map<String, Value>,
        server: &Connection,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let clock = Clock::start();
        let started = clock.now();
        let mut calls = RepeatedCalls::default();
        for _ in 0..count {
            let sent_at = clock.now();
            let sent = self.send(server, arguments);
            let time = clock.now().since(sent_at);
            let result = match sent {
                Ok(document) => match read::<CallToolResult>(&document)? {
                    result if result.is_error => Err(error_text(&result)),
                    _ => Ok(()),
                },
                Err(error) if is_answer(&error.kind()) => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            calls.record(time, result);
        }
        let failure =
            calls.first_failure().map(|why| format!("the tool {} failed: {why}", self.name));
        calls.write(clock.now().since(started), output)?;
        failure.map_or(Ok(()), |failure| Err(Failure::call(failure, None)))
    }

    fn send(
        &self,
        server: &Connection,
        arguments: &Map<String, Value>,
    ) -> Result<Box<RawValue>, ClientError> {
        match self.task {
            TaskChoice::Default => {
                let params = json!({ "name": self.name, "arguments": arguments });
                server.request(Method::ToolsCall, &params)
            }
            TaskChoice::Task { ttl } => {
                follow(&server.call_as_task(&self.name, arguments, ttl)?, server.limit())
            }
        }
    }

    /// Returns what the list of tools suggests about a call that failed.
    fn hint(
        &self,
        server: &Connection,
        tools: Option<Vec<ToolInfo>>,
        arguments: &Map<String, Value>,
    ) -> Option<String> {
        let tools = tools.or_else(|| list_tools(server).ok())?;
        let Some(tool) = self.find(&tools) else {
            return Some(suggest_name("tool", &self.name, tools.iter().map(|it| it.name.as_str())));
        };
        let declared = arguments_of(&tool.input_schema);
        Some(explain(&self.name, &declared, arguments))
    }

    fn find<'a>(&self, tools: &'a [ToolInfo]) -> Option<&'a ToolInfo> {
        tools.iter().find(|tool| tool.name == self.name)
    }
}

/// Returns what is wrong with arguments, and what the arguments are.
pub(crate) fn explain(name: &str, declared: &[Argument], given: &Map<String, Value>) -> String {
    let mut parts = find_mistakes(declared, given);
    parts.push(describe(name, declared));
    parts.join("; ")
}

/// Suggests one of `names` for an unknown one, and names them all as far as the line allows.
pub(crate) fn suggest_name<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let all = names.clone().collect::<Vec<_>>().join(", ");
    match nearest(name, names) {
        Some(near) => format!("there is no {what} {name}, did you mean {near}?"),
        None if all.is_empty() => format!("the server has no {what}"),
        None => format!("there is no {what} {name}, only {}", clip(&all, NAMES_WIDTH_MAX)),
    }
}

/// Lists the tools. A server that cannot list them may serve them.
fn list_tools(server: &Connection) -> Result<Vec<ToolInfo>, ClientError> {
    match server.list(Method::ToolsList, "tools") {
        // A tool that cannot be read is left out.
        Ok(list) => Ok(list.items.iter().filter_map(|item| read_item(item).ok()).collect()),
        Err(error) => match error.kind() {
            ClientErrorKind::Unsupported
            | ClientErrorKind::Protocol
            | ClientErrorKind::Rpc { .. }
            | ClientErrorKind::Parity { .. } => Ok(Vec::new()),
            _ => Err(error),
        },
    }
}

/// Returns whether an error is the answer to a request, after which the connection goes on.
const fn is_answer(kind: &ClientErrorKind) -> bool {
    matches!(
        kind,
        ClientErrorKind::Rpc { .. } | ClientErrorKind::Parity { .. } | ClientErrorKind::Timeout
    )
}

/// Returns whether the server has answered so because of the name or the arguments. The parity
/// dialect has no code of its own for that.
pub(crate) fn is_about_arguments(kind: &ClientErrorKind) -> bool {
    use corelane_client::ParityErrorCode::{FeatureNotAvailable, Internal};
    matches!(
        kind,
        ClientErrorKind::Rpc { code: INVALID_PARAMS }
            | ClientErrorKind::Parity { code: Internal | FeatureNotAvailable }
    )
}
