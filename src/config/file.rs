//! The TOML file becomes assignments.
//!
//! What it keeps true: every key of the file is either an assignment of a known option, with its
//! line, or a problem; nothing is ignored. Values are not judged here, only their TOML kind is
//! turned into the text that flags and environment would carry.

use toml::de::{DeTable, DeValue};

use crate::config::problem::{Problem, Refusal, Source};
use crate::config::suggest::nearest;
use crate::config::table::{self, Row};
use crate::config::unit::Unit;
use crate::config::value;

/// One option with the text that somebody gave it.
#[derive(Debug)]
pub struct Assignment {
    /// The option.
    pub row: &'static Row,
    /// The text.
    pub text: String,
    /// Who gave it.
    pub source: Source,
}

/// Reads the text of the file called `path`. Problems are added to `problems`; the assignments
/// that could be read come back all the same.
pub fn read(path: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<Assignment> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { path, text, problems, assignments: Vec::new() };
    for error in &errors {
        let line = error.span().map(|span| reader.line(span.start));
        let source = Source::File { path: path.to_owned(), line };
        let refusal = Refusal::new(error.message(), "the file is written in TOML 1.1");
        reader.problems.push(Problem::new(source, "", refusal));
    }
    // A broken line leaves guesses behind; what is wrong with those would only mislead.
    if errors.is_empty() {
        reader.table("", document.get_ref());
    }
    reader.assignments
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    problems: &'a mut Vec<Problem>,
    assignments: Vec<Assignment>,
}

impl Reader<'_> {
    /// Reads the table that stands under `prefix` (empty, or with a dot at its end), in the order
    /// of its lines.
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            let key = format!("{prefix}{}", name.get_ref());
            let source = self.source(name.span().start);
            match (table::find(&key), value.get_ref()) {
                (Some(row), value) => match text_of(value, row) {
                    Ok(text) => self.assignments.push(Assignment { row, text, source }),
                    Err(refusal) => self.problems.push(Problem::new(source, key, refusal)),
                },
                (None, DeValue::Table(inner)) if is_section(&key) => {
                    self.table(&format!("{key}."), inner);
                }
                (None, value) => {
                    let refusal = unknown(&key, value);
                    self.problems.push(Problem::new(source, key, refusal));
                }
            }
        }
    }

    fn source(&self, offset: usize) -> Source {
        Source::File { path: self.path.to_owned(), line: Some(self.line(offset)) }
    }

    fn line(&self, offset: usize) -> usize {
        line_after(&self.text.as_bytes()[..offset.min(self.text.len())])
    }
}

/// The line, from 1, on which the byte after `before` stands.
pub fn line_after(before: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// Whether some option's key goes on after `key`.
fn is_section(key: &str) -> bool {
    table::rows().any(|row| row.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// The refusal of a key that is no option.
fn unknown(key: &str, value: &DeValue<'_>) -> Refusal {
    if is_section(key) {
        return Refusal::new(
            format!("this is a section, not {}", kind_of(value)),
            format!("write its options under [{key}]"),
        );
    }
    if matches!(value, DeValue::Table(_)) {
        let sections = table::rows().filter_map(|row| row.key.split_once('.'));
        return match nearest(key, sections.map(|(section, _)| section)) {
            Some(section) => Refusal::new("no such section", format!("did you mean [{section}]?")),
            None => Refusal::new("no such section", "`corelane check` shows every option"),
        };
    }
    match nearest(key, table::rows().map(|row| row.key)) {
        Some(known) => Refusal::new("no such option", format!("did you mean {known}?")),
        None => Refusal::new("no such option", "`corelane check` shows every option"),
    }
}

/// The text that a flag would carry for `value`.
fn text_of(value: &DeValue<'_>, row: &Row) -> Result<String, Refusal> {
    let refused = || {
        Refusal::new(
            format!("expects {}, found {}", row.unit.noun(), kind_of(value)),
            row.unit.shape(),
        )
    };
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(switch) if row.unit == Unit::Switch => Ok(switch.to_string()),
        // A revision without quotes is a date to TOML.
        DeValue::Datetime(date) if matches!(row.unit, Unit::Choice(_)) => Ok(date.to_string()),
        DeValue::Integer(number) if row.unit != Unit::Directory && !row.unit.is_names() => {
            i128::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| row.unit.out_of_range(number.as_str()))
        }
        DeValue::Array(items) if matches!(row.unit, Unit::Cpus { .. }) => {
            let texts: Result<Vec<String>, Refusal> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::Integer(number) => Ok(number.to_string()),
                    DeValue::String(text) => Ok(text.to_string()),
                    _ => Err(refused()),
                })
                .collect();
            texts.map(|texts| texts.join(","))
        }
        DeValue::Array(items) if row.unit.is_names() => {
            let names: Option<Vec<&str>> =
                items.iter().map(|item| item.get_ref().as_str()).collect();
            match names.ok_or_else(refused)?.join(",") {
                text if items.is_empty() => Ok(text + value::DEFAULT),
                text => Ok(text),
            }
        }
        _ => Err(refused()),
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
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
