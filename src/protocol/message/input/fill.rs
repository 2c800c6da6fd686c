//! What was filled into a field: does it fit?

use super::field::{Choice, Field, Shape};
use serde_json::Value;
use std::borrow::Cow;

impl Field {
    /// Whether the field takes `value`.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        self.refusal(value).is_none()
    }

    /// The value as a handler reads it: what stands for a list is made one.
    pub(super) fn read(&self, value: &Value) -> Result<Value, Cow<'static, str>> {
        let listed = match (&self.shape, value) {
            // Revisions without choices of several were asked for a text.
            (Shape::Several { .. }, Value::String(text)) => Some(split(text)),
            _ => None,
        };
        let value = listed.as_ref().unwrap_or(value);
        match self.refusal(value) {
            None => Ok(value.clone()),
            Some(refusal) => Err(refusal),
        }
    }

    /// What the field wants in place of `value`.
    fn refusal(&self, value: &Value) -> Option<Cow<'static, str>> {
        match &self.shape {
            Shape::Text { length_min, length_max, .. } => match value.as_str() {
                None => Some("a string".into()),
                Some(text) => outside(text.chars().count(), *length_min, *length_max)
                    .then(|| bounds("characters", *length_min, *length_max)),
            },
            Shape::Number { minimum, maximum, is_whole } => match value.as_f64() {
                Some(number) if *is_whole && number.fract() != 0.0 => Some("a whole number".into()),
                Some(number) => {
                    let outside = minimum.is_some_and(|minimum| number < minimum)
                        || maximum.is_some_and(|maximum| number > maximum);
                    outside.then_some("within its bounds".into())
                }
                None => Some("a number".into()),
            },
            Shape::Boolean => value.as_bool().is_none().then_some("true or false".into()),
            Shape::One { options, .. } => {
                (!is_option(options, value)).then_some("one of its options".into())
            }
            Shape::Several { options, items_min, items_max, .. } => match value.as_array() {
                Some(chosen) if !chosen.iter().all(|one| is_option(options, one)) => {
                    Some("a list of its options".into())
                }
                Some(chosen) => outside(chosen.len(), *items_min, *items_max)
                    .then(|| bounds("options", *items_min, *items_max)),
                None => Some("a list of its options".into()),
            },
        }
    }
}

fn is_option(options: &[Choice], value: &Value) -> bool {
    value.as_str().is_some_and(|value| options.iter().any(|option| option.value == value))
}

fn outside(count: usize, least: Option<u64>, most: Option<u64>) -> bool {
    let count = count as u64;
    least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most)
}

fn bounds(what: &str, least: Option<u64>, most: Option<u64>) -> Cow<'static, str> {
    match (least, most) {
        (Some(least), Some(most)) => format!("{least} to {most} {what}"),
        (Some(least), None) => format!("{least} {what} or more"),
        (None, Some(most)) => format!("{most} {what} at most"),
        (None, None) => format!("any number of {what}"),
    }
    .into()
}

/// The parts between commas, without the spaces around them.
fn split(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}
