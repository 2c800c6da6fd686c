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
    if golden == transcript {
        return Ok(());
    }
    Err(first_difference(&path, &golden, transcript))
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
fn first_difference(path: &Path, golden: &str, transcript: &str) -> String {
    let mut said = transcript.lines();
    let mut expected = golden.lines();
    let mut line = 0;
    loop {
        line += 1;
        let (said, expected) = (said.next(), expected.next());
        if said != expected || said.is_none() {
            let end = "(the end)";
            return format!(
                "{}:{line}\n  golden: {}\n  said:   {}",
                path.display(),
                expected.unwrap_or(end),
                said.unwrap_or(end)
            );
        }
    }
}
