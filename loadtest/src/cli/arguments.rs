//! Commands with their arguments.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::capacity::CapacityArguments;
use super::compare::CompareArguments;
use super::failure_help::failure_help;
use super::load_arguments::RunArguments;
use super::plan::PlanArguments;
use super::report::ReportArguments;
use super::search_arguments::SearchArguments;

/// Load test and capacity planning for MCP servers.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

impl Arguments {
    /// Parses the command line. The flags and the help of the parity dialect are hidden unless it
    /// is named.
    pub(super) fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        if names_parity(arguments) {
            let show = |command: clap::Command| command.mut_args(|flag| flag.hide(false));
            command = command
                .mut_subcommand("run", |run| show(run).after_long_help(failure_help(true)))
                .mut_subcommand("search", show);
        }
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}

/// Returns whether `--dialect parity` is among the arguments.
fn names_parity(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--dialect=parity")
        || arguments.windows(2).any(|pair| pair[0] == "--dialect" && pair[1] == "parity")
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a load test and print its results.
    #[command(after_long_help = failure_help(false))]
    Run(Box<RunArguments>),
    /// Find the highest rate at which the server keeps the thresholds, and measure at fractions of
    /// it.
    Search(Box<SearchArguments>),
    /// Compare results with significance tests.
    Compare(Box<CompareArguments>),
    /// Compute from results the cores, memory and machines for a target load.
    Capacity(Box<CapacityArguments>),
    /// Print the plan that the flags mean, the schema of plans, or the reference of their keys.
    Plan(Box<PlanArguments>),
    /// Show a stored result, or convert it to HTML or CSV.
    Report(ReportArguments),
}
