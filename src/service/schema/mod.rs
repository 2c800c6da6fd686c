//! Values held against JSON Schemas, before a handler runs and after.
//!
//! What it keeps true: a schema is compiled once, when its tool enters a catalog. An everyday one
//! becomes a rule, which checks a parsed message without an allocation; any other goes to the
//! `jsonschema` crate, which reads the message where it lies. A schema refers to nothing outside
//! of itself, and `format` asserts nothing (2020-12, the default of its dialect).

mod violation;

mod rule;

mod tape;

mod implied;

mod header;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Owned;

pub use self::header::ParameterHeader;

use self::rule::Rule;
use self::tape::{Tape, TapeNode};
use crate::protocol::json::Value;

pub(in crate::service) use self::header::read as parameter_headers;
pub(in crate::service) use self::implied::is_implied;

/// What arguments must be.
#[derive(Debug)]
pub(in crate::service) struct ArgumentCheck(Depth);

/// How far a check goes.
#[derive(Debug)]
enum Depth {
    /// Whatever their type takes; nothing is left to check.
    Nothing,
    /// A rule.
    Rule(Rule),
    /// A schema that says more than a rule can.
    Schema(Box<Validator<Tape>>),
}

impl ArgumentCheck {
    /// No check at all.
    pub(in crate::service) const NOTHING: Self = Self(Depth::Nothing);

    /// Compiles the schema of arguments, an object; `Err` says what is wrong with it.
    pub(in crate::service) fn compile(schema: &Owned) -> Result<Self, String> {
        if let Ok(rule) = Rule::compile(schema) {
            return Ok(Self(Depth::Rule(rule)));
        }
        let validator = jsonschema::options_for::<Tape>()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(patterns())
            .build(schema)
            .map_err(|error| format!("the schema of its arguments: {error}"))?;
        Ok(Self(Depth::Schema(Box::new(validator))))
    }

    /// Checks `arguments`, an object or none, which stands for the empty one. `Err` says what is
    /// wrong, for a model to read.
    #[inline]
    pub(in crate::service) fn check(&self, arguments: Option<Value<'_>>) -> Result<(), String> {
        match &self.0 {
            Depth::Nothing => Ok(()),
            Depth::Rule(rule) => match rule.check_object(arguments.and_then(Value::as_object)) {
                Ok(()) => Ok(()),
                Err(violation) => Err(violation.to_string()),
            },
            Depth::Schema(validator) => check_whole(validator, arguments),
        }
    }
}

fn check_whole(validator: &Validator<Tape>, arguments: Option<Value<'_>>) -> Result<(), String> {
    let arguments = arguments.map_or(TapeNode::Nothing, TapeNode::Value);
    if validator.is_valid(arguments) {
        return Ok(());
    }
    match validator.validate(arguments) {
        Ok(()) => Ok(()),
        Err(error) => Err(sentence(&error)),
    }
}

/// What structured results must be.
#[derive(Debug)]
pub(in crate::service) struct ResultCheck(Box<Validator>);

impl ResultCheck {
    /// Compiles the schema of results; `Err` says what is wrong with it.
    pub(in crate::service) fn compile(schema: &Owned) -> Result<Self, String> {
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(patterns())
            .build(schema)
            .map_err(|error| format!("the schema of its results: {error}"))?;
        Ok(Self(Box::new(validator)))
    }

    /// Checks one result; `Err` says what is wrong.
    pub(in crate::service) fn check(&self, result: &Owned) -> Result<(), String> {
        self.0.validate(result).map_err(|error| sentence(&error))
    }
}

/// Where the value stands, and what is wrong with it.
fn sentence(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    if place.is_empty() { error.to_string() } else { format!("`{place}`: {error}") }
}

/// A pattern of a schema may step back, but a hostile argument must not hold a shard for longer
/// than a fraction of a millisecond.
fn patterns() -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS_MAX)
}

/// The most steps back of one pattern on one string; beyond them the string does not fit.
const PATTERN_STEPS_MAX: usize = 20_000;
