//! `gateway restart NAME` and its like: an operator changes an upstream of a running gateway.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::cli::{load_options, print_diagnostic};
use crate::config::CommandLine;
use crate::server::{OperatorClient, UpstreamChange};

const UPSTREAM_NAME: &str = "name";
const URL: &str = "url";
const CA: &str = "ca";
const HEADING: &str = "Running gateway";

/// The commands, without the options of a server.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    UpstreamChange::ALL.into_iter().map(|change| {
        let about = match change {
            UpstreamChange::Enable => "Serve an upstream of a running gateway again",
            UpstreamChange::Disable => "End an upstream of a running gateway, and offer it no more",
            UpstreamChange::Restart => "Restart an upstream of a running gateway",
            UpstreamChange::Approve => "Accept the changed tools of an upstream as they were read",
        };
        Command::new(change.as_str()).about(about)
    })
}

/// Flags of the commands beside the options.
pub(crate) fn flags() -> [Arg; 3] {
    [
        Arg::new(UPSTREAM_NAME)
            .value_name("NAME")
            .required(true)
            .help_heading(HEADING)
            .help("Name of the upstream"),
        Arg::new(URL)
            .long(URL)
            .value_name("URL")
            .help_heading(HEADING)
            .help("The gateway, where the options do not say it: https://HOST:PORT"),
        Arg::new(CA)
            .long(CA)
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help("Authorities of its certificate in PEM [those of the system]; repeatable"),
    ]
}

/// The change that the command makes; `None` if it is no such command.
pub(crate) fn change_of(command: &str) -> Option<UpstreamChange> {
    UpstreamChange::ALL.into_iter().find(|change| change.as_str() == command)
}

/// Runs a command. The options say where the gateway is, and where its token.
pub(crate) fn run(
    change: UpstreamChange,
    matches: &ArgMatches,
    command_line: &CommandLine,
) -> ExitCode {
    // As a check: nothing is served.
    let effective = match load_options("check", command_line) {
        Ok(effective) => effective,
        Err(code) => return code,
    };
    let name = matches.get_one::<String>(UPSTREAM_NAME).map(String::as_str).unwrap_or_default();
    let url = matches.get_one::<String>(URL).map(String::as_str);
    let authorities: Vec<PathBuf> = matches.get_many(CA).into_iter().flatten().cloned().collect();
    let changed = OperatorClient::new(&effective.options, url, &authorities)
        .and_then(|client| client.change_upstream(name, change));
    match changed {
        Ok(()) => {
            let text =
                format!("{name}: {} accepted; GET /upstreams has its state", change.as_str());
            writeln!(io::stdout(), "{text}").ok();
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_diagnostic("error", &error);
            ExitCode::FAILURE
        }
    }
}
