//! Parses the TOML file into assignments.
//!
//! Invariants: every key of the file becomes an assignment of a known option, with its line, or an
//! error. Values are converted to the text a flag would carry and validated later.

use toml::de::{DeTable, DeValue};

use crate::config::issue::{ConfigIssue, Diagnostic, Source};
use crate::config::suggest::nearest;
use crate::config::table::{self, Row};
use crate::config::unit::Unit;
use crate::config::value;

/// Text assigned to an option, and where it was set.
#[derive(Debug)]
pub struct Assignment {
    /// The option.
    pub row: &'static Row,
    /// Text of the value, as a flag carries it.
    pub text: String,
    /// Where the value was set.
    pub source: Source,
}

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
            let source = self.source(name.span().start);
            match (table::find(&key), value.get_ref()) {
                (Some(row), value) => match value_to_text(value, row) {
                    Ok(text) => self.assignments.push(Assignment { row, text, source }),
                    Err(diagnostic) => {
                        self.problems.push(ConfigIssue::new(source, key, diagnostic));
                    }
                },
                (None, DeValue::Table(inner)) if is_section(&key) => {
                    self.read_table(&format!("{key}."), inner);
                }
                (None, value) => {
                    let diagnostic = unknown_key(&key, value);
                    self.problems.push(ConfigIssue::new(source, key, diagnostic));
                }
            }
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

/// Returns whether `key` is a section: the prefix of some option's key.
fn is_section(key: &str) -> bool {
    table::rows().any(|row| row.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

fn unknown_key(key: &str, value: &DeValue<'_>) -> Diagnostic {
    if is_section(key) {
        return Diagnostic::new(
            format!("this is a section, not {}", type_name_of(value)),
            format!("write its options under [{key}]"),
        );
    }
    if matches!(value, DeValue::Table(_)) {
        let sections = table::rows().filter_map(|row| row.key.split_once('.'));
        return match nearest(key, sections.map(|(section, _)| section)) {
            Some(section) => {
                Diagnostic::new("no such section", format!("did you mean [{section}]?"))
            }
            None => Diagnostic::new("no such section", "`corelane check --all` shows every option"),
        };
    }
    match nearest(key, table::rows().map(|row| row.key)) {
        Some(known) => Diagnostic::new("no such option", format!("did you mean {known}?")),
        None => Diagnostic::new("no such option", "`corelane check --all` shows every option"),
    }
}

/// Converts `value` to the text that a flag would carry.
fn value_to_text(value: &DeValue<'_>, row: &Row) -> Result<String, Diagnostic> {
    let wrong_type = || {
        Diagnostic::new(
            format!("expects {}, found {}", row.unit.type_name(), type_name_of(value)),
            row.unit.notation(),
        )
    };
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(switch) if row.unit == Unit::Switch => Ok(switch.to_string()),
        // TOML parses a revision without quotes as a date.
        DeValue::Datetime(date) if matches!(row.unit, Unit::Choice(_)) => Ok(date.to_string()),
        DeValue::Integer(number) if row.unit != Unit::Directory && !row.unit.is_name_list() => {
            i128::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| row.unit.out_of_range(number.as_str()))
        }
        DeValue::Array(items) if matches!(row.unit, Unit::Cpus { .. }) => {
            let texts: Result<Vec<String>, Diagnostic> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::Integer(number) => Ok(number.to_string()),
                    DeValue::String(text) => Ok(text.to_string()),
                    _ => Err(wrong_type()),
                })
                .collect();
            texts.map(|texts| texts.join(","))
        }
        DeValue::Array(items) if row.unit.is_name_list() => {
            let names: Option<Vec<&str>> =
                items.iter().map(|item| item.get_ref().as_str()).collect();
            match names.ok_or_else(wrong_type)?.join(",") {
                text if items.is_empty() => Ok(text + value::DEFAULT),
                text => Ok(text),
            }
        }
        _ => Err(wrong_type()),
    }
}

fn type_name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}
