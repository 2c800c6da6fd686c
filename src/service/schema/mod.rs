//! Validation of arguments and results against JSON Schemas.
//!
//! A schema is compiled once, when its tool enters a catalog. Schemas with common keywords only
//! become a [`SimpleSchema`], which validates a parsed message without allocation; others use the
//! `jsonschema` crate, which reads the parsed message in place. References to other documents are
//! rejected, and `format` is an annotation (the default of JSON Schema 2020-12).

mod violation;

mod simple_schema;

mod instance;

mod derived;

use corelane_protocol::json::Value;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value as Owned;

pub(super) use self::derived::{derive_input_schema, derive_output_schema, is_implied};
use self::instance::{Instance, Instances};
use self::simple_schema::SimpleSchema;
use self::violation::describe_argument_error;

/// Compiled input schema of a tool.
#[derive(Debug)]
pub(super) struct CompiledInputSchema(InputValidation);

#[derive(Debug)]
enum InputValidation {
    /// Not at all, before the tool is in a catalog.
    AcceptAll,
    /// With the simple validator.
    Simple(SimpleSchema),
    /// With the `jsonschema` crate.
    Full(Box<FullSchema>),
}

impl CompiledInputSchema {
    /// Accepts every value.
    pub(super) const ACCEPT_ALL: Self = Self(InputValidation::AcceptAll);

    /// Compiles an input schema; `Err` is phrased to follow "tool `name`: ".
    pub(super) fn compile(schema: &Owned) -> Result<Self, String> {
        if let Ok(rule) = SimpleSchema::compile(schema) {
            return Ok(Self(InputValidation::Simple(rule)));
        }
        let validator = build(schema).map_err(|error| format!("invalid input schema: {error}"))?;
        let names = schema["properties"].as_object().into_iter().flat_map(|known| known.keys());
        let names = names.cloned().collect();
        Ok(Self(InputValidation::Full(Box::new(FullSchema { validator, names }))))
    }

    /// Validates `arguments`, an object; `None` means an empty object. `Err` describes the first
    /// violation for the model.
    #[inline]
    pub(super) fn validate(&self, arguments: Option<Value<'_>>) -> Result<(), String> {
        match &self.0 {
            InputValidation::AcceptAll => Ok(()),
            InputValidation::Simple(rule) => rule
                .validate_object(arguments.and_then(Value::as_object))
                .map_err(|violation| violation.to_string()),
            InputValidation::Full(schema) => schema.validate(arguments),
        }
    }

    /// Returns whether the arguments are valid, at less cost than [`Self::validate`].
    #[inline]
    pub(super) fn accepts(&self, arguments: Option<Value<'_>>) -> bool {
        match &self.0 {
            InputValidation::AcceptAll => true,
            InputValidation::Simple(rule) => {
                rule.validate_object(arguments.and_then(Value::as_object)).is_ok()
            }
            InputValidation::Full(schema) => schema.accepts(arguments),
        }
    }
}

/// An input schema that is validated with the `jsonschema` crate.
#[derive(Debug)]
struct FullSchema {
    validator: Validator<Instances>,
    /// The arguments that the schema names.
    names: Vec<String>,
}

impl FullSchema {
    fn accepts(&self, arguments: Option<Value<'_>>) -> bool {
        self.validator.is_valid(arguments.map_or(Instance::Absent, Instance::Parsed))
    }

    fn validate(&self, arguments: Option<Value<'_>>) -> Result<(), String> {
        let arguments = arguments.map_or(Instance::Absent, Instance::Parsed);
        match self.validator.validate(arguments) {
            Ok(()) => Ok(()),
            Err(error) => Err(describe_argument_error(&error, &self.names)),
        }
    }
}

/// Compiled output schema of a tool.
#[derive(Debug)]
pub(super) struct CompiledOutputSchema(Box<Validator<Instances>>);

impl CompiledOutputSchema {
    /// Fails as [`CompiledOutputSchema::compile`]. Costs less for a [`SimpleSchema`]: the
    /// `jsonschema` crate compiles the meta-schema first, which takes a millisecond.
    pub(super) fn check(schema: &Owned) -> Result<(), String> {
        if SimpleSchema::compile(schema).is_ok() {
            return Ok(());
        }
        Self::compile(schema).map(drop)
    }

    /// Compiles an output schema; `Err` is phrased to follow "tool `name`: ".
    pub(super) fn compile(schema: &Owned) -> Result<Self, String> {
        let validator = build(schema).map_err(|error| format!("invalid output schema: {error}"))?;
        Ok(Self(Box::new(validator)))
    }

    /// Validates one structured result; `Err` describes the first violation.
    pub(super) fn validate(&self, result: &Owned) -> Result<(), String> {
        self.0.validate(Instance::Owned(result)).map_err(|error| describe_error(&error))
    }
}

fn build(schema: &Owned) -> Result<Validator<Instances>, ValidationError<'static>> {
    jsonschema::options_for::<Instances>()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(pattern_options())
        .build(schema)
}

/// The location of the value in the instance, and what is wrong with it.
fn describe_error(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    if path.is_empty() { error.to_string() } else { format!("`{path}`: {error}") }
}

/// Patterns may backtrack, but a hostile argument must not block a shard for more than a fraction
/// of a millisecond.
fn pattern_options() -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(PATTERN_BACKTRACKS_MAX)
}

/// Maximum number of backtracking steps of a pattern on a string; beyond it the string is rejected.
const PATTERN_BACKTRACKS_MAX: usize = 20_000;
