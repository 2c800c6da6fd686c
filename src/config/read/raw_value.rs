//! Values of structured input (TOML, or whatever a host program deserializes) as the texts that a
//! flag carries, and keys that name no option.

use crate::config::issue::{Diagnostic, Source};
use crate::config::table::{self, Row};
use crate::config::unit::{Unit, nearest};
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

/// A value of structured input.
#[derive(Clone, Debug)]
pub enum RawValue<'a> {
    /// A string.
    Text(&'a str),
    /// A number without a fraction, as decimal digits, if it fits 128 bits.
    Integer {
        /// The digits, as written.
        written: String,
        /// The number.
        number: Option<i128>,
    },
    /// A number with a fraction, as it is written.
    Fraction(String),
    /// `true` or `false`.
    Switch(bool),
    /// A date.
    Date(String),
    /// A list.
    List(Vec<Self>),
    /// A section with options.
    Section,
    /// JSON's `null`.
    Null,
}

impl RawValue<'_> {
    /// Returns the text that a flag of the option `row` would carry.
    ///
    /// # Errors
    ///
    /// The option expects another type.
    pub fn to_text(&self, row: &Row) -> Result<String, Diagnostic> {
        let wrong_type = || {
            Diagnostic::new(
                format!("expects {}, found {}", row.unit.type_name(), self.type_name()),
                row.unit.notation(),
            )
        };
        match self {
            Self::Text(text) => Ok((*text).to_owned()),
            Self::Switch(switch) if row.unit == Unit::Switch => Ok(switch.to_string()),
            Self::Fraction(written) if row.unit == Unit::Ratio => Ok(written.clone()),
            // TOML parses a revision without quotes as a date.
            Self::Date(date) if matches!(row.unit, Unit::Choice(_)) => Ok(date.clone()),
            Self::Integer { written, number }
                if !row.unit.is_path() && !row.unit.is_name_list() =>
            {
                let number = number.map(|number| number.to_string());
                number.ok_or_else(|| row.unit.out_of_range(written))
            }
            Self::List(items) if matches!(row.unit, Unit::Cpus { .. }) => {
                let texts: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| match item {
                        Self::Integer { written, .. } => Some(written.as_str()),
                        Self::Text(text) => Some(*text),
                        _ => None,
                    })
                    .collect();
                texts.map(|texts| texts.join(",")).ok_or_else(wrong_type)
            }
            Self::List(items) if row.unit.is_name_list() => {
                let names: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| if let Self::Text(text) = item { Some(*text) } else { None })
                    .collect();
                match names.ok_or_else(wrong_type)?.join(",") {
                    text if items.is_empty() => Ok(text + value::DEFAULT),
                    text => Ok(text),
                }
            }
            _ => Err(wrong_type()),
        }
    }

    const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer { .. } => "a whole number",
            Self::Fraction(_) => "a number with a fraction",
            Self::Switch(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "a list",
            Self::Section => "a section",
            Self::Null => "null",
        }
    }
}

/// Returns whether `key` is a section: the prefix of some option's key.
pub fn is_section(key: &str) -> bool {
    table::rows().any(|row| row.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// Describes a key that names no option; `value` is its value.
pub fn unknown_key(key: &str, value: &RawValue<'_>) -> Diagnostic {
    if is_section(key) {
        return Diagnostic::new(
            format!("this is a section, not {}", value.type_name()),
            format!("write its options under [{key}]"),
        );
    }
    if matches!(value, RawValue::Section) {
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
