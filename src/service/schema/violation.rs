//! Description of a value that violates a schema, or that the `jsonschema` crate rejects, for the
//! model that sent it.
//!
//! Built only for invalid values, so that valid ones cost no allocation.

use std::fmt;

use corelane_protocol::json::{Value, ValueKind};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value as Json;

/// A violation of a schema. Boxed, so that `Result<(), Violation>` is one word.
#[derive(Clone, Debug)]
pub(super) struct Violation(Box<ViolationDetails>);

/// The violation and its location.
#[derive(Clone, Debug)]
struct ViolationDetails {
    /// Path to the value, joined by dots; empty for the root.
    path: String,
    /// What is wrong, phrased to follow the path.
    problem: String,
}

/// A limit in an error message.
#[derive(Clone, Copy, Debug)]
pub(super) enum BoundValue {
    /// A number of units, such as characters.
    Count(usize, &'static str),
    /// A number.
    Number(f64),
}

impl Violation {
    #[cold]
    fn new(problem: String) -> Self {
        Self(Box::new(ViolationDetails { path: String::new(), problem }))
    }

    /// A number or length is out of bounds: "must be at least 3, received 1".
    #[cold]
    pub(super) fn out_of_bounds(
        relation: &str,
        bound: BoundValue,
        received: impl fmt::Display,
    ) -> Self {
        Self::new(match bound {
            BoundValue::Count(count, unit) => {
                format!("must have {relation} {count} {unit}, received {received}")
            }
            BoundValue::Number(number) => {
                format!("must be {relation} {number}, received {received}")
            }
        })
    }

    /// The value is not one of `enum` or `const`.
    #[cold]
    pub(super) fn not_allowed_value(
        choices: impl Iterator<Item = String>,
        value: Value<'_>,
    ) -> Self {
        let choices = join_alternatives(choices);
        Self::new(format!("must be {choices}, received {}", describe_value(value)))
    }

    /// The value has the wrong type; `received` describes it.
    #[cold]
    pub(super) fn wrong_type(
        kinds: impl Iterator<Item = &'static str>,
        received: impl fmt::Display,
    ) -> Self {
        let kinds = join_alternatives(kinds.map(String::from));
        Self::new(format!("must be {kinds}, received {received}"))
    }

    /// Any other violation, described by `problem`.
    #[cold]
    pub(super) fn other(problem: impl fmt::Display) -> Self {
        Self::new(format!("is invalid: {problem}"))
    }

    /// A required member is missing.
    #[cold]
    pub(super) fn missing() -> Self {
        Self::new(String::from("is missing"))
    }

    /// An additional member, where only those with the names `allowed` may be.
    #[cold]
    pub(super) fn unknown_property<'n>(allowed: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<_> = allowed.take(NAMES_MAX + 1).map(|name| format!("`{name}`")).collect();
        Self::new(match &names[..] {
            [] => String::from("is unknown"),
            [name] => format!("is unknown; allowed is {name}"),
            names if names.len() > NAMES_MAX => {
                format!("is unknown; allowed are {}, …", names[..NAMES_MAX].join(", "))
            }
            names => format!("is unknown; allowed are {}", names.join(", ")),
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ViolationDetails { path, problem } = &*self.0;
        if path.is_empty() {
            return write!(formatter, "arguments: {problem}");
        }
        write!(formatter, "argument `{path}` {problem}")
    }
}

/// Adds the parent member or index `name` to the path of a violation.
#[cold]
pub(super) fn within(name: &str, mut inner: Violation) -> Violation {
    let path = &mut inner.0.path;
    let separator = if path.is_empty() { "" } else { "." };
    path.insert_str(0, separator);
    path.insert_str(0, name);
    inner
}

/// Describes a value that was received, cut to a few words.
pub(super) fn describe_value(value: Value<'_>) -> String {
    match value.kind() {
        ValueKind::Array => String::from("an array"),
        ValueKind::Object => String::from("an object"),
        ValueKind::Null => String::from("null"),
        ValueKind::Boolean => format!("boolean {}", value.to_json()),
        ValueKind::Number => format!("number {}", value.to_json()),
        ValueKind::String => describe_text(value.as_str().unwrap_or_default()),
    }
}

/// Describes a string that was received.
fn describe_text(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let more = if end < text.len() { "…" } else { "" };
    format!("string {:?}{more}", &text[..end])
}

/// Bytes of a received string that an error repeats.
const TEXT_BYTES_MAX: usize = 40;

/// Names of allowed members that an error lists.
const NAMES_MAX: usize = 20;

fn join_alternatives(choices: impl Iterator<Item = String>) -> String {
    choices.collect::<Vec<_>>().join(" or ")
}

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
