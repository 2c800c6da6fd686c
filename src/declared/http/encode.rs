//! Percent-encoding by position.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What cannot stand in a path that is encoded already.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// What cannot stand in a query that is encoded already.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\'');

/// What cannot stand in a query, but the reserved characters of RFC 3986 can.
const QUERY_RESERVED: &AsciiSet = &QUERY.add(b'%').add(b'&').add(b'+');

/// Appends a value: only unreserved characters stay as they are.
pub(super) fn push_value(target: &mut String, value: &str) {
    target.extend(utf8_percent_encode(value, VALUE));
}

/// Appends a value in which the reserved characters stay as they are.
pub(super) fn push_reserved_value(target: &mut String, value: &str) {
    target.extend(utf8_percent_encode(value, QUERY_RESERVED));
}

/// Appends text of a path in which `%` begins an encoded byte.
pub(super) fn push_path_text(target: &mut String, text: &str) {
    target.extend(utf8_percent_encode(text, PATH));
}

/// Appends text of a query in which `%` begins an encoded byte.
pub(super) fn push_query_text(target: &mut String, text: &str) {
    target.extend(utf8_percent_encode(text, QUERY));
}

/// Appends a value of `application/x-www-form-urlencoded`.
pub(super) fn push_form_value(target: &mut String, value: &str) {
    target.extend(url::form_urlencoded::byte_serialize(value.as_bytes()));
}
