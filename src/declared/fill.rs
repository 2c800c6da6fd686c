//! Templates with the values of a call.

use std::borrow::Cow;

use serde_json::Value;

use crate::declared::call::Call;
use crate::declared::template::{PRINCIPAL, Part, Template};

/// A text or a path with the values of a call; an argument that is absent is empty.
pub fn fill(template: &Template, call: &Call) -> String {
    let mut text = String::new();
    for part in template.parts() {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Argument(name) => text.push_str(&value_of(name, call)),
            Part::Flag { name, text: flag } => {
                let value = call.arguments.get(name);
                if value.is_some_and(|it| !matches!(it, Value::Bool(false) | Value::Null)) {
                    text.push_str(flag);
                }
            }
        }
    }
    text
}

/// The text of an argument; empty if it is absent.
fn value_of<'c>(name: &str, call: &'c Call) -> Cow<'c, str> {
    match call.arguments.get(name) {
        Some(Value::Null) => Cow::Borrowed(""),
        Some(value) => text_of(value),
        None if name == PRINCIPAL => Cow::Borrowed(call.principal.as_deref().unwrap_or_default()),
        None => Cow::Borrowed(""),
    }
}

/// The text of a value: strings as they are, everything else as JSON.
pub fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
