//! Fields of HTTP that a person adds to every request: a token, for instance.
//!
//! What it keeps true: a field that exists can be written into a head without changing what is
//! around it; what may be a secret is in no debug output and in no file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What stands where a secret is not shown.
pub const HIDDEN: &str = "(hidden)";
/// Bytes from which on the beginning of a secret is told apart from chance.
const BEGINNING_BYTES_MIN: usize = 4;
/// Parts of the names whose values are not shown.
const SECRET: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

/// A text that is not shown: an argument that may hold a token.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
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
        formatter.write_str(HIDDEN)
    }
}

/// Why something cannot be a field. It tells the name and never the value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// No colon parts a name from a value.
    #[error("a field of HTTP has a colon: write 'Name: value'")]
    Colon,
    /// The name is empty, or has characters that no name has.
    #[error("{0:?} cannot be the name of a field: letters, digits and hyphens can")]
    Name(String),
    /// The value would end the field, or more than that.
    #[error("the value of the field {0:?} has a line break or a control character: leave it out")]
    Value(String),
    /// The token could not stand behind `Bearer`.
    #[error("the bearer token is empty or has blanks or control characters: write it alone")]
    Token,
}

/// A field of HTTP. Its value is shown only where its name tells that it is no secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "(String, String)", into = "(String, String)")]
pub struct Field {
    name: String,
    value: String,
}

impl Field {
    /// A field with this name and value (RFC 9110 sections 5.1 and 5.5).
    ///
    /// # Errors
    ///
    /// Where no head could carry it.
    pub fn new(name: &str, value: &str) -> Result<Self, Unfit> {
        let is_named =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_named) {
            return Err(Unfit::Name(name.into()));
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(Unfit::Value(name.into()));
        }
        Ok(Self { name: name.into(), value: value.into() })
    }

    /// A field that is written `Name: value`.
    ///
    /// # Errors
    ///
    /// Where it is none.
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let (name, value) = text.split_once(':').ok_or(Unfit::Colon)?;
        // Blanks around it are no part of it; a line break is a mistake that has to be told.
        Self::new(name.trim_matches(' '), value.trim_matches([' ', '\t']))
    }

    /// The field that shows a bearer token (RFC 6750 section 2.1).
    ///
    /// # Errors
    ///
    /// Where the token is empty or holds what no token does.
    pub fn bearer(token: &str) -> Result<Self, Unfit> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Unfit::Token);
        }
        Self::new("Authorization", &format!("Bearer {token}"))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value as it is sent.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether its value is not shown.
    pub fn is_secret(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        SECRET.iter().any(|part| name.contains(part))
    }

    /// Its value as it may be shown.
    pub fn shown(&self) -> &str {
        if self.is_secret() { HIDDEN } else { &self.value }
    }

    /// `text` without the secret of this field: what a server says may repeat it, also with its
    /// end cut off.
    pub fn conceal(&self, text: String) -> String {
        if !self.is_secret() {
            return text;
        }
        let behind_scheme = self.value.split_once(' ').map(|(_, secret)| secret);
        let secrets = [Some(self.value.as_str()), behind_scheme];
        secrets.into_iter().flatten().fold(text, conceal)
    }
}

/// `text` without `secret`, as it is or as debug output has it, and without the beginning of it at
/// the end.
fn conceal(mut text: String, secret: &str) -> String {
    if secret.is_empty() {
        return text;
    }
    for secret in [secret.to_owned(), secret.escape_debug().to_string()] {
        if text.contains(&secret) {
            text = text.replace(&secret, HIDDEN);
        }
        let parts = (BEGINNING_BYTES_MIN..secret.len()).rev().filter_map(|end| secret.get(..end));
        let begun = parts.into_iter().find(|part| text.ends_with(part)).map(str::len);
        if let Some(length) = begun {
            text.truncate(text.len() - length);
            text.push_str(HIDDEN);
        }
    }
    text
}

impl fmt::Debug for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.shown())
    }
}

impl TryFrom<(String, String)> for Field {
    type Error = Unfit;

    fn try_from((name, value): (String, String)) -> Result<Self, Unfit> {
        Self::new(&name, &value)
    }
}

impl From<Field> for (String, String) {
    fn from(field: Field) -> Self {
        let shown = field.shown().to_owned();
        (field.name, shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_as_it_is_written() {
        let field = Field::parse("X-Team:  a b ").unwrap();
        assert_eq!((field.name(), field.value(), field.shown()), ("X-Team", "a b", "a b"));
        let field = Field::bearer("abc.def~1+/==").unwrap();
        assert_eq!((field.name(), field.value()), ("Authorization", "Bearer abc.def~1+/=="));
    }

    #[test]
    fn what_would_break_out_of_its_line_is_no_field() {
        for text in ["X: a\r\nY: b", "X: a\nb", "X: a\0", "X: a\n", "X: a\x1b[0m"] {
            assert_eq!(Field::parse(text), Err(Unfit::Value("X".into())), "{text:?}");
        }
        for text in [": a", "X Y: a", "X\r\nY: a", "Grüße: a", "\n: a"] {
            assert!(matches!(Field::parse(text), Err(Unfit::Name(_))), "{text:?}");
        }
        assert_eq!(Field::parse("no field"), Err(Unfit::Colon));
        for token in ["", "a b", "a\r\n", "a\0", "ü"] {
            assert_eq!(Field::bearer(token), Err(Unfit::Token), "{token:?}");
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_the_name_was() {
        let error = Field::parse("X\nY: a").unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn a_secret_is_shown_nowhere() {
        let fields = [
            Field::bearer("s3cr3t").unwrap(),
            Field::parse("Cookie: s3cr3t").unwrap(),
            Field::parse("X-Api-Key: s3cr3t").unwrap(),
        ];
        let shown = format!("{fields:?} {:?}", Secret::from("s3cr3t".to_owned()));
        assert!(!shown.contains("s3cr3t") && shown.contains("Cookie: (hidden)"), "{shown}");
        let written = serde_json::to_string(&fields).unwrap();
        assert!(!written.contains("s3cr3t") && written.contains(HIDDEN), "{written}");
        let said = fields[0].conceal("no such token: s3cr3t!".into());
        assert_eq!(said, "no such token: (hidden)!");
        let cut = fields[0].conceal("no such token: s3cr3".into());
        assert_eq!(cut, "no such token: (hidden)");
        let quoted = Field::bearer("a\"b'c\\d").unwrap();
        let said = quoted.conceal("a\"b'c\\d".escape_debug().to_string());
        assert_eq!(said, HIDDEN);
    }

    #[test]
    fn a_field_that_is_no_secret_survives_being_written_and_read() {
        let field = Field::parse("X-Team: a").unwrap();
        let written = serde_json::to_string(&field).unwrap();
        assert_eq!(written, r#"["X-Team","a"]"#);
        assert_eq!(serde_json::from_str::<Field>(&written).unwrap(), field);
        let broken = serde_json::from_str::<Field>(r#"["X","a\r\nb"]"#).unwrap_err();
        assert!(broken.to_string().contains("line break"), "{broken}");
    }
}
