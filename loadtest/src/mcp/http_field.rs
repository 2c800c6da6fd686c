//! HTTP fields that are added to every request, for example `Authorization`.
//!
//! Invariants: a field cannot break out of its line in a request head; values of fields that may be
//! secret do not appear in debug output or files.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Replacement text of a secret.
pub const REDACTED: &str = "(hidden)";
/// Minimum length of a prefix of a secret that is redacted, in bytes.
const REDACTED_PREFIX_BYTES_MIN: usize = 4;
/// Parts of field names whose values are secret.
const SECRET_NAME_PARTS: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

/// A text that does not appear in debug output, for example an argument with a token.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// Error of an invalid HTTP field. Contains the name, never the value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HttpFieldError {
    /// No colon between name and value.
    #[error("a header needs a colon: write 'Name: value'")]
    MissingColon,
    /// Empty name, or invalid characters in it.
    #[error("invalid header name {0:?}: use letters, digits and hyphens")]
    InvalidName(String),
    /// Line break or control character in the value.
    #[error("the value of header {0:?} has a line break or a control character: remove it")]
    InvalidValue(String),
    /// Bearer token that is empty or has invalid characters.
    #[error("the bearer token is empty or has blanks or control characters: give the token alone")]
    InvalidToken,
}

/// An HTTP field. Its value is redacted in output if the name suggests a secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "(String, String)", into = "(String, String)")]
pub struct HttpField {
    name: String,
    value: String,
}

impl HttpField {
    /// Creates a field (RFC 9110 sections 5.1 and 5.5).
    ///
    /// # Errors
    ///
    /// Returns an error if the name or value is not allowed in a request head.
    pub fn new(name: &str, value: &str) -> Result<Self, HttpFieldError> {
        let is_named =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_named) {
            return Err(HttpFieldError::InvalidName(name.into()));
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(HttpFieldError::InvalidValue(name.into()));
        }
        Ok(Self { name: name.into(), value: value.into() })
    }

    /// Parses a field written as `Name: value`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no colon, or name or value are invalid.
    pub fn parse(text: &str) -> Result<Self, HttpFieldError> {
        let (name, value) = text.split_once(':').ok_or(HttpFieldError::MissingColon)?;
        // Surrounding blanks are trimmed; a line break is an error.
        Self::new(name.trim_matches(' '), value.trim_matches([' ', '\t']))
    }

    /// Creates an `Authorization` field with a bearer token (RFC 6750 section 2.1).
    ///
    /// # Errors
    ///
    /// Returns an error if the token is empty or has invalid characters.
    pub fn bearer(token: &str) -> Result<Self, HttpFieldError> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HttpFieldError::InvalidToken);
        }
        Self::new("Authorization", &format!("Bearer {token}"))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value as it is sent.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns whether the value is redacted in output.
    pub fn is_secret(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
    }

    /// Returns the value, redacted if it is secret.
    pub fn redacted_value(&self) -> &str {
        if self.is_secret() { REDACTED } else { &self.value }
    }

    /// Redacts the secrets of `fields` in `text`.
    pub fn redact_all(fields: &[Self], text: String) -> String {
        fields.iter().fold(text, |text, field| field.redact(text))
    }

    /// Redacts the secret of this field in `text`, for example in an error of the server, also if
    /// its end is cut off.
    pub fn redact(&self, text: String) -> String {
        if !self.is_secret() {
            return text;
        }
        let behind_scheme = self.value.split_once(' ').map(|(_, secret)| secret);
        let secrets = [Some(self.value.as_str()), behind_scheme];
        secrets.into_iter().flatten().fold(text, redact_secret)
    }
}

/// Redacts `secret` in `text`, plain or escaped as in debug output, and a prefix of it at the end
/// of the text.
fn redact_secret(mut text: String, secret: &str) -> String {
    if secret.is_empty() {
        return text;
    }
    for secret in [secret.to_owned(), secret.escape_debug().to_string()] {
        if text.contains(&secret) {
            text = text.replace(&secret, REDACTED);
        }
        let parts =
            (REDACTED_PREFIX_BYTES_MIN..secret.len()).rev().filter_map(|end| secret.get(..end));
        let partial_secret = parts.into_iter().find(|part| text.ends_with(part)).map(str::len);
        if let Some(length) = partial_secret {
            text.truncate(text.len() - length);
            text.push_str(REDACTED);
        }
    }
    text
}

impl fmt::Debug for HttpField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.redacted_value())
    }
}

impl TryFrom<(String, String)> for HttpField {
    type Error = HttpFieldError;

    fn try_from(field: (String, String)) -> Result<Self, HttpFieldError> {
        let (name, value) = field;
        Self::new(&name, &value)
    }
}

impl From<HttpField> for (String, String) {
    fn from(field: HttpField) -> Self {
        let shown = field.redacted_value().to_owned();
        (field.name, shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_field_parses_name_and_value() {
        let field = HttpField::parse("X-Team:  a b ").unwrap();
        assert_eq!((field.name(), field.value(), field.redacted_value()), ("X-Team", "a b", "a b"));
        let field = HttpField::bearer("abc.def~1+/==").unwrap();
        assert_eq!((field.name(), field.value()), ("Authorization", "Bearer abc.def~1+/=="));
    }

    #[test]
    fn http_field_rejects_header_injection() {
        for text in ["X: a\r\nY: b", "X: a\nb", "X: a\0", "X: a\n", "X: a\x1b[0m"] {
            assert_eq!(
                HttpField::parse(text),
                Err(HttpFieldError::InvalidValue("X".into())),
                "{text:?}"
            );
        }
        for text in [": a", "X Y: a", "X\r\nY: a", "Grüße: a", "\n: a"] {
            assert!(
                matches!(HttpField::parse(text), Err(HttpFieldError::InvalidName(_))),
                "{text:?}"
            );
        }
        assert_eq!(HttpField::parse("no field"), Err(HttpFieldError::MissingColon));
        for token in ["", "a b", "a\r\n", "a\0", "ü"] {
            assert_eq!(HttpField::bearer(token), Err(HttpFieldError::InvalidToken), "{token:?}");
        }
    }

    #[test]
    fn http_field_error_is_one_line() {
        let error = HttpField::parse("X\nY: a").unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn secret_is_redacted_in_all_output() {
        let fields = [
            HttpField::bearer("s3cr3t").unwrap(),
            HttpField::parse("Cookie: s3cr3t").unwrap(),
            HttpField::parse("X-Api-Key: s3cr3t").unwrap(),
        ];
        let shown = format!("{fields:?} {:?}", Secret::from("s3cr3t".to_owned()));
        assert!(!shown.contains("s3cr3t") && shown.contains("Cookie: (hidden)"), "{shown}");
        let written = serde_json::to_string(&fields).unwrap();
        assert!(!written.contains("s3cr3t") && written.contains(REDACTED), "{written}");
        let redacted = fields[0].redact("no such token: s3cr3t!".into());
        assert_eq!(redacted, "no such token: (hidden)!");
        let cut = fields[0].redact("no such token: s3cr3".into());
        assert_eq!(cut, "no such token: (hidden)");
        let quoted = HttpField::bearer("a\"b'c\\d").unwrap();
        let redacted = quoted.redact("a\"b'c\\d".escape_debug().to_string());
        assert_eq!(redacted, REDACTED);
    }

    #[test]
    fn public_http_field_survives_serialization() {
        let field = HttpField::parse("X-Team: a").unwrap();
        let written = serde_json::to_string(&field).unwrap();
        assert_eq!(written, r#"["X-Team","a"]"#);
        assert_eq!(serde_json::from_str::<HttpField>(&written).unwrap(), field);
        let broken = serde_json::from_str::<HttpField>(r#"["X","a\r\nb"]"#).unwrap_err();
        assert!(broken.to_string().contains("line break"), "{broken}");
    }
}
