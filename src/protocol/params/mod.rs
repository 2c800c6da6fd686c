//! Params of requests and notifications that the protocol defines, except those of the handshake
//! ([`crate::eras`]): those that several steps of the request path need ([`RequestParams`]),
//! readers of single members, and the params of each method.
//!
//! Invariants: a known key occurs at most once, a member that is `null` counts as absent, and
//! unknown members are ignored. Everything is borrowed from the message. The service validates the
//! name and arguments of `tools/call`.
//!
//! MCP schema: the `*RequestParams` of each revision (inline in the requests up to 2025-06-18).

mod server_features;
mod utilities;

use crate::eras::RequestMetaObject;
use crate::error::Error;
use crate::json::{DuplicateKey, Object, Value, ValueKind};
pub use server_features::{
    CompleteRequestParams, CompletionReference, GetPromptRequestParams, GetSkillRequestParams,
    InputResponseRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
    SubscribeRequestParams, SubscriptionFilter, SubscriptionsListenRequestParams,
};
pub use utilities::{
    CancelledNotificationParams, ProgressNotificationParams, SetLevelRequestParams, TaskIdParams,
    TaskMetadata, UpdateTaskRequestParams,
};

/// Members of the params of any request: `_meta`, and `name` and `arguments` of `tools/call`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParams<'a> {
    name: Option<Value<'a>>,
    arguments: Option<Value<'a>>,
    meta: Option<Value<'a>>,
    /// Bit set of the members that occur more than once.
    duplicates: u8,
    is_object: bool,
    has_retry_or_task: bool,
}

const NAME: u8 = 1;
const ARGUMENTS: u8 = 1 << 1;
const META: u8 = 1 << 2;

impl<'a> RequestParams<'a> {
    /// Scans the params of a request. Cost: one pass over their keys.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Self {
        let object = params.and_then(Value::as_object);
        let mut found = Self { is_object: object.is_some(), ..Self::default() };
        found.scan(object.unwrap_or_default());
        found
    }

    #[inline]
    fn scan(&mut self, params: Object<'a>) {
        for (key, value) in params {
            let (slot, bit) = match key {
                "name" => (&mut self.name, NAME),
                "arguments" => (&mut self.arguments, ARGUMENTS),
                "_meta" => (&mut self.meta, META),
                "inputResponses" | "requestState" | "task" => {
                    self.has_retry_or_task = true;
                    continue;
                }
                _ => continue,
            };
            if slot.replace(value).is_some() {
                self.duplicates |= bit;
            }
        }
    }

    /// Returns whether params are present and an object.
    #[inline]
    pub const fn is_object(&self) -> bool {
        self.is_object
    }

    /// Returns whether the members of a retry ([`InputResponseRequestParams`]) or `task`
    /// ([`TaskMetadata`]) are present.
    #[inline]
    pub const fn has_retry_or_task(&self) -> bool {
        self.has_retry_or_task
    }

    /// Returns the `_meta` of the request.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `_meta` occurs twice; otherwise as [`RequestMetaObject::read`].
    #[inline]
    pub fn meta(&self) -> Result<RequestMetaObject<'a>, Error> {
        if self.duplicates & META != 0 {
            return Err(DuplicateKey { key: "_meta" }.into());
        }
        RequestMetaObject::read_value(self.meta)
    }

    /// Returns the value of `_meta`, unvalidated.
    pub const fn meta_value(&self) -> Option<Value<'a>> {
        self.meta
    }

    /// Returns `name` and `arguments`, unvalidated.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] if one of the two occurs twice.
    #[inline]
    pub fn tool_call(&self) -> Result<[Option<Value<'a>>; 2], DuplicateKey> {
        match self.duplicates & (NAME | ARGUMENTS) {
            0 => Ok([self.name, self.arguments]),
            ARGUMENTS => Err(DuplicateKey { key: "arguments" }),
            _ => Err(DuplicateKey { key: "name" }),
        }
    }
}

/// Returns the params, which are required.
fn require_params(params: Option<Value<'_>>) -> Result<Object<'_>, Error> {
    params.and_then(Value::as_object).ok_or_else(|| invalid_member("params", "an object"))
}

/// Returns the value unless it is absent or `null`.
fn non_null(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_null())
}

/// Reads a required string.
fn require_string<'a>(value: Option<Value<'a>>, path: &'static str) -> Result<&'a str, Error> {
    value.and_then(Value::as_str).ok_or_else(|| invalid_member(path, "a string"))
}

/// Reads an optional string.
fn optional_string<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<Option<&'a str>, Error> {
    non_null(value).map(|value| require_string(Some(value), path)).transpose()
}

/// Reads a required object.
fn require_object<'a>(value: Option<Value<'a>>, path: &'static str) -> Result<Object<'a>, Error> {
    value.and_then(Value::as_object).ok_or_else(|| invalid_member(path, "an object"))
}

/// Reads an optional array of strings.
fn optional_strings<'a>(
    value: Option<Value<'a>>,
    path: &'static str,
) -> Result<Vec<&'a str>, Error> {
    let Some(value) = non_null(value) else { return Ok(Vec::new()) };
    let strings = || value.as_array()?.iter().map(Value::as_str).collect::<Option<_>>();
    strings().ok_or_else(|| invalid_member(path, "an array of strings"))
}

/// Returns the error for the member at `path`, which must be `expected`.
#[cold]
fn invalid_member(path: &'static str, expected: &'static str) -> Error {
    Error::invalid_params(format!("{path} must be {expected}"))
}

/// An object whose values are all strings: the arguments of a prompt. Two words, borrowed from the
/// message.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringMap<'a>(Object<'a>);

impl<'a> StringMap<'a> {
    /// Reads an optional object of strings.
    fn read(value: Option<Value<'a>>, path: &'static str) -> Result<Self, Error> {
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
