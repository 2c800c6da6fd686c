//! Description of arguments that the `jsonschema` crate rejects, in the words of [`Violation`].

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value as Json;

use super::violation::{Violation, describe_text, within};

/// Describes the first violation, given the `names` of the arguments of the tool.
#[cold]
pub(super) fn describe_argument_error(error: &ValidationError<'_>, names: &[String]) -> String {
    let path = error.instance_path().to_string();
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let violation = match error.kind() {
        ValidationErrorKind::Type { kind } => {
            let types: Vec<JsonType> = match kind {
                TypeKind::Single(known) => vec![*known],
                TypeKind::Multiple(known) => known.iter().collect(),
            };
            let types = types.into_iter().map(describe_type);
            Violation::wrong_type(types, describe_json(error.instance()))
        }
        ValidationErrorKind::Required { property } => {
            within(property.as_str().unwrap_or_default(), Violation::missing())
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
            if let [first, ..] = &**unexpected =>
        {
            let known = if steps.is_empty() { names } else { &[] };
            within(first, Violation::unknown_property(known.iter().map(String::as_str)))
        }
        _ => Violation::other(error.masked_with("the value")),
    };
    steps.iter().rev().fold(violation, |inner, step| within(step, inner)).to_string()
}

const fn describe_type(known: JsonType) -> &'static str {
    match known {
        JsonType::Array => "an array",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

/// Describes a value that was received, cut to a few words.
fn describe_json(value: &Json) -> String {
    match value {
        Json::Null => String::from("null"),
        Json::Bool(boolean) => format!("boolean {boolean}"),
        Json::Number(number) => format!("number {number}"),
        Json::String(text) => describe_text(text),
        Json::Array(_) => String::from("an array"),
        Json::Object(_) => String::from("an object"),
    }
}
