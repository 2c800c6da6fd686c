//! The body of a prompt: text with places for arguments.
//!
//! `{{name}}` is replaced by the argument of that name, with or without spaces inside the braces.
//! `{{{{` stands for two braces that mean themselves; every other text means itself too, single
//! braces and closing ones included.
//!
//! What it keeps true: a value is inserted as it is and never read again, so that braces in what a
//! user typed stay braces. A template is read once, when its file is; filling it in only copies.

use std::fmt;

/// A text with places for arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// What is wrong with a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct TemplateFault {
    /// The byte at which it begins.
    pub(super) at: usize,
    /// What is wrong.
    pub(super) what: String,
}

impl Template {
    /// Reads a body.
    pub(super) fn read(body: &str) -> Result<Self, TemplateFault> {
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
                return Err(fault(open, "the {{ here is never closed"));
            };
            let name = body[inner..inner + length].trim();
            if !is_name(name) {
                return Err(fault(open, "between {{ and }} stands no name of an argument"));
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

    /// The names of its arguments in the order of their first places.
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

    /// The text with `value` asked for each argument; one that has none becomes nothing. Costs
    /// nothing but the copy where it is written to.
    pub(super) fn fill<'a, F>(&'a self, value: F) -> Filled<'a, F>
    where
        F: Fn(&str) -> Option<&'a str>,
    {
        Filled { template: self, value }
    }
}

/// A template with its values, to be written.
pub(super) struct Filled<'a, F> {
    template: &'a Template,
    value: F,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Filled<'a, F> {
    /// How long it is, in bytes: a value stands at as many places as the body has for it.
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

impl<'a, F: Fn(&str) -> Option<&'a str>> fmt::Display for Filled<'a, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().try_for_each(|text| formatter.write_str(text))
    }
}

/// Whether `name` can name an argument: letters, digits, `_`, `-` and `.`, at least one.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_part)
}

fn fault(at: usize, what: &str) -> TemplateFault {
    TemplateFault { at, what: what.to_owned() }
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `body` filled in with `X` for `x` and nothing for anything else.
    fn filled(body: &str) -> String {
        Template::read(body).unwrap().fill(|name| (name == "x").then_some("X")).to_string()
    }

    #[test]
    fn arguments_take_their_places() {
        for (body, wanted) in [
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
            assert_eq!(filled(body), wanted, "{body}");
            let template = Template::read(body).unwrap();
            let filled = template.fill(|name| (name == "x").then_some("X"));
            assert_eq!(filled.length(), wanted.len(), "{body}");
        }
    }

    #[test]
    fn a_value_is_inserted_as_it_is() {
        let template = Template::read("{{x}}{{y}}").unwrap();
        let value = |name: &str| Some(if name == "x" { "{{y}} {{{{" } else { "Y" });
        assert_eq!(template.fill(value).to_string(), "{{y}} {{{{Y");
    }

    #[test]
    fn names_come_once_in_the_order_of_their_places() {
        let template = Template::read("{{b}} {{a}} {{b}} {{first-name.2}}").unwrap();
        assert_eq!(template.names(), ["b", "a", "first-name.2"]);
    }

    #[test]
    fn a_place_that_is_none_is_found_where_it_begins() {
        for (body, at) in [("a {{x", 2), ("{{}}", 0), ("{{x}} {{ }}", 6), ("{{a b}}", 0)] {
            assert_eq!(Template::read(body).unwrap_err().at, at, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_text_with_its_braces_doubled_means_itself(text in "[a-z{} \n€]{0,60}") {
            let body = text.replace("{{", "{{{{");
            prop_assert_eq!(filled(&body), text);
        }

        #[test]
        fn no_body_makes_it_panic(body in "(\\PC|[{}\n]){0,60}") {
            drop(Template::read(&body));
        }
    }
}
