//! The audit log: calls of marked tools (`auth.audit`), as events or as lines of a file.
//!
//! Invariants: a call is logged once, when it ends; nothing of its arguments and results is. No
//! shard waits for the file. Where the log is required (`auth.audit_required`), a call begins only
//! if its line has a place in the queue, and the file took the last lines.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corelane_engine::clock::unix_ms;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::json::{write, write_timestamp};
use rustix::fs::{Mode, OFlags};

use super::options::{AuthOptions, Options};
use crate::telemetry::auth_event::{AuditedCall, AuthEvent};
use crate::telemetry::event::Event;
use crate::telemetry::lines::{LinePlace, LineQueue, LineWriter, OnFailure};

/// Where audited calls are logged.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    file: Option<AuditFile>,
    is_required: bool,
}

#[derive(Debug)]
struct AuditFile {
    path: PathBuf,
    lines: Arc<LineQueue>,
    writer: LineWriter,
}

impl AuditLog {
    /// Opens the file of the options, if they name one.
    ///
    /// # Errors
    ///
    /// Why there is no audit log.
    pub fn open(options: &Options) -> Result<Self, String> {
        let auth = &options.auth;
        check_audit(auth)?;
        let Some(path) = &auth.audit_file else { return Ok(Self::default()) };
        let lines = LineQueue::new(options.log.queue_bytes_max as usize, lost_line);
        let lines = Arc::new(lines);
        let output = open_file(path, OFlags::CREATE)?;
        let location = path.display().to_string();
        let on_failure = OnFailure::Retry(Box::new(move |error| {
            let error = error.map(ToString::to_string);
            let event = AuthEvent::AuditFile { location: &location, error: error.as_deref() };
            Event::Auth(event).emit();
        }));
        let writer = LineWriter::start(Arc::clone(&lines), output, on_failure);
        let writer = writer.map_err(|error| format!("auth.audit_file: its thread: {error}"))?;
        let file = AuditFile { path: path.clone(), lines, writer };
        Ok(Self { file: Some(file), is_required: auth.audit_required })
    }

    /// Returns the lines that wait for the file, if there is one.
    pub fn lines(&self) -> Option<&Arc<LineQueue>> {
        self.file.as_ref().map(|file| &file.lines)
    }

    /// Opens the file anew, for a program that has renamed it. Lines that wait go to the new one.
    ///
    /// # Errors
    ///
    /// Why the file stays as it is.
    pub fn reopen(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        file.writer.replace_output(open_file(&file.path, OFlags::CREATE)?);
        Ok(())
    }

    /// Waits until the lines of the calls that have ended are written, for half a second at most.
    pub fn flush(&self) {
        if let Some(lines) = self.lines() {
            lines.flush();
        }
    }

    /// Returns what has the lines written when it is dropped.
    pub fn flush_on_drop(log: &Arc<Self>) -> Box<dyn Any + Send + Sync> {
        Box::new(FlushOnDrop(Arc::clone(log)))
    }

    /// Returns the record of a call that does not begin. Its line may be lost.
    pub fn record(&self, call: AuditedCall) -> AuditRecord {
        match &self.file {
            None => AuditRecord::Event(call),
            Some(file) => {
                let lines = Arc::clone(&file.lines);
                AuditRecord::Line { members: members_of(&call), lines, place: None }
            }
        }
    }

    /// Returns the record of a call that begins.
    ///
    /// # Errors
    ///
    /// The log is required and does not take the line.
    pub fn begin(&self, call: AuditedCall) -> Result<AuditRecord, Error> {
        let mut record = self.record(call);
        if self.is_required
            && let AuditRecord::Line { members, lines, place } = &mut record
        {
            let bytes = members.len() + FIXED_BYTES_MAX;
            *place = Some(LineQueue::reserve(lines, bytes).ok_or_else(unavailable)?);
        }
        Ok(record)
    }
}

/// Checks the options and the file, which is not created.
///
/// # Errors
///
/// Which option cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_audit_file(options: &AuthOptions) -> Result<(), String> {
    check_audit(options)?;
    match &options.audit_file {
        Some(path) if path.exists() => open_file(path, OFlags::empty()).map(drop),
        Some(path) => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = folder.unwrap_or_else(|| Path::new("."));
            let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
            access.map_err(|error| format!("auth.audit_file: {}: {error}", folder.display()))
        }
        None => Ok(()),
    }
}

fn check_audit(options: &AuthOptions) -> Result<(), String> {
    let (is_named, has_tools) = (options.audit_file.is_some(), !options.audit.is_empty());
    if options.audit_required && !is_named {
        return Err("auth.audit_required needs auth.audit_file".to_owned());
    }
    if is_named && !has_tools {
        return Err("auth.audit_file needs auth.audit: the tools whose calls are logged".to_owned());
    }
    Ok(())
}

/// Opens the file at its end. One that is created is for the user of the process only.
fn open_file(path: &Path, create: OFlags) -> Result<OwnedFd, String> {
    // A pipe without a reader is an error, and not waited for.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags | create, Mode::RUSR | Mode::WUSR);
    opened.map_err(|error| format!("auth.audit_file: {}: {error}", path.display()))
}

#[cold]
fn unavailable() -> Error {
    let message = "calls of this tool are refused while the audit log cannot be written";
    let data = r#"{"retryable":true,"retryAfterMs":1000}"#;
    Error::new(ErrorKind::Overloaded { retry_after_seconds: 1 }, message).with_data(data)
}

/// Writes what is left when it is dropped.
struct FlushOnDrop(Arc<AuditLog>);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// What is logged of a call when it ends. Dropped, it is not logged.
#[derive(Debug)]
pub(super) enum AuditRecord {
    /// As an event.
    Event(AuditedCall),
    /// As a line of the file.
    Line {
        /// The members of the line that are known at the start.
        members: Box<[u8]>,
        lines: Arc<LineQueue>,
        /// Reserved for the line, if the log is required.
        place: Option<LinePlace>,
    },
}

impl AuditRecord {
    /// Logs the call with its outcome.
    pub fn log(self, outcome: &'static str) {
        match self {
            Self::Event(call) => call.log(outcome),
            Self::Line { members, lines, place } => {
                let line = line_of(outcome, &members, unix_ms());
                match place {
                    Some(place) => place.fill(&line),
                    None => lines.push(&line),
                }
            }
        }
    }
}

/// Bytes of a line beside the members that are known at the start, and more.
const FIXED_BYTES_MAX: usize = 128;

fn line_of(outcome: &str, members: &[u8], unix_ms: u64) -> Vec<u8> {
    let mut line = Vec::with_capacity(members.len() + FIXED_BYTES_MAX);
    line.extend_from_slice(br#"{"time":"#);
    write_timestamp(&mut line, unix_ms);
    line.extend_from_slice(br#","message":"tool called","outcome":"#);
    write::string(&mut line, outcome);
    line.extend_from_slice(members);
    line.extend_from_slice(b"}\n");
    line
}

fn members_of(call: &AuditedCall) -> Box<[u8]> {
    let AuditedCall { caller, tool, peer, request_id } = call;
    let peer = peer.map(|peer| peer.to_string());
    let members = [
        ("caller", caller.as_ref().map(|caller| caller.id())),
        ("issuer", caller.as_ref().map(|caller| caller.issuer())),
        ("tool", Some(&**tool)),
        ("peer", peer.as_deref()),
        ("request_id", request_id.as_deref()),
    ];
    let mut text = Vec::new();
    for (name, value) in members {
        if let Some(value) = value {
            text.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            write::string(&mut text, value);
        }
    }
    text.into()
}

fn lost_line(lines: u64) -> Vec<u8> {
    let mut line = br#"{"time":"#.to_vec();
    write_timestamp(&mut line, unix_ms());
    let rest = format!(",\"message\":\"audit lines lost\",\"lines\":{lines}}}\n");
    line.extend_from_slice(rest.as_bytes());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> AuditedCall {
        AuditedCall {
            caller: None,
            tool: "deploy".into(),
            peer: Some(([192, 0, 2, 7], 4_711).into()),
            request_id: Some("a\"b".into()),
        }
    }

    fn options(path: &Path, is_required: bool) -> Options {
        let mut options = Options::tiny();
        options.auth.audit = vec!["deploy".to_owned()];
        options.auth.audit_file = Some(path.to_owned());
        options.auth.audit_required = is_required;
        options.log.queue_bytes_max = 4_096;
        options
    }

    #[test]
    fn audited_call_is_a_line_of_json() {
        let line = line_of("succeeded", &members_of(&call()), 1_785_231_000_125);
        assert!(line.len() <= members_of(&call()).len() + FIXED_BYTES_MAX);
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "time": "2026-07-28T09:30:00.125Z", "message": "tool called", "tool": "deploy",
                "outcome": "succeeded", "peer": "192.0.2.7:4711", "request_id": "a\"b",
            })
        );
    }

    #[test]
    fn required_log_reserves_place_of_each_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&options(&path, true)).unwrap();
        let mut begun = Vec::new();
        let refused = loop {
            match log.begin(call()) {
                Ok(record) => begun.push(record),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, ErrorKind::Overloaded { retry_after_seconds: 1 });
        // A call that is not logged returns its place.
        drop(begun.pop());
        begun.push(log.begin(call()).unwrap());
        let calls = begun.len();
        for record in begun {
            record.log("succeeded");
        }
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("succeeded")).count(), calls);
    }

    #[test]
    fn reopened_file_has_later_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&options(&path, false)).unwrap();
        log.record(call()).log("failed");
        log.lines().unwrap().flush();
        std::fs::rename(&path, folder.path().join("audit.1")).unwrap();
        log.reopen().unwrap();
        log.record(call()).log("denied");
        drop(log);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("audit.1").contains("failed") && !read("audit.1").contains("denied"));
        assert!(read("audit.jsonl").contains("denied"));
    }

    #[test]
    fn full_disk_refuses_calls_and_loses_no_line() {
        let log = AuditLog::open(&options(Path::new("/dev/full"), true)).unwrap();
        log.begin(call()).unwrap().log("succeeded");
        while log.begin(call()).is_ok() {
            std::thread::yield_now();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        log.file.as_ref().unwrap().writer.replace_output(open_file(&path, OFlags::CREATE).unwrap());
        while log.begin(call()).is_err() {
            std::thread::yield_now();
        }
        drop(log);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[test]
    fn options_of_audit_need_each_other() {
        let mut auth = AuthOptions { audit_required: true, ..AuthOptions::default() };
        assert!(check_audit(&auth).unwrap_err().contains("auth.audit_file"));
        auth.audit_file = Some("audit.jsonl".into());
        assert!(check_audit(&auth).unwrap_err().contains("needs auth.audit:"));
        auth.audit = vec!["*".to_owned()];
        check_audit(&auth).unwrap();
    }
}
