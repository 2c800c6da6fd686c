//! What the suite found out about a scenario, read from the file that it leaves for each.

use std::fmt;
use std::path::Path;

use serde_json::Value;

/// One scenario and its checks.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    checks: Vec<Check>,
}

/// How a scenario ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// Every check that was made holds.
    Passed,
    /// Nothing was checked.
    Skipped,
    /// A check failed or warned, or the scenario broke off before it had made any.
    Failed,
}

/// One thing that the suite looked at.
#[derive(Debug)]
struct Check {
    id: String,
    status: String,
    /// What is wrong, where something is.
    complaint: String,
}

impl Scenario {
    /// Reads `server-NAME-TIME/checks.json`.
    pub(crate) fn read(folder: &Path) -> Self {
        let file_name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let checks = std::fs::read_to_string(folder.join("checks.json")).unwrap_or_default();
        let checks: Value = serde_json::from_str(&checks).unwrap_or_default();
        let checks = checks.as_array().into_iter().flatten().map(Check::read).collect();
        Self { name: name_of(file_name).to_owned(), checks }
    }

    /// What all checks come to.
    pub(crate) fn ending(&self) -> Ending {
        let any = |status: &str| self.checks.iter().any(|check| check.status == status);
        if self.checks.iter().any(Check::is_complaint) {
            Ending::Failed
        } else if any("SUCCESS") {
            Ending::Passed
        } else if any("SKIPPED") {
            Ending::Skipped
        } else {
            Ending::Failed
        }
    }
}

impl Check {
    fn read(check: &Value) -> Self {
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        Self { id: text("id"), status: text("status"), complaint: text("errorMessage") }
    }

    /// A failure, or the warning that something recommended is missing.
    fn is_complaint(&self) -> bool {
        !matches!(&*self.status, "SUCCESS" | "SKIPPED" | "INFO")
    }
}

/// One line, and one more for each complaint.
impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.checks.iter().filter(|check| check.status == "SUCCESS").count();
        match self.ending() {
            Ending::Passed => write!(formatter, "passed   {} (checks: {held})", self.name),
            Ending::Skipped => write!(formatter, "skipped  {} by the suite itself", self.name),
            Ending::Failed if self.checks.is_empty() => {
                write!(formatter, "FAILED   {}, which broke off", self.name)
            }
            Ending::Failed => {
                write!(formatter, "FAILED   {} (checks that hold: {held})", self.name)
            }
        }?;
        for check in self.checks.iter().filter(|check| check.is_complaint()) {
            write!(formatter, "\n         {} {}: {}", check.status, check.id, check.complaint)?;
        }
        Ok(())
    }
}

/// The name between `server-` and the time, which has the shape of `-2026-01-31T23-59-59-999Z`.
fn name_of(folder: &str) -> &str {
    let inner = folder.strip_prefix("server-").unwrap_or(folder);
    let time = "-2026-01-31T23-59-59-999Z".len();
    inner.len().checked_sub(time).and_then(|end| inner.get(..end)).unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(checks: &Value) -> Scenario {
        let folder = tempfile::tempdir().expect("a folder for a moment");
        let inner = folder.path().join("server-tools-list-2026-01-31T23-59-59-999Z");
        std::fs::create_dir(&inner).expect("the folder is writable");
        std::fs::write(inner.join("checks.json"), checks.to_string()).expect("so is this one");
        Scenario::read(&inner)
    }

    #[test]
    fn a_scenario_without_complaint_passes() {
        let held = scenario(&json!([
            { "id": "heard", "status": "INFO" },
            { "id": "tools-list", "status": "SUCCESS" },
        ]));
        assert_eq!((held.name.as_str(), held.ending()), ("tools-list", Ending::Passed));
        assert_eq!(held.to_string(), "passed   tools-list (checks: 1)");
    }

    #[test]
    fn a_warning_fails_and_is_told_with_its_reason() {
        let warned = scenario(&json!([
            { "id": "tools-list", "status": "SUCCESS" },
            { "id": "retry", "status": "WARNING", "errorMessage": "no retry was sent" },
        ]));
        assert_eq!(warned.ending(), Ending::Failed);
        assert!(warned.to_string().ends_with("WARNING retry: no retry was sent"), "{warned}");
    }

    #[test]
    fn a_scenario_that_checked_nothing_does_not_pass() {
        assert_eq!(scenario(&json!([])).ending(), Ending::Failed);
        assert_eq!(
            scenario(&json!([{ "id": "heard", "status": "INFO" }])).ending(),
            Ending::Failed
        );
        let skipped = json!([{ "id": "later", "status": "SKIPPED" }]);
        assert_eq!(scenario(&skipped).ending(), Ending::Skipped);
    }
}
