//! The commands that call a server: `tools`, `call`, `tasks`, `resources`, `read`,
//! `prompts`, `prompt`, `complete`, `listen`, `ping` and `inspect`.
//!
//! Standard output carries results, standard error all else. Exit codes: 0 success, 1 the
//! connection or the call failed, 2 usage error.

mod arguments;
mod text;

mod failure;

mod flags;

mod elicitation;
mod progress_line;

mod connection;
mod output;

mod tasks;

mod call;

mod requests;

mod lists;

mod inspect;

use std::process::ExitCode;

use clap::ArgMatches;

use self::call::ToolCall;
use self::connection::Connection;
use self::failure::Failure;
use self::output::Output;
use self::requests::PromptRequest;
use self::tasks::TaskCommand;

pub(crate) use self::flags::{commands, is_client_command};

/// Runs the client command `name`.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    match execute(name, matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn execute(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    // Invalid arguments are reported before a connection is opened.
    let call = if name == "call" { Some(ToolCall::from_matches(matches)?) } else { None };
    let prompt = if name == "prompt" { Some(PromptRequest::from_matches(matches)?) } else { None };
    let task = if name == "tasks" { Some(TaskCommand::from_matches(matches)?) } else { None };
    let mut output = Output::new(matches);
    let server = Connection::open(matches)?;
    let result = match (name, &call, &prompt, &task) {
        (_, Some(call), ..) => call.run(&server, &mut output),
        (_, _, Some(prompt), _) => prompt.run(&server, &mut output),
        (_, _, _, Some(task)) => task.run(&server, &mut output),
        ("tools", ..) => lists::tools(&server, &mut output),
        ("resources", ..) => lists::resources(&server, &mut output),
        ("prompts", ..) => lists::prompts(&server, &mut output),
        ("read", ..) => requests::read_resource(matches, &server, &mut output),
        ("complete", ..) => requests::complete(matches, &server, &mut output),
        ("listen", ..) => requests::listen(matches, &server, &mut output),
        ("ping", ..) => requests::ping(matches, &server, &mut output),
        _ => inspect::inspect(&server, &mut output),
    };
    let flushed = output.flush();
    server.close();
    result?;
    Ok(flushed?)
}
