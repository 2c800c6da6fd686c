//! The commands that call a server: `tools`, `call`, `tasks`, `resources`, `read`,
//! `prompts`, `prompt`, `skills`, `skill`, `complete`, `listen`, `ping` and `inspect`.
//!
//! Standard output carries results, standard error all else. Exit codes: 0 success, 1 the
//! connection or the call failed, 2 usage error.

mod arguments;
mod text;

mod failure;

mod flags;
mod time_limit;

mod elicitation;

mod connection;

mod output;

mod tasks;

mod repeat;

mod call;

mod requests;

mod skills;

mod inspect;

use std::process::ExitCode;

use clap::ArgMatches;

use self::call::ToolCall;
use self::connection::Connection;
use self::failure::Failure;
use self::flags::{DIALECT, PARITY, TASK};
use self::output::Output;
use self::requests::PromptRequest;
use self::tasks::TaskCommand;

#[cfg(feature = "gateway")]
pub(crate) use self::connection::{client_builder, target_and_credentials};
pub(crate) use self::flags::{commands, is_client_command};
#[cfg(feature = "gateway")]
pub(crate) use self::flags::{connection_flags, target_argument};

/// Runs the client command `name`.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    match execute(name, matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn execute(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    // Invalid arguments are reported before a connection is opened.
    check_dialect(name, matches)?;
    let call = if name == "call" { Some(ToolCall::from_matches(matches)?) } else { None };
    let prompt = if name == "prompt" { Some(PromptRequest::from_matches(matches)?) } else { None };
    let task = if name == "tasks" { Some(TaskCommand::from_matches(matches)?) } else { None };
    let mut output = Output::new(matches);
    let server = Connection::open(matches)?;
    let result = match (name, &call, &prompt, &task) {
        (_, Some(call), ..) => call.run(&server, &mut output),
        (_, _, Some(prompt), _) => prompt.run(&server, &mut output),
        (_, _, _, Some(task)) => task.run(&server, &mut output),
        ("tools", ..) => inspect::tools(&server, &mut output),
        ("resources", ..) => inspect::resources(&server, &mut output),
        ("prompts", ..) => inspect::prompts(&server, &mut output),
        ("read", ..) => requests::read_resource(matches, &server, &mut output),
        ("skills", ..) => inspect::skills(&server, &mut output),
        ("skill", ..) => skills::read_skill(matches, &server, &mut output),
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

/// Checks that the dialect has what the command needs.
fn check_dialect(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let is_parity = matches.get_one::<String>(DIALECT).is_some_and(|it| it == PARITY);
    let lacks = match name {
        "skill" | "skills" => "skills",
        "tasks" => "tasks",
        "listen" => "subscriptions",
        "call" if matches.get_flag(TASK) => "tasks",
        _ => return Ok(()),
    };
    if is_parity {
        return Err(Failure::Usage(format!("the parity dialect has no {lacks}")));
    }
    Ok(())
}
