//! The files that transcripts are held against.

use std::fs;
use std::path::{Path, PathBuf};

/// Holds a transcript against its golden file, or writes the file where that was asked for.
pub(crate) fn hold(feature: &str, revision: &str, transcript: &str) -> Result<(), String> {
    let path = folder().join(revision).join(format!("{feature}.txt"));
    #[expect(clippy::disallowed_methods, reason = "a person asks for new files by the environment")]
    if std::env::var_os("TRANSCRIPTS").is_some_and(|wanted| wanted == "write") {
        write(&path, transcript);
        return Ok(());
    }
    let golden = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; TRANSCRIPTS=write makes it", path.display()))?;
    match difference(&golden, transcript) {
        Some(difference) => Err(format!("{}: {difference}", path.display())),
        None => Ok(()),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/golden")
}

fn write(path: &Path, transcript: &str) {
    let folder = path.parent().expect("a golden file stands in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, transcript))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The first line in which two transcripts differ, as a person wants to see it.
pub(crate) fn difference(expected: &str, said: &str) -> Option<String> {
    let (mut expected_lines, mut said_lines) = (expected.lines(), said.lines());
    for number in 1.. {
        let (expected, said) = (expected_lines.next(), said_lines.next());
        if expected == said {
            expected?;
            continue;
        }
        let [expected, said] = [expected, said].map(|line| line.unwrap_or("(the end)"));
        return Some(format!("line {number}\n  expected: {expected}\n  said:     {said}"));
    }
    None
}
