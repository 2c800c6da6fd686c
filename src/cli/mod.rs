//! The commands `serve`, `stdio` and `check`, those that call a server, and `parity-check`.
//!
//! Standard output carries only what a command produces: nothing in `serve`, MCP in `stdio`,
//! results in those that call a server. Everything else goes to standard error. Exit codes: 0
//! success, 1 failure, 2 usage error, 130 a second SIGTERM or SIGINT.

#![forbid(unsafe_code)]

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
#[cfg(feature = "declared")]
use std::sync::Arc;

use clap::ArgMatches;
use corelane_client::supervise_programs;
use corelane_engine::buffer::allocator;
use corelane_process::SupervisorCommand;

use self::idle_trim::IdleTrim;
use self::logging::Log;
use self::serve::{Declarations, Reloader};
use crate::config::issue::Diagnostic;
use crate::config::{self, CommandLine, ConfigIssue, EffectiveConfig, Options, machine};
#[cfg(feature = "declared")]
use crate::declared::{Declared, Fault, Sources};
use crate::server::{StartFault, find_unprotected};
use crate::telemetry::{Counters, Event};

mod client;
#[cfg(feature = "declared")]
mod declared;
#[cfg(feature = "parity-check")]
mod parity_check;

mod idle_trim;
mod logging;
mod serve;

#[cfg(feature = "gateway")]
mod bridge;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod operator;

mod publish;

mod arguments;
mod check;

/// Runs the command named by `arguments`, which include the program name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|name| name == SupervisorCommand::ARGUMENT) {
        return supervise_processes();
    }
    supervise_programs(SupervisorCommand::this_program([SupervisorCommand::ARGUMENT]));
    let matches = match arguments::parse(arguments) {
        Ok(matches) => matches,
        Err(error) => return print_usage(&error),
    };
    let Some((command, matches)) = matches.subcommand() else {
        return ExitCode::from(USAGE_EXIT_CODE);
    };
    if let Some(code) = run_without_options(command, matches) {
        return code;
    }
    #[cfg(feature = "gateway")]
    if command == gateway::NAME {
        let (name, matches) =
            matches.subcommand().map_or((None, matches), |(name, matches)| (Some(name), matches));
        let command_line = arguments::command_line(matches);
        return match name.and_then(operator::change_of) {
            Some(change) => operator::run(change, matches, &command_line),
            None => gateway::run(matches, name, command_line),
        };
    }
    run_with_options(command, matches, arguments::command_line(matches))
}

/// Runs a command that serves nothing itself, if `command` is one.
fn run_without_options(command: &str, matches: &ArgMatches) -> Option<ExitCode> {
    if client::is_client_command(command) {
        return Some(client::run(command, matches));
    }
    #[cfg(feature = "parity-check")]
    if command == parity_check::NAME {
        return Some(parity_check::run(matches));
    }
    #[cfg(feature = "gateway")]
    if command == bridge::NAME {
        return Some(bridge::run(matches));
    }
    #[cfg(feature = "declared")]
    if declared::is_declared_command(command) {
        return Some(declared::run(command, matches, run));
    }
    None
}

/// Runs a command that reads the options of a server.
fn run_with_options(command: &str, matches: &ArgMatches, command_line: CommandLine) -> ExitCode {
    let effective = match load_options(command, &command_line) {
        Ok(effective) => effective,
        Err(code) => return code,
    };
    let declarations = match load_declarations(&command_line, &effective.options) {
        Ok(declarations) => declarations,
        Err(code) => return code,
    };
    if publish::is_publish_command(command) {
        let config = command_line.path();
        let (options, config) = (&effective.options, config.as_deref());
        return publish::run(command, matches, options, &declarations, config);
    }
    match command {
        "check" => check::run(&effective, declarations, arguments::shows_all(matches)),
        // Its one client holds little memory, and an idle server needs no second thread.
        "stdio" => {
            let can_trim = allocator::return_large_allocations();
            with_log(effective, |options, log| serve::stdio(&options, declarations, log, can_trim))
        }
        _ => serve_network(effective, declarations, command_line),
    }
}

/// Serves the network until a signal arrives.
fn serve_network(
    effective: EffectiveConfig,
    declarations: Declarations,
    command_line: CommandLine,
) -> ExitCode {
    with_idle_trim(|| {
        with_log(effective, |options, log| {
            let reloader = Reloader {
                command_line,
                log: log.handle(),
                #[cfg(feature = "declared")]
                declared: Arc::clone(&declarations.declared),
            };
            serve::serve(&options, declarations, log, reloader)
        })
    })
}

/// Reads the options of a server, or reports why they cannot be used.
fn load_options(command: &str, command_line: &CommandLine) -> Result<EffectiveConfig, ExitCode> {
    let effective = config::load(command_line).map_err(|problems| {
        problems.0.iter().for_each(|problem| print_diagnostic("error", problem));
        ExitCode::FAILURE
    })?;
    if command != "check" && report_unreadable_directories(&effective) {
        return Err(ExitCode::FAILURE);
    }
    if ["serve", "gateway"].contains(&command) && report_unprotected(&effective) {
        return Err(ExitCode::FAILURE);
    }
    Ok(effective)
}

/// Runs the process that starts commands and programs until the one that it serves has ended.
fn supervise_processes() -> ExitCode {
    match corelane_process::run_supervisor() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_diagnostic("error", &error);
            ExitCode::FAILURE
        }
    }
}

/// Reads what the configuration file declares, or reports every fault.
#[cfg(feature = "declared")]
fn load_declarations(
    command_line: &CommandLine,
    options: &Options,
) -> Result<Declarations, ExitCode> {
    let sources = Sources {
        file: command_line.path(),
        tools: options.files.tools.clone(),
        skills: options.files.skills.clone(),
    };
    let declared = Arc::new(Declared::new(sources));
    let report = |faults: &[Fault]| {
        for fault in faults {
            print_diagnostic("error", fault);
        }
        ExitCode::FAILURE
    };
    let loaded = declared.load().map_err(|errors| report(&errors.0))?;
    #[cfg(feature = "gateway")]
    let upstreams =
        gateway::declared_upstreams(&loaded.upstreams).map_err(|faults| report(&faults))?;
    Ok(Declarations {
        declared,
        loaded,
        #[cfg(feature = "gateway")]
        upstreams,
    })
}

#[cfg(not(feature = "declared"))]
#[expect(clippy::unnecessary_wraps, reason = "as with declarations")]
fn load_declarations(_: &CommandLine, _: &Options) -> Result<Declarations, ExitCode> {
    Ok(Declarations::default())
}

/// Runs `command` with an allocator that returns free memory to the system.
fn with_idle_trim(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let can_trim = allocator::return_large_allocations();
    // Without its thread the server works, and keeps more memory.
    let _trim = can_trim.then(IdleTrim::start).and_then(Result::ok);
    command()
}

/// Starts the log with the configuration warnings, runs `command`, and logs the final counters or
/// prints the error.
fn with_log(
    effective: EffectiveConfig,
    command: impl FnOnce(Options, &Log) -> Result<Counters, Box<dyn Error>>,
) -> ExitCode {
    let log = match Log::start(&effective.options.log) {
        Ok(log) => log,
        Err(error) => {
            print_diagnostic("error", &format!("the thread of the log cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    log_warnings(&effective);
    match command(effective.options, &log) {
        Ok(counters) => {
            Event::CountersSnapshot { counters: &counters }.emit();
            ExitCode::SUCCESS
        }
        Err(error) => {
            log.lines().push_always(format!("error: {error}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Reports directories that cannot be served. Returns whether there are any.
fn report_unreadable_directories(effective: &EffectiveConfig) -> bool {
    let unreadable = machine::find_unreadable(&effective.options);
    for (key, cause) in &unreadable {
        let source = effective.source(key).clone();
        print_diagnostic("error", &ConfigIssue::new(source, *key, cause.clone()));
    }
    !unreadable.is_empty()
}

/// Reports listeners that are refused without `--insecure-public`. Returns whether there are any.
fn report_unprotected(effective: &EffectiveConfig) -> bool {
    let refused = find_unprotected(&effective.options);
    for StartFault { key, message, hint } in &refused {
        let source = effective.source(key).clone();
        let cause = Diagnostic::new(message.as_str(), *hint);
        print_diagnostic("error", &ConfigIssue::new(source, *key, cause));
    }
    !refused.is_empty()
}

fn log_warnings(effective: &EffectiveConfig) {
    for warning in &effective.warnings {
        Event::OptionWarning { warning: &warning.to_string() }.emit();
    }
}

/// Prints clap's help, version or usage error and returns its exit code.
fn print_usage(error: &clap::Error) -> ExitCode {
    error.print().ok();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE_EXIT_CODE))
}

/// Writes a diagnostic line to standard error. Write errors are ignored.
fn print_diagnostic(kind: &str, about: &impl Display) {
    writeln!(io::stderr(), "{kind}: {about}").ok();
}

/// Exit code of a usage error, the same as clap's.
const USAGE_EXIT_CODE: u8 = 2;
