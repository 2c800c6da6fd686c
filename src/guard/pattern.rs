//! Names with wildcards, of rules.

use crate::protocol::eras::Method;

/// A text in which `*` stands for any text.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Box<str>>);

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Self {
        Self(text.split('*').map(Box::from).collect())
    }

    /// Returns the pattern of the method of a rule. `is_other` is whether it stands for something
    /// else than the method of a request.
    ///
    /// # Errors
    ///
    /// No method has this name.
    pub(super) fn of_methods(
        text: &str,
        is_other: impl FnOnce(&Self) -> bool,
    ) -> Result<Self, String> {
        let pattern = Self::new(text);
        let mut methods = Method::ALL.iter();
        if methods.any(|method| pattern.matches(method.as_str())) || is_other(&pattern) {
            return Ok(pattern);
        }
        let known = Method::ALL.map(Method::as_str).join(", ");
        Err(format!("the method {text} is unknown: write one of {known}, or * for any text"))
    }

    /// Returns whether `text` is one of those that the pattern stands for.
    pub fn matches(&self, text: &str) -> bool {
        let [first, inner @ .., last] = &*self.0 else {
            return self.0.first().is_some_and(|only| &**only == text);
        };
        let Some(mut rest) = text.strip_prefix(&**first) else { return false };
        for part in inner {
            let Some((_, after)) = rest.split_once(&**part) else { return false };
            rest = after;
        }
        rest.ends_with(&**last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_of_methods_names_a_method() {
        for text in ["tools/call", "tools/*", "*", "*/list"] {
            assert!(Pattern::of_methods(text, |_| false).is_ok(), "{text}");
        }
        for text in ["tool/call", "tools/cal", "Tools/call", "notifications/*"] {
            let error = Pattern::of_methods(text, |_| false).unwrap_err();
            assert!(error.contains(text) && error.contains("tools/call"), "{error}");
        }
        assert!(Pattern::of_methods("notifications/*", |_| true).is_ok());
    }

    #[test]
    fn pattern_matches_text_between_stars() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*ba", "aba", false),
            ("docs://*/x", "docs://a/b/x", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }
}
