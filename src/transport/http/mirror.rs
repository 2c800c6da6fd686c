//! The headers that repeat what the body says, held against the body.
//!
//! Whoever stands in front of this server may route and refuse by `MCP-Protocol-Version`,
//! `Mcp-Method`, `Mcp-Name` and `Mcp-Param-…` without reading a body. What it keeps true: such a
//! reader was told what is carried out, or nothing is. A header that is missing, stands twice, says
//! something else, cannot be read, or speaks of an argument that is not there, fails its request.
//!
//! Values are compared as they are, with regard to case. One that a header cannot carry comes as
//! `=?base64?…?=`; it is compared by encoding what the body says, so that nothing is allocated and
//! base64 of another shape (no padding, stray bits, foreign characters) never matches.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`, "Request Metadata"; the extension for
//! tasks, "Streamable HTTP: Routing Headers"; RFC 4648, section 4. Where an argument is absent the
//! header "must not be expected": of the official SDKs, Python refuses one that is there
//! nevertheless and TypeScript passes it over; here it is refused, for a reader in front of this
//! server would believe it.

use std::str;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::head::{Field, Head};
use super::limits::FIELDS_MAX;
use crate::protocol::era::Method;
use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Value};

/// What the body of a modern request says of what its headers repeat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mirrored<'a> {
    /// The method.
    pub method: &'a str,
    /// What the method is about: the member of params that [`name_key`] names, where it is there
    /// and a string. What is none is refused with the other params, not here.
    pub name: Option<&'a str>,
    /// The revision in `_meta`.
    pub version: &'a str,
}

/// The member of params that `Mcp-Name` repeats; none for methods without the header.
pub const fn name_key(method: Method) -> Option<&'static str> {
    match method {
        Method::PromptsGet | Method::ToolsCall => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksCancel | Method::TasksGet | Method::TasksUpdate => Some("taskId"),
        _ => None,
    }
}

/// Holds the headers of every modern request against its body. `bytes` are those that `head` was
/// read from. For requests only: what headers a notification has is not specified.
///
/// # Errors
///
/// Header mismatch (-32020) for the first that is missing or says something else.
#[inline]
pub fn check(head: &Head, bytes: &[u8], asked: &Mirrored<'_>) -> Result<(), Error> {
    let says_exactly = |field, text: &str| match head.field(bytes, field) {
        None => Saying::Nothing,
        Some(value) if value == text.as_bytes() => Saying::TheSame,
        Some(_) => Saying::Otherwise,
    };
    says_exactly(Field::McpProtocolVersion, asked.version)
        .expect("MCP-Protocol-Version", "the revision in params._meta")?;
    says_exactly(Field::McpMethod, asked.method).expect("Mcp-Method", "the method")?;
    let Some(name) = asked.name else {
        return Ok(());
    };
    let saying = match head.field(bytes, Field::McpName) {
        None => Saying::Nothing,
        Some(value) if is_text(value, name) => Saying::TheSame,
        Some(_) => Saying::Otherwise,
    };
    saying.expect("Mcp-Name", "what params name")
}

/// Holds `Mcp-Param-…` against the arguments of a call. `declared` are the names that the schema of
/// the tool gives them, each with the way to its argument. Others are passed over.
///
/// # Errors
///
/// Header mismatch (-32020) for the first that should be there and is not, or says something else.
pub fn check_params<'d>(
    head: &Head,
    bytes: &[u8],
    declared: impl IntoIterator<Item = (&'d str, &'d [Box<str>])>,
    arguments: Option<Value<'_>>,
) -> Result<(), Error> {
    let mut lines = [(&[][..], &[][..]); FIELDS_MAX];
    let mut lines_count = 0;
    if head.has_params {
        for (place, line) in lines.iter_mut().zip(head.params(bytes)) {
            *place = line;
            lines_count += 1;
        }
    }
    let lines = &lines[..lines_count];
    for (name, path) in declared {
        let is_named = |line: &&(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name.as_bytes());
        let mut values = lines.iter().filter(is_named).map(|line| line.1);
        let (value, second) = (values.next(), values.next());
        let argument = find(arguments, path);
        let saying = match (value, argument) {
            _ if second.is_some() => Saying::Twice,
            (None, None) => continue,
            // No header can say it: the schema will not let it pass either.
            (None, Some(argument)) if is_composed(argument) => continue,
            (None, Some(_)) => Saying::Nothing,
            (Some(value), Some(argument)) if is_argument(value, argument) => continue,
            (Some(_), _) => Saying::Otherwise,
        };
        saying.expect(&format!("Mcp-Param-{name}"), &format!("the argument {}", path.join(".")))?;
    }
    Ok(())
}

/// What a header says of the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Saying {
    Nothing,
    Otherwise,
    TheSame,
    Twice,
}

impl Saying {
    #[inline]
    fn expect(self, header: &str, mirrored: &str) -> Result<(), Error> {
        if self == Self::TheSame { Ok(()) } else { Err(self.mismatch(header, mirrored)) }
    }

    #[cold]
    fn mismatch(self, header: &str, mirrored: &str) -> Error {
        Error::header_mismatch(match self {
            Self::Nothing => format!("{header} is missing; it must repeat {mirrored}"),
            Self::Otherwise | Self::TheSame => format!("{header} is not {mirrored}"),
            Self::Twice => format!("{header} stands twice; it must repeat {mirrored} once"),
        })
    }
}

/// The argument at the end of `path`; one that is `null` counts as left out.
fn find<'a>(arguments: Option<Value<'a>>, path: &[Box<str>]) -> Option<Value<'a>> {
    let mut keys = path.iter();
    keys.try_fold(arguments?, |value, key| value.as_object()?.find(key))
        .filter(|value| !value.is_null())
}

fn is_composed(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Array | Kind::Object)
}

/// Whether a header says what the argument is.
fn is_argument(value: &[u8], argument: Value<'_>) -> bool {
    match argument.kind() {
        Kind::Array | Kind::Null | Kind::Object => false,
        Kind::Boolean => argument
            .as_bool()
            .is_some_and(|truth| is_text(value, if truth { "true" } else { "false" })),
        Kind::Number => is_number(value, argument),
        Kind::String => argument.as_str().is_some_and(|text| is_text(value, text)),
    }
}

/// Whether a header says `text`, plainly or as base64.
fn is_text(value: &[u8], text: &str) -> bool {
    match encoded(value) {
        Some(encoded) => is_encoding(encoded, text.as_bytes()),
        None => value == text.as_bytes() && value.iter().all(|byte| is_plain(*byte)),
    }
}

/// What stands between the marks of base64; none where the value lacks one of them and means what
/// it says.
fn encoded(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"=?base64?")?.strip_suffix(b"?=")
}

/// Whether `encoded` is the base64 of `plain`, the one way there is to write it.
fn is_encoding(encoded: &[u8], plain: &[u8]) -> bool {
    let mut piece = [0; PIECE_BYTES / 3 * 4];
    let mut pieces = encoded.chunks(piece.len()).zip(plain.chunks(PIECE_BYTES));
    encoded.len() == plain.len().div_ceil(3) * 4
        && pieces.all(|(encoded, plain)| {
            let length = BASE64_STANDARD.encode_slice(plain, &mut piece);
            length.is_ok_and(|length| piece[..length] == *encoded)
        })
}

/// Whether a header says `number`: `42.0` is 42, and `1e3`, `+1` or `.5` are not written so.
fn is_number(value: &[u8], number: Value<'_>) -> bool {
    let mut decoded = [0; PIECE_BYTES];
    let text = match encoded(value) {
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
        // Digit by digit: two whole numbers beyond 2^53 may be one double.
        Some(exact) => fraction.bytes().all(|digit| digit == b'0') && whole.parse() == Ok(exact),
        None => text.parse().ok() == number.as_f64(),
    }
}

/// What a value may have that is not base64 (RFC 9110, section 5.5).
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t')
}

/// As much as is encoded or decoded at once, on the stack; every number of 64 bits fits.
const PIECE_BYTES: usize = 48;
