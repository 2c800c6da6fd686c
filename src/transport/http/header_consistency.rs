//! Validation of the request headers that repeat values of the body.
//!
//! Proxies may route and filter by `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` and
//! `Mcp-Param-*` without parsing the body, so these must equal the body's values. A request fails
//! if such a header is missing, different, undecodable, or given for an absent argument. One that
//! is repeated, on several lines or as a list, fails unless all its values are equal.
//!
//! Values are compared case-sensitively. A value that a header cannot carry is sent as
//! `=?base64?…?=` and compared by encoding the body's value, which needs no allocation and rejects
//! non-canonical base64.
//!
//! Source: MCP 2026-07-28 `basic/transports/streamable-http`, "Request Metadata"; the tasks
//! extension, "Streamable HTTP: Routing Headers"; RFC 4648, section 4. For an absent argument the
//! header "must not be expected"; the Python SDK rejects one, the TypeScript SDK ignores it. It is
//! rejected here, because a proxy would trust it.

use std::str;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::grammar::{repeats, single_value};
use super::head::{FIELDS_MAX, Field, Head};
use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::json::{Value, ValueKind};

/// The values of a modern request body that its headers must repeat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyValues<'a> {
    /// The method.
    pub method: &'a str,
    /// The member of params named by [`name_key`], if it is present and a string. Other types are
    /// rejected by the validation of params.
    pub name: Option<&'a str>,
    /// The protocol version in `_meta`.
    pub version: &'a str,
}

/// Returns the member of params that `Mcp-Name` repeats, or `None` for methods without the header.
pub const fn name_key(method: Method) -> Option<&'static str> {
    match method {
        Method::PromptsGet | Method::ToolsCall => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksCancel | Method::TasksGet | Method::TasksUpdate => Some("taskId"),
        _ => None,
    }
}

/// Checks the headers of a modern request against its body. `bytes` are those `head` was parsed
/// from. Notifications are not checked; the specification defines no headers for them.
///
/// # Errors
///
/// Header mismatch (-32020) for the first header that is missing or different.
#[inline]
pub fn check_headers(head: &Head, bytes: &[u8], expected: &BodyValues<'_>) -> Result<(), Error> {
    let compare = |field, text: &str| match head.field(bytes, field) {
        None => HeaderMatch::Missing,
        Some(value) if value == text.as_bytes() => HeaderMatch::Equal,
        Some(value) if repeats(value, text.as_bytes()) => HeaderMatch::Equal,
        Some(_) => HeaderMatch::Different,
    };
    compare(Field::McpProtocolVersion, expected.version)
        .require_equal("MCP-Protocol-Version", "the protocol version in params._meta")?;
    compare(Field::McpMethod, expected.method).require_equal("Mcp-Method", "the method")?;
    let Some(name) = expected.name else {
        return Ok(());
    };
    let name_match = match head.field(bytes, Field::McpName) {
        None => HeaderMatch::Missing,
        Some(value) if matches_text(value, name) => HeaderMatch::Equal,
        Some(_) => HeaderMatch::Different,
    };
    name_match.require_equal("Mcp-Name", "the name, URI or task id in params")
}

/// A header name without `Mcp-Param-`, and the path to its argument.
pub type ParamHeader<'d> = (&'d str, &'d [Box<str>]);

/// Checks `Mcp-Param-*` headers against the arguments of a call. `declared` are the header names of
/// the tool's schema, each with the path to its argument. Other headers are ignored. Cost: linear
/// in the members of the arguments; allocates nothing for a few headers.
///
/// # Errors
///
/// Header mismatch (-32020) for the first declared header that is missing or different.
pub fn check_param_headers<'d>(
    head: &Head,
    bytes: &[u8],
    declared: impl IntoIterator<Item = ParamHeader<'d>, IntoIter: ExactSizeIterator + Clone>,
    arguments: Option<Value<'_>>,
) -> Result<(), Error> {
    let mut lines = [(&[][..], &[][..]); FIELDS_MAX];
    let mut lines_count = 0;
    if head.has_param_headers {
        for (place, line) in lines.iter_mut().zip(head.param_headers(bytes)) {
            *place = line;
            lines_count += 1;
        }
    }
    let lines = &lines[..lines_count];
    let declared = declared.into_iter();
    let found = (declared.len() > HEADERS_SCANNED_MAX)
        .then(|| find_arguments(arguments, declared.clone().map(|(_, path)| path)));
    for (index, (name, path)) in declared.enumerate() {
        let is_named = |line: &&(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name.as_bytes());
        let mut values = lines.iter().filter(is_named).map(|line| line.1);
        let value = values.next();
        let differs = values.any(|other| Some(other) != value);
        let argument = match &found {
            Some(found) => found[index],
            None => find_argument(arguments, path),
        };
        let param_match = match (value, argument) {
            _ if differs => HeaderMatch::Repeated,
            (None, None) => continue,
            // Arrays and objects cannot be header values; schema validation rejects them.
            (None, Some(argument)) if is_array_or_object(argument) => continue,
            (None, Some(_)) => HeaderMatch::Missing,
            (Some(value), Some(argument)) if matches_argument(value, argument) => continue,
            (Some(_), _) => HeaderMatch::Different,
        };
        param_match.require_equal(
            &format!("Mcp-Param-{name}"),
            &format!("the argument {}", path.join(".")),
        )?;
    }
    Ok(())
}

/// The result of comparing a header with the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HeaderMatch {
    Missing,
    Different,
    Equal,
    Repeated,
}

impl HeaderMatch {
    #[inline]
    fn require_equal(self, header: &str, value: &str) -> Result<(), Error> {
        if self == Self::Equal { Ok(()) } else { Err(self.mismatch_error(header, value)) }
    }

    #[cold]
    fn mismatch_error(self, header: &str, value: &str) -> Error {
        Error::header_mismatch(match self {
            Self::Missing => format!("{header} is missing: it must equal {value}"),
            Self::Different | Self::Equal => format!("{header} does not match {value}"),
            Self::Repeated => {
                format!("{header} is repeated with different values: it must equal {value}")
            }
        })
    }
}

/// Returns the argument at `path`; `null` counts as absent.
fn find_argument<'a>(arguments: Option<Value<'a>>, path: &[Box<str>]) -> Option<Value<'a>> {
    let mut keys = path.iter();
    keys.try_fold(arguments?, |value, key| value.as_object()?.find(key))
        .filter(|value| !value.is_null())
}

/// Returns what [`find_argument`] returns for each of `paths`. Cost: one search among the paths for
/// each member of the objects on them.
fn find_arguments<'a, 'd>(
    arguments: Option<Value<'a>>,
    paths: impl Iterator<Item = &'d [Box<str>]>,
) -> Vec<Option<Value<'a>>> {
    let mut sorted: Vec<(usize, &[Box<str>])> = paths.enumerate().collect();
    sorted.sort_unstable_by_key(|(_, path)| *path);
    let mut found = vec![None; sorted.len()];
    if let Some(arguments) = arguments {
        find_below(arguments, 0, &sorted, &mut found);
    }
    found
}

/// Stores the arguments at sorted `paths`, all of which lead to `value` by their first `depth`
/// keys, at the indexes of the paths.
fn find_below<'a>(
    value: Value<'a>,
    depth: usize,
    paths: &[(usize, &[Box<str>])],
    found: &mut [Option<Value<'a>>],
) {
    // A path sorts before those that it begins.
    let (ended, longer) = paths.split_at(paths.partition_point(|(_, path)| path.len() == depth));
    for (index, _) in ended {
        found[*index] = Some(value).filter(|value| !value.is_null());
    }
    let Some(object) = value.as_object().filter(|_| !longer.is_empty()) else { return };
    let groups: Vec<_> = longer.chunk_by(|one, next| one.1[depth] == next.1[depth]).collect();
    let mut members = vec![None; groups.len()];
    for (key, member) in object {
        if let Ok(place) = groups.binary_search_by(|group| (*group[0].1[depth]).cmp(key)) {
            members[place] = Some(member);
        }
    }
    for (group, member) in groups.into_iter().zip(members) {
        if let Some(member) = member {
            find_below(member, depth + 1, group, found);
        }
    }
}

fn is_array_or_object(value: Value<'_>) -> bool {
    matches!(value.kind(), ValueKind::Array | ValueKind::Object)
}

/// Returns whether a header value equals a scalar argument.
fn matches_argument(value: &[u8], argument: Value<'_>) -> bool {
    if argument.kind() == ValueKind::Number {
        return matches_number(value, argument) || matches_number(single_value(value), argument);
    }
    match argument.kind() {
        ValueKind::Array | ValueKind::Null | ValueKind::Number | ValueKind::Object => false,
        ValueKind::Boolean => argument
            .as_bool()
            .is_some_and(|truth| matches_text(value, if truth { "true" } else { "false" })),
        ValueKind::String => argument.as_str().is_some_and(|text| matches_text(value, text)),
    }
}

/// Returns whether a header value equals `text`, directly or as base64, once or several times.
fn matches_text(value: &[u8], text: &str) -> bool {
    let matches_once = match base64_part(value) {
        Some(encoded) => is_canonical_base64(encoded, text.as_bytes()),
        None => value == text.as_bytes() && value.iter().all(|byte| is_literal_byte(*byte)),
    };
    matches_once || matches_repeated(value, text)
}

/// Returns whether a header value is a list whose members all equal `text`.
#[cold]
fn matches_repeated(value: &[u8], text: &str) -> bool {
    match base64_part(single_value(value)) {
        Some(encoded) => is_canonical_base64(encoded, text.as_bytes()),
        None => repeats(value, text.as_bytes()) && value.iter().all(|byte| is_literal_byte(*byte)),
    }
}

/// Returns the base64 part of `=?base64?…?=`; `None` for a literal value.
pub(super) fn base64_part(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"=?base64?")?.strip_suffix(b"?=")
}

/// Returns whether `encoded` is the canonical base64 of `plain`.
fn is_canonical_base64(encoded: &[u8], plain: &[u8]) -> bool {
    let mut piece = [0; BLOCK_BYTES / 3 * 4];
    let mut pieces = encoded.chunks(piece.len()).zip(plain.chunks(BLOCK_BYTES));
    encoded.len() == plain.len().div_ceil(3) * 4
        && pieces.all(|(encoded, plain)| {
            let length = BASE64_STANDARD.encode_slice(plain, &mut piece);
            length.is_ok_and(|length| piece[..length] == *encoded)
        })
}

/// Returns whether a header value equals `number`: `42.0` is 42; `1e3`, `+1` and `.5` are invalid.
fn matches_number(value: &[u8], number: Value<'_>) -> bool {
    let mut decoded = [0; BLOCK_BYTES];
    let text = match base64_part(value) {
        None => value,
        Some(encoded) => match BASE64_STANDARD.decode_slice(encoded, &mut decoded) {
            Ok(length) => &decoded[..length],
            Err(_) => return false,
        },
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Ok(text) = str::from_utf8(text) else {
        return false;
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole.strip_prefix('-').unwrap_or(whole)) || !is_digits(fraction) {
        return false;
    }
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match exact {
        // Compared as integers: two of them beyond 2^53 may be the same double.
        Some(exact) => fraction.bytes().all(|digit| digit == b'0') && whole.parse() == Ok(exact),
        None => text.parse().ok() == number.as_f64(),
    }
}

/// Returns whether a byte may occur in a literal value (RFC 9110, section 5.5).
pub(super) const fn is_literal_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t')
}

/// Bytes encoded or decoded at once, on the stack; holds every 64-bit number.
const BLOCK_BYTES: usize = 48;

/// Number of declared headers whose arguments are looked up one by one.
const HEADERS_SCANNED_MAX: usize = 8;
