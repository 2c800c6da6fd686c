//! Texts with placeholders: `/items/{id}`, `{?verbose:--verbose}`.
//!
//! `{name}` stands for an argument; `{principal}` for the name of the caller. `{?name:text}` stands
//! for `text` if the argument is given and not `false`. `{{` and `}}` are braces.

use std::fmt;

use crate::declared::problem::Problem;

/// A part of a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// The value of the argument.
    Argument(String),
    /// A text that depends on an argument.
    Flag {
        /// Name of the argument.
        name: String,
        /// Text that stands if the argument is given and is not `false`.
        text: String,
    },
}

/// A text with placeholders.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Name of the placeholder that stands for the caller.
pub const PRINCIPAL: &str = "principal";

impl Template {
    /// Parses `text`, the value of `key`.
    ///
    /// # Errors
    ///
    /// A brace is not closed or not opened, or a name is not `A-Z a-z 0-9 _ - .`.
    pub fn parse(key: &str, text: &str) -> Result<Self, Problem> {
        let problem = |message: String| {
            let hint = "write {name} for an argument, {{ and }} for braces";
            Problem::new(key, format!("{message} in {text:?}"), hint)
        };
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(index) = rest.find(['{', '}']) {
            plain.push_str(&rest[..index]);
            let brace = &rest[index..=index];
            let after = &rest[index + 1..];
            if after.starts_with(brace) {
                plain.push_str(brace);
                rest = &after[1..];
                continue;
            }
            if brace == "}" {
                return Err(problem("a brace is closed that was not opened".to_owned()));
            }
            let end = after.find('}').ok_or_else(|| problem("a brace is not closed".to_owned()))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(parse_placeholder(&after[..end]).map_err(problem)?);
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The parts, in order; two texts never follow each other.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Names of the arguments that occur, `principal` included, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Argument(name) | Part::Flag { name, .. } => Some(name.as_str()),
        })
    }

    /// The template without its first `length` bytes, which are text.
    #[must_use]
    pub fn without_start(&self, length: usize) -> Self {
        let mut parts = self.parts.clone();
        if let Some(Part::Text(text)) = parts.first_mut() {
            text.drain(..length.min(text.len()));
            if text.is_empty() {
                parts.remove(0);
            }
        }
        Self { parts }
    }

    /// The text, if it has no placeholder.
    pub fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => write!(formatter, "{}", text.replace('{', "{{").replace('}', "}}")),
            Part::Argument(name) => write!(formatter, "{{{name}}}"),
            Part::Flag { name, text } => write!(formatter, "{{?{name}:{text}}}"),
        })
    }
}

fn parse_placeholder(inner: &str) -> Result<Part, String> {
    let (name, text) = match inner.strip_prefix('?') {
        Some(flag) => match flag.split_once(':') {
            Some((name, text)) => (name, Some(text)),
            None => return Err(format!("{{{inner}}} has no text behind a colon")),
        },
        None => (inner, None),
    };
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    if !is_name(name) {
        return Err(format!("{{{inner}}} is not the name of an argument"));
    }
    let name = name.to_owned();
    Ok(match text {
        Some(text) => Part::Flag { name, text: text.to_owned() },
        None => Part::Argument(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Part>, String> {
        Template::parse("command", text).map(|it| it.parts).map_err(|it| it.message)
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn argument(name: &str) -> Part {
        Part::Argument(name.to_owned())
    }

    #[test]
    fn template_has_text_and_arguments() {
        assert_eq!(
            parse("a{b}c{d}").unwrap(),
            [text("a"), argument("b"), text("c"), argument("d")]
        );
        assert_eq!(parse("{{}}").unwrap(), [text("{}")]);
        assert_eq!(parse("").unwrap(), []);
        let flag = Part::Flag { name: "v".to_owned(), text: "--v".to_owned() };
        assert_eq!(parse("{?v:--v}").unwrap(), [flag]);
    }

    #[test]
    fn template_with_wrong_braces_is_refused() {
        for wrong in ["{", "}", "{a", "a}", "{}", "{a b}", "{?a}", "{?:x}", "{ä}"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
