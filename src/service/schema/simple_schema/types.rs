//! Allowed types and values, and the bounds of numbers and of the lengths of strings and arrays.

use corelane_protocol::json::{Value, ValueKind};
use serde_json::{Map, Value as Json};

use super::{SCANNED_MAX, Unsupported};
use crate::service::schema::violation::{BoundValue, Violation, describe_value};

/// A set of JSON Schema types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TypeSet(u8);

/// A value of `enum` or `const` that is neither array nor object.
#[derive(Clone, Debug)]
enum Scalar {
    Boolean(bool),
    Null,
    Number(f64),
    Text(Box<str>),
}

/// The values of `enum` or `const`.
#[derive(Clone, Debug)]
pub(super) struct AllowedValues {
    /// All values in the order of the schema.
    scalars: Box<[Scalar]>,
    /// The strings among many values, sorted; empty if there are few values, which are scanned.
    sorted_texts: Box<[Box<str>]>,
}

impl TypeSet {
    const ARRAY: u8 = 1;
    const BOOLEAN: u8 = 1 << 1;
    const INTEGER: u8 = 1 << 2;
    const NULL: u8 = 1 << 3;
    const NUMBER: u8 = 1 << 4;
    const OBJECT: u8 = 1 << 5;
    const STRING: u8 = 1 << 6;
    /// Name in `type`, bit, and description for error messages.
    const TYPES: [(&'static str, u8, &'static str); 7] = [
        ("array", Self::ARRAY, "an array"),
        ("boolean", Self::BOOLEAN, "true or false"),
        ("integer", Self::INTEGER, "an integer"),
        ("null", Self::NULL, "null"),
        ("number", Self::NUMBER, "a number"),
        ("object", Self::OBJECT, "an object"),
        ("string", Self::STRING, "a string"),
    ];

    pub(super) fn parse(types: &Json) -> Result<Self, Unsupported> {
        let bit = |name: &Json| {
            let found = Self::TYPES.iter().find(|(known, ..)| name.as_str() == Some(known));
            found.map(|(_, bit, _)| *bit).ok_or(Unsupported)
        };
        match types {
            Json::Array(names) => {
                names.iter().try_fold(0, |bits, name| Ok(bits | bit(name)?)).map(Self)
            }
            name => bit(name).map(Self),
        }
    }

    #[inline]
    pub(super) fn contains_type_of(self, value: Value<'_>) -> bool {
        let bit = match value.kind() {
            ValueKind::Array => Self::ARRAY,
            ValueKind::Boolean => Self::BOOLEAN,
            ValueKind::Null => Self::NULL,
            ValueKind::Object => Self::OBJECT,
            ValueKind::String => Self::STRING,
            ValueKind::Number if self.0 & Self::NUMBER != 0 => return true,
            ValueKind::Number => {
                let is_integer = value.as_f64().is_some_and(|number| number.fract() == 0.0);
                return self.0 & Self::INTEGER != 0 && is_integer;
            }
        };
        self.0 & bit != 0
    }

    /// Describes a value of another type. Not inlined, so that the check of a valid one is small.
    #[cold]
    #[inline(never)]
    pub(super) fn violation(self, value: Value<'_>) -> Violation {
        let included = Self::TYPES.iter().filter(|(_, bit, _)| self.0 & bit != 0);
        let descriptions = included.map(|(.., description)| *description);
        Violation::wrong_type(descriptions, describe_value(value))
    }
}

impl Scalar {
    fn compile(value: &Json) -> Result<Self, Unsupported> {
        match value {
            Json::Null => Ok(Self::Null),
            Json::Bool(boolean) => Ok(Self::Boolean(*boolean)),
            Json::Number(_) => exact_f64(value).map(Self::Number),
            Json::String(text) => Ok(Self::Text(text.as_str().into())),
            Json::Array(_) | Json::Object(_) => Err(Unsupported),
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Boolean(_) | Self::Null | Self::Number(_) => None,
        }
    }

    #[inline]
    fn equals(&self, value: Value<'_>) -> bool {
        match self {
            Self::Boolean(boolean) => value.as_bool() == Some(*boolean),
            Self::Null => value.is_null(),
            Self::Number(number) => value.as_f64() == Some(*number),
            Self::Text(text) => value.as_str() == Some(text),
        }
    }

    fn to_json(&self) -> String {
        match self {
            Self::Boolean(boolean) => boolean.to_string(),
            Self::Null => String::from("null"),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("\"{text}\""),
        }
    }
}

impl AllowedValues {
    /// Compiles `enum` and `const`; fails if a value is an array or object, or if both are present.
    pub(super) fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Unsupported> {
        let scalars: Box<[Scalar]> = match (schema.get("enum"), schema.get("const")) {
            (None, None) => return Ok(None),
            (Some(Json::Array(values)), None) => {
                values.iter().map(Scalar::compile).collect::<Result<_, _>>()?
            }
            (None, Some(value)) => [Scalar::compile(value)?].into(),
            _ => return Err(Unsupported),
        };
        let mut sorted_texts = Vec::new();
        if scalars.len() > SCANNED_MAX {
            sorted_texts.extend(scalars.iter().filter_map(Scalar::as_text).map(Box::from));
            sorted_texts.sort_unstable();
        }
        Ok(Some(Self { scalars, sorted_texts: sorted_texts.into() }))
    }

    #[inline]
    pub(super) fn contains(&self, value: Value<'_>) -> bool {
        match value.as_str() {
            Some(text) if !self.sorted_texts.is_empty() => {
                self.sorted_texts.binary_search_by(|known| (**known).cmp(text)).is_ok()
            }
            _ => self.scalars.iter().any(|scalar| scalar.equals(value)),
        }
    }

    /// Returns the values as JSON, in the order of the schema.
    pub(super) fn to_json(&self) -> impl Iterator<Item = String> {
        self.scalars.iter().map(Scalar::to_json)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NumberRange {
    minimum: f64,
    exclusive_minimum: f64,
    maximum: f64,
    exclusive_maximum: f64,
}

/// Bounds of a length: characters of a string, or items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthRange {
    min: usize,
    max: usize,
}

impl NumberRange {
    /// Fails if a bound cannot be compared exactly.
    pub(super) fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Unsupported> {
        let keys = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
        if !keys.iter().any(|key| schema.contains_key(*key)) {
            return Ok(None);
        }
        let bound = |key, default| schema.get(key).map_or(Ok(default), exact_f64);
        Ok(Some(Self {
            minimum: bound("minimum", f64::NEG_INFINITY)?,
            exclusive_minimum: bound("exclusiveMinimum", f64::NEG_INFINITY)?,
            maximum: bound("maximum", f64::INFINITY)?,
            exclusive_maximum: bound("exclusiveMaximum", f64::INFINITY)?,
        }))
    }

    #[inline]
    pub(super) fn check(self, number: f64) -> Result<(), Violation> {
        if number < self.minimum {
            return Err(Violation::out_of_bounds(
                "at least",
                BoundValue::Number(self.minimum),
                number,
            ));
        }
        if number > self.maximum {
            return Err(Violation::out_of_bounds(
                "at most",
                BoundValue::Number(self.maximum),
                number,
            ));
        }
        if number <= self.exclusive_minimum {
            return Err(Violation::out_of_bounds(
                "more than",
                BoundValue::Number(self.exclusive_minimum),
                number,
            ));
        }
        if number >= self.exclusive_maximum {
            return Err(Violation::out_of_bounds(
                "less than",
                BoundValue::Number(self.exclusive_maximum),
                number,
            ));
        }
        Ok(())
    }
}

impl LengthRange {
    /// Allows every length.
    pub(super) const ANY: Self = Self { min: 0, max: usize::MAX };

    /// Compiles the bounds of the keywords `min_key` and `max_key`. Fails if one is not a length.
    pub(super) fn compile(
        schema: &Map<String, Json>,
        min_key: &'static str,
        max_key: &'static str,
    ) -> Result<Option<Self>, Unsupported> {
        if !schema.contains_key(min_key) && !schema.contains_key(max_key) {
            return Ok(None);
        }
        let bound = |key, default| match schema.get(key) {
            None => Ok(default),
            Some(bound) => {
                let bound = bound.as_u64().and_then(|bound| usize::try_from(bound).ok());
                bound.ok_or(Unsupported)
            }
        };
        Ok(Some(Self { min: bound(min_key, 0)?, max: bound(max_key, usize::MAX)? }))
    }

    #[inline]
    pub(super) fn check(self, length: usize, unit: &'static str) -> Result<(), Violation> {
        if length < self.min {
            return Err(Violation::out_of_bounds(
                "at least",
                BoundValue::Count(self.min, unit),
                length,
            ));
        }
        if length > self.max {
            return Err(Violation::out_of_bounds(
                "at most",
                BoundValue::Count(self.max, unit),
                length,
            ));
        }
        Ok(())
    }
}

/// The number, if comparing doubles with it equals comparing the exact numbers: below 2^53 rounding
/// of an integer never crosses it.
fn exact_f64(number: &Json) -> Result<f64, Unsupported> {
    number.as_f64().filter(|number| number.abs() < TWO_TO_53).ok_or(Unsupported)
}

const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
