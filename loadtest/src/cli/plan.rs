//! `corelane-load plan`: prints a plan, the schema of plans, or the reference of their keys.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Parser};
use corelane_load::plan::reference;

use super::CliError;
use super::load_arguments::RunArguments;
use super::usage_error::one_line;

/// Arguments of `plan`.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct PlanArguments {
    /// Print the plan that the flags of `run` mean, which follow, with the target.
    #[arg(
        long,
        value_name = "TARGET AND FLAGS",
        num_args = 1..,
        allow_hyphen_values = true,
        trailing_var_arg = true
    )]
    print: Option<Vec<String>>,
    /// Print the JSON schema of plans.
    #[arg(long)]
    schema: bool,
    /// Print the reference of all keys as Markdown.
    #[arg(long)]
    reference: bool,
}

/// The flags of a run, by themselves.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct RunFlags {
    #[command(flatten)]
    run: RunArguments,
}

/// Runs the command.
pub(super) fn plan(arguments: &PlanArguments) -> Result<ExitCode, CliError> {
    let text = match &arguments.print {
        Some(flags) => {
            let flags = RunFlags::try_parse_from(flags).map_err(|error| one_line(&error))?;
            let plan = flags.run.plan()?;
            plan.run_config()?;
            toml::to_string(&plan)?
        }
        None if arguments.schema => serde_json::to_string_pretty(&reference::schema())? + "\n",
        None => reference::markdown(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
