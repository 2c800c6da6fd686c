//! Sizes of files and functions.
//!
//! A file of `src` or `loadtest` counts its lines outside inline tests; a file of tests counts all.

use crate::Finding;
use crate::source::Source;

/// Production lines of one file, at most.
const FILE_LINES_MAX: usize = 700;
/// Lines of one function from `fn` to its closing brace, at most.
const FUNCTION_LINES_MAX: usize = 70;

/// Finds files and functions that are too long.
pub(crate) fn check(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = if file.path.starts_with("src/") || file.path.starts_with("loadtest/") {
        file.production_lines()
    } else {
        file.text.lines().count()
    };
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines; split it below {FILE_LINES_MAX}");
        findings.push(Finding::new(&file.path, lines, message));
    }
    for index in 0..file.tokens.len() {
        let Some(lines) = function_lines(file, index) else {
            continue;
        };
        if lines > FUNCTION_LINES_MAX {
            let name = file.word(index + 1);
            let message =
                format!("`{name}` has {lines} lines; split it below {FUNCTION_LINES_MAX}");
            findings.push(Finding::new(&file.path, file.tokens[index].line, message));
        }
    }
    findings
}

/// The lines of the function whose `fn` stands at `index`.
fn function_lines(file: &Source, index: usize) -> Option<usize> {
    if file.word(index) != "fn" || file.word(index + 1) == "(" {
        return None;
    }
    let mut at = index;
    loop {
        match file.word(at) {
            "" | ";" => return None,
            "(" | "[" => at = file.closing(at) + 1,
            "{" => break,
            _ => at += 1,
        }
    }
    Some(file.tokens[file.closing(at)].line + 1 - file.tokens[index].line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_file_is_found_without_its_inline_tests() {
        let body = "// line\n".repeat(FILE_LINES_MAX);
        assert!(check(&Source::new("src/x.rs", &body)).is_empty());
        assert_eq!(check(&Source::new("src/x.rs", &format!("{body}// more\n"))).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{body}}}\n");
        assert!(check(&Source::new("src/x.rs", &tests)).is_empty());
        assert_eq!(check(&Source::new("tests/x.rs", &tests)).len(), 1);
    }

    #[test]
    fn long_function_is_found_at_first_line() {
        let body = "    a();\n".repeat(FUNCTION_LINES_MAX - 2);
        let fits = format!("\nfn fits(a: [u8; 4]) {{\n{body}}}\n");
        assert!(check(&Source::new("src/x.rs", &fits)).is_empty());
        let grown = fits.replace("{\n", "{\n    b();\n");
        let found = check(&Source::new("src/x.rs", &grown));
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(found[0].message.contains("`fits` has 71 lines"));
    }

    #[test]
    fn function_types_and_declarations_have_no_body() {
        let text = "type A = fn(u8) -> u8;\ntrait B { fn c(&self); }\nstruct D {}\n";
        assert!(check(&Source::new("src/x.rs", text)).is_empty());
    }
}
