//! Names with wildcards, of rules, and what they are compared with.

use std::borrow::Cow;

use corelane_protocol::eras::Method;
use corelane_protocol::uri;

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

/// The name in a rule: of a tool or a prompt, or the URI of a resource.
#[derive(Clone, Debug)]
pub struct NamePattern {
    name: Pattern,
    /// The name as a URI, in the form in which all spellings of a URI are equal.
    uri: Pattern,
}

/// What a request is for, as rules compare it.
#[derive(Clone, Copy, Debug)]
pub enum TargetName<'a> {
    /// A tool or a prompt; empty if there is none.
    Name(&'a str),
    /// A resource.
    Uri(&'a TargetUri<'a>),
}

/// The URI of a resource in the forms that rules are compared with, so that a rule for one spelling
/// is not avoided by another one.
#[derive(Clone, Debug)]
pub struct TargetUri<'a> {
    /// As the resource is registered, or normalized.
    uri: Cow<'a, str>,
    /// `uri` with its percent-encoding decoded.
    decoded: Cow<'a, str>,
    /// The comparison key of `uri`, decoded.
    key: Cow<'a, str>,
}

impl NamePattern {
    /// Reads a name.
    pub fn new(text: &str) -> Self {
        let key = uri::comparison_key(text);
        Self { name: Pattern::new(text), uri: Pattern::new(&uri::decode(&key)) }
    }

    /// Returns whether the rule is for `target`. A rule for a URI without a query is for that URI
    /// with every query, too: it reads the same resource, or a part of it.
    pub fn matches(&self, target: TargetName<'_>) -> bool {
        match target {
            TargetName::Name(name) => self.name.matches(name),
            TargetName::Uri(TargetUri { uri, decoded, key }) => {
                [uri, decoded].into_iter().any(|text| self.name.matches(text))
                    || self.uri.matches(key)
            }
        }
    }
}

impl<'a> TargetUri<'a> {
    /// Returns the forms of `uri`, which the catalog has resolved, with its query and without.
    pub fn with_and_without_query(uri: &'a str) -> [Self; 2] {
        let path = uri.find(['?', '#']).map_or(uri, |end| &uri[..end]);
        [uri, path].map(|uri| Self {
            uri: Cow::Borrowed(uri),
            decoded: uri::decode(uri),
            key: match uri::comparison_key(uri) {
                Cow::Borrowed(key) => uri::decode(key),
                Cow::Owned(key) => Cow::Owned(uri::decode(&key).into_owned()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a rule for `pattern` is for a request of `uri`.
    fn is_for_uri(pattern: &str, uri: &str) -> bool {
        let pattern = NamePattern::new(pattern);
        let resolved = uri::normalize(uri);
        let forms = TargetUri::with_and_without_query(&resolved);
        forms.iter().any(|form| pattern.matches(TargetName::Uri(form)))
    }

    #[test]
    fn rule_applies_to_each_spelling_of_uri() {
        for rule in ["file:///a%20b/é*", "FILE:/a b/%C3%A9*", "file://localhost/%61%20b/%c3%a9*"] {
            for uri in [
                "file:///a%20b/%C3%A9.md",
                "FILE:///a%20b/é.md",
                "file:/%61%20b/%c3%a9.md",
                "file://LOCALHOST/a%20b/é%2emd?offset=1",
            ] {
                assert!(is_for_uri(rule, uri), "{rule} {uri}");
            }
            assert!(!is_for_uri(rule, "file:///A%20b/é.md"), "{rule}");
        }
        for (rule, uri, applies) in [
            ("docs://README.md", "docs://readme.md", true),
            ("*://Example.com/a", "test://EXAMPLE.com/a?b", true),
            ("test://a?b=1", "test://a?b=1", true),
            ("test://a?b=1", "test://a", false),
            ("test://a/b", "test://a/b%3Fc", false),
            ("test://a+b/@", "test://a%2Bb/%40", true),
            ("test://a/B", "test://a/b", false),
        ] {
            assert_eq!(is_for_uri(rule, uri), applies, "{rule} {uri}");
        }
        let tool = NamePattern::new("Docs://Tool");
        assert!(tool.matches(TargetName::Name("Docs://Tool")));
        assert!(!tool.matches(TargetName::Name("docs://tool")));
    }

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
