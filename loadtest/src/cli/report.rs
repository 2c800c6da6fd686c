//! `corelane-load report`: shows or converts a stored result.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::report::csv::CsvWriter;
use corelane_load::report::schema::ResultKind;
use corelane_load::report::{html, sweep, table};
use corelane_load::result::RunResult;

use super::CliError;
use super::files::{CiFiles, write, write_error};
use super::results::StoredResult;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub(super) struct ReportArguments {
    /// Result, as written by --json of run or search.
    #[arg(required_unless_present = "schema")]
    result: Option<PathBuf>,
    /// Print the JSON schema of the results of a command.
    #[arg(long, value_name = "COMMAND", conflicts_with = "result", value_parser = parse_kind)]
    schema: Option<ResultKind>,
    /// Write a self-contained HTML report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one CSV row a second; only for a run.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    ci: CiFiles,
}

/// Runs the command. The exit status does not depend on the verdict of the result.
pub(super) fn report(arguments: &ReportArguments) -> Result<ExitCode, CliError> {
    if let Some(kind) = arguments.schema {
        let text = serde_json::to_string_pretty(&kind.schema())? + "\n";
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let ReportArguments { result, html: page, csv, ci, .. } = arguments;
    let path = result.as_deref().unwrap_or_else(|| Path::new(""));
    let text = match StoredResult::read(path)? {
        StoredResult::Run(result) => {
            page.iter().try_for_each(|page| write(page, &html::run_page(&result)))?;
            if let Some(rows) = csv {
                write_seconds(rows, &result).map_err(|error| write_error(rows, &error))?;
            }
            ci.write(&result)?;
            if ci.is_to_stdout() { String::new() } else { table::table(&result) }
        }
        StoredResult::Sweep(_) if csv.is_some() => {
            let shown = path.display();
            return Err(format!(
                "{shown} is the result of a search, which has no seconds: remove --csv"
            )
            .into());
        }
        StoredResult::Sweep(_) if ci.is_named() => {
            let shown = path.display();
            return Err(format!(
                "{shown} is the result of a search: --markdown, --junit and --openmetrics need \
                 that of a run"
            )
            .into());
        }
        StoredResult::Sweep(result) => {
            page.iter().try_for_each(|page| write(page, &html::sweep_page(&result)))?;
            sweep::table(&result)
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn write_seconds(path: &Path, result: &RunResult) -> std::io::Result<()> {
    let mut table = CsvWriter::new(File::create(path)?, result.plan.is_parity())?;
    result.seconds.iter().try_for_each(|second| table.write_second(second))
}

fn parse_kind(name: &str) -> Result<ResultKind, String> {
    let name = match name {
        "compare" => "comparison",
        name => name,
    };
    let kind = ResultKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| "write run, search or compare".into())
}
