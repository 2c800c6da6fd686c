//! Layout of text files: headers, columns, white space, line ends, size.

use crate::Finding;
use crate::source::Source;

/// Columns of a line of code, at most.
const COLUMNS_MAX: usize = 100;
/// Bytes of one file of the repository, at most.
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Finds a Rust file that does not begin with a doc comment.
pub(crate) fn check_header(file: &Source) -> Option<Finding> {
    let first = file.text.lines().find(|line| !line.starts_with("#!/")).unwrap_or("");
    let has_text = first.strip_prefix("//! ").is_some_and(|header| header.contains(' '));
    (!has_text).then(|| {
        let message = "begin the file with `//!` and a sentence: what it holds";
        Finding::new(&file.path, 1, message)
    })
}

/// Finds trailing space, tabs, foreign ends of lines, wide lines and missing or doubled ends.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_code =
        ["rs", "py", "mjs", "ts", "js", "css", "html", "sh"].iter().any(|end| path.ends_with(end))
            || path.starts_with(".ci/");
    for (index, line) in text.split('\n').enumerate() {
        let mut find = |message: String| findings.push(Finding::new(path, index + 1, message));
        if line.ends_with('\r') {
            find("end the line with a line feed alone".to_owned());
        } else if line.ends_with([' ', '\t']) {
            find("remove the trailing space".to_owned());
        }
        let columns = line.chars().count();
        if is_code && columns > COLUMNS_MAX && !is_drawing(line) {
            find(format!("{columns} columns; break the line below {COLUMNS_MAX}"));
        }
        if is_code && line.contains('\t') {
            find("indent with spaces".to_owned());
        }
    }
    let is_generated = path.ends_with("package-lock.json");
    if !is_generated && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        let message = "end the file with exactly one line feed";
        findings.push(Finding::new(path, text.lines().count().max(1), message));
    }
    findings
}

/// A table row or a diagram in a doc comment: breaking it would break what it shows.
fn is_drawing(line: &str) -> bool {
    ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row)) || line.contains('─')
}

/// Finds files above the size limit.
pub(crate) fn check_weights<'a>(files: impl Iterator<Item = (&'a str, u64)>) -> Vec<Finding> {
    files
        .filter(|&(_, bytes)| bytes > FILE_BYTES_MAX)
        .map(|(path, bytes)| {
            let message = format!("{bytes} bytes; keep files below {FILE_BYTES_MAX}");
            Finding::new(path, 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_header_is_found() {
        let header = |text| check_header(&Source::new("src/x.rs", text)).is_some();
        assert!(header("use std::io;\n"));
        assert!(header("//! Slab\n"));
        assert!(header(""));
        assert!(!header("//! A slab whose keys know their generation.\n"));
    }

    #[test]
    fn bad_white_space_is_found_with_its_line() {
        let lines = |text| check("src/x.rs", text).into_iter().map(|found| found.line);
        assert!(lines("a\nb \nc\n").eq([2]));
        assert!(lines("a\r\n").eq([1]));
        assert!(lines("\ta\n").eq([1]));
        assert!(lines("a").eq([1]));
        assert!(lines("a\n\n").eq([1 + 1]));
        assert!(lines("a\n").eq([]));
    }

    #[test]
    fn wide_line_is_found_in_code_only() {
        let wide = format!("{}\n", "ü".repeat(COLUMNS_MAX + 1));
        assert_eq!(check("src/x.rs", &wide).len(), 1);
        assert!(check("README.md", &wide).is_empty());
        assert!(check("src/x.rs", &wide[2..]).is_empty());
    }

    #[test]
    fn large_file_is_found() {
        let files = [("a", FILE_BYTES_MAX), ("b", FILE_BYTES_MAX + 1)];
        assert_eq!(check_weights(files.into_iter()).len(), 1);
    }
}
