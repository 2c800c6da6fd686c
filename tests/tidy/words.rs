//! Code that is not used, each with what to use instead.
//!
//! Only code is searched, not comments and strings; marks of unfinished work are searched for in
//! every text.

use crate::Finding;
use crate::repository::Modules;
use crate::source::Source;

/// Where a row applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Where {
    /// In every Rust file.
    Everywhere,
    /// In `src` and `loadtest/src`, outside tests.
    Production,
    /// In `src`, tests included, and in `tests`.
    SourceAndTests,
}

/// A row of the table.
struct Banned {
    words: &'static [&'static str],
    place: Where,
    /// Files and folders that the row does not apply to.
    free: &'static [&'static str],
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned {
        words: &[".", "unwrap", "("],
        place: Where::Production,
        free: &[],
        instead: "handle the error, or `expect` with the invariant that makes it impossible",
    },
    Banned {
        words: &["todo", "!"],
        place: Where::Everywhere,
        free: &[],
        instead: "finish it, or leave it out",
    },
    Banned {
        words: &["unimplemented", "!"],
        place: Where::Everywhere,
        free: &[],
        instead: "finish it, or leave it out",
    },
    Banned {
        words: &["dbg", "!"],
        place: Where::Everywhere,
        free: &[],
        instead: "an event of `telemetry`",
    },
    Banned {
        words: &["println", "!"],
        place: Where::Production,
        free: &[],
        instead: "standard output carries only MCP: write to the stream that was handed in",
    },
    Banned {
        words: &["print", "!"],
        place: Where::Production,
        free: &[],
        instead: "standard output carries only MCP: write to the stream that was handed in",
    },
    Banned {
        words: &["eprintln", "!"],
        place: Where::Production,
        free: &["src/main.rs", "src/cli/", "loadtest/src/main.rs", "loadtest/src/cli/"],
        instead: "an event of `telemetry`; only the command line writes to standard error",
    },
    Banned {
        words: &["Instant", "::", "now"],
        place: Where::SourceAndTests,
        free: &["src/engine/clock.rs", "src/parity/check/deadline.rs"],
        instead: "time is an argument: take an `Instant`, or read it in engine/clock.rs",
    },
    Banned {
        words: &["SystemTime", "::", "now"],
        place: Where::SourceAndTests,
        free: &["src/engine/clock.rs"],
        instead: "time is an argument: take an `Instant`, or read it in engine/clock.rs",
    },
    Banned {
        words: &["thread", "::", "sleep"],
        place: Where::Everywhere,
        free: &["benches/", "loadtest/"],
        instead: "wait for the event itself",
    },
    Banned {
        words: &["super", "::", "super"],
        place: Where::Everywhere,
        free: &[],
        instead: "a path from `crate::`",
    },
    Banned {
        words: &["[", "allow", "("],
        place: Where::Everywhere,
        free: &[],
        instead: "`#[expect(lint, reason = \"…\")]`",
    },
    Banned {
        words: &["Box", "::", "leak"],
        place: Where::Production,
        free: &[],
        instead: "an owner that drops it",
    },
    Banned {
        words: &["process", "::", "exit"],
        place: Where::Production,
        free: &["src/main.rs", "src/cli/"],
        instead: "return an error: only the command line ends the process",
    },
];

/// Marks of unfinished work, spelled so that this file does not contain them.
const MARKS: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX")];

/// Finds banned code.
pub(crate) fn check(file: &Source, modules: &Modules) -> Vec<Finding> {
    // The modules of `loadtest` are not read: a file named `tests.rs` holds tests.
    let is_loadtest = file.path.starts_with("loadtest/src/") && !file.path.ends_with("/tests.rs");
    let is_production = is_loadtest || !modules.is_for_tests(&file.path);
    let mut findings = Vec::new();
    for banned in BANNED {
        if banned.free.iter().any(|free| file.path.starts_with(free)) {
            continue;
        }
        for index in 0..file.tokens.len() {
            let applies = match banned.place {
                Where::Everywhere => true,
                Where::Production => is_production && !file.in_test(index),
                Where::SourceAndTests => {
                    file.path.starts_with("src/") || file.path.starts_with("tests/")
                }
            };
            if applies && file.reads(index, banned.words) {
                let message = format!("`{}`: {}", banned.words.concat(), banned.instead);
                findings.push(Finding::new(&file.path, file.tokens[index].line, message));
            }
        }
    }
    findings
}

/// Finds marks of unfinished work in any text.
pub(crate) fn check_marks(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS.iter().filter(|&&mark| has_word(line, mark)) {
            let message = format!("`{mark}`: finish it, or file an issue and leave it out");
            findings.push(Finding::new(path, index + 1, message));
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source::new(path, text), &Modules::default()).len()
    }

    #[test]
    fn every_row_is_found_with_its_replacement() {
        for banned in BANNED {
            let file = Source::new("src/x.rs", &format!("\n{}", banned.words.concat()));
            let found = check(&file, &Modules::default());
            let matching = found.iter().filter(|found| found.message.contains(banned.instead));
            assert_eq!(matching.count(), 1, "{:?}", banned.words);
            assert!(found.iter().all(|found| found.line == 2), "{:?}", banned.words);
        }
    }

    #[test]
    fn exempt_file_passes() {
        assert_eq!(findings("src/engine/clock.rs", "Instant::now()"), 0);
        assert_eq!(findings("src/engine/shard.rs", "Instant::now()"), 1);
        assert_eq!(findings("benches/floor/main.rs", "Instant::now()"), 0);
        assert_eq!(findings("loadtest/src/main.rs", "eprintln!()"), 0);
        assert_eq!(findings("loadtest/src/plan/mod.rs", "eprintln!()"), 1);
    }

    #[test]
    fn tests_may_unwrap_but_not_sleep() {
        assert_eq!(findings("src/x.rs", "#[test]\nfn a() { b.unwrap() }"), 0);
        assert_eq!(findings("src/x.rs", "fn a() { b.unwrap() }"), 1);
        assert_eq!(findings("loadtest/src/x/tests.rs", "fn a() { b.unwrap() }"), 0);
        assert_eq!(findings("loadtest/src/x.rs", "fn a() { b.unwrap() }"), 1);
        assert_eq!(findings("tests/x.rs", "#[test]\nfn a() { std::thread::sleep(b) }"), 1);
    }

    #[test]
    fn comments_strings_and_longer_names_pass() {
        assert_eq!(findings("src/x.rs", "// dbg!\n\"todo!\"; b.unwrap_or(c); eprint_dbg;"), 0);
    }

    #[test]
    fn unfinished_work_is_found_in_every_text() {
        assert_eq!(check_marks("README.md", &format!("a\n{}: b", MARKS[0])).len(), 1);
        assert_eq!(check_marks("README.md", &format!("a{}b", MARKS[1])).len(), 0);
    }
}
