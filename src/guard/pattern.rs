//! Names with wildcards, of rules.

/// A text in which `*` stands for any text.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Vec<Box<str>>);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.split('*').map(Box::from).collect())
    }

    /// Returns whether `text` is one of those that the pattern stands for.
    pub(super) fn matches(&self, text: &str) -> bool {
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
