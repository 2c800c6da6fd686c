//! The body of a prompt: text with placeholders for arguments.
//!
//! `{{name}}` is replaced by the argument of that name; spaces inside the braces are ignored.
//! `{{{{` is an escape of two braces; all other text, single and closing braces included, is
//! literal.
//!
//! Invariants: values are inserted verbatim and not parsed, so that braces in user input are
//! literal. A template is parsed once, when its file is read.

use std::fmt;

/// A text with placeholders for arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// A syntax error in a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct TemplateError {
    /// Offset of the byte at which it begins.
    pub(super) offset: usize,
    /// What is wrong.
    pub(super) message: String,
}

impl Template {
    /// Parses a body.
    pub(super) fn parse(body: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut at = 0;
        while let Some(found) = body[at..].find(OPEN) {
            let open = at + found;
            text.push_str(&body[at..open]);
            let inner = open + OPEN.len();
            if body[inner..].starts_with(OPEN) {
                text.push_str(OPEN);
                at = inner + OPEN.len();
                continue;
            }
            let Some(length) = body[inner..].find(CLOSE) else {
                return Err(template_error(open, "the {{ has no closing }}"));
            };
            let name = body[inner..inner + length].trim();
            if !is_argument_name(name) {
                return Err(template_error(open, "no argument name between {{ and }}"));
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Argument(name.to_owned()));
            at = inner + length + CLOSE.len();
        }
        text.push_str(&body[at..]);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self { pieces })
    }

    /// Returns the names of its arguments in the order of their first placeholders.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for piece in &self.pieces {
            if let Piece::Argument(name) = piece
                && !names.contains(&name.as_str())
            {
                names.push(name.as_str());
            }
        }
        names
    }

    /// Returns the text with placeholders replaced by `value`, or by nothing if that is `None`. It
    /// is only copied when it is written.
    pub(super) fn fill<'a, F>(&'a self, value: F) -> FilledTemplate<'a, F>
    where
        F: Fn(&str) -> Option<&'a str>,
    {
        FilledTemplate { template: self, value }
    }
}

/// A template with its values, which implements `Display`.
pub(super) struct FilledTemplate<'a, F> {
    template: &'a Template,
    value: F,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> FilledTemplate<'a, F> {
    /// Returns its length in bytes; a value counts for each of its placeholders.
    pub(super) fn length(&self) -> usize {
        self.texts().map(str::len).fold(0, usize::saturating_add)
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.template.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Argument(name) => (self.value)(name).unwrap_or(""),
        })
    }
}

impl<'a, F: Fn(&str) -> Option<&'a str>> fmt::Display for FilledTemplate<'a, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().try_for_each(|text| formatter.write_str(text))
    }
}

/// Returns whether `name` is an argument name: letters, digits, `_`, `-` and `.`, at least one.
pub(super) fn is_argument_name(name: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_part)
}

fn template_error(at: usize, what: &str) -> TemplateError {
    TemplateError { offset: at, message: what.to_owned() }
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns `body` filled with `X` for `x` and nothing for other arguments.
    fn filled(body: &str) -> String {
        Template::parse(body).unwrap().fill(|name| (name == "x").then_some("X")).to_string()
    }

    #[test]
    fn arguments_replace_their_placeholders() {
        for (body, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{{x}}", "X"),
            ("a {{ x }} b {{x}} c", "a X b X c"),
            ("{{x}}{{x}}", "XX"),
            ("[{{y}}]", "[]"),
            ("{x} }} {", "{x} }} {"),
            ("{{{{x}}", "{{x}}"),
            ("{{{{{{x}}}}", "{{X}}"),
            ("ü{{x}}€", "üX€"),
        ] {
            assert_eq!(filled(body), expected, "{body}");
            let template = Template::parse(body).unwrap();
            let filled = template.fill(|name| (name == "x").then_some("X"));
            assert_eq!(filled.length(), expected.len(), "{body}");
        }
    }

    #[test]
    fn argument_value_is_inserted_verbatim() {
        let template = Template::parse("{{x}}{{y}}").unwrap();
        let value = |name: &str| Some(if name == "x" { "{{y}} {{{{" } else { "Y" });
        assert_eq!(template.fill(value).to_string(), "{{y}} {{{{Y");
    }

    #[test]
    fn argument_names_are_unique_in_placeholder_order() {
        let template = Template::parse("{{b}} {{a}} {{b}} {{first-name.2}}").unwrap();
        assert_eq!(template.names(), ["b", "a", "first-name.2"]);
    }

    #[test]
    fn malformed_placeholder_is_reported_at_its_begin() {
        for (body, at) in [("a {{x", 2), ("{{}}", 0), ("{{x}} {{ }}", 6), ("{{a b}}", 0)] {
            assert_eq!(Template::parse(body).unwrap_err().offset, at, "{body}");
        }
    }

    proptest! {
        #[test]
        fn text_with_escaped_braces_is_literal(text in "[a-z{} \n€]{0,60}") {
            let body = text.replace("{{", "{{{{");
            prop_assert_eq!(filled(&body), text);
        }

        #[test]
        fn arbitrary_template_never_panics(body in "(\\PC|[{}\n]){0,60}") {
            drop(Template::parse(&body));
        }
    }
}
