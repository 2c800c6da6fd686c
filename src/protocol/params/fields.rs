//! How one member is read, and how an error names it.

use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Object, Value};

/// The members of params that have to be there.
pub(super) fn object(params: Option<Value<'_>>) -> Result<Object<'_>, Error> {
    params.and_then(Value::as_object).ok_or_else(|| wrong("params", "an object"))
}

/// What is there and not `null`.
pub(super) fn present(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_null())
}

/// A string that has to be there.
pub(super) fn text<'a>(value: Option<Value<'a>>, place: &'static str) -> Result<&'a str, Error> {
    value.and_then(Value::as_str).ok_or_else(|| wrong(place, "a string"))
}

/// A string, where there is one.
pub(super) fn text_if<'a>(
    value: Option<Value<'a>>,
    place: &'static str,
) -> Result<Option<&'a str>, Error> {
    present(value).map(|value| text(Some(value), place)).transpose()
}

/// An object that has to be there.
pub(super) fn members<'a>(
    value: Option<Value<'a>>,
    place: &'static str,
) -> Result<Object<'a>, Error> {
    value.and_then(Value::as_object).ok_or_else(|| wrong(place, "an object"))
}

/// A list of strings, where there is one.
pub(super) fn texts<'a>(
    value: Option<Value<'a>>,
    place: &'static str,
) -> Result<Vec<&'a str>, Error> {
    let Some(value) = present(value) else { return Ok(Vec::new()) };
    let strings = || value.as_array()?.iter().map(Value::as_str).collect::<Option<_>>();
    strings().ok_or_else(|| wrong(place, "a list of strings"))
}

/// The error that names a member and what it should have been.
#[cold]
pub(super) fn wrong(place: &'static str, what: &'static str) -> Error {
    Error::invalid_params(format!("{place} must be {what}"))
}

/// Names with texts, as a client fills them in: the arguments of a prompt. Two words, borrowed from
/// the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Texts<'a>(Object<'a>);

impl<'a> Texts<'a> {
    /// Reads an object whose members are strings; none of them where it was left out.
    pub(super) fn read(value: Option<Value<'a>>, place: &'static str) -> Result<Self, Error> {
        let Some(value) = present(value) else { return Ok(Self::default()) };
        let object = members(Some(value), place)?;
        if object.iter().any(|(_, member)| member.kind() != Kind::String) {
            return Err(wrong(place, "an object of strings"));
        }
        Ok(Self(object))
    }

    /// The text of that name; the last one where it was sent more than once.
    pub fn find(self, name: &str) -> Option<&'a str> {
        self.0.find(name).and_then(Value::as_str)
    }

    /// How many there are, duplicates counted.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Every name with its text, in the order of the message.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().map(|(name, text)| (name, text.as_str().unwrap_or_default()))
    }
}
