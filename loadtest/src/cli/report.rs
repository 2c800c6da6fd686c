//! `corelane-load report`: shows a result that was kept, in every form that it has.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::report::csv::Seconds;
use corelane_load::report::{html, sweep, table};
use corelane_load::result::RunResult;

use super::Failure;
use super::results::Kept;
use super::telling::{unwritable, write};

/// Which result, and what is to be made of it.
#[derive(Args, Debug)]
pub(super) struct ReportArguments {
    /// A result, as --json of a run or of a sweep has kept it.
    result: PathBuf,
    /// Where a page with plots goes: one file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where a row a second goes, as CSV; of a run only.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Runs the command. A result that was read and shown is a success, whatever it says.
pub(super) fn report(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    let ReportArguments { result: path, html: page, csv } = arguments;
    let text = match Kept::read(path)? {
        Kept::Run(result) => {
            page.iter().try_for_each(|page| write(page, &html::run_page(&result)))?;
            if let Some(rows) = csv {
                write_seconds(rows, &result).map_err(|error| unwritable(rows, &error))?;
            }
            table::table(&result)
        }
        Kept::Sweep(_) if csv.is_some() => {
            let shown = path.display();
            return Err(
                format!("{shown} is of a sweep, which keeps no seconds: leave --csv out").into()
            );
        }
        Kept::Sweep(result) => {
            page.iter().try_for_each(|page| write(page, &html::sweep_page(&result)))?;
            sweep::table(&result)
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn write_seconds(path: &Path, result: &RunResult) -> std::io::Result<()> {
    let mut table = Seconds::begin(File::create(path)?)?;
    result.seconds.iter().try_for_each(|second| table.add(second))
}
