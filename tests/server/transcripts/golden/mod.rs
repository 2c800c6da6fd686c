//! Golden files: comparison and update.

use std::fs;
use std::path::{Path, PathBuf};

/// Compares a transcript with its golden file, or writes the file with `TRANSCRIPTS=write`.
pub(crate) fn compare(feature: &str, revision: &str, transcript: &str) -> Result<(), String> {
    let path = golden_dir().join(revision).join(format!("{feature}.txt"));
    #[expect(clippy::disallowed_methods, reason = "an environment variable requests new files")]
    if std::env::var_os("TRANSCRIPTS").is_some_and(|value| value == "write") {
        write(&path, transcript);
        return Ok(());
    }
    let golden = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; TRANSCRIPTS=write creates it", path.display()))?;
    match difference(&golden, transcript) {
        Some(difference) => Err(format!("{}: {difference}", path.display())),
        None => Ok(()),
    }
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/transcripts/golden")
}

fn write(path: &Path, transcript: &str) {
    let dir = path.parent().expect("a golden file is in a directory");
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(path, transcript))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Describes the first line in which two transcripts differ.
pub(crate) fn difference(expected: &str, actual: &str) -> Option<String> {
    let (mut expected_lines, mut actual_lines) = (expected.lines(), actual.lines());
    for number in 1.. {
        let (expected, actual) = (expected_lines.next(), actual_lines.next());
        if expected == actual {
            expected?;
            continue;
        }
        let [expected, actual] = [expected, actual].map(|line| line.unwrap_or("(end)"));
        return Some(format!("line {number}\n  expected: {expected}\n  actual:   {actual}"));
    }
    None
}
