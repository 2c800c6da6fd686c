//! The body of a prompt: text with placeholders for arguments.
//!
//! `{{name}}` is replaced by the argument of that name; spaces inside the braces are ignored.
//! `{{{{` is an escape of two braces; all other text, single and closing braces included, is
//! literal. `$ARGUMENTS` is replaced by the argument `arguments`, as in the commands of other
//! programs, unless a letter, a digit, `_` or `[` follows.
//!
//! Invariants: values are inserted verbatim and not parsed, so that braces in user input are
//! literal. A template is parsed once, when its file is read.

use std::collections::HashMap;
use std::fmt;

/// A text with placeholders for arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    /// Names of the arguments, in the order of their first placeholders.
    names: Vec<String>,
    /// Indexes into `names`, sorted by name.
    by_name: Vec<usize>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    /// The index of an argument.
    Argument(usize),
}

impl Piece {
    /// Divides a text at each `$ARGUMENTS`, which becomes the argument `index`.
    fn split(self, index: usize) -> Vec<Self> {
        let Self::Text(text) = &self else { return vec![self] };
        let (mut pieces, mut at) = (Vec::new(), 0);
        for found in dollar_arguments(text) {
            if found > at {
                pieces.push(Self::Text(text[at..found].to_owned()));
            }
            pieces.push(Self::Argument(index));
            at = found + DOLLAR_ARGUMENTS.len();
        }
        if at == 0 {
            return vec![self];
        }
        if at < text.len() {
            pieces.push(Self::Text(text[at..].to_owned()));
        }
        pieces
    }
}

/// Returns the offsets of `$ARGUMENTS` in a text.
fn dollar_arguments(text: &str) -> impl Iterator<Item = usize> {
    let goes_on = |rest: &str| {
        rest.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '['))
    };
    let found = text.match_indices(DOLLAR_ARGUMENTS).map(|(offset, _)| offset);
    found.filter(move |offset| !goes_on(&text[offset + DOLLAR_ARGUMENTS.len()..]))
}

/// A syntax error in a template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TemplateError {
    /// Offset of the byte at which it begins.
    pub(super) offset: usize,
    pub(super) kind: TemplateErrorKind,
}

/// What is wrong in a template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TemplateErrorKind {
    /// A placeholder has no end.
    Unclosed,
    /// A placeholder has no valid name.
    InvalidName,
    /// A placeholder has a name that exceeds [`ARGUMENTS_MAX`].
    TooManyArguments,
}

#[derive(Debug)]
pub(super) struct ParsedTemplate {
    pub(super) template: Template,
    /// Offset of the first placeholder of each argument, in the order of [`Template::names`].
    pub(super) offsets: Vec<usize>,
    /// Malformed placeholders, which are text; at most [`ERRORS_MAX`].
    pub(super) errors: Vec<TemplateError>,
    /// Whether the body has `$ARGUMENTS`.
    pub(super) has_dollar_arguments: bool,
}

impl ParsedTemplate {
    /// Makes each `$ARGUMENTS`, the first of which is at `offset`, a placeholder.
    fn add_dollar_arguments(&mut self, offset: usize) -> Result<(), TemplateError> {
        self.has_dollar_arguments = true;
        let Template { pieces, names, by_name } = &mut self.template;
        let compare = |index: &usize| names[*index].as_str().cmp(DOLLAR_ARGUMENTS_NAME);
        let index = match by_name.binary_search_by(compare) {
            Ok(place) => by_name[place],
            Err(_) if names.len() == ARGUMENTS_MAX => {
                return Err(TemplateError { offset, kind: TemplateErrorKind::TooManyArguments });
            }
            Err(place) => {
                by_name.insert(place, names.len());
                names.push(DOLLAR_ARGUMENTS_NAME.to_owned());
                self.offsets.push(offset);
                names.len() - 1
            }
        };
        *pieces = std::mem::take(pieces).into_iter().flat_map(|it| it.split(index)).collect();
        Ok(())
    }
}

impl Template {
    /// Parses a body. A malformed placeholder is text. Cost: linear in its length.
    ///
    /// # Errors
    ///
    /// There are too many arguments.
    pub(super) fn parse(body: &str) -> Result<ParsedTemplate, TemplateError> {
        let mut pieces = Vec::new();
        let mut indexes: HashMap<&str, usize> = HashMap::new();
        let (mut offsets, mut errors) = (Vec::new(), Vec::new());
        let mut text = String::new();
        // The first end of a placeholder that was found, so that the text is searched once.
        let (mut at, mut close) = (0, body.find(CLOSE));
        while let Some(found) = body[at..].find(OPEN) {
            let open = at + found;
            text.push_str(&body[at..open]);
            let inner = open + OPEN.len();
            at = inner;
            if body[inner..].starts_with(OPEN) {
                text.push_str(OPEN);
                at += OPEN.len();
                continue;
            }
            if close.is_some_and(|close| close < inner) {
                close = body[inner..].find(CLOSE).map(|length| inner + length);
            }
            let name = close.and_then(|close| placeholder_name(&body[inner..close]));
            let (Some(end), Some(name)) = (close, name) else {
                let is_closed = close.is_some();
                let kind = if is_closed {
                    TemplateErrorKind::InvalidName
                } else {
                    TemplateErrorKind::Unclosed
                };
                if errors.len() < ERRORS_MAX {
                    errors.push(TemplateError { offset: open, kind });
                }
                text.push_str(OPEN);
                continue;
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            let next = indexes.len();
            let index = *indexes.entry(name).or_insert(next);
            if index == ARGUMENTS_MAX {
                let kind = TemplateErrorKind::TooManyArguments;
                return Err(TemplateError { offset: open, kind });
            }
            if index == offsets.len() {
                offsets.push(open);
            }
            pieces.push(Piece::Argument(index));
            at = end + CLOSE.len();
        }
        text.push_str(&body[at..]);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        let mut parsed = Self::of_parts(pieces, indexes, offsets, errors);
        match dollar_arguments(body).next() {
            Some(offset) => parsed.add_dollar_arguments(offset).map(|()| parsed),
            None => Ok(parsed),
        }
    }

    /// Puts the parts of a body together; `indexes` has the names of its arguments.
    fn of_parts(
        pieces: Vec<Piece>,
        indexes: HashMap<&str, usize>,
        offsets: Vec<usize>,
        errors: Vec<TemplateError>,
    ) -> ParsedTemplate {
        let mut sorted: Vec<(&str, usize)> = indexes.into_iter().collect();
        sorted.sort_unstable();
        let by_name = sorted.iter().map(|(_, index)| *index).collect();
        sorted.sort_unstable_by_key(|(_, index)| *index);
        let names = sorted.into_iter().map(|(name, _)| name.to_owned()).collect();
        let template = Self { pieces, names, by_name };
        ParsedTemplate { template, offsets, errors, has_dollar_arguments: false }
    }

    /// Makes the placeholders of the arguments marked in `is_text`, by index, text.
    pub(super) fn make_text(&mut self, is_text: &[bool]) {
        for piece in &mut self.pieces {
            if let Piece::Argument(index) = piece
                && is_text[*index]
            {
                *piece = Piece::Text(format!("{OPEN}{}{CLOSE}", self.names[*index]));
            }
        }
    }

    /// Returns the names of its arguments in the order of their first placeholders.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index of `name` in [`Template::names`]. Cost: a binary search.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        let compare = |index: &usize| self.names[*index].as_str().cmp(name);
        self.by_name.binary_search_by(compare).ok().map(|place| self.by_name[place])
    }

    /// Returns the text with placeholders replaced by `arguments`, pairs of name and value, or by
    /// nothing. Of duplicate names the last counts; names without a placeholder are ignored. The
    /// text is only copied when it is written.
    ///
    /// Cost: one search among the names for each argument, then one step for each placeholder.
    pub(super) fn fill<'a>(
        &'a self,
        arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> FilledTemplate<'a> {
        let mut values = ArgumentValues::new(self.names.len());
        let slots = values.as_mut_slice();
        for (name, value) in arguments {
            if let Some(index) = self.index_of(name) {
                slots[index] = value;
            }
        }
        FilledTemplate { template: self, values }
    }
}

/// A template with its values, which implements `Display`.
pub(super) struct FilledTemplate<'a> {
    template: &'a Template,
    values: ArgumentValues<'a>,
}

impl FilledTemplate<'_> {
    /// Returns its length in bytes; a value counts for each of its placeholders.
    pub(super) fn length(&self) -> usize {
        self.texts().map(str::len).fold(0, usize::saturating_add)
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let values = self.values.as_slice();
        self.template.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Argument(index) => values[*index],
        })
    }
}

impl fmt::Display for FilledTemplate<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().try_for_each(|text| formatter.write_str(text))
    }
}

/// Values of the arguments of a template, by their index. Allocates nothing for a few.
enum ArgumentValues<'a> {
    Few([&'a str; FEW_ARGUMENTS]),
    Many(Vec<&'a str>),
}

impl<'a> ArgumentValues<'a> {
    /// Returns at least `count` empty values.
    fn new(count: usize) -> Self {
        if count <= FEW_ARGUMENTS {
            Self::Few([""; FEW_ARGUMENTS])
        } else {
            Self::Many(vec![""; count])
        }
    }

    fn as_slice(&self) -> &[&'a str] {
        match self {
            Self::Few(values) => values,
            Self::Many(values) => values,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [&'a str] {
        match self {
            Self::Few(values) => values,
            Self::Many(values) => values,
        }
    }
}

/// Returns the argument name between the braces of a placeholder, if it is one.
fn placeholder_name(inner: &str) -> Option<&str> {
    if inner.len() > PLACEHOLDER_BYTES_MAX {
        return None;
    }
    let name = inner.trim();
    is_argument_name(name).then_some(name)
}

/// Returns whether `name` is an argument name: letters, digits, `_`, `-` and `.`, at least one.
pub(super) fn is_argument_name(name: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_part)
}

/// Maximum number of arguments of a template, far above what a person fills in.
pub(super) const ARGUMENTS_MAX: usize = 1024;

/// Maximum number of malformed placeholders that are reported.
pub(super) const ERRORS_MAX: usize = 8;

/// Maximum number of bytes between the braces of a placeholder, so that bodies are parsed in linear
/// time.
const PLACEHOLDER_BYTES_MAX: usize = 1024;

/// Number of arguments whose values are kept without an allocation.
const FEW_ARGUMENTS: usize = 8;

/// Name of the argument that `$ARGUMENTS` stands for.
pub(super) const DOLLAR_ARGUMENTS_NAME: &str = "arguments";

const DOLLAR_ARGUMENTS: &str = "$ARGUMENTS";

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns `body` filled with `X` for `x` and nothing for other arguments.
    fn filled(body: &str) -> String {
        template(body).fill([("x", "X")]).to_string()
    }

    fn template(body: &str) -> Template {
        Template::parse(body).unwrap().template
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
            let template = template(body);
            assert_eq!(template.fill([("x", "X")]).length(), expected.len(), "{body}");
        }
    }

    #[test]
    fn dollar_arguments_ends_with_its_word() {
        for (body, expected) in [
            ("$ARGUMENTS", "A"),
            ("a$ARGUMENTS$ARGUMENTS.", "aAA."),
            ("$ARGUMENTS{{x}}{{arguments}}", "AXA"),
            ("$ARGUMENTS_ $ARGUMENTS[0] $ARGUMENTSx $arguments", {
                "$ARGUMENTS_ $ARGUMENTS[0] $ARGUMENTSx $arguments"
            }),
        ] {
            let template = template(body);
            let filled = template.fill([("x", "X"), ("arguments", "A")]);
            assert_eq!(filled.to_string(), expected, "{body}");
        }
    }

    #[test]
    fn argument_value_is_inserted_verbatim() {
        let template = template("{{x}}{{y}}");
        let arguments = [("x", "{{y}} {{{{"), ("y", "Y")];
        assert_eq!(template.fill(arguments).to_string(), "{{y}} {{{{Y");
    }

    #[test]
    fn last_of_duplicate_arguments_is_inserted() {
        for count in [1, FEW_ARGUMENTS, FEW_ARGUMENTS + 1, ARGUMENTS_MAX] {
            let template = template(&distinct_placeholders(count));
            let last = format!("x{}", count - 1);
            let arguments = [(&*last, "a"), ("other", "b"), (&*last, "c")];
            let filled = template.fill(arguments);
            assert_eq!((filled.to_string(), filled.length()), ("c".into(), 1), "{count}");
        }
    }

    #[test]
    fn argument_names_are_unique_in_placeholder_order() {
        let parsed = Template::parse("{{b}} {{a}} {{b}} {{first-name.2}}").unwrap();
        assert_eq!(parsed.offsets, [0, 6, 18]);
        let template = parsed.template;
        assert_eq!(template.names(), ["b", "a", "first-name.2"]);
        let indexes = ["b", "a", "first-name.2", "c"].map(|name| template.index_of(name));
        assert_eq!(indexes, [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn malformed_placeholder_is_reported_at_its_begin() {
        for (body, at) in [("a {{x", 2), ("{{}}", 0), ("{{x}} {{ }}", 6), ("{{a b}}", 0)] {
            let errors = Template::parse(body).unwrap().errors;
            assert_eq!(errors.iter().map(|error| error.offset).collect::<Vec<_>>(), [at], "{body}");
        }
    }

    #[test]
    fn malformed_placeholder_is_text() {
        for (body, expected) in [
            ("{{ {{x}}", "{{ X"),
            ("{{x {{x}} }}", "{{x X }}"),
            ("{{x}} {{x", "X {{x"),
            ("{{x {{{{", "{{x {{"),
            ("{{}}}", "{{}}}"),
        ] {
            assert_eq!(filled(body), expected, "{body}");
        }
        let long = format!("{{{{x{}}}}}", " ".repeat(PLACEHOLDER_BYTES_MAX));
        assert_eq!(filled(&long), long);
    }

    #[test]
    fn many_malformed_placeholders_are_parsed_at_once() {
        for end in ["", "}}", &" ".repeat(1 << 20)] {
            let body = "{{ ".repeat(1 << 18) + end;
            assert_eq!(Template::parse(&body).unwrap().errors.len(), ERRORS_MAX);
        }
    }

    #[test]
    fn template_arguments_are_limited() {
        let full = distinct_placeholders(ARGUMENTS_MAX);
        assert!(Template::parse(&full.repeat(2)).is_ok());
        // The first name beyond the limit ends the parse.
        for others in [1, 1_000_000] {
            let body = full.clone() + &distinct_placeholders(others).replace('x', "y");
            let error = Template::parse(&body).unwrap_err();
            assert_eq!(error.kind, TemplateErrorKind::TooManyArguments);
            assert_eq!(error.offset, full.len());
        }
    }

    /// Returns placeholders of `count` arguments, `x0` and so on.
    fn distinct_placeholders(count: usize) -> String {
        let placeholders: Vec<_> = (0..count).map(|index| format!("{{{{x{index}}}}}")).collect();
        placeholders.concat()
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
