//! Values of a call, as text and as JSON.

use std::borrow::Cow;

use serde_json::Value;

use crate::declared::call::Call;
use crate::declared::template::{PRINCIPAL, Part, Template};

/// Where a value comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Source {
    /// The argument of this name.
    Argument(String),
    /// The name of the caller.
    Principal,
    /// A text that does not depend on the call.
    Fixed(String),
}

impl Source {
    /// The source that a placeholder names.
    pub fn named(name: &str) -> Self {
        if name == PRINCIPAL { Self::Principal } else { Self::Argument(name.to_owned()) }
    }

    /// The value in `call`, `None` without one.
    pub(super) fn value<'a>(&'a self, call: &'a Call) -> Option<Cow<'a, Value>> {
        match self {
            Self::Argument(name) => call.arguments.get(name).map(Cow::Borrowed),
            Self::Principal => {
                let name = call.principal.as_ref()?;
                Some(Cow::Owned(Value::String(name.clone())))
            }
            Self::Fixed(text) => Some(Cow::Owned(Value::String(text.clone()))),
        }
    }

    /// The value in `call` for a place that holds text: `null` is no value.
    pub(super) fn given<'a>(&'a self, call: &'a Call) -> Option<Cow<'a, Value>> {
        self.value(call).filter(|value| !value.is_null())
    }

    /// What a message calls the value.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Argument(name) => format!("argument `{name}`"),
            Self::Principal => "the name of the caller".to_owned(),
            Self::Fixed(_) => "the fixed value".to_owned(),
        }
    }
}

/// The text of a value: strings as they are, lists with commas, objects as JSON.
pub(super) fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(items) => {
            let texts: Vec<Cow<'_, str>> = items.iter().map(text_of).collect();
            Cow::Owned(texts.join(","))
        }
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

/// The text of a template, `None` if it has an argument that is not given, or only flags of which
/// none is given.
pub(super) fn render(template: &Template, call: &Call) -> Option<String> {
    if let Some(text) = template.as_text() {
        return Some(text.to_owned());
    }
    let mut rendered = String::new();
    let mut has_value = false;
    for part in template.parts() {
        match part {
            Part::Text(text) => {
                has_value = true;
                rendered.push_str(text);
            }
            Part::Argument(name) => {
                has_value = true;
                rendered.push_str(&text_of(Source::named(name).given(call)?.as_ref()));
            }
            Part::Flag { name, text } if is_flag_given(name, call) => {
                has_value = true;
                rendered.push_str(text);
            }
            Part::Flag { .. } => {}
        }
    }
    has_value.then_some(rendered)
}

/// Whether the argument is given and not `false`.
pub(super) fn is_flag_given(name: &str, call: &Call) -> bool {
    Source::named(name).given(call).is_some_and(|value| *value != Value::Bool(false))
}

/// The texts of a template for a place that may be repeated: a template that is one placeholder has
/// one text for each item of a list.
pub(super) fn render_all(template: &Template, call: &Call) -> Vec<String> {
    if let Some(name) = single_argument(template) {
        return match Source::named(name).given(call).as_deref() {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().map(|item| text_of(item).into_owned()).collect()
            }
            Some(value) => vec![text_of(value).into_owned()],
        };
    }
    render(template, call).into_iter().collect()
}

/// The name of the argument, if the template is one placeholder.
pub(super) fn single_argument(template: &Template) -> Option<&str> {
    match template.parts() {
        [Part::Argument(name)] => Some(name),
        _ => None,
    }
}
