//! What the suite found out about its cases, read from the files that it leaves.
//!
//! `index.json` has for each agent and case what the case came to and where its own report is; that
//! report tells in words what was expected and what came.

use std::fmt;
use std::path::Path;

use serde_json::Value;

/// One case, and what became of it.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// What the echo did in it: `OK`, `INFORMATIONAL`, `NON-STRICT`, `UNIMPLEMENTED`, `FAILED`.
    behavior: String,
    /// How its connection ended, in the same words or `UNCLEAN` or `WRONG CODE`.
    ending: String,
    /// Both in the suite's sentences.
    reasons: [String; 2],
}

impl Case {
    /// Reads the cases of the one agent that was tested, in the order of their numbers.
    pub(crate) fn read_all(folder: &Path) -> Vec<Self> {
        let index = read(&folder.join("index.json"));
        let agents = index.as_object().into_iter().flatten();
        let of_agents = agents.filter_map(|(_, cases)| cases.as_object());
        let mut cases: Vec<Self> =
            of_agents.flatten().map(|(id, facts)| Self::read(id, facts, folder)).collect();
        cases.sort_by_key(Self::number);
        cases
    }

    fn read(id: &str, facts: &Value, folder: &Path) -> Self {
        let word = |facts: &Value, key: &str| facts[key].as_str().unwrap_or_default().to_owned();
        let details = read(&folder.join(word(facts, "reportfile")));
        Self {
            id: id.to_owned(),
            behavior: word(facts, "behavior"),
            ending: word(facts, "behaviorClose"),
            reasons: ["result", "resultClose"].map(|key| word(&details, key)),
        }
    }

    /// Whether it went as it should, its ending too.
    pub(crate) fn is_passed(&self) -> bool {
        [&self.behavior, &self.ending].iter().all(|word| matches!(&***word, "OK" | "INFORMATIONAL"))
    }

    fn number(&self) -> Vec<u32> {
        self.id.split('.').filter_map(|part| part.parse().ok()).collect()
    }
}

/// One line, and one more for each reason.
impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}, its ending {}", self.id, self.behavior, self.ending)?;
        for reason in &self.reasons {
            write!(formatter, "\n    {reason}")?;
        }
        Ok(())
    }
}

/// Nothing where there is no such file or it is no JSON: a case that is not told of was not played.
fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cases(index: &Value) -> Vec<Case> {
        let folder = tempfile::tempdir().expect("a folder for a moment");
        let details = json!({ "result": "Echoed late.", "resultClose": "Closed." });
        let files = [("index.json", index), ("late.json", &details)];
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content.to_string()).expect("it is writable");
        }
        Case::read_all(folder.path())
    }

    fn case(behavior: &str, ending: &str) -> Value {
        json!({ "behavior": behavior, "behaviorClose": ending, "reportfile": "late.json" })
    }

    #[test]
    fn a_case_passes_where_both_it_and_its_ending_do() {
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
    fn cases_stand_in_the_order_of_their_numbers() {
        let ids = ["10.1.1", "1.1.10", "1.1.9", "7.9.1"];
        let played: serde_json::Map<String, Value> =
            ids.iter().map(|id| ((*id).to_owned(), case("OK", "OK"))).collect();
        let read = cases(&json!({ "corelane": played }));
        let read: Vec<&str> = read.iter().map(|case| &*case.id).collect();
        assert_eq!(read, ["1.1.9", "1.1.10", "7.9.1", "10.1.1"]);
    }

    #[test]
    fn a_case_tells_what_the_suite_says_of_it() {
        let index = json!({ "corelane": { "6.4.1": case("NON-STRICT", "OK") } });
        let told = cases(&index)[0].to_string();
        assert_eq!(told, "6.4.1 NON-STRICT, its ending OK\n    Echoed late.\n    Closed.");
    }

    #[test]
    fn a_suite_that_left_nothing_has_played_nothing() {
        let folder = tempfile::tempdir().expect("a folder for a moment");
        assert!(Case::read_all(folder.path()).is_empty());
    }
}
