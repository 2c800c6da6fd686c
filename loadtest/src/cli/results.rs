//! Results that were kept in files.

use std::path::Path;

use corelane_load::result::RunResult;
use corelane_load::sweep::SweepResult;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Failure;

/// What a file holds.
#[derive(Debug)]
pub(super) enum Kept {
    /// What came of `run`.
    Run(Box<RunResult>),
    /// What came of `sweep`.
    Sweep(Box<SweepResult>),
}

impl Kept {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("{shown} cannot be read: {error}; name a file that --json has written")
        })?;
        let value: Value = serde_json::from_str(&text).map_err(|error| no_result(path, &error))?;
        // Only a sweep has steps.
        if value.get("steps").is_some() {
            parse(value, path).map(Self::Sweep)
        } else {
            parse(value, path).map(Self::Run)
        }
    }
}

/// Reads the result of a run.
pub(super) fn read_run(path: &Path) -> Result<RunResult, Failure> {
    match Kept::read(path)? {
        Kept::Run(result) => Ok(*result),
        Kept::Sweep(_) => {
            let shown = path.display();
            Err(format!("{shown} is of a sweep: name one of a run (corelane-load run --json)")
                .into())
        }
    }
}

fn parse<T: DeserializeOwned>(value: Value, path: &Path) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| no_result(path, &error))
}

fn no_result(path: &Path, error: &serde_json::Error) -> Failure {
    format!(
        "{} is no result: {error}; name a file that run or sweep has written with --json",
        path.display()
    )
    .into()
}
