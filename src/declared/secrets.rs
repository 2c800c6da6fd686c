//! Values that must not be shown: those that came from variables and files.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// The values of `${NAME}` and `${file:…}`.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Secrets {
    values: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
}

/// Shorter values are names and numbers rather than secrets; to replace them would make texts
/// unreadable.
const SECRET_BYTES_MIN: usize = 6;

/// What stands in place of a secret.
const REDACTED: &str = "[secret]";

impl Secrets {
    /// Adds a value, in each form in which a message may have it.
    pub fn add(&mut self, value: &str) {
        if value.len() < SECRET_BYTES_MIN {
            return;
        }
        for form in [value.to_owned(), value.replace('{', "{{").replace('}', "}}")] {
            // In quotes of a message.
            self.values.insert(form.escape_debug().to_string());
            self.values.insert(form);
        }
    }

    /// Adds a file that a value comes from, or would.
    pub fn add_file(&mut self, path: PathBuf) {
        self.files.insert(path);
    }

    /// The files of values.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter()
    }

    /// Returns `text` with every secret replaced, the longest first, and with it the beginning of
    /// one before the `…` of a text that was cut.
    pub fn redact(&self, text: String) -> String {
        let mut found: Vec<&String> =
            self.values.iter().filter(|value| text.contains(value.as_str())).collect();
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let replace = |text: String, value: &String| text.replace(value.as_str(), REDACTED);
        self.redact_cut(found.into_iter().fold(text, replace))
    }

    fn redact_cut(&self, mut text: String) -> String {
        let cuts: Vec<usize> = text.match_indices('…').map(|(index, _)| index).collect();
        // From the last one on, so that the others stay where they are.
        for end in cuts.into_iter().rev() {
            let kept = &text[..end];
            let beginning = |value: &String| {
                let lengths = (SECRET_BYTES_MIN..value.len()).rev();
                let mut lengths = lengths.filter(|length| value.is_char_boundary(*length));
                lengths.find(|length| kept.ends_with(&value[..*length]))
            };
            if let Some(length) = self.values.iter().filter_map(beginning).max() {
                text.replace_range(end - length..end, REDACTED);
            }
        }
        text
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").field("count", &self.values.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_longest_first() {
        let mut secrets = Secrets::default();
        for value in ["token-1", "token-1-long", "abc"] {
            secrets.add(value);
        }
        let text = secrets.redact("key token-1-long, token-1, abc".to_owned());
        assert_eq!(text, "key [secret], [secret], abc");
        assert!(!format!("{secrets:?}").contains("token"));
    }

    #[test]
    fn beginning_of_secret_is_redacted_before_cut() {
        let mut secrets = Secrets::default();
        secrets.add("tökens-are-long");
        for cut in ["401: key tökens-a…", "401: tökens-a… (after 3 requests: tökens-a…)"] {
            let text = secrets.redact(cut.to_owned());
            assert_eq!(text, cut.replace("tökens-a", "[secret]"));
        }
        for whole in ["401: key tök…", "401: what are tökens-a"] {
            assert_eq!(secrets.redact(whole.to_owned()), whole);
        }
    }

    #[test]
    fn quoted_and_doubled_forms_are_redacted() {
        let mut secrets = Secrets::default();
        let secret = "pa\"ss\\{word}";
        secrets.add(secret);
        let doubled = "pa\"ss\\{{word}}";
        for text in [secret.to_owned(), format!("{secret:?}"), format!("{doubled:?}")] {
            assert_eq!(secrets.redact(text).replace('"', ""), "[secret]");
        }
    }
}
