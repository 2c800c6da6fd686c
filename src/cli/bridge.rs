//! `bridge`: a server over standard input and output in front of a remote one, for clients that
//! only start programs.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgMatches, Command};
use corelane_client::{ClientError, ClientErrorKind};
use corelane_engine::buffer::allocator;

use crate::cli::client::{
    client_builder, connection_flags, target_and_credentials, target_argument,
};
use crate::cli::serve::{self, Declarations};
use crate::cli::{print_diagnostic, with_log};
use crate::config::options::DemoServices;
use crate::config::{self, CommandLine};
use crate::gateway::UpstreamSettings;

/// Name of the command.
pub(crate) const NAME: &str = "bridge";

/// The command.
pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about(
            "Serve MCP to one peer over standard input and output, as a server elsewhere offers \
             it",
        )
        .after_help(
            "Example: corelane bridge https://example.com/mcp --login\n\
             For clients that only start programs. Other options are environment variables, such \
             as CORELANE_LOG_LEVEL.\n\
             Exit codes: 0 success, 1 failure, 2 usage error.",
        )
        .defer(|command| command.arg(target_argument()).args(connection_flags()))
}

/// Runs the command.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    // Invalid arguments are reported before anything is served.
    let target = match target_and_credentials(matches).and_then(|(target, credentials)| {
        client_builder(matches, target.clone(), credentials).map(|_| target)
    }) {
        Ok(target) => target,
        Err(failure) => return failure.report(),
    };
    let command_line = CommandLine { file: None, flags: Vec::new() };
    let mut effective = match config::load(&command_line) {
        Ok(effective) => effective,
        Err(problems) => {
            problems.0.iter().for_each(|problem| print_diagnostic("error", problem));
            return ExitCode::FAILURE;
        }
    };
    effective.options.service.demo = DemoServices::Off;
    let arguments = matches.clone();
    let client = move || {
        let failed = |_| {
            let text = "the credentials of the command line cannot be read any more";
            ClientError::new(ClientErrorKind::InvalidInput, text)
        };
        let (target, credentials) = target_and_credentials(&arguments).map_err(failed)?;
        client_builder(&arguments, target, credentials).map_err(failed)
    };
    let upstream = UpstreamSettings::new("server", target);
    let upstream = UpstreamSettings { client: Some(Arc::new(client)), ..upstream };
    let declarations = Declarations { upstreams: vec![upstream], ..Declarations::default() };
    let can_trim = allocator::return_large_allocations();
    with_log(effective, |options, log| serve::stdio(&options, declarations, log, can_trim))
}
