//! Decoding of URIs: percent-encoded text (RFC 3986, section 2.1), and `file:` URIs as paths, with
//! rejection of unsafe ones.
//!
//! Invariant: a returned path is absolute, has no segments `.` and `..`, no NUL or other control
//! characters and no separators that were percent-encoded; it was decoded exactly once. Symbolic
//! links have to be handled by the code that opens the file.
//!
//! Source: RFC 8089; MCP 2026-07-28, server/resources, "Security Considerations".

use std::borrow::Cow;

use corelane_protocol::error::Error;

/// The path of a `file:` URI; `Ok(None)` for other schemes.
///
/// Fails with invalid params (-32602) if the URI is not a safe path on this host.
pub(super) fn decode_path(uri: &str) -> Result<Option<Cow<'_, str>>, Error> {
    let Some(rest) = strip_scheme(uri) else { return Ok(None) };
    let encoded = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let start = rest.find('/').ok_or_else(|| invalid_uri("has no path"))?;
            let (authority, path) = rest.split_at(start);
            if !authority.is_empty() && !authority.eq_ignore_ascii_case(LOCALHOST) {
                return Err(invalid_uri("names another host; use file:///"));
            }
            path
        }
    };
    if !encoded.starts_with('/') {
        return Err(invalid_uri("must have an absolute path"));
    }
    // The query is not part of the path. Whether it is allowed depends on the template.
    let encoded = encoded.split_once('?').map_or(encoded, |(path, _)| path);
    if encoded.contains(['#', '\\']) {
        return Err(invalid_uri("contains a fragment or a backslash"));
    }
    let separators = count_separators(encoded);
    let path = decode(encoded).ok_or_else(|| invalid_uri("is not valid percent-encoding"))?;
    if count_separators(&path) != separators {
        return Err(invalid_uri("contains a percent-encoded separator"));
    }
    if path.contains(char::is_control) {
        return Err(invalid_uri("contains a control character"));
    }
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(invalid_uri("contains a `.` or `..` segment"));
    }
    Ok(Some(path))
}

const LOCALHOST: &str = "localhost";

fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    scheme.eq_ignore_ascii_case("file").then_some(rest)
}

/// Counts the separators of any operating system.
fn count_separators(path: &str) -> usize {
    path.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count()
}

#[cold]
fn invalid_uri(problem: &str) -> Error {
    Error::invalid_params(format!("the file: URI {problem}"))
}

/// Replaces every `%XX` by its byte. Returns `None` if a `%` is not followed by two hexadecimal
/// digits, or if the bytes are not UTF-8. Allocates only if there is a `%`.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let Some(first) = text.find('%') else { return Some(Cow::Borrowed(text)) };
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(&text.as_bytes()[..first]);
    let mut rest = &text.as_bytes()[first..];
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (*byte, tail) {
            (b'%', [high, low, tail @ ..]) => (hex_digit(*high)? << 4 | hex_digit(*low)?, tail),
            (b'%', _) => return None,
            (byte, tail) => (byte, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uri_is_decoded_once() {
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
            assert_eq!(decode_path(uri).unwrap().as_deref(), Some(expected), "{uri}");
        }
    }

    #[test]
    fn unsafe_file_uri_is_rejected() {
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
            assert_eq!(decode_path(uri).unwrap_err().code, -32602, "{uri}");
        }
    }

    #[test]
    fn other_schemes_have_no_path() {
        for uri in ["test://a/../b", "https://example.com/%2e%2e", "", "files:///../a", "a/../b"] {
            assert_eq!(decode_path(uri).unwrap(), None, "{uri}");
        }
    }

    #[test]
    fn percent_encoding_is_decoded_once() {
        for (text, decoded) in [
            ("", Some("")),
            ("plain/é", Some("plain/é")),
            ("a%20b", Some("a b")),
            ("%C3%a9", Some("é")),
            ("%252e", Some("%2e")),
            ("%", None),
            ("%2", None),
            ("%zz", None),
            ("%é9", None),
            ("%FF", None),
        ] {
            assert_eq!(decode(text).as_deref(), decoded, "{text}");
        }
    }
}
