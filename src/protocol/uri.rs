//! Comparison of URIs, the same for lookup, subscriptions and rules.
//!
//! Two spellings name one resource if they differ only in the case of scheme and host, in
//! percent-encoding that has no meaning (`%7e` is `%7E` is `~`), or in the form of a `file:` URI
//! of this machine (`file:/a` and `file://localhost/a` are `file:///a`). Paths, queries and
//! fragments keep their case, and no segment is removed.
//!
//! URI templates and names of rules are converted by the same functions: text within braces stays
//! as it is, and `*` may stand anywhere.
//!
//! Source: RFC 3986, section 6.2.2; RFC 8089, section 2 and appendix B.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Returns `uri` with its scheme in lower case, a `file:` URI of this machine as `file:///…`, and
/// percent-encoding as RFC 3986, section 6.2.2, has it. The host is not changed: it may be the
/// first part of a path in URIs such as `docs://README.md`. Text without a scheme is returned as
/// it is. Allocates only if something changes.
pub fn normalize(uri: &str) -> Cow<'_, str> {
    let Some(scheme) = scheme_length(uri) else { return Cow::Borrowed(uri) };
    let is_file = uri[..scheme].eq_ignore_ascii_case("file");
    let rest = &uri[scheme + 1..];
    let local_path = if is_file { local_path(rest) } else { None };
    let is_lower = !uri[..scheme].bytes().any(|byte| byte.is_ascii_uppercase());
    if is_lower && local_path.is_none() && !uri.contains('%') {
        return Cow::Borrowed(uri);
    }
    let mut text = uri[..scheme].to_ascii_lowercase();
    text.push(':');
    text.push_str(if local_path.is_some() { "//" } else { "" });
    normalize_percent_encoding(local_path.unwrap_or(rest), &mut text);
    if text == uri { Cow::Borrowed(uri) } else { Cow::Owned(text) }
}

/// Returns the text that is equal for all spellings of a URI: [`normalize`], with the host in
/// lower case. It has the length of the normalized URI. Allocates only if something changes.
pub fn comparison_key(uri: &str) -> Cow<'_, str> {
    match normalize(uri) {
        Cow::Borrowed(uri) => lowercase_host(uri),
        Cow::Owned(uri) => match lowercase_host(&uri) {
            Cow::Owned(lower) => Cow::Owned(lower),
            Cow::Borrowed(_) => Cow::Owned(uri),
        },
    }
}

/// Returns whether `uri` is that of a resource or begins with it, in any spelling.
pub fn is_part_of(uri: &str, resource: &str) -> bool {
    uri.starts_with(resource) || comparison_key(uri).starts_with(&*comparison_key(resource))
}

/// Returns `uri` with its percent-encoding decoded once; bytes that are not UTF-8 become U+FFFD.
pub fn decode(uri: &str) -> Cow<'_, str> {
    percent_decode_str(uri).decode_utf8_lossy()
}

/// Returns the length of the scheme, in which `*` may stand for any text.
fn scheme_length(uri: &str) -> Option<usize> {
    let length = uri.find(':')?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.*".contains(&byte);
    (length > 0 && uri.bytes().take(length).all(is_allowed)).then_some(length)
}

/// Returns the absolute path in the rest of a `file:` URI of this machine that is not written as
/// `///path`.
fn local_path(rest: &str) -> Option<&str> {
    const HOST: &str = "localhost";
    let Some(after) = rest.strip_prefix("//") else {
        return rest.starts_with('/').then_some(rest);
    };
    let (host, path) = after.split_at_checked(HOST.len())?;
    (host.eq_ignore_ascii_case(HOST) && path.starts_with('/')).then_some(path)
}

/// Appends `text`, with the digits of percent-encoding in upper case and unreserved characters
/// decoded. What is no percent-encoding stays.
fn normalize_percent_encoding(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, encoded) = rest.split_at(at);
        out.push_str(before);
        let digits = encoded.get(1..3).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            out.push('%');
            rest = &encoded[1..];
            continue;
        };
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&encoded[..3].to_ascii_uppercase());
        }
        rest = &encoded[3..];
    }
    out.push_str(rest);
}

/// Returns a normalized URI with its host in lower case, braces and what is in them excepted.
fn lowercase_host(uri: &str) -> Cow<'_, str> {
    let Some(start) = scheme_length(uri).map(|scheme| scheme + 1) else {
        return Cow::Borrowed(uri);
    };
    if !uri[start..].starts_with("//") {
        return Cow::Borrowed(uri);
    }
    let start = start + 2;
    let mut is_expression = false;
    let is_end = |char: char| {
        is_expression = (is_expression || char == '{') && char != '}';
        !is_expression && matches!(char, '/' | '?' | '#')
    };
    let end = uri[start..].find(is_end).map_or(uri.len(), |length| start + length);
    let host = uri[start..end].rfind('@').map_or(start, |length| start + length + 1);
    if !uri[host..end].bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(uri);
    }
    let mut lower = String::with_capacity(uri.len());
    lower.push_str(&uri[..host]);
    let mut is_expression = false;
    lower.extend(uri[host..end].chars().map(|char| {
        is_expression = (is_expression || char == '{') && char != '}';
        if is_expression { char } else { char.to_ascii_lowercase() }
    }));
    lower.push_str(&uri[end..]);
    Cow::Owned(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_uri_have_one_key() {
        for (key, spellings) in [
            (
                "file:///a%20b/C",
                &[
                    "file:///a%20b/C",
                    "FILE:///a%20b/C",
                    "file:/a%20b/C",
                    "File://LocalHost/%61%20%62/C",
                    "fIlE:/%61%20b/%43",
                ][..],
            ),
            (
                "test://example.com/A%2Fb?C=%7B",
                &["test://example.com/A%2fb?C=%7b", "TEST://Example.COM/%41%2Fb?%43=%7B"],
            ),
            ("test://User@host", &["test://User@HOST", "Test://User@Host"]),
            ("urn:Example", &["URN:Example", "urn:%45xample"]),
            ("docs://readme.md", &["docs://README.md", "DOCS://readme%2Emd"]),
        ] {
            for spelling in spellings {
                assert_eq!(comparison_key(spelling), key, "{spelling}");
                assert_eq!(normalize(spelling).len(), key.len(), "{spelling}");
            }
            assert!(matches!(comparison_key(key), Cow::Borrowed(_)), "{key}");
        }
    }

    #[test]
    fn different_uris_keep_different_keys() {
        for uri in [
            "file:///A",
            "file:///a/",
            "file:////a",
            "file://elsewhere/a",
            "file://localhosts/a",
            "file://localhost",
            "file:a",
            "file:///%25%36%31",
            "file:///a?B",
            "file:///%2e%2F",
            "test://localhost/a",
            "test://a%zz",
            "test://a%2",
            "test://é%",
            "a/B",
            "",
        ] {
            let key = comparison_key(uri);
            assert_ne!(key, "file:///a", "{uri}");
            assert_eq!(comparison_key(&key), key, "{uri}");
        }
        assert_eq!(normalize("file:///%252e"), "file:///%252e");
        assert_eq!(normalize("test://Host/%C3%a9%zz%"), "test://Host/%C3%A9%zz%");
        assert_eq!(normalize("no scheme: %41"), "no scheme: %41");
    }

    #[test]
    fn expressions_of_templates_keep_their_case() {
        for (template, key) in [
            ("TEST://{Id}.Host/{Name}", "test://{Id}.host/{Name}"),
            ("test://Host{?A,b}", "test://host{?A,b}"),
            ("FILE:/srv/{+path}{?offset}", "file:///srv/{+path}{?offset}"),
            ("Docs://{+Path", "docs://{+Path"),
        ] {
            assert_eq!(comparison_key(template), key);
        }
        assert_eq!(comparison_key("*://Host*/A*"), "*://host*/A*");
    }
}
