//! Commands with their arguments.

use std::num::NonZeroU64;

use clap::{Args, Parser, Subcommand};

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

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a load test and print its results.
    #[command(after_long_help = failure_help())]
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
    /// Check this machine: limits and kernel settings against the profile in tuning/.
    Check(CheckArguments),
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub(super) struct CheckArguments {
    /// Connections to one server address, with both ends on this machine [default: what the machine
    /// is used for now].
    #[arg(short, long, value_name = "N")]
    pub(super) connections: Option<u64>,
    /// Source addresses of the connections.
    #[arg(long, value_name = "N", default_value = "1", requires = "connections")]
    pub(super) sources: NonZeroU64,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}
