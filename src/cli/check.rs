//! `corelane check`: validates the configuration and reports what this machine does not support.
//!
//! Standard output is itself a valid configuration file, with the source of every value as a
//! comment. The ring that a shard gets here, warnings, errors and at the end `ok` go to standard
//! error. What would keep `serve` from starting is an error: an address in use, a directory, a
//! certificate, a file of authentication or of traces, or a ring that cannot be used.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use corelane_protocol::model::Implementation;

use crate::cli::serve::Declarations;
use crate::cli::{print_diagnostic, serve};
use crate::config::issue::{Diagnostic, Source};
use crate::config::options::RingBackend;
use crate::config::table::Row;
use crate::config::{ConfigIssue, EffectiveConfig, MachineLimits, Options, machine};
use crate::files::{Files, Prompts};
use crate::server::card::{CardFault, ServerCard};
use crate::server::{
    StartFault, check_audit_file, check_auth, check_tls, check_traces, find_readable_secrets,
    find_start_faults, probe_ring,
};
use crate::service::Catalog;

/// Prints the options that differ from their defaults, or all, and the warnings about them.
pub(crate) fn run(
    effective: &EffectiveConfig,
    declarations: Declarations,
    shows_all: bool,
) -> ExitCode {
    for warning in &effective.warnings {
        print_diagnostic("warning", warning);
    }
    declarations.print_warnings();
    let mut findings = Findings::default();
    let has_uring = findings.check_ring(&effective.options);
    let machine = MachineLimits { has_uring: Some(has_uring), ..MachineLimits::detect() };
    findings.warnings.extend(machine.warnings(&effective.options));
    findings.check_start(&effective.options, declarations);
    findings.print(effective);
    let written = if shows_all {
        write_options(effective.rows(), &mut io::stdout().lock())
    } else {
        write_options(effective.changed_rows(), &mut io::stdout().lock())
    };
    match written {
        Ok(()) => {}
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            print_diagnostic("error", &format!("standard output: {error}"));
            return ExitCode::FAILURE;
        }
    }
    if !findings.errors.is_empty() {
        return ExitCode::FAILURE;
    }
    writeln!(io::stderr(), "ok").ok();
    ExitCode::SUCCESS
}

/// A diagnostic with the key of its option.
type Finding = (&'static str, Diagnostic);

/// What this machine does not support.
#[derive(Debug, Default)]
struct Findings {
    /// What the server does without.
    warnings: Vec<Finding>,
    /// What it does not start with.
    errors: Vec<Finding>,
}

impl Findings {
    /// Sets up the ring of a shard and prints its features. Returns whether it is an `io_uring`.
    fn check_ring(&mut self, options: &Options) -> bool {
        let about = |message: String| {
            let hint = "allow io_uring on this machine, or set ring.backend = \"poll\"";
            ("ring.backend", Diagnostic::new(message, hint))
        };
        match probe_ring(options) {
            Ok(probe) => {
                print_diagnostic("ring", &probe.description);
                let Some(error) = probe.uring_error else {
                    return options.engine.ring != RingBackend::Poll;
                };
                self.warnings.push(about(format!("poll is used: {error}")));
            }
            Err(error) => self.errors.push(about(format!("no ring can be created: {error}"))),
        }
        false
    }

    /// Tries everything else that a start needs.
    fn check_start(&mut self, options: &Options, declarations: Declarations) {
        let unreadable = machine::find_unreadable(options);
        let has_directories = unreadable.is_empty();
        self.errors.extend(unreadable);
        for StartFault { key, message, hint } in find_start_faults(options) {
            self.errors.push((key, Diagnostic::new(message, hint)));
        }
        match check_tls(options) {
            Ok(warnings) => {
                let hint = "clients refuse an expired one";
                let warnings = warnings.into_iter().map(|it| Diagnostic::new(it, hint));
                self.warnings.extend(warnings.map(|it| ("tls.certificates", it)));
            }
            Err(error) => {
                let hint = "correct the files or their paths";
                self.errors.push(("tls.certificates", Diagnostic::new(error, hint)));
            }
        }
        for warning in find_readable_secrets(options) {
            print_diagnostic("warning", &warning);
        }
        if let Err(error) = check_auth(options).and_then(|()| check_audit_file(&options.auth)) {
            let hint = "correct the option or the file";
            self.errors.push((AUTH, Diagnostic::new(error, hint)));
        }
        let card = ServerCard::new(options, &serve::server_info(&options.service));
        if let Err(CardFault { key, message, hint }) = card {
            self.errors.push((key, Diagnostic::new(message, hint)));
        }
        if let Err(error) = check_traces(&options.traces) {
            let hint = "correct the option or the file";
            self.errors.push(("traces.endpoint", Diagnostic::new(error, hint)));
        }
        let (declarations, error) = declarations.without_upstreams();
        if let Some(error) = error {
            self.errors.push((DECLARATIONS, Diagnostic::new(error, "")));
        }
        for warning in declarations.warnings() {
            print_diagnostic("warning", &warning);
        }
        if has_directories && let Err(error) = serve::build_server(options, declarations) {
            let hint = "correct the option or the files";
            let faults = serve::declaration_faults(&*error);
            let of_declarations = faults.map(|it| (DECLARATIONS, Diagnostic::new(it, "")));
            self.errors.push(of_declarations.unwrap_or_else(|| {
                ("resources.directory", Diagnostic::new(error.to_string(), hint))
            }));
        }
        if has_directories {
            self.check_files(options);
        }
    }

    /// Names the files and folders that are not offered.
    fn check_files(&mut self, options: &Options) {
        let options = &options.files;
        let catalog = Catalog::builder(Implementation::new("check", "")).build();
        let (Ok(mut files), Ok(catalog)) = (Files::from_options(options), catalog) else { return };
        // What `serve` does not start with is named above.
        if files.add_to_catalog(&catalog).is_err() {
            return;
        }
        let prompts = options.prompts.as_deref().map(Prompts::new).and_then(Result::ok);
        for fault in files.faults() {
            let is_prompt =
                prompts.as_ref().is_some_and(|it| Path::new(fault).starts_with(it.path()));
            let key = if is_prompt { "prompts.directory" } else { "resources.directory" };
            let (message, hint) = fault.rsplit_once("; ").unwrap_or((fault, ""));
            self.warnings.push((key, Diagnostic::new(message, hint)));
        }
    }

    /// Prints the warnings, then the errors.
    fn print(&self, effective: &EffectiveConfig) {
        for (kind, findings) in [("warning", &self.warnings), ("error", &self.errors)] {
            for (key, cause) in findings {
                if *key == DECLARATIONS {
                    cause.message.lines().for_each(|fault| print_diagnostic(kind, &fault));
                    continue;
                }
                if *key == AUTH {
                    let Diagnostic { message, hint } = cause;
                    print_diagnostic(kind, &format!("authentication: {message}; {hint}"));
                    continue;
                }
                let source = effective.source(key).clone();
                print_diagnostic(kind, &ConfigIssue::new(source, *key, cause.clone()));
            }
        }
    }
}

/// Stands for the options of authentication; the message names the one that is wrong.
const AUTH: &str = "auth";

/// Stands for declarations, whose faults name their places themselves.
const DECLARATIONS: &str = "declarations";

fn write_options<'a>(
    rows: impl Iterator<Item = (&'static Row, String, &'a Source)>,
    out: &mut impl Write,
) -> io::Result<()> {
    for (row, value, source) in rows {
        let line = format!("{} = {value}", row.key);
        writeln!(out, "{line:<44} # {source}")?;
    }
    out.flush()
}
