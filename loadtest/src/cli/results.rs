//! Stored results.

use std::path::Path;

use corelane_load::result::RunResult;
use corelane_load::sweep::SweepResult;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CliError;

/// A stored result.
#[derive(Debug)]
pub(super) enum StoredResult {
    /// Result of `run`.
    Run(Box<RunResult>),
    /// Result of `sweep`.
    Sweep(Box<SweepResult>),
}

impl StoredResult {
    /// Reads a JSON file.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("cannot read {shown}: {error}; name a file written by --json")
        })?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| invalid_result(path, &error))?;
        // Only a sweep has steps.
        if value.get("steps").is_some() {
            parse(value, path).map(Self::Sweep)
        } else {
            parse(value, path).map(Self::Run)
        }
    }
}

/// Reads the result of a run.
pub(super) fn read_run(path: &Path) -> Result<RunResult, CliError> {
    match StoredResult::read(path)? {
        StoredResult::Run(result) => Ok(*result),
        StoredResult::Sweep(_) => {
            let shown = path.display();
            Err(format!("{shown} is a sweep: name the result of a run (corelane-load run --json)")
                .into())
        }
    }
}

fn parse<T: DeserializeOwned>(value: Value, path: &Path) -> Result<T, CliError> {
    serde_json::from_value(value).map_err(|error| invalid_result(path, &error))
}

fn invalid_result(path: &Path, error: &serde_json::Error) -> CliError {
    format!(
        "{} is not a result: {error}; name a file that run or sweep wrote with --json",
        path.display()
    )
    .into()
}
