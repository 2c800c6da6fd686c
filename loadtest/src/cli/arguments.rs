//! Commands with their arguments.

use clap::{Parser, Subcommand};

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
}
