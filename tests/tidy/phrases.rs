//! Phrases that comments, documents and user-visible text do not use.
//!
//! Every text file is searched, code and prose alike, without regard to case. A phrase of one word
//! matches whole words only.

use crate::Finding;

/// Phrases, each with what to write instead.
const BANNED: [(&str, &str); 25] = [
    ("a bad day", "name the fault"),
    ("bad days", "name the faults"),
    ("down the road", "to the dispatcher"),
    ("hears of", "is notified of, receives"),
    ("is told", "is sent, is notified, is logged"),
    ("are told", "are sent, are notified"),
    ("it keeps true", "`Invariants:`"),
    ("is none of", "say what it is"),
    ("lets go", "drops, closes, releases"),
    ("let go of", "dropped, closed, released"),
    ("nobody", "the subject that does not act, or leave the sentence out"),
    ("of ours", "say whose it is by name"),
    ("on the road", "in dispatch"),
    ("our own counterpart", "the test client"),
    ("seed 000", "the rule itself, or an MCP page or RFC section"),
    ("seed 001", "the rule itself, or an MCP page or RFC section"),
    ("seed 002", "the rule itself, or an MCP page or RFC section"),
    ("seed 004", "the rule itself, or an MCP page or RFC section"),
    ("shuts a door", "disables the listener"),
    ("sign of life", "ping"),
    ("state table", "the rule itself"),
    ("the road", "the request path, the dispatcher"),
    ("transport contract", "the rule itself, or an MCP page or RFC section"),
    ("what is none", "say what it is"),
    ("whoever", "the subject by its name"),
];

/// The one file that spells them.
const TABLE: &str = "tests/tidy/phrases.rs";

/// Finds banned phrases in a text.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path == TABLE {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, instead) in BANNED {
            if has_phrase(&line, phrase) {
                let message = format!("not \"{phrase}\"; write {instead}");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether `line` holds `phrase` with no letter or digit directly before or after it.
fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_is_found_with_its_line() {
        for (phrase, instead) in BANNED {
            let found = check("src/x.rs", &format!("\n// So {}.\n", phrase.to_uppercase()));
            assert!(
                found.iter().any(|it| it.line == 2 && it.message.ends_with(instead)),
                "{phrase}"
            );
        }
    }

    #[test]
    fn part_of_a_word_passes() {
        assert!(check("src/x.rs", "// is toldable, kind the roads take\n").is_empty());
    }
}
