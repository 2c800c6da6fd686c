//! The first answer or error of each kind of failure.

use std::collections::BTreeMap;

use super::outcome::Failure;

/// Bytes of an answer's body that are kept.
pub const BODY_BYTES_MAX: usize = 500;
/// Bytes of an answer's status line and headers that are kept.
pub const HEAD_BYTES_MAX: usize = 2_000;

/// The first answer or error of each kind of failure, as text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FailureExamples(BTreeMap<&'static str, String>);

impl FailureExamples {
    /// Returns whether there is no example of this kind; `None` is an unsolicited response.
    pub fn lacks(&self, failure: Option<Failure>) -> bool {
        !self.0.contains_key(name(failure))
    }

    /// Keeps the first example of a kind.
    pub fn add_first(&mut self, failure: Option<Failure>, text: String) {
        self.0.entry(name(failure)).or_insert(text);
    }

    /// Adds the examples of another load thread or second, of kinds without one.
    pub fn add(&mut self, other: &Self) {
        for (kind, text) in &other.0 {
            if !self.0.contains_key(kind) {
                self.0.insert(kind, text.clone());
            }
        }
    }

    /// Removes all examples.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns all examples by the name of their kind.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(kind, text)| (*kind, text.as_str()))
    }
}

/// Returns the beginning of an answer as text, with control characters other than line breaks
/// escaped.
pub fn answer_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for character in text.trim_end().chars() {
        match character {
            '\n' => shown.push('\n'),
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

const fn name(failure: Option<Failure>) -> &'static str {
    match failure {
        Some(failure) => failure.name(),
        None => Failure::UNSOLICITED.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_example_of_each_kind_is_kept() {
        let mut examples = FailureExamples::default();
        examples.add_first(Some(Failure::Rpc), "one".into());
        examples.add_first(Some(Failure::Rpc), "two".into());
        let mut others = FailureExamples::default();
        others.add_first(Some(Failure::Rpc), "three".into());
        others.add_first(None, "four".into());
        examples.add(&others);
        let all: Vec<_> = examples.iter().collect();
        assert_eq!(all, [("rpc_error", "one"), ("unsolicited", "four")]);
        assert!(!examples.lacks(None) && examples.lacks(Some(Failure::Wrong)));
    }

    #[test]
    fn answer_text_escapes_control_characters() {
        assert_eq!(
            answer_text(b"HTTP/1.1 500 No\r\na: b\r\n\r\n\x1b[1m\xff\n"),
            "HTTP/1.1 500 No\na: b\n\n\\u{1b}[1m\u{fffd}"
        );
    }
}
