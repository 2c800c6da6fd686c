//! `corelane-load report`: shows a result that was kept, in every form that a run has.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::report::csv::Seconds;
use corelane_load::report::{html, table};
use corelane_load::result::RunResult;

use super::Failure;
use super::results::read_run;
use super::telling::{unwritable, write};

/// Which result, and what is to be made of it.
#[derive(Args, Debug)]
pub(super) struct ReportArguments {
    /// A result, as run --json has kept it.
    result: PathBuf,
    /// Where a page with plots goes: one file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where a row a second goes, as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Runs the command. A result that was read and shown is a success, whatever it says.
pub(super) fn report(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    let result = read_run(&arguments.result)?;
    if let Some(path) = &arguments.html {
        write(path, &html::page(&result))?;
    }
    if let Some(path) = &arguments.csv {
        write_seconds(path, &result).map_err(|error| unwritable(path, &error))?;
    }
    std::io::stdout().write_all(table::table(&result).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn write_seconds(path: &Path, result: &RunResult) -> std::io::Result<()> {
    let mut table = Seconds::begin(File::create(path)?)?;
    result.seconds.iter().try_for_each(|second| table.add(second))
}
