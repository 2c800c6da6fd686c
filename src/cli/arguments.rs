//! The command line, generated from the table of options.
//!
//! What it keeps true: every option is a flag of every command, under the name that its row
//! gives it. Texts are not judged here: the table does, together with the file and the
//! environment, so that all problems come at once.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use corelane::config::CommandLine;
use corelane::config::Options;
use corelane::config::suggest::nearest;
use corelane::config::table::{self, Row};
use corelane::config::unit::Unit;

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("corelane")
        .version(clap::crate_version!())
        .about(clap::crate_description!())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .subcommand(with_options(
            Command::new("serve").about("Serve MCP over the network until SIGTERM or SIGINT"),
        ))
        .subcommand(with_options(
            Command::new("stdio").about("Serve MCP to one peer over standard input and output"),
        ))
        .subcommand(with_options(Command::new("check").about(
            "Check the configuration and show every option, where it comes from, \
             and what this machine cannot give",
        )))
}

/// Parses `arguments`, the first of which is the program; an unknown flag gets a proposal.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    command().try_get_matches_from(arguments).map_err(|mut error| {
        // Where a flag is near, it is a better guess than one that shares letters with a long name.
        if let (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) =
            (error.kind(), error.get(ContextKind::InvalidArg))
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

/// What the flags of a command say.
pub(crate) fn command_line(matches: &ArgMatches) -> CommandLine {
    let flags = table::rows().filter_map(|row| {
        let text = matches.get_one::<String>(row.key)?;
        Some((row.key, text.clone()))
    });
    CommandLine { file: matches.get_one::<PathBuf>(FILE).cloned(), flags: flags.collect() }
}

fn with_options(command: Command) -> Command {
    let file = Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help_heading(table::SECTIONS[0].heading)
        .help("A TOML file of options [env: CORELANE_CONFIG]");
    let defaults = Options::default();
    let flags = table::SECTIONS.iter().flat_map(|section| {
        let flag = |row: &'static Row| flag(row, &defaults).help_heading(section.heading);
        section.rows.iter().map(flag).collect::<Vec<_>>()
    });
    command
        .args_override_self(true)
        .after_help(
            "A flag beats its variable, which beats the file, which beats the default.\n\
             Sizes: 4096, 64KiB, 16MiB. Times: 250 (milliseconds), 30s, 5min, 1h.\n\
             --help tells what each option costs, its variable and its key in the file.",
        )
        .arg(file)
        .args(flags)
}

fn flag(row: &'static Row, defaults: &Options) -> Arg {
    let default = row.show(defaults);
    let (about, cost, source) = (row.about, row.cost, row.source);
    let (key, variable) = (row.key, row.variable());
    let flag = Arg::new(row.key)
        .long(row.flag())
        .value_name(row.unit.placeholder())
        .action(ArgAction::Set)
        // So that the table can say what range a negative number has missed.
        .allow_negative_numbers(true)
        .help(format!("{about} [{default}]"))
        .long_help(format!(
            "{about}\n\
             Cost: {cost}.\n\
             Source: {source}.\n\
             [default: {default}] [env: {variable}] [key: {key}]"
        ));
    if row.unit == Unit::Switch {
        // `--tcp-nodelay` alone means what it says.
        return flag.num_args(0..=1).default_missing_value("true");
    }
    flag
}

/// The flag that names the configuration file.
const FILE: &str = "config";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_row_is_a_flag_of_every_command() {
        for name in ["serve", "stdio", "check"] {
            for row in table::rows() {
                let text = row.show(&Options::default());
                let flag = format!("--{}", row.flag());
                let matches = command().get_matches_from(["corelane", name, &flag, &text]);
                let (_, matches) = matches.subcommand().unwrap();
                assert_eq!(command_line(matches).flags, [(row.key, text)], "{flag}");
            }
        }
    }

    #[test]
    fn a_switch_may_stand_alone_and_the_last_flag_wins() {
        let given = ["corelane", "serve", "--tcp-nodelay", "--shards", "1", "--shards", "2"];
        let matches = command().get_matches_from(given);
        let (_, matches) = matches.subcommand().unwrap();
        let mut flags = command_line(matches).flags;
        flags.sort_unstable();
        assert_eq!(flags, [("shards", "2".to_owned()), ("tcp.nodelay", "true".to_owned())]);
    }
}
