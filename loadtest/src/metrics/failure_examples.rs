//! The first answer or error of each kind of failure, and the last error of a connection.

use std::collections::BTreeMap;

use super::outcome::Failure;

/// Bytes of an answer's body that are kept.
pub const BODY_BYTES_MAX: usize = 500;
/// Bytes of an answer's status line and headers that are kept.
pub const HEAD_BYTES_MAX: usize = 2_000;

/// The first answer or error of each kind of failure, and the last error of a connection, as text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ErrorTexts {
    first: BTreeMap<&'static str, String>,
    last: Option<String>,
}

impl ErrorTexts {
    /// Returns the last error of a connection that did not open or ended unexpectedly.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Sets the last error of a connection.
    pub fn set_last(&mut self, error: String) {
        self.last = Some(error);
    }

    /// Removes and returns the last error of a connection.
    pub const fn take_last(&mut self) -> Option<String> {
        self.last.take()
    }

    /// Returns the first example of a kind.
    pub fn first(&self, failure: Failure) -> Option<&str> {
        self.first.get(failure.name()).map(String::as_str)
    }

    /// Returns whether there is no example of this kind; `None` is an unsolicited response.
    pub fn lacks(&self, failure: Option<Failure>) -> bool {
        !self.first.contains_key(name(failure))
    }

    /// Keeps the first example of a kind.
    pub fn add_first(&mut self, failure: Option<Failure>, text: String) {
        self.first.entry(name(failure)).or_insert(text);
    }

    /// Adds the texts of another load thread or second: examples of kinds without one, and its last
    /// error if it has any.
    pub fn add(&mut self, other: &Self) {
        for (kind, text) in &other.first {
            if !self.first.contains_key(kind) {
                self.first.insert(kind, text.clone());
            }
        }
        if other.last.is_some() {
            self.last.clone_from(&other.last);
        }
    }

    /// Removes all texts.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last = None;
    }

    /// Returns all examples by the name of their kind.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.first.iter().map(|(kind, text)| (*kind, text.as_str()))
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
        let mut examples = ErrorTexts::default();
        examples.add_first(Some(Failure::Rpc), "one".into());
        examples.add_first(Some(Failure::Rpc), "two".into());
        let mut others = ErrorTexts::default();
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
