//! The command line. The flags of the commands that serve are generated from the table of options.
//!
//! Every option is a flag of each of them. Values are not parsed here: the table parses them
//! together with the file and the environment, so that all errors are reported at once.

use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(feature = "declared")]
use crate::cli::declared;
#[cfg(feature = "parity-check")]
use crate::cli::parity_check;
#[cfg(feature = "gateway")]
use crate::cli::{bridge, gateway, operator};
use crate::cli::{client, publish};
use crate::config::CommandLine;
use crate::config::Options;
use crate::config::table::{self, Row};
use crate::config::unit::{Unit, nearest};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub(crate) fn command() -> Command {
    let command = Command::new("corelane")
        .version(clap::crate_version!())
        .about(clap::crate_description!())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .subcommand(
            Command::new("serve")
                .about("Serve MCP over the network until SIGTERM or SIGINT")
                .defer(with_options),
        )
        .subcommand(
            Command::new("stdio")
                .about("Serve MCP to one peer over standard input and output")
                .defer(with_options),
        )
        .subcommand(
            Command::new("check")
                .about(
                    "Check the configuration and print the options that differ from their \
                     defaults, with their sources, and what this machine does not support",
                )
                .defer(|command| with_options(command).arg(all_flag())),
        )
        .subcommands(gateway_commands())
        .subcommands(publish::commands().map(|command| {
            command.defer(|command| {
                let flags = publish::flags(command.get_name());
                with_options(command).args(flags)
            })
        }))
        .subcommands(client::commands());
    #[cfg(feature = "declared")]
    let command = command.subcommands(declared::commands());
    #[cfg(feature = "parity-check")]
    let command = command.subcommand(parity_check::command());
    command
}

#[cfg(feature = "gateway")]
fn gateway_commands() -> impl Iterator<Item = Command> {
    let command = Command::new(gateway::NAME)
        .about(
            "Serve other MCP servers, programs and addresses, behind this one until SIGTERM or \
             SIGINT",
        )
        .args_conflicts_with_subcommands(true)
        .subcommand(
            Command::new(gateway::CHECK)
                .about("Start each upstream once and print what it is")
                .defer(|command| with_options(command).args(gateway::flags())),
        )
        .subcommand(
            Command::new(gateway::MANIFEST)
                .about("Start each upstream that has a manifest once and write its lists there")
                .defer(|command| with_options(command).args(gateway::flags())),
        )
        .subcommands(
            operator::commands()
                .map(|it| it.defer(|command| with_options(command).args(operator::flags()))),
        )
        .defer(|command| with_options(command).args(gateway::flags()));
    [command, bridge::command()].into_iter()
}

#[cfg(not(feature = "gateway"))]
fn gateway_commands() -> impl Iterator<Item = Command> {
    std::iter::empty()
}

/// Parses `arguments`, including the program name. Suggests the nearest flag for an unknown one.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command_name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let has_options = ["serve", "stdio", "check", "gateway"].contains(&command_name)
        || publish::is_publish_command(command_name);
    command().try_get_matches_from(&arguments).map_err(|mut error| {
        // clap's own suggestion prefers long names that share letters; edit distance is better.
        if let (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) =
            (error.kind(), error.get(ContextKind::InvalidArg))
            && has_options
        {
            let flags: Vec<String> = table::rows().map(|row| format!("--{}", row.flag())).collect();
            if let Some(flag) = nearest(unknown, flags.iter().map(String::as_str)) {
                let flag = ContextValue::String(flag.to_owned());
                error.insert(ContextKind::SuggestedArg, flag);
            }
        }
        error
    })
}

pub(crate) fn command_line(matches: &ArgMatches) -> CommandLine {
    let flags = table::rows().filter_map(|row| {
        let text = matches.get_one::<String>(row.key)?;
        Some((row.key, text.clone()))
    });
    CommandLine { file: matches.get_one::<PathBuf>(CONFIG_FLAG).cloned(), flags: flags.collect() }
}

/// Returns whether `check` prints every option.
pub(crate) fn shows_all(matches: &ArgMatches) -> bool {
    matches.get_flag(ALL_FLAG)
}

fn all_flag() -> Arg {
    Arg::new(ALL_FLAG)
        .long(ALL_FLAG)
        .action(ArgAction::SetTrue)
        .help_heading(table::SECTIONS[0].heading)
        .help("Print every option")
}

/// Adds the options to the command that runs; those of the others are not needed.
fn with_options(command: Command) -> Command {
    let file = Arg::new(CONFIG_FLAG)
        .long(CONFIG_FLAG)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help_heading(table::SECTIONS[0].heading)
        .help("A TOML file of options [env: CORELANE_CONFIG]");
    let defaults = Options::default();
    let flags = table::SECTIONS.iter().flat_map(|section| {
        let flag = |row: &'static Row| flag(row, &defaults).help_heading(section.heading);
        section.rows().map(flag).collect::<Vec<_>>()
    });
    command
        .args_override_self(true)
        .after_help(
            "Precedence: flag, environment variable, file, default.\n\
             Sizes: 4096, 64KiB, 16MiB. Times: 250 (milliseconds), 30s, 5min, 1h.\n\
             --help shows the cost, environment variable and file key of each option, and whether \
             SIGHUP applies it.\n\
             Exit codes: 0 success, 1 failure, 2 usage error, 130 a second SIGTERM or SIGINT.",
        )
        .arg(file)
        .args(flags)
}

fn flag(row: &'static Row, defaults: &Options) -> Arg {
    let default = row.format_value(defaults);
    let (about, cost, source) = (row.description(), row.cost, row.source);
    let (key, variable) = (row.key, row.variable());
    let reload = if row.is_reloadable { "yes" } else { "no" };
    let flag = Arg::new(row.key)
        .long(row.flag())
        .aliases(row.flag_of_key())
        .value_name(row.unit.placeholder())
        .action(ArgAction::Set)
        // The table reports the allowed range for negative numbers.
        .allow_negative_numbers(true)
        .help(format!("{about} [{default}]"))
        .long_help(format!(
            "{about}\n\
             Cost: {cost}.\n\
             Source: {source}.\n\
             [default: {default}] [env: {variable}] [key: {key}] [reload: {reload}]"
        ));
    if row.unit == Unit::Switch {
        // `--tcp-nodelay` without a value means true.
        return flag.num_args(0..=1).default_missing_value("true");
    }
    flag
}

const CONFIG_FLAG: &str = "config";

const ALL_FLAG: &str = "all";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn help_lists_flags_variables_and_defaults() {
        let help = command().try_get_matches_from(["corelane", "serve", "--help"]).unwrap_err();
        let out = help.to_string();
        let defaults = Options::default();
        for row in table::rows() {
            let default = row.format_value(&defaults);
            for word in [
                format!("--{} ", row.flag()),
                format!("[env: {}]", row.variable()),
                format!("[default: {default}]"),
            ] {
                assert!(out.contains(&word), "{word}");
            }
        }
        // A line may end inside of the brackets.
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("[key: ").count(), table::rows().count());
    }

    #[test]
    fn every_option_is_a_flag_of_every_command() {
        for name in ["serve", "stdio", "check"] {
            for row in table::rows() {
                let text = row.format_value(&Options::default());
                let flag = format!("--{}", row.flag());
                let matches = command().get_matches_from(["corelane", name, &flag, &text]);
                let (_, matches) = matches.subcommand().unwrap();
                assert_eq!(command_line(matches).flags, [(row.key, text)], "{flag}");
            }
        }
    }

    #[test]
    fn switch_flag_without_value_and_last_flag_wins() {
        let arguments = ["corelane", "serve", "--tcp-nodelay", "--shards", "1", "--shards", "2"];
        let matches = command().get_matches_from(arguments);
        let (_, matches) = matches.subcommand().unwrap();
        let mut flags = command_line(matches).flags;
        flags.sort_unstable();
        assert_eq!(flags, [("shards", "2".to_owned()), ("tcp.nodelay", "true".to_owned())]);
    }
}
