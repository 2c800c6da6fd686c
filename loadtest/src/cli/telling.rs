//! What is told of a run while it goes on: progress on a terminal, rows, histograms.
//!
//! What it keeps true: a file that cannot be written is told before the run begins; one that cannot
//! be written any more does not end the run, and is told when that is over.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use corelane::engine::clock;
use corelane_load::generator::{Period, Second};
use corelane_load::plan::Plan;
use corelane_load::report::csv::Seconds;
use corelane_load::report::hlog::IntervalLog;
use corelane_load::report::progress::{self, Block};

use super::arguments::RunArguments;
use super::{Failure, complain};

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// How a run is shown while it goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Progress {
    /// Lines that are drawn anew each second.
    Block,
    /// A line a second.
    Lines,
}

/// Everything that hears of each second.
#[derive(Debug)]
pub(super) struct Telling {
    shown: Shown,
    csv: Option<(PathBuf, Seconds<File>)>,
    hlog: Option<(PathBuf, Log)>,
    broken: Option<Failure>,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Lines,
    Block(Box<Block>),
}

/// A log, which begins when the run does.
#[derive(Debug)]
enum Log {
    Ahead(Option<BufWriter<File>>),
    Begun(IntervalLog<BufWriter<File>>),
}

impl Telling {
    /// Opens what is to be written.
    pub(super) fn begin(arguments: &RunArguments, plan: &Plan) -> Result<Self, Failure> {
        let csv = arguments.csv.as_deref().map(|path| {
            let table = Seconds::begin(create(path)?).map_err(|error| unwritable(path, &error))?;
            Ok::<_, Failure>((path.to_owned(), table))
        });
        let hlog = arguments.hlog.as_deref().map(|path| {
            let log = Log::Ahead(Some(BufWriter::new(create(path)?)));
            Ok::<_, Failure>((path.to_owned(), log))
        });
        Ok(Self {
            shown: shown(arguments, plan),
            csv: csv.transpose()?,
            hlog: hlog.transpose()?,
            broken: None,
        })
    }

    /// Tells of a second that is over.
    pub(super) fn tell(&mut self, second: &Second) {
        let result = &second.figures;
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines => complain(&progress::line(result)),
            Shown::Block(block) => {
                let text = block.draw(result, columns());
                // A standard error that is closed is no reason to end the run.
                io::stderr().write_all(text.as_bytes()).unwrap_or(());
            }
        }
        if let Some((path, table)) = &mut self.csv
            && let Err(error) = table.add(result)
        {
            self.broken = Some(unwritable(path, &error));
            self.csv = None;
        }
        if let Some((path, log)) = &mut self.hlog
            && let Err(error) = log.add(&second.period)
        {
            self.broken = Some(unwritable(path, &error));
            self.hlog = None;
        }
    }

    /// Whether everything could be written.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.broken.map_or(Ok(()), Err)
    }
}

impl Log {
    fn add(&mut self, period: &Period) -> io::Result<()> {
        if let Self::Ahead(out) = self
            && let Some(out) = out.take()
        {
            let since = Duration::from_millis(clock::unix_ms()).saturating_sub(period.until);
            *self = Self::Begun(IntervalLog::begin(out, UNIX_EPOCH + since)?);
        }
        match self {
            Self::Begun(log) => log.add(period),
            Self::Ahead(_) => Ok(()),
        }
    }
}

/// Creates a file, or says which could not be.
fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path, &error))
}

/// Makes sure that a file can be written later, and leaves it as it is.
pub(super) fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| unwritable(path, &error))
}

/// Writes a file, or says which could not be.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    format!("{} cannot be written: {error}", path.display()).into()
}

/// How the run is shown: as asked for; else as a block where there is a terminal that can, and line
/// by line where there is none.
fn shown(arguments: &RunArguments, plan: &Plan) -> Shown {
    let is_able = io::stderr().is_terminal() && !says("TERM", |term| term == "dumb");
    let otherwise = if is_able { Progress::Block } else { Progress::Lines };
    if arguments.load.quiet {
        return Shown::Nothing;
    }
    match arguments.progress.unwrap_or(otherwise) {
        Progress::Lines => Shown::Lines,
        Progress::Block => {
            let is_coloured = is_able && !says("NO_COLOR", |value| !value.is_empty());
            let span = plan.profile().span().as_secs_f64();
            Shown::Block(Box::new(Block::new(&plan.target, span, is_coloured)))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what all programs on a terminal agree on")]
fn says(name: &str, what: impl FnOnce(&std::ffi::OsStr) -> bool) -> bool {
    std::env::var_os(name).is_some_and(|value| what(&value))
}

/// Columns of the terminal at present.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(COLUMNS, |size| if size.ws_col == 0 { COLUMNS } else { size.ws_col.into() })
}
