//! Bounds: of numbers, and of the lengths of texts and lists.
//!
//! What it keeps true: a bound that exists compares as the number that its schema means. It does
//! not know what it bounds.

use serde_json::{Map, Value as Json};

use super::Beyond;
use crate::service::schema::violation::{Amount, Violation};

/// Bounds of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    least: f64,
    above: f64,
    most: f64,
    below: f64,
}

/// Bounds of a length: characters of a string, items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    least: usize,
    most: usize,
}

impl Range {
    /// Fails where a bound is none that can be compared exactly.
    pub(super) fn compile(schema: &Map<String, Json>) -> Result<Option<Self>, Beyond> {
        let keys = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
        if !keys.iter().any(|key| schema.contains_key(*key)) {
            return Ok(None);
        }
        let bound = |key, open| schema.get(key).map_or(Ok(open), exact);
        Ok(Some(Self {
            least: bound("minimum", f64::NEG_INFINITY)?,
            above: bound("exclusiveMinimum", f64::NEG_INFINITY)?,
            most: bound("maximum", f64::INFINITY)?,
            below: bound("exclusiveMaximum", f64::INFINITY)?,
        }))
    }

    #[inline]
    pub(super) fn check(self, number: f64) -> Result<(), Violation> {
        if number < self.least {
            return Err(Violation::bound("at least", Amount::Number(self.least)));
        }
        if number > self.most {
            return Err(Violation::bound("at most", Amount::Number(self.most)));
        }
        if number <= self.above {
            return Err(Violation::bound("more than", Amount::Number(self.above)));
        }
        if number >= self.below {
            return Err(Violation::bound("less than", Amount::Number(self.below)));
        }
        Ok(())
    }
}

impl Length {
    /// Every length.
    pub(super) const ANY: Self = Self { least: 0, most: usize::MAX };

    /// Fails where a bound is no length. `least` and `most` are its keywords.
    pub(super) fn compile(
        schema: &Map<String, Json>,
        least: &'static str,
        most: &'static str,
    ) -> Result<Option<Self>, Beyond> {
        if !schema.contains_key(least) && !schema.contains_key(most) {
            return Ok(None);
        }
        let bound = |key, open| match schema.get(key) {
            None => Ok(open),
            Some(bound) => {
                let bound = bound.as_u64().and_then(|bound| usize::try_from(bound).ok());
                bound.ok_or(Beyond)
            }
        };
        Ok(Some(Self { least: bound(least, 0)?, most: bound(most, usize::MAX)? }))
    }

    #[inline]
    pub(super) fn check(self, length: usize, unit: &'static str) -> Result<(), Violation> {
        if length < self.least {
            return Err(Violation::bound("at least", Amount::Count(self.least, unit)));
        }
        if length > self.most {
            return Err(Violation::bound("at most", Amount::Count(self.most, unit)));
        }
        Ok(())
    }
}

/// The number, where comparing any other double with it is comparing the numbers that were meant:
/// below 2^53 rounding a whole number never crosses it.
pub(super) fn exact(number: &Json) -> Result<f64, Beyond> {
    number.as_f64().filter(|number| number.abs() < TWO_TO_53).ok_or(Beyond)
}

const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
