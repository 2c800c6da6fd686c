//! Combines file, environment and flags into options, or reports every error.
//!
//! Invariants: a flag takes precedence over the environment, the environment over the file, the
//! file over the profile's default. The variables of OpenTelemetry come between the file and those
//! of Corelane. Overridden values are validated, too. [`assemble`] is pure;
//! [`load`] reads the file and the environment at every call, so that a reload is a second call.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::config::issue::{ConfigErrors, ConfigIssue, Diagnostic, Source};
use crate::config::options::{Options, Profile};
use crate::config::read::raw_value::Assignment;
use crate::config::read::{apply, environment, file, open_telemetry, source_of};
use crate::config::table::{self, Row};
use crate::config::warnings;

/// Options given on the command line.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// Configuration file of `--config`.
    pub file: Option<PathBuf>,
    /// Key and text of each flag.
    pub flags: Vec<(&'static str, String)>,
}

impl CommandLine {
    /// Returns the path of the configuration file: that of `--config`, or of `CORELANE_CONFIG`.
    pub fn path(&self) -> Option<PathBuf> {
        self.path_in(&environment::variables())
    }

    fn path_in(&self, variables: &[(String, OsString)]) -> Option<PathBuf> {
        let named = || variables.iter().find(|(name, _)| name == environment::FILE_VARIABLE);
        self.file.clone().or_else(|| named().map(|(_, path)| PathBuf::from(path)))
    }
}

/// Inputs of [`assemble`].
#[derive(Clone, Debug, Default)]
pub struct ConfigInputs {
    /// Name and text of the configuration file.
    pub file: Option<(String, String)>,
    /// Environment variables that begin with [`environment::PREFIX`], and those of OpenTelemetry.
    pub variables: Vec<(String, OsString)>,
    /// Key and text of each flag.
    pub flags: Vec<(&'static str, String)>,
}

/// Valid options with their sources.
#[derive(Clone, Debug)]
pub struct EffectiveConfig {
    /// The options.
    pub options: Options,
    /// Warnings: valid settings without effect, and unknown environment variables.
    pub warnings: Vec<ConfigIssue>,
    sources: Vec<(&'static str, Source)>,
}

impl EffectiveConfig {
    /// Returns where the option with this key was set.
    pub fn source(&self, key: &str) -> &Source {
        source_of(&self.sources, key)
    }

    /// Adds the warnings about options that were set.
    fn add_warnings(&mut self) {
        for rule in &warnings::WARNINGS {
            let key = rule.keys[0];
            let source = self.source(key).clone();
            if source != Source::Default
                && let Some(diagnostic) = (rule.check)(&self.options)
            {
                self.warnings.push(ConfigIssue::new(source, key, diagnostic));
            }
        }
    }

    /// Returns the options whose values differ from the defaults of the profile, and the profile if
    /// it is not the default.
    pub fn changed_rows(&self) -> impl Iterator<Item = (&'static Row, String, &Source)> {
        let profile = Options::for_profile(self.options.profile);
        let defaults = Options { profile: Profile::default(), ..profile };
        self.rows().filter(move |(row, value, _)| *value != row.format_toml(&defaults))
    }

    /// Returns every option with its value as TOML and its source, in the order of the table.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Row, String, &Source)> {
        table::rows().map(|row| (row, row.format_toml(&self.options), self.source(row.key)))
    }
}

/// Reads the file and the environment, and assembles the options.
///
/// # Errors
///
/// The file cannot be read, or a value is invalid; all errors are returned.
pub fn load(command_line: &CommandLine) -> Result<EffectiveConfig, ConfigErrors> {
    let variables = environment::variables();
    let mut inputs = ConfigInputs { file: None, variables, flags: command_line.flags.clone() };
    let path = command_line.path_in(&inputs.variables);
    let mut unreadable = None;
    if let Some(path) = path {
        match read_file(&path) {
            Ok(text) => inputs.file = Some((path.display().to_string(), text)),
            Err(problem) => unreadable = Some(problem),
        }
    }
    match (unreadable, assemble(&inputs)) {
        (None, result) => result,
        (Some(problem), Ok(_)) => Err(ConfigErrors(vec![problem])),
        (Some(problem), Err(mut problems)) => {
            problems.0.insert(0, problem);
            Err(problems)
        }
    }
}

/// Combines `inputs` into valid options.
///
/// # Errors
///
/// A value is invalid, or options contradict each other; all errors are returned.
pub fn assemble(inputs: &ConfigInputs) -> Result<EffectiveConfig, ConfigErrors> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let mut assignments = match &inputs.file {
        Some((path, text)) => file::read(path, text, &mut problems),
        None => Vec::new(),
    };
    let mut later = environment::read(&inputs.variables, &mut problems, &mut warnings);
    later.extend(inputs.flags.iter().filter_map(|(key, text)| {
        let row = table::find(key)?;
        let source = Source::Flag { flag: format!("--{}", row.flag()) };
        Some(Assignment { row, text: text.clone(), source })
    }));
    let has_endpoint = assignments.iter().chain(&later).any(open_telemetry::is_endpoint);
    let standard = open_telemetry::read(&inputs.variables, has_endpoint, &mut problems);
    assignments.extend(standard.assignments);
    assignments.extend(later);
    assignments.extend(standard.disabling);

    let (mut options, sources) = apply(assignments, problems)?;
    options.traces.header_fields = standard.header_fields;
    let mut effective = EffectiveConfig { options, warnings, sources };
    effective.add_warnings();
    Ok(effective)
}

/// Reads a configuration file: a regular file of at most [`FILE_BYTES_MAX`] bytes. Never waits for
/// another process, as opening or reading a FIFO would.
fn read_file(path: &Path) -> Result<String, ConfigIssue> {
    let name = path.display().to_string();
    let error_at = |line, message: String, hint: &str| {
        let source = Source::File { path: name.clone(), line };
        ConfigIssue::new(source, "", Diagnostic::new(message, hint))
    };
    let mut bytes = Vec::new();
    let read = open_regular_file(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let hint = "name a readable file with --config or CORELANE_CONFIG, or neither";
        return Err(error_at(None, format!("cannot be read: {error}"), hint));
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(error_at(
            None,
            "is longer than 16 MiB".to_owned(),
            "check the name of the file",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        error_at(
            Some(file::line_number_after(valid)),
            "is not UTF-8".to_owned(),
            "save the file as UTF-8",
        )
    })
}

/// Opens a regular file without blocking. The type is that of the opened file, so that replacing
/// the path meanwhile makes no difference.
fn open_regular_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Bound of a configuration file, which may declare thousands of tools.
const FILE_BYTES_MAX: u64 = 16 << 20;
