//! The schema of a form field in each revision, and the validation of the values submitted for it.
//!
//! Invariants: a default that its own field would reject is omitted, and a field type that the
//! revision lacks becomes the closest one it has.
//!
//! MCP schema: `PrimitiveSchemaDefinition` from 2025-06-18 on.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::field::{Field, FieldType, SelectOption, TextFormat, TitleEncoding};
use crate::json::{ObjectWriter, write};
use crate::revision::{Dialect, Revision};

impl Field {
    /// Appends the schema of the field as `revision` defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut object = ObjectWriter::open(out);
        let kind = match &self.field_type {
            FieldType::Number { is_integer: true, .. } => "integer",
            FieldType::Number { .. } => "number",
            FieldType::Boolean => "boolean",
            FieldType::MultiSelect { .. } if dialect.elicitation_enums => "array",
            FieldType::Text { .. }
            | FieldType::SingleSelect { .. }
            | FieldType::MultiSelect { .. } => "string",
        };
        object.string("type", kind).string_opt("title", self.title.as_ref());
        self.write_description(&mut object, dialect);
        self.field_type.write(&mut object, dialect);
        let has_default = dialect.elicitation_enums || self.field_type == FieldType::Boolean;
        if let Some(default) = &self.default
            && has_default
            && self.is_valid(default)
        {
            object.value("default", default);
        }
        object.close();
    }

    /// Writes the description; a multi-select field in a revision without them lists its options.
    fn write_description(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        let FieldType::MultiSelect { options, .. } = &self.field_type else {
            object.string_opt("description", self.description.as_ref());
            return;
        };
        if dialect.elicitation_enums {
            object.string_opt("description", self.description.as_ref());
            return;
        }
        let out = object.key("description");
        out.push(b'"');
        if let Some(description) = &self.description {
            write::escaped(out, description);
            out.push(b' ');
        }
        write::escaped(out, "Any of these, separated by commas: ");
        for (index, option) in options.iter().enumerate() {
            if index > 0 {
                write::escaped(out, ", ");
            }
            write::escaped(out, &option.value);
        }
        out.push(b'"');
    }
}

impl FieldType {
    fn write(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        match self {
            Self::Text { length_min, length_max, format } => {
                object
                    .unsigned_opt("minLength", *length_min)
                    .unsigned_opt("maxLength", *length_max)
                    .string_opt("format", format.map(TextFormat::as_str));
            }
            Self::Number { minimum, maximum, .. } => {
                object.float_opt("minimum", *minimum).float_opt("maximum", *maximum);
            }
            Self::Boolean => {}
            Self::SingleSelect { options, titles: TitleEncoding::PerOption }
                if dialect.elicitation_enums =>
            {
                write_titled_options(object.key("oneOf"), options);
            }
            Self::SingleSelect { options, titles } => {
                object.strings("enum", options.iter().map(|option| &option.value));
                if *titles != TitleEncoding::None {
                    object.strings("enumNames", options.iter().map(SelectOption::display_title));
                }
            }
            Self::MultiSelect { options, titles, items_min, items_max } => {
                if !dialect.elicitation_enums {
                    return;
                }
                object.unsigned_opt("minItems", *items_min).unsigned_opt("maxItems", *items_max);
                let mut items = object.object("items");
                if *titles == TitleEncoding::None {
                    items.string("type", "string");
                    items.strings("enum", options.iter().map(|option| &option.value));
                } else {
                    write_titled_options(items.key("anyOf"), options);
                }
                items.close();
            }
        }
    }
}

impl SelectOption {
    fn display_title(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.value)
    }
}

fn write_titled_options(out: &mut Vec<u8>, options: &[SelectOption]) {
    out.push(b'[');
    for (index, option) in options.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = ObjectWriter::open(out);
        object.string("const", &option.value).string("title", option.display_title());
        object.close();
    }
    out.push(b']');
}

impl Field {
    /// Returns whether the field accepts `value`.
    fn is_valid(&self, value: &Value) -> bool {
        self.expected_instead_of(value).is_none()
    }

    /// Returns the validated value; comma-separated options of a multi-select become a list.
    pub(super) fn read(&self, value: &Value) -> Result<Value, Cow<'static, str>> {
        let listed = match (&self.field_type, value) {
            // Revisions without multi-select fields are sent a string field.
            (FieldType::MultiSelect { .. }, Value::String(text)) => Some(split_options(text)),
            _ => None,
        };
        let value = listed.as_ref().unwrap_or(value);
        match self.expected_instead_of(value) {
            None => Ok(value.clone()),
            Some(expected) => Err(expected),
        }
    }

    /// Returns what the field requires instead of `value`, or `None` if `value` is valid.
    fn expected_instead_of(&self, value: &Value) -> Option<Cow<'static, str>> {
        match &self.field_type {
            FieldType::Text { length_min, length_max, .. } => match value.as_str() {
                None => Some("a string".into()),
                Some(text) => is_out_of_range(text.chars().count(), *length_min, *length_max)
                    .then(|| describe_count_range("characters", *length_min, *length_max)),
            },
            FieldType::Number { minimum, maximum, is_integer: is_whole } => match value.as_f64() {
                Some(number) if *is_whole && number.fract() != 0.0 => Some("an integer".into()),
                Some(number) => {
                    let is_below = minimum.is_some_and(|minimum| number < minimum);
                    let is_above = maximum.is_some_and(|maximum| number > maximum);
                    (is_below || is_above).then(|| describe_number_range(*minimum, *maximum))
                }
                None => Some("a number".into()),
            },
            FieldType::Boolean => value.as_bool().is_none().then_some("true or false".into()),
            FieldType::SingleSelect { options, .. } => {
                (!is_option(options, value)).then_some("one of its options".into())
            }
            FieldType::MultiSelect { options, items_min, items_max, .. } => {
                match value.as_array() {
                    Some(chosen) if !are_options(options, chosen) => {
                        Some("a list of its options".into())
                    }
                    Some(chosen) => is_out_of_range(chosen.len(), *items_min, *items_max)
                        .then(|| describe_count_range("options", *items_min, *items_max)),
                    None => Some("a list of its options".into()),
                }
            }
        }
    }
}

fn is_option(options: &[SelectOption], value: &Value) -> bool {
    value.as_str().is_some_and(|value| options.iter().any(|option| option.value == value))
}

/// Returns whether all of `chosen` are options. Cost: linear in both.
fn are_options(options: &[SelectOption], chosen: &[Value]) -> bool {
    let options: HashSet<&str> = options.iter().map(|option| &*option.value).collect();
    chosen.iter().all(|one| one.as_str().is_some_and(|one| options.contains(one)))
}

fn is_out_of_range(count: usize, min: Option<u64>, max: Option<u64>) -> bool {
    let count = count as u64;
    min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max)
}

/// Describes an allowed number of `unit`.
fn describe_count_range(unit: &str, min: Option<u64>, max: Option<u64>) -> Cow<'static, str> {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max} {unit}"),
        (Some(min), None) => format!("at least {min} {unit}"),
        (None, Some(max)) => format!("at most {max} {unit}"),
        (None, None) => format!("any number of {unit}"),
    }
    .into()
}

/// Describes an allowed range of numbers.
fn describe_number_range(min: Option<f64>, max: Option<f64>) -> Cow<'static, str> {
    match (min, max) {
        (Some(min), Some(max)) => format!("a number from {min} to {max}"),
        (Some(min), None) => format!("a number of at least {min}"),
        (None, Some(max)) => format!("a number of at most {max}"),
        (None, None) => "a number".to_owned(),
    }
    .into()
}

/// Splits comma-separated options and trims them.
fn split_options(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}
