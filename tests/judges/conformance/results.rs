//! Results of scenarios, read from the `checks.json` that the suite writes for each, and from what
//! the client has written to standard error.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One scenario and its checks.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    checks: Vec<Check>,
    /// Why the client failed; empty for a scenario of the server.
    client_error: String,
}

/// Outcome of a scenario.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// Every check passed.
    Passed,
    /// The suite skipped it.
    Skipped,
    /// A check failed or warned, or there is no check, or the client failed.
    Failed,
}

#[derive(Debug)]
struct Check {
    id: String,
    status: String,
    error_message: String,
}

impl Scenario {
    /// Reads the scenarios of a run in the order of their names.
    pub(crate) fn read_all(results: &Path) -> Vec<Self> {
        let mut scenarios = Vec::new();
        for dir in subdirectories(results) {
            // The name of a scenario may have a slash.
            let inner = subdirectories(&dir);
            let dirs = if inner.is_empty() { vec![dir] } else { inner };
            scenarios.extend(dirs.iter().map(|dir| Self::read(results, dir)));
        }
        scenarios
    }

    /// Reads `server-NAME-TIME/checks.json` or `NAME-TIME/checks.json`.
    fn read(results: &Path, dir: &Path) -> Self {
        let dir_name = dir.strip_prefix(results).ok().and_then(Path::to_str).unwrap_or_default();
        let client_error = std::fs::read_to_string(dir.join("stderr.txt")).unwrap_or_default();
        let checks = std::fs::read_to_string(dir.join("checks.json")).unwrap_or_default();
        let checks: Value = serde_json::from_str(&checks).unwrap_or_default();
        let checks = checks.as_array().into_iter().flatten().map(Check::read).collect();
        Self { name: name_of(dir_name).to_owned(), checks, client_error }
    }

    /// Returns what did not pass: `NAME:CHECK` for each failed check, or `NAME` without any.
    pub(crate) fn failures(&self) -> Vec<String> {
        if self.outcome() == Outcome::Passed {
            return Vec::new();
        }
        let failed = self.checks.iter().filter(|check| check.is_failure());
        let failed: Vec<String> =
            failed.map(|check| format!("{}:{}", self.name, check.id)).collect();
        if failed.is_empty() { vec![self.name.clone()] } else { failed }
    }

    /// Combines all checks.
    pub(crate) fn outcome(&self) -> Outcome {
        let any = |status: &str| self.checks.iter().any(|check| check.status == status);
        if !self.client_error.is_empty() || self.checks.iter().any(Check::is_failure) {
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

/// One line, and one more for each failed check and for the error of the client.
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
        if !self.client_error.is_empty() {
            write!(formatter, "\n         client: {}", self.client_error.trim_end())?;
        }
        Ok(())
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().expect("the directory can be read");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut dirs: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs
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
        scenario_in("server-tools-list", checks, "")
    }

    fn scenario_in(dir_name: &str, checks: &Value, client_error: &str) -> Scenario {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join(format!("{dir_name}-2026-01-31T23-59-59-999Z"));
        std::fs::create_dir_all(&inner).expect("the directory is writable");
        let write = |name, text: &str| std::fs::write(inner.join(name), text);
        write("checks.json", &checks.to_string()).expect("the file is writable");
        write("stderr.txt", client_error).expect("the file is writable");
        let mut scenarios = Scenario::read_all(dir.path());
        assert_eq!(scenarios.len(), 1);
        scenarios.remove(0)
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
        assert_eq!(warned.failures(), ["tools-list:retry"]);
        assert!(warned.to_string().ends_with("WARNING retry: no retry was sent"), "{warned}");
    }

    #[test]
    fn scenario_of_failed_client_fails() {
        let checks = json!([{ "id": "metadata", "status": "SUCCESS" }]);
        let passed = scenario_in("auth/metadata-default", &checks, "");
        assert_eq!(passed.name, "auth/metadata-default");
        assert_eq!(passed.outcome(), Outcome::Passed);
        let failed = scenario_in("initialize", &checks, "Error: no connection\n");
        assert_eq!(failed.outcome(), Outcome::Failed);
        assert!(failed.to_string().ends_with("client: Error: no connection"), "{failed}");
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
        assert_eq!(scenario(&skipped).failures(), ["tools-list"]);
    }
}
