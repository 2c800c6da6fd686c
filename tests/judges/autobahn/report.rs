//! Results of cases, read from the report files of the suite.
//!
//! `index.json` has the result of each agent and case and the file of its report, which describes
//! the expected and the actual behaviour.

use std::fmt;
use std::path::Path;

use serde_json::Value;

/// One case and its result.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// `OK`, `INFORMATIONAL`, `NON-STRICT`, `UNIMPLEMENTED` or `FAILED`.
    behavior: String,
    /// The same for the closing handshake, also `UNCLEAN` or `WRONG CODE`.
    closing: String,
    /// Descriptions of both.
    descriptions: [String; 2],
}

impl Case {
    /// Reads all cases, sorted by number.
    pub(crate) fn read_all(dir: &Path) -> Vec<Self> {
        let index = read(&dir.join("index.json"));
        let agents = index.as_object().into_iter().flatten();
        let of_agents = agents.filter_map(|(_, cases)| cases.as_object());
        let mut cases: Vec<Self> =
            of_agents.flatten().map(|(id, facts)| Self::read(id, facts, dir)).collect();
        cases.sort_by_key(Self::number);
        cases
    }

    fn read(id: &str, facts: &Value, dir: &Path) -> Self {
        let word = |facts: &Value, key: &str| facts[key].as_str().unwrap_or_default().to_owned();
        let details = read(&dir.join(word(facts, "reportfile")));
        Self {
            id: id.to_owned(),
            behavior: word(facts, "behavior"),
            closing: word(facts, "behaviorClose"),
            descriptions: ["result", "resultClose"].map(|key| word(&details, key)),
        }
    }

    /// Whether the case and its closing handshake passed.
    pub(crate) fn is_passed(&self) -> bool {
        [&self.behavior, &self.closing]
            .iter()
            .all(|word| matches!(&***word, "OK" | "INFORMATIONAL"))
    }

    /// Whether the case, one of those that begin with `prefix`, passed later than preferred.
    pub(crate) fn is_late_but_passed(&self, prefix: &str) -> bool {
        let is_late = self.behavior == "NON-STRICT" && self.closing == "OK";
        is_late && self.id.starts_with(prefix)
    }

    fn number(&self) -> Vec<u32> {
        self.id.split('.').filter_map(|part| part.parse().ok()).collect()
    }
}

/// One line, and one more for each description.
impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}, closing {}", self.id, self.behavior, self.closing)?;
        for reason in &self.descriptions {
            write!(formatter, "\n    {reason}")?;
        }
        Ok(())
    }
}

/// Returns null for a missing or invalid file: the cases count as not run.
fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cases(index: &Value) -> Vec<Case> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let details = json!({ "result": "Echoed late.", "resultClose": "Closed." });
        let files = [("index.json", index), ("late.json", &details)];
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content.to_string())
                .expect("the file is writable");
        }
        Case::read_all(dir.path())
    }

    fn case(behavior: &str, closing: &str) -> Value {
        json!({ "behavior": behavior, "behaviorClose": closing, "reportfile": "late.json" })
    }

    #[test]
    fn case_passes_if_behavior_and_closing_pass() {
        for passing in ["OK", "INFORMATIONAL"] {
            for failing in ["NON-STRICT", "UNIMPLEMENTED", "FAILED", "UNCLEAN", "WRONG CODE", ""] {
                let index = json!({ "corelane": {
                    "1.1.1": case(passing, "OK"),
                    "1.1.2": case(failing, "OK"),
                    "1.1.3": case(passing, failing),
                }});
                let passed: Vec<bool> = cases(&index).iter().map(Case::is_passed).collect();
                assert_eq!(passed, [true, false, false], "{passing}, {failing}");
            }
        }
    }

    #[test]
    fn cases_are_sorted_by_number() {
        let ids = ["10.1.1", "1.1.10", "1.1.9", "7.9.1"];
        let results: serde_json::Map<String, Value> =
            ids.iter().map(|id| ((*id).to_owned(), case("OK", "OK"))).collect();
        let read = cases(&json!({ "corelane": results }));
        let read: Vec<&str> = read.iter().map(|case| &*case.id).collect();
        assert_eq!(read, ["1.1.9", "1.1.10", "7.9.1", "10.1.1"]);
    }

    #[test]
    fn case_display_includes_descriptions() {
        let index = json!({ "corelane": { "6.4.1": case("NON-STRICT", "OK") } });
        let shown = cases(&index)[0].to_string();
        assert_eq!(shown, "6.4.1 NON-STRICT, closing OK\n    Echoed late.\n    Closed.");
    }

    #[test]
    fn missing_report_means_no_cases() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert!(Case::read_all(dir.path()).is_empty());
    }
}
