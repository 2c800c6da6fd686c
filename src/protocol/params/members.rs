//! Readers of single members, and the errors that name them.

use crate::error::Error;
use crate::json::{Object, Value, ValueKind};

/// Returns the params, which are required.
pub(super) fn require_params(params: Option<Value<'_>>) -> Result<Object<'_>, Error> {
    params.and_then(Value::as_object).ok_or_else(|| invalid_member("params", "an object"))
}

/// Returns the value unless it is absent or `null`.
pub(super) fn non_null(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_null())
}

/// Reads a required string.
pub(super) fn require_string<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<&'a str, Error> {
    value.and_then(Value::as_str).ok_or_else(|| invalid_member(path, "a string"))
}

/// Reads an optional string.
pub(super) fn optional_string<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<Option<&'a str>, Error> {
    non_null(value).map(|value| require_string(Some(value), path)).transpose()
}

/// Reads a required object.
pub(super) fn require_object<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<Object<'a>, Error> {
    value.and_then(Value::as_object).ok_or_else(|| invalid_member(path, "an object"))
}

/// Reads an optional array of strings.
pub(super) fn optional_strings<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<Vec<&'a str>, Error> {
    let Some(value) = non_null(value) else { return Ok(Vec::new()) };
    let strings = || value.as_array()?.iter().map(Value::as_str).collect::<Option<_>>();
    strings().ok_or_else(|| invalid_member(path, "an array of strings"))
}

/// Returns the error for the member at `path`, which must be `expected`.
#[cold]
pub(super) fn invalid_member(path: &'static str, expected: &'static str) -> Error {
    Error::invalid_params(format!("{path} must be {expected}"))
}

/// An object whose values are all strings: the arguments of a prompt. Two words, borrowed from the
/// message.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringMap<'a>(Object<'a>);

impl<'a> StringMap<'a> {
    /// Reads an optional object of strings.
    pub(super) fn read(value: Option<Value<'a>>, path: &'static str) -> Result<Self, Error> {
        let Some(value) = non_null(value) else { return Ok(Self::default()) };
        let object = require_object(Some(value), path)?;
        if object.iter().any(|(_, member)| member.kind() != ValueKind::String) {
            return Err(invalid_member(path, "an object with string values"));
        }
        Ok(Self(object))
    }

    /// Returns the string of this name; the last one if the name occurs more than once.
    pub fn find(self, name: &str) -> Option<&'a str> {
        self.0.find(name).and_then(Value::as_str)
    }

    /// Returns the number of members, duplicates counted.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Returns whether the map is empty.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over names and strings in the order of the message.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().map(|(name, text)| (name, text.as_str().unwrap_or_default()))
    }
}
