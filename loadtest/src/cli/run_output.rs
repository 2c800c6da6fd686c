//! Output during a run: progress on the terminal, CSV rows, histograms.
//!
//! Files are created before the run. A write error during the run does not end it and is reported
//! afterwards.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use corelane_engine::clock;
use corelane_load::generator::{Period, Second};
use corelane_load::plan::Plan;
use corelane_load::report::csv::CsvWriter;
use corelane_load::report::hlog::IntervalLog;
use corelane_load::report::progress::{self, ProgressBlock};

use super::files::{create, write_error};
use super::load_arguments::{Progress, RunArguments};
use super::terminal::{columns, has_variable, is_capable};
use super::{CliError, print_stderr};

/// All outputs that are updated each second.
#[derive(Debug)]
pub(super) struct RunOutput {
    display: ProgressDisplay,
    csv: Option<(PathBuf, CsvWriter<File>)>,
    hlog: Option<(PathBuf, HistogramLog)>,
    error: Option<CliError>,
}

#[derive(Debug)]
enum ProgressDisplay {
    Nothing,
    Lines,
    Block(Box<ProgressBlock>),
}

/// An `HdrHistogram` log, whose header is written with the first second.
#[derive(Debug)]
enum HistogramLog {
    Pending(Option<BufWriter<File>>),
    Open(IntervalLog<BufWriter<File>>),
}

impl RunOutput {
    /// Opens the outputs.
    pub(super) fn new(arguments: &RunArguments, plan: &Plan) -> Result<Self, CliError> {
        let csv = arguments.output.csv.as_deref().map(|path| {
            let table = CsvWriter::new(create(path)?, plan.is_parity())
                .map_err(|error| write_error(path, &error))?;
            Ok::<_, CliError>((path.to_owned(), table))
        });
        let hlog = arguments.output.hlog.as_deref().map(|path| {
            let log = HistogramLog::Pending(Some(BufWriter::new(create(path)?)));
            Ok::<_, CliError>((path.to_owned(), log))
        });
        Ok(Self {
            display: progress_display(arguments, plan),
            csv: csv.transpose()?,
            hlog: hlog.transpose()?,
            error: None,
        })
    }

    /// Writes a completed second to all outputs.
    pub(super) fn write_second(&mut self, second: &Second) {
        let result = &second.summary;
        match &mut self.display {
            ProgressDisplay::Nothing => {}
            ProgressDisplay::Lines => print_stderr(&progress::format_line(result)),
            ProgressDisplay::Block(block) => {
                let text = block.draw(result, columns());
                // A closed standard error does not end the run.
                io::stderr().write_all(text.as_bytes()).unwrap_or(());
            }
        }
        if let Some((path, table)) = &mut self.csv
            && let Err(error) = table.write_second(result)
        {
            self.error = Some(write_error(path, &error));
            self.csv = None;
        }
        if let Some((path, log)) = &mut self.hlog
            && let Err(error) = log.add(&second.period)
        {
            self.error = Some(write_error(path, &error));
            self.hlog = None;
        }
    }

    /// Returns the first write error.
    pub(super) fn finish(self) -> Result<(), CliError> {
        self.error.map_or(Ok(()), Err)
    }
}

impl HistogramLog {
    fn add(&mut self, period: &Period) -> io::Result<()> {
        if let Self::Pending(out) = self
            && let Some(out) = out.take()
        {
            let since = Duration::from_millis(clock::unix_ms()).saturating_sub(period.until);
            *self = Self::Open(IntervalLog::new(out, UNIX_EPOCH + since)?);
        }
        match self {
            Self::Open(log) => log.write_second(period),
            Self::Pending(_) => Ok(()),
        }
    }
}

/// Returns the progress display: that of `--progress`, else a block on a capable terminal, else
/// lines.
fn progress_display(arguments: &RunArguments, plan: &Plan) -> ProgressDisplay {
    let is_able = is_capable();
    let otherwise = if is_able { Progress::Block } else { Progress::Lines };
    if arguments.load.generator.quiet {
        return ProgressDisplay::Nothing;
    }
    match arguments.output.progress.unwrap_or(otherwise) {
        Progress::Lines => ProgressDisplay::Lines,
        Progress::Block => {
            let is_coloured = is_able && !has_variable("NO_COLOR", |value| !value.is_empty());
            ProgressDisplay::Block(Box::new(ProgressBlock::new(plan, is_coloured)))
        }
    }
}
