//! Variables in the values of configuration files: `${NAME}` and `${file:/run/secrets/x}`.

use std::borrow::Cow;
use std::fmt;

/// Where a variable takes its value from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variable<'a> {
    /// `${NAME}`: an environment variable.
    Environment(&'a str),
    /// `${file:PATH}`: the text of a file, without the newlines at its end.
    File(&'a str),
}

/// Why a text cannot be expanded; the text is one clause without a period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExpandError(pub String);

impl fmt::Display for ExpandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ExpandError {}

/// Replaces the variables in `text` by what `lookup` returns. `$${` stands for `${`. A value is not
/// expanded again.
///
/// # Errors
///
/// A variable is not closed, its name is empty or no name, or `lookup` fails.
pub fn expand(
    text: &str,
    mut lookup: impl FnMut(Variable<'_>) -> Result<String, ExpandError>,
) -> Result<Cow<'_, str>, ExpandError> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find("${") {
        let (before, after) = (&rest[..index], &rest[index + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let end = after.find('}');
        let end = end.ok_or_else(|| ExpandError("${ is not closed by }".to_owned()))?;
        expanded.push_str(&lookup(parse(&after[..end])?)?);
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    Ok(Cow::Owned(expanded))
}

fn parse(inner: &str) -> Result<Variable<'_>, ExpandError> {
    if let Some(path) = inner.strip_prefix("file:") {
        let error = || ExpandError("${file:} names no file".to_owned());
        return if path.is_empty() { Err(error()) } else { Ok(Variable::File(path)) };
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = inner.bytes().all(is_part) && !inner.starts_with(|it: char| it.is_ascii_digit());
    if inner.is_empty() || !is_name {
        return Err(ExpandError(format!("${{{inner}}} is not the name of a variable")));
    }
    Ok(Variable::Environment(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let lookup = |variable: Variable<'_>| match variable {
            Variable::Environment("HOST") => Ok("example.com".to_owned()),
            Variable::Environment("NESTED") => Ok("${HOST}".to_owned()),
            Variable::File(path) => Ok(format!("<{path}>")),
            Variable::Environment(name) => Err(ExpandError(format!("{name} is not set"))),
        };
        expand(text, lookup).map(Cow::into_owned).map_err(|error| error.0)
    }

    #[test]
    fn variables_are_replaced_once() {
        assert_eq!(expanded("a ${HOST} b ${HOST}").unwrap(), "a example.com b example.com");
        assert_eq!(expanded("${file:/run/x}").unwrap(), "</run/x>");
        assert_eq!(expanded("${NESTED}").unwrap(), "${HOST}");
        assert_eq!(expanded("$5 {a} $$").unwrap(), "$5 {a} $$");
        assert_eq!(expanded("$${HOST}").unwrap(), "${HOST}");
    }

    #[test]
    fn malformed_and_unset_variables_are_refused() {
        for text in ["${", "${HOST", "${}", "${a b}", "${1A}", "${file:}"] {
            assert!(expanded(text).is_err(), "{text}");
        }
        assert_eq!(expanded("${OTHER}").unwrap_err(), "OTHER is not set");
    }
}
