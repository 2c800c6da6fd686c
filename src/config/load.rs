//! File, environment and flags become options, or every problem they have.
//!
//! What it keeps true: a flag beats the environment, which beats the file, which beats the
//! profile's default. A value that is beaten is judged all the same, so that it does not lie in
//! wait. [`assemble`] is pure; [`load`] reads the file and the environment for it, again at every
//! call, so that a reload is a second call.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::doubts;
use crate::config::environment;
use crate::config::file::{self, Assignment};
use crate::config::options::Options;
use crate::config::problem::{Problem, Problems, Refusal, Source};
use crate::config::rules;
use crate::config::table::{self, Row};

/// What the command line gave.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// Keys of options with their texts.
    pub flags: Vec<(&'static str, String)>,
}

/// What [`assemble`] works on.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The name of the file and its text.
    pub file: Option<(String, String)>,
    /// Environment variables that begin with [`environment::PREFIX`].
    pub variables: Vec<(String, OsString)>,
    /// Keys of options with the texts of their flags.
    pub flags: Vec<(&'static str, String)>,
}

/// Options that are valid, and where each of them came from.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The options.
    pub options: Options,
    /// What is odd and not wrong.
    pub warnings: Vec<Problem>,
    sources: Vec<(&'static str, Source)>,
}

impl Effective {
    /// Where the option with this key came from.
    pub fn source(&self, key: &str) -> &Source {
        self.sources
            .iter()
            .rev()
            .find(|(known, _)| *known == key)
            .map_or(&Source::Default, |(_, source)| source)
    }

    /// Adds what is odd about options that somebody gave.
    fn doubt(&mut self) {
        for doubt in &doubts::DOUBTS {
            let key = doubt.reads[0];
            let source = self.source(key).clone();
            if source != Source::Default
                && let Some(refusal) = (doubt.judge)(&self.options)
            {
                self.warnings.push(Problem::new(source, key, refusal));
            }
        }
    }

    /// Every option with its value as TOML and its source, in the order of the table.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Row, String, &Source)> {
        table::rows().map(|row| (row, row.show_toml(&self.options), self.source(row.key)))
    }
}

/// Reads the file and the environment, and assembles.
pub fn load(command_line: &CommandLine) -> Result<Effective, Problems> {
    let variables = environment::variables();
    let mut inputs = Inputs { file: None, variables, flags: command_line.flags.clone() };
    let named = inputs.variables.iter().find(|(name, _)| name == environment::FILE_VARIABLE);
    let path = command_line.file.clone().or_else(|| named.map(|(_, path)| PathBuf::from(path)));
    let mut unreadable = None;
    if let Some(path) = path {
        match read_file(&path) {
            Ok(text) => inputs.file = Some((path.display().to_string(), text)),
            Err(problem) => unreadable = Some(problem),
        }
    }
    match (unreadable, assemble(&inputs)) {
        (None, result) => result,
        (Some(problem), Ok(_)) => Err(Problems(vec![problem])),
        (Some(problem), Err(mut problems)) => {
            problems.0.insert(0, problem);
            Err(problems)
        }
    }
}

/// Weighs the inputs against each other.
pub fn assemble(inputs: &Inputs) -> Result<Effective, Problems> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let mut assignments = match &inputs.file {
        Some((path, text)) => file::read(path, text, &mut problems),
        None => Vec::new(),
    };
    assignments.extend(environment::read(&inputs.variables, &mut problems, &mut warnings));
    assignments.extend(inputs.flags.iter().filter_map(|(key, text)| {
        let row = table::find(key)?;
        let source = Source::Flag { flag: format!("--{}", row.flag()) };
        Some(Assignment { row, text: text.clone(), source })
    }));

    let mut options = base(&assignments);
    let mut sources = Vec::new();
    for Assignment { row, text, source } in assignments {
        match row.set(&mut options, &text) {
            Ok(()) => sources.push((row.key, source)),
            Err(refusal) => problems.push(Problem::new(source, row.key, refusal)),
        }
    }
    let mut effective = Effective { options, warnings, sources };
    // A rule about an option that could not be read would accuse a value that nobody gave; of a
    // file that could not be read at all, any option may have been meant.
    let is_file_lost = problems.iter().any(|problem| problem.key.is_empty());
    for rule in rules::RULES.iter().filter(|_| !is_file_lost) {
        let is_known = |key: &&str| problems.iter().all(|problem| problem.key != **key);
        if let (true, Some(refusal)) =
            (rule.reads.iter().all(is_known), (rule.judge)(&effective.options))
        {
            let key = rule.reads[0];
            problems.push(Problem::new(effective.source(key).clone(), key, refusal));
        }
    }
    problems.sort_by(|one, other| one.source.cmp(&other.source));
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    effective.doubt();
    Ok(effective)
}

/// The defaults to start from: those of the strongest valid `profile`.
fn base(assignments: &[Assignment]) -> Options {
    let mut options = Options::default();
    for Assignment { row, text, .. } in assignments.iter().filter(|it| it.row.key == PROFILE) {
        // A refused text changes nothing here; it is reported with all the others.
        row.set(&mut options, text).ok();
    }
    Options::of(options.profile)
}

/// The text of a configuration file, at most [`FILE_BYTES_MAX`] of it.
fn read_file(path: &Path) -> Result<String, Problem> {
    let name = path.display().to_string();
    let refuse = |line, what: String, remedy: &str| {
        let source = Source::File { path: name.clone(), line };
        Problem::new(source, "", Refusal::new(what, remedy))
    };
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let remedy = "name a readable file with --config or CORELANE_CONFIG, or neither";
        return Err(refuse(None, format!("cannot be read: {error}"), remedy));
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(None, "is longer than 1 MiB".to_owned(), "is it the right file?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        refuse(Some(file::line_after(valid)), "is not UTF-8".to_owned(), "save the file as UTF-8")
    })
}

/// The key of the option that chooses the defaults of all others.
const PROFILE: &str = "profile";

/// Bytes of a configuration file. Every option with a page of comment fits a tenth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;
