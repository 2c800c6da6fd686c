//! `card`, `server-json` and `mcpb`: what clients and registries read of a server, and the bundle
//! that hosts install, from the configuration.

mod zip;

mod bundle;

mod registry;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::cli::print_diagnostic;
use crate::cli::serve::{self, Declarations};
use crate::config::Options;
use crate::server::card::server_card;

const CARD: &str = "card";
const SERVER_JSON: &str = "server-json";
const MCPB: &str = "mcpb";
const PACKAGE: &str = "package";
const BUNDLE: &str = "mcpb";
const OUTPUT: &str = "output";
const PROGRAM: &str = "program";

/// The commands, without their flags.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    let rows = [
        (CARD, "Print the server card, from card.name and server.description"),
        (SERVER_JSON, "Print the entry of the MCP registry, server.json"),
        (MCPB, "Pack this program and the folder of the configuration file as a bundle (MCPB)"),
    ];
    rows.into_iter().map(|(name, about)| Command::new(name).about(about))
}

/// Returns the flags of a command, beside those of the options.
pub(crate) fn flags(command: &str) -> Vec<Arg> {
    let path = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    match command {
        SERVER_JSON => vec![
            Arg::new(PACKAGE)
                .long(PACKAGE)
                .value_name("TYPE=IDENTIFIER")
                .action(ArgAction::Append)
                .help(
                    "A package that serves over standard input and output: TYPE is npm, pypi, \
                     nuget, cargo or oci; repeatable",
                ),
            Arg::new(BUNDLE)
                .long(BUNDLE)
                .value_name("FILE=URL")
                .action(ArgAction::Append)
                .help("A bundle of corelane mcpb, whose hash is stated, and its URL; repeatable"),
        ],
        MCPB => vec![
            path(OUTPUT).help("The bundle [NAME-VERSION.mcpb]"),
            path(PROGRAM).help("The program that the bundle starts [this one]"),
        ],
        _ => Vec::new(),
    }
}

/// Returns whether `command` is one of these.
pub(crate) fn is_publish_command(command: &str) -> bool {
    [CARD, SERVER_JSON, MCPB].contains(&command)
}

/// Runs the command `name`; `config` is the configuration file.
pub(crate) fn run(
    name: &str,
    matches: &ArgMatches,
    options: &Options,
    declarations: &Declarations,
    config: Option<&Path>,
) -> ExitCode {
    let info = serve::server_info(&options.service);
    let words = |flag: &str| -> Vec<String> {
        matches.get_many::<String>(flag).unwrap_or_default().cloned().collect()
    };
    let done = match name {
        CARD => {
            let card = server_card(options, &info).map_err(|fault| fault.to_string());
            card.and_then(|card| print(&card))
        }
        SERVER_JSON => {
            let (packages, bundles) = (words(PACKAGE), words(BUNDLE));
            registry::server_json(options, &info, &packages, &bundles, config)
                .and_then(|entry| print(&entry))
        }
        _ => {
            let path = |flag: &str| matches.get_one::<PathBuf>(flag).cloned();
            let bundle = bundle::Bundle {
                info: &info,
                options,
                tools: declarations.describe_tools(),
                program: path(PROGRAM),
                output: path(OUTPUT),
            };
            bundle.pack(config)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_diagnostic("error", &error);
            ExitCode::FAILURE
        }
    }
}

fn print(document: &Value) -> Result<(), String> {
    let written = writeln!(io::stdout().lock(), "{document:#}");
    match written {
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}
