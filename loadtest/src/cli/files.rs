//! Files that commands write, and their errors.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use corelane_engine::clock;
use corelane_load::report::{junit, markdown, openmetrics};
use corelane_load::result::{RunOrigin, RunResult};
use serde::Serialize;

use super::CliError;
use super::commit::commit;

/// Flags of the files of a result.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct ResultFiles {
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a self-contained HTML report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Commit that the result belongs to [default: that of the CI system, else of the working
    /// directory].
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
}

/// Flags of the outputs of a run for CI.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct CiFiles {
    /// Write Markdown, such as for the summary of a job; - for standard output, instead of the
    /// table.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write `JUnit` XML, with a test case for each threshold and each reason of the verdict.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write `OpenMetrics` text, which Prometheus reads, too.
    #[arg(long, value_name = "FILE")]
    openmetrics: Option<PathBuf>,
}

impl CiFiles {
    /// Returns whether any file is named.
    pub(super) const fn is_named(&self) -> bool {
        self.markdown.is_some() || self.junit.is_some() || self.openmetrics.is_some()
    }

    /// Returns whether Markdown replaces the table.
    pub(super) fn is_to_stdout(&self) -> bool {
        self.markdown.as_deref() == Some(Path::new("-"))
    }

    /// Checks that the files can be written.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let files = [&self.markdown, &self.junit, &self.openmetrics].into_iter().flatten();
        files.filter(|path| *path != Path::new("-")).try_for_each(|path| check_writable(path))
    }

    /// Writes the files of a run.
    pub(super) fn write(&self, result: &RunResult) -> Result<(), CliError> {
        if let Some(path) = &self.markdown {
            write_or_print(path, &markdown::run(result))?;
        }
        if let Some(path) = &self.junit {
            write_or_print(path, &junit::run(result))?;
        }
        if let Some(path) = &self.openmetrics {
            write_or_print(path, &openmetrics::run(result))?;
        }
        Ok(())
    }
}

impl ResultFiles {
    /// Checks that the files can be written.
    pub(super) fn check(&self) -> Result<(), CliError> {
        [&self.json, &self.html].into_iter().flatten().try_for_each(|path| check_writable(path))
    }

    /// Returns the origin of a run that begins now, without the server.
    pub(super) fn origin(&self) -> RunOrigin {
        RunOrigin {
            started_unix_s: clock::unix_ms() / 1_000,
            commit: commit(self.commit.as_deref()),
            server: None,
        }
    }

    /// Writes the files of `result`.
    pub(super) fn write<T: Serialize>(
        &self,
        result: &T,
        page: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        if let Some(path) = &self.json {
            write_json(path, result)?;
        }
        self.html.as_ref().map_or(Ok(()), |path| write(path, &page(result)))
    }
}

/// Creates a file.
pub(super) fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|error| write_error(path, &error))
}

/// Checks that a file can be written, without changing it; one that does not exist is not left
/// behind.
pub(super) fn check_writable(path: &Path) -> Result<(), CliError> {
    let checked = match File::create_new(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| write_error(path, &error))
}

/// Writes a result to a JSON file.
pub(super) fn write_json(path: &Path, result: &impl Serialize) -> Result<(), CliError> {
    write(path, &(serde_json::to_string_pretty(result)? + "\n"))
}

/// Writes a file, or to standard output for `-`.
pub(super) fn write_or_print(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        return Ok(io::stdout().write_all(text.as_bytes())?);
    }
    write(path, text)
}

/// Writes a file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|error| write_error(path, &error))
}

pub(super) fn write_error(path: &Path, error: &io::Error) -> CliError {
    format!("cannot write {}: {error}", path.display()).into()
}
