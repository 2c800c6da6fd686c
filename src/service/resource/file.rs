//! `file:` URIs become paths, or are refused.
//!
//! What it keeps true: a path that leaves here is absolute, has no segment that climbs (`..`) or
//! stands still (`.`), no NUL and no separator that was hidden by encoding; it was decoded exactly
//! once. So whoever prefixes it with nothing and compares it segment by segment cannot be led
//! elsewhere. Symbolic links are the business of whoever opens the file: this room opens none.
//!
//! Source: RFC 8089; 2026-07-28, server/resources, "Security Considerations".

use std::borrow::Cow;

use crate::protocol::error::Error;
use crate::service::resource::percent;

/// The path that a `file:` URI names; `Ok(None)` for a URI of another scheme.
///
/// Fails with invalid params (-32602) where the URI is not a path on this machine that is safe to
/// look at.
pub(super) fn path(uri: &str) -> Result<Option<Cow<'_, str>>, Error> {
    let Some(rest) = strip_scheme(uri) else { return Ok(None) };
    let encoded = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let start = rest.find('/').ok_or_else(|| refuse("names no path"))?;
            let (authority, path) = rest.split_at(start);
            if !authority.is_empty() && !authority.eq_ignore_ascii_case(LOCALHOST) {
                return Err(refuse("names another machine"));
            }
            path
        }
    };
    if !encoded.starts_with('/') {
        return Err(refuse("is not absolute"));
    }
    // A query is no part of the path; whether one has a meaning here, the template says.
    let encoded = encoded.split_once('?').map_or(encoded, |(path, _)| path);
    if encoded.contains(['#', '\\']) {
        return Err(refuse("holds a fragment or a backslash"));
    }
    let separators = count_separators(encoded);
    let path = percent::decode(encoded).ok_or_else(|| refuse("is not encoded as URIs are"))?;
    if count_separators(&path) != separators {
        return Err(refuse("hides a separator"));
    }
    if path.contains(char::is_control) {
        return Err(refuse("holds a control character"));
    }
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(refuse("climbs"));
    }
    Ok(Some(path))
}

/// The same URI in the spelling that everything here is offered in, `file:///…`: a `file:` URI may
/// name this machine as `localhost`, and URIs are compared as they are written (RFC 8089, section
/// 2). Others stay as they are.
pub(in crate::service) fn without_localhost(uri: &str) -> Cow<'_, str> {
    let path = strip_scheme(uri).and_then(|rest| rest.strip_prefix("//")).and_then(|rest| {
        let (authority, path) = rest.split_at_checked(LOCALHOST.len())?;
        (authority.eq_ignore_ascii_case(LOCALHOST) && path.starts_with('/')).then_some(path)
    });
    path.map_or(Cow::Borrowed(uri), |path| Cow::Owned(format!("file://{path}")))
}

/// How a URI calls this machine.
const LOCALHOST: &str = "localhost";

fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    scheme.eq_ignore_ascii_case("file").then_some(rest)
}

/// Separators on any system: what is harmless here may be read elsewhere.
fn count_separators(path: &str) -> usize {
    path.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count()
}

#[cold]
fn refuse(problem: &str) -> Error {
    Error::invalid_params(format!("the file: URI {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once() {
        for (uri, expected) in [
            ("file:///", "/"),
            ("file:///a/b.txt", "/a/b.txt"),
            ("FILE://LocalHost/a", "/a"),
            ("file:/a", "/a"),
            ("file:///a%20b/%C3%A9", "/a b/é"),
            ("file:///%252e%252e/a", "/%2e%2e/a"),
            ("file:///..a/b..", "/..a/b.."),
            ("file:///a//b", "/a//b"),
            ("file:///a?b=../c", "/a"),
        ] {
            assert_eq!(path(uri).unwrap().as_deref(), Some(expected), "{uri}");
        }
    }

    #[test]
    fn this_machine_has_one_spelling() {
        for (uri, expected) in [
            ("file://localhost/a%20b", "file:///a%20b"),
            ("FILE://LocalHost/", "file:///"),
            ("file:///localhost/a", "file:///localhost/a"),
            ("file://localhost", "file://localhost"),
            ("file://localhosts/a", "file://localhosts/a"),
            ("file://elsewhere/a", "file://elsewhere/a"),
            ("file://é", "file://é"),
            ("file://localhosté/a", "file://localhosté/a"),
            ("test://localhost/a", "test://localhost/a"),
            ("localhost/a", "localhost/a"),
        ] {
            assert_eq!(without_localhost(uri), expected, "{uri}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for uri in [
            "file:",
            "file:a",
            "file://",
            "file://host/a",
            "file://localhost",
            "file:///../a",
            "file:///a/..",
            "file:///a/./b",
            "file:///a/%2e%2E/b",
            "file:///a/.%2e/b",
            "file:///a%2fb",
            "file:///a%5Cb",
            "file:///a\\b",
            "file:///a%00",
            "file:///a\u{0}",
            "file:///a%0ab",
            "file:///a%",
            "file:///a%FF",
            "file:///../a?b",
            "file:///a#b",
        ] {
            assert_eq!(path(uri).unwrap_err().code, -32602, "{uri}");
        }
    }

    #[test]
    fn other_schemes_are_not_judged() {
        for uri in ["test://a/../b", "https://example.com/%2e%2e", "", "files:///../a", "a/../b"] {
            assert_eq!(path(uri).unwrap(), None, "{uri}");
        }
    }
}
