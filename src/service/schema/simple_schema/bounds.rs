//! Bounds of numbers, and of the lengths of strings and arrays.

use serde_json::{Map, Value as Json};

use super::Unsupported;
use crate::service::schema::violation::{BoundValue, Violation};

/// Bounds of a number.
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
pub(super) fn exact_f64(number: &Json) -> Result<f64, Unsupported> {
    number.as_f64().filter(|number| number.abs() < TWO_TO_53).ok_or(Unsupported)
}

const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
