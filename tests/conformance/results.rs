//! Results of scenarios, read from the `checks.json` that the suite writes for each.

use std::fmt;
use std::path::Path;

use serde_json::Value;

/// One scenario and its checks.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    checks: Vec<Check>,
}

/// Outcome of a scenario.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// Every check passed.
    Passed,
    /// The suite skipped it.
    Skipped,
    /// A check failed or warned, or there is no check.
    Failed,
}

#[derive(Debug)]
struct Check {
    id: String,
    status: String,
    error_message: String,
}

impl Scenario {
    /// Reads `server-NAME-TIME/checks.json`.
    pub(crate) fn read(dir: &Path) -> Self {
        let dir_name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let checks = std::fs::read_to_string(dir.join("checks.json")).unwrap_or_default();
        let checks: Value = serde_json::from_str(&checks).unwrap_or_default();
        let checks = checks.as_array().into_iter().flatten().map(Check::read).collect();
        Self { name: name_of(dir_name).to_owned(), checks }
    }

    /// Combines all checks.
    pub(crate) fn outcome(&self) -> Outcome {
        let any = |status: &str| self.checks.iter().any(|check| check.status == status);
        if self.checks.iter().any(Check::is_failure) {
            Outcome::Failed
        } else if any("SUCCESS") {
            Outcome::Passed
        } else if any("SKIPPED") {
            Outcome::Skipped
        } else {
            Outcome::Failed
        }
    }
}

impl Check {
    fn read(check: &Value) -> Self {
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        Self { id: text("id"), status: text("status"), error_message: text("errorMessage") }
    }

    /// Whether it is a failure, or a warning about an unmet SHOULD.
    fn is_failure(&self) -> bool {
        !matches!(&*self.status, "SUCCESS" | "SKIPPED" | "INFO")
    }
}

/// One line, and one more for each failed check.
impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.checks.iter().filter(|check| check.status == "SUCCESS").count();
        match self.outcome() {
            Outcome::Passed => write!(formatter, "passed   {} (checks: {passed})", self.name),
            Outcome::Skipped => write!(formatter, "skipped  {} by the suite itself", self.name),
            Outcome::Failed if self.checks.is_empty() => {
                write!(formatter, "FAILED   {} without any check", self.name)
            }
            Outcome::Failed => {
                write!(formatter, "FAILED   {} (checks passed: {passed})", self.name)
            }
        }?;
        for check in self.checks.iter().filter(|check| check.is_failure()) {
            write!(formatter, "\n         {} {}: {}", check.status, check.id, check.error_message)?;
        }
        Ok(())
    }
}

/// Returns the name between `server-` and the time, as in `-2026-01-31T23-59-59-999Z`.
fn name_of(dir_name: &str) -> &str {
    let inner = dir_name.strip_prefix("server-").unwrap_or(dir_name);
    let time = "-2026-01-31T23-59-59-999Z".len();
    inner.len().checked_sub(time).and_then(|end| inner.get(..end)).unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(checks: &Value) -> Scenario {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("server-tools-list-2026-01-31T23-59-59-999Z");
        std::fs::create_dir(&inner).expect("the directory is writable");
        std::fs::write(inner.join("checks.json"), checks.to_string())
            .expect("the file is writable");
        Scenario::read(&inner)
    }

    #[test]
    fn scenario_with_successful_checks_passes() {
        let passed = scenario(&json!([
            { "id": "incoming", "status": "INFO" },
            { "id": "tools-list", "status": "SUCCESS" },
        ]));
        assert_eq!((passed.name.as_str(), passed.outcome()), ("tools-list", Outcome::Passed));
        assert_eq!(passed.to_string(), "passed   tools-list (checks: 1)");
    }

    #[test]
    fn scenario_with_warning_fails_with_its_reason() {
        let warned = scenario(&json!([
            { "id": "tools-list", "status": "SUCCESS" },
            { "id": "retry", "status": "WARNING", "errorMessage": "no retry was sent" },
        ]));
        assert_eq!(warned.outcome(), Outcome::Failed);
        assert!(warned.to_string().ends_with("WARNING retry: no retry was sent"), "{warned}");
    }

    #[test]
    fn scenario_without_checks_does_not_pass() {
        assert_eq!(scenario(&json!([])).outcome(), Outcome::Failed);
        assert_eq!(
            scenario(&json!([{ "id": "incoming", "status": "INFO" }])).outcome(),
            Outcome::Failed
        );
        let skipped = json!([{ "id": "later", "status": "SKIPPED" }]);
        assert_eq!(scenario(&skipped).outcome(), Outcome::Skipped);
    }
}
