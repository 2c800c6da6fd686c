//! Parses the TOML file into assignments.
//!
//! Invariants: every key of the file becomes an assignment of a known option, with its line, or an
//! error. Values are converted to the text a flag would carry and validated later.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::config::issue::{ConfigIssue, Diagnostic, Source};
use crate::config::read::raw_value::{Assignment, RawValue, is_section, unknown_key};
use crate::config::table::{self, Row};
use crate::config::unit::Unit;
use crate::config::value;

/// Parses the `text` of the file called `path`. Errors are appended to `problems`; the assignments
/// without errors are returned.
pub fn read(path: &str, text: &str, problems: &mut Vec<ConfigIssue>) -> Vec<Assignment> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { path, text, problems, assignments: Vec::new() };
    for error in &errors {
        let line = error.span().map(|span| reader.line(span.start));
        let source = Source::File { path: path.to_owned(), line };
        let diagnostic = Diagnostic::new(error.message(), "the file is written in TOML 1.1");
        reader.problems.push(ConfigIssue::new(source, "", diagnostic));
    }
    // After a syntax error the recovered keys are guesses; errors about them would mislead.
    if errors.is_empty() {
        reader.read_table("", document.get_ref());
    }
    reader.assignments
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    problems: &'a mut Vec<ConfigIssue>,
    assignments: Vec<Assignment>,
}

impl Reader<'_> {
    /// Reads the table under `prefix` (empty, or ending in a dot), in the order of its lines.
    fn read_table(&mut self, prefix: &str, table: &DeTable<'_>) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            let key = format!("{prefix}{}", name.get_ref());
            if is_declaration(&key) {
                continue;
            }
            let source = self.source(name.span().start);
            match (table::find(&key), value.get_ref()) {
                (Some(row), value) => match raw_value(value).to_text(row) {
                    Ok(text) => {
                        let text = self.path_from_file(row, text);
                        self.assignments.push(Assignment { row, text, source });
                    }
                    Err(diagnostic) => {
                        self.problems.push(ConfigIssue::new(source, key, diagnostic));
                    }
                },
                (None, DeValue::Table(inner)) if is_section(&key) => {
                    self.read_table(&format!("{key}."), inner);
                }
                (None, value) => {
                    let diagnostic = unknown_key(&key, &raw_value(value));
                    self.problems.push(ConfigIssue::new(source, key, diagnostic));
                }
            }
        }
    }

    /// Returns the value of an option that names files with relative paths joined to the folder of
    /// the configuration file.
    fn path_from_file(&self, row: &Row, text: String) -> String {
        let folder = Path::new(self.path).parent().filter(|it| !it.as_os_str().is_empty());
        let Some(folder) = folder else { return text };
        let join = |path: &str| match path {
            "" | "off" | value::DEFAULT => path.to_owned(),
            path => folder.join(path).to_string_lossy().into_owned(),
        };
        match row.unit {
            Unit::Directory | Unit::File => join(&text),
            Unit::Files => text.split(',').map(join).collect::<Vec<_>>().join(","),
            _ => text,
        }
    }

    fn source(&self, offset: usize) -> Source {
        Source::File { path: self.path.to_owned(), line: Some(self.line(offset)) }
    }

    fn line(&self, offset: usize) -> usize {
        line_number_after(&self.text.as_bytes()[..offset.min(self.text.len())])
    }
}

/// Returns the number, from 1, of the line of the byte after `before`.
pub fn line_number_after(before: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// Returns whether `key` is a list of declarations, which [`crate::declared`] reads.
#[cfg(feature = "declared")]
fn is_declaration(key: &str) -> bool {
    crate::declared::KINDS.contains(&key)
}

/// Returns whether `key` is a list of declarations, which this build does not have.
#[cfg(not(feature = "declared"))]
const fn is_declaration(_: &str) -> bool {
    false
}

fn raw_value<'a>(value: &'a DeValue<'a>) -> RawValue<'a> {
    match value {
        DeValue::String(text) => RawValue::Text(text),
        DeValue::Integer(number) => RawValue::Integer {
            written: number.as_str().to_owned(),
            number: i128::from_str_radix(number.as_str(), number.radix()).ok(),
        },
        DeValue::Float(number) => RawValue::Fraction(number.as_str().to_owned()),
        DeValue::Boolean(switch) => RawValue::Switch(*switch),
        DeValue::Datetime(date) => RawValue::Date(date.to_string()),
        DeValue::Array(items) => {
            RawValue::List(items.iter().map(|item| raw_value(item.get_ref())).collect())
        }
        DeValue::Table(_) => RawValue::Section,
    }
}
