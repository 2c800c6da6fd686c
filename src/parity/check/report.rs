//! The results of a run, as a table or as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::suite::Check;

/// Characters of a reason in the table.
const REASON_CHARS_MAX: usize = 400;

/// What became of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    Passed,
    Failed,
    /// A step before the rule has failed.
    Blocked,
    /// The rule does not apply.
    Skipped,
}

/// The result of one check.
pub struct CheckReport {
    pub check: &'static Check,
    pub status: Status,
    pub reason: Option<String>,
    pub time: Duration,
}

/// The results of a run.
pub struct Report {
    pub(crate) target: String,
    pub(crate) checks: Vec<CheckReport>,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
        }
    }
}

impl Report {
    /// Returns whether every required check that applies has passed, and there is one.
    pub fn is_compliant(&self) -> bool {
        let is_broken = |report: &CheckReport| {
            let is_open = matches!(report.status, Status::Failed | Status::Blocked);
            is_open && report.check.level.is_required()
        };
        self.count(Status::Passed) > 0 && !self.checks.iter().any(is_broken)
    }

    fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|report| report.status == status).count()
    }

    /// Writes a line for each check, and the numbers.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let width = self.checks.iter().map(|report| report.check.name.len()).max().unwrap_or(0);
        for CheckReport { check, status, reason, .. } in &self.checks {
            let (status, level) = (status.as_str(), check.level.as_str());
            let reason = reason.as_deref().map(printable).unwrap_or_default();
            let line = format!("{status:<7}  {level:<10}  {:<width$}  {reason}", check.name);
            writeln!(out, "{}", line.trim_end())?;
            if status == Status::Failed.as_str() {
                writeln!(out, "{:>21}rule: {}", "", check.rule)?;
            }
        }
        let [passed, failed, blocked, skipped] =
            [Status::Passed, Status::Failed, Status::Blocked, Status::Skipped]
                .map(|status| self.count(status));
        let verdict = if self.is_compliant() { "complies" } else { "does not comply" };
        writeln!(
            out,
            "{} {verdict}: {passed} passed, {failed} failed, {blocked} blocked, {skipped} skipped",
            self.target
        )
    }

    /// Returns the results as JSON.
    pub fn to_json(&self) -> Value {
        let checks = self.checks.iter().map(|report| {
            let name = report.check.name;
            let milliseconds = u64::try_from(report.time.as_millis()).unwrap_or(u64::MAX);
            let mut line = json!({
                "name": name, "family": name.split('.').next(),
                "level": report.check.level.as_str(), "rule": report.check.rule,
                "status": report.status.as_str(), "milliseconds": milliseconds,
            });
            if let Some(reason) = &report.reason {
                line["reason"] = json!(reason);
            }
            line
        });
        json!({
            "target": self.target, "complies": self.is_compliant(),
            "passed": self.count(Status::Passed), "failed": self.count(Status::Failed),
            "blocked": self.count(Status::Blocked), "skipped": self.count(Status::Skipped),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}

/// Returns a reason on one line; it may hold text of the server.
fn printable(reason: &str) -> String {
    let is_space = |character: char| if character.is_control() { ' ' } else { character };
    let mut text: String = reason.chars().take(REASON_CHARS_MAX).map(is_space).collect();
    if reason.chars().nth(REASON_CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}
