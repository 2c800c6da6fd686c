//! JSON-RPC 2.0 ids and messages.
//!
//! Invariants: an id is echoed with its type and value and is at most [`ID_BYTES_MAX`] long; a
//! message is exactly one of request, notification and response; its members occur once. A `null`
//! member counts as absent, except the id of a request. Batches are handled by the caller, which
//! checks the revision and reads each item here.
//!
//! JSON-RPC 2.0, sections 4 and 5; MCP `basic/index` of each revision (ids are strings or
//! integers, never null).

use std::fmt;
use std::hash::{Hash, Hasher};

use corelane_base::heap_bytes::HeapBytes;

use crate::error::Error;
use crate::json::{Object, Value, ValueKind, whole_number, write};

/// Longest string id in bytes, escapes decoded; a longer one is an invalid request (-32600). Ids
/// are stored while their requests are in flight, so without a bound hundreds of them could retain
/// as much memory as that many messages. The specification sets no bound; real clients use numbers
/// and UUIDs. Progress tokens have the same bound (-32602).
pub const ID_BYTES_MAX: usize = 4096;

/// The id of a request, borrowed from the message.
///
/// Equal numbers compare equal, also [`Id::Signed`] and [`Id::Whole`]. [`Id::Unsigned`] is used
/// above `i64::MAX` only; the `From` conversions follow this rule.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// An integer.
    Signed(i64),
    /// An integer below 2^53 that is written with a fraction or an exponent, such as `1.0`; it is
    /// written with a fraction again.
    Whole(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    /// A string, its escapes decoded.
    Text(&'a str),
}

impl<'a> Id<'a> {
    /// Reads an id; returns `None` unless `value` is a string of at most [`ID_BYTES_MAX`] bytes or
    /// a 64-bit integer. One written with fraction or exponent must be below 2^53.
    #[doc(hidden)]
    #[inline]
    pub fn from_value(value: Value<'a>) -> Option<Self> {
        if let Some(number) = value.written_i64() {
            return Some(Self::Signed(number));
        }
        match value.as_str() {
            Some(text) => (text.len() <= ID_BYTES_MAX).then_some(Self::Text(text)),
            None => value
                .written_u64()
                .map(Self::Unsigned)
                .or_else(|| value.as_whole().map(Self::Whole)),
        }
    }

    /// Returns the id that is written as `number`, with a fraction or an exponent, if it is an
    /// integer below 2^53.
    pub(crate) fn from_double(number: f64) -> Option<Self> {
        whole_number(number).map(Self::Whole)
    }

    /// Returns the number, if it is a 64-bit signed integer.
    #[doc(hidden)]
    #[inline]
    pub const fn as_i64(self) -> Option<i64> {
        match self {
            Self::Signed(number) | Self::Whole(number) => Some(number),
            Self::Unsigned(_) | Self::Text(_) => None,
        }
    }

    /// Returns the number, if it is an integer from 0.
    #[doc(hidden)]
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Signed(number) | Self::Whole(number) => u64::try_from(number).ok(),
            Self::Unsigned(number) => Some(number),
            Self::Text(_) => None,
        }
    }

    /// Appends the id as JSON.
    #[doc(hidden)]
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Signed(number) => write::signed(out, number),
            Self::Unsigned(number) => write::unsigned(out, number),
            Self::Text(text) => write::string(out, text),
            Self::Whole(number) => {
                write::signed(out, number);
                out.extend_from_slice(b".0");
            }
        }
    }
}

impl PartialEq for Id<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Unsigned(one), Self::Unsigned(other)) => one == other,
            (one, other) => one.as_i64().is_some_and(|number| other.as_i64() == Some(number)),
        }
    }
}

impl Eq for Id<'_> {}

impl Hash for Id<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Text(text) => text.hash(state),
            Self::Unsigned(number) => number.hash(state),
            Self::Signed(number) | Self::Whole(number) => number.hash(state),
        }
    }
}

impl fmt::Display for Id<'_> {
    /// Writes the number, or the string without quotes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number) | Self::Whole(number) => number.fmt(formatter),
            Self::Unsigned(number) => number.fmt(formatter),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

impl From<i64> for Id<'_> {
    fn from(number: i64) -> Self {
        Self::Signed(number)
    }
}

impl From<u64> for Id<'_> {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Unsigned(number), Self::Signed)
    }
}

impl<'a> From<&'a str> for Id<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// An owned [`Id`]. Numeric ids do not allocate.
#[derive(Clone, Debug)]
pub struct IdBuf(OwnedId);

#[derive(Clone, Debug)]
enum OwnedId {
    Signed(i64),
    Text(Box<str>),
    Unsigned(u64),
    Whole(i64),
}

impl HeapBytes for IdBuf {
    fn heap_bytes(&self) -> usize {
        match &self.0 {
            OwnedId::Signed(_) | OwnedId::Unsigned(_) | OwnedId::Whole(_) => 0,
            OwnedId::Text(text) => text.heap_bytes(),
        }
    }
}

impl PartialEq for IdBuf {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_id() == other.as_id()
    }
}

impl Eq for IdBuf {}

impl Hash for IdBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_id().hash(state);
    }
}

impl IdBuf {
    /// Returns the borrowed form.
    #[inline]
    pub const fn as_id(&self) -> Id<'_> {
        match &self.0 {
            OwnedId::Signed(number) => Id::Signed(*number),
            OwnedId::Text(text) => Id::Text(text),
            OwnedId::Unsigned(number) => Id::Unsigned(*number),
            OwnedId::Whole(number) => Id::Whole(*number),
        }
    }
}

impl From<Id<'_>> for IdBuf {
    fn from(id: Id<'_>) -> Self {
        Self(match id {
            Id::Signed(number) => OwnedId::Signed(number),
            Id::Unsigned(number) => OwnedId::Unsigned(number),
            Id::Text(text) => OwnedId::Text(text.into()),
            Id::Whole(number) => OwnedId::Whole(number),
        })
    }
}

/// One JSON-RPC message. Members that JSON-RPC does not define are ignored.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// A message with a method and an id; it must be answered.
    Request {
        /// Id to echo in the response.
        id: Id<'a>,
        /// Name of the method.
        method: &'a str,
        /// An object or an array; `null` counts as absent.
        params: Option<Value<'a>>,
    },
    /// A message with a method and without an id; it is not answered.
    Notification {
        /// Name of the method.
        method: &'a str,
        /// An object or an array; `null` counts as absent.
        params: Option<Value<'a>>,
    },
    /// The response to a request that this side sent.
    Response {
        /// Id of the request; `None` in an error whose sender could not read it.
        id: Option<Id<'a>>,
        /// The `result`, or the `error` object.
        outcome: Result<Value<'a>, Value<'a>>,
    },
}

/// A value that is not a valid JSON-RPC message.
#[derive(Clone, Debug)]
pub struct InvalidMessage<'a> {
    /// Id for the error response, if it could be read.
    pub id: Option<Id<'a>>,
    /// Whether it is a malformed response, which is not answered: it has a result or an error, and
    /// no method.
    pub is_response: bool,
    /// Whether it has a method: it is a malformed request or notification.
    pub has_method: bool,
    /// Invalid request (-32600) with the reason.
    pub error: Error,
}

impl<'a> Message<'a> {
    /// Reads one message; an array is an error (see the module).
    ///
    /// # Errors
    ///
    /// [`InvalidMessage`] if the value is not a JSON-RPC 2.0 message.
    #[inline]
    pub fn read(value: Value<'a>) -> Result<Self, InvalidMessage<'a>> {
        let Some(object) = value.as_object() else {
            return Err(not_an_object_error(value));
        };
        let found = MessageMembers::read(object);
        // Fast paths: a valid request or notification, then a result.
        if found.version == Some("2.0")
            && !found.has_duplicate
            && found.outcome().is_none()
            && let (Some(method), Some(params)) = (found.method(), found.params())
        {
            match found.id.map(Id::from_value) {
                Some(Some(id)) => return Ok(Self::Request { id, method, params }),
                None => return Ok(Self::Notification { method, params }),
                Some(None) => {}
            }
        }
        found.result().map_or_else(|| found.without_nulls().read_unusual(), Ok)
    }
}

/// The members that JSON-RPC defines, unvalidated.
#[derive(Default)]
struct MessageMembers<'a> {
    version: Option<&'a str>,
    id: Option<Value<'a>>,
    method: Option<Value<'a>>,
    params: Option<Value<'a>>,
    result: Option<Value<'a>>,
    error: Option<Value<'a>>,
    has_duplicate_id: bool,
    has_duplicate: bool,
}

impl<'a> MessageMembers<'a> {
    #[inline]
    fn read(object: Object<'a>) -> Self {
        let mut found = Self::default();
        let mut version = None;
        for (key, value) in object {
            let slot = match key {
                "jsonrpc" => &mut version,
                "id" => &mut found.id,
                "method" => &mut found.method,
                "params" => &mut found.params,
                "result" => &mut found.result,
                "error" => &mut found.error,
                _ => continue,
            };
            if slot.replace(value).is_some() {
                found.has_duplicate = true;
                found.has_duplicate_id |= key == "id";
            }
        }
        found.version = version.and_then(Value::as_str);
        found
    }

    #[inline]
    fn method(&self) -> Option<&'a str> {
        self.method.and_then(Value::as_str)
    }

    /// Returns the params, `Some(None)` if they are absent or `null`, and `None` if they are
    /// neither an object nor an array.
    #[inline]
    #[expect(clippy::option_option, reason = "absent and invalid params differ")]
    fn params(&self) -> Option<Option<Value<'a>>> {
        match self.params {
            None => Some(None),
            Some(params) => match params.kind() {
                ValueKind::Array | ValueKind::Object => Some(Some(params)),
                ValueKind::Null => Some(None),
                ValueKind::Boolean | ValueKind::Number | ValueKind::String => None,
            },
        }
    }

    #[inline]
    const fn outcome(&self) -> Option<Value<'a>> {
        if self.result.is_some() { self.result } else { self.error }
    }

    /// Returns the response if it is one with a result and has no fault.
    #[inline]
    fn result(&self) -> Option<Message<'a>> {
        let is_valid = self.version == Some("2.0") && !self.has_duplicate;
        let has_others = self.method.is_some() || self.error.is_some();
        let result = self.result.filter(|_| is_valid && !has_others)?;
        let id = Id::from_value(self.id?)?;
        Some(Message::Response { id: Some(id), outcome: Ok(result) })
    }

    /// Removes the members that are `null`, except the id, and a result without another outcome.
    #[cold]
    fn without_nulls(self) -> Self {
        let non_null = |value: Option<Value<'a>>| value.filter(|value| !value.is_null());
        let (method, error) = (non_null(self.method), non_null(self.error));
        let is_result = method.is_none() && error.is_none();
        let result = if is_result { self.result } else { non_null(self.result) };
        Self { method, result, error, ..self }
    }

    /// Returns the message, or an error that names the first fault.
    #[cold]
    fn read_unusual(self) -> Result<Message<'a>, InvalidMessage<'a>> {
        let id = if self.has_duplicate_id { None } else { self.id.and_then(Id::from_value) };
        let is_response = self.method.is_none() && self.outcome().is_some();
        let (has_method, error) = (self.method.is_some(), Error::invalid_request);
        let error =
            |message| Err(InvalidMessage { id, is_response, has_method, error: error(message) });
        if self.has_duplicate {
            return error("duplicate key in the message: each may occur once");
        }
        if self.version != Some("2.0") {
            return error("\"jsonrpc\" must be \"2.0\"");
        }
        if self.id.is_some_and(|id| !id.is_null()) && id.is_none() {
            return error("\"id\" must be a string of at most 4096 bytes or a 64-bit integer");
        }
        if self.method.is_some() {
            return match (self.method(), self.params(), self.outcome(), id) {
                (Some(method), Some(params), None, Some(id)) => {
                    Ok(Message::Request { id, method, params })
                }
                (Some(method), Some(params), None, None) if self.id.is_none() => {
                    Ok(Message::Notification { method, params })
                }
                _ => error(self.request_error()),
            };
        }
        match (self.result, self.error) {
            (Some(result), None) if id.is_some() => {
                Ok(Message::Response { id, outcome: Ok(result) })
            }
            (None, Some(object)) if object.as_object().is_some() => {
                Ok(Message::Response { id, outcome: Err(object) })
            }
            (Some(_), None) => error("a response with \"result\" requires \"id\""),
            (None, Some(_)) => error("\"error\" must be an object"),
            (Some(_), Some(_)) => error("a response must not have both \"result\" and \"error\""),
            (None, None) => error("missing \"method\""),
        }
    }

    fn request_error(&self) -> &'static str {
        if self.method().is_none() {
            "\"method\" must be a string"
        } else if self.outcome().is_some() {
            "a message must not have both \"method\" and \"result\" or \"error\""
        } else if self.id.is_some_and(Value::is_null) {
            "\"id\" of a request must not be null"
        } else {
            "\"params\" must be an object"
        }
    }
}

#[cold]
fn not_an_object_error(value: Value<'_>) -> InvalidMessage<'_> {
    let message = match value.kind() {
        ValueKind::Array => "batches are not supported: send one message at a time",
        _ => "a message must be a JSON object",
    };
    let (is_response, has_method) = (false, false);
    InvalidMessage { id: None, is_response, has_method, error: Error::invalid_request(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

    /// Reads one message and describes it in one line.
    fn describe_message(text: &str) -> String {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        match Message::read(document.root()) {
            Ok(Message::Request { id, method, params }) => {
                format!("request {id:?} {method} {params:?}")
            }
            Ok(Message::Notification { method, params }) => {
                format!("notification {method} {params:?}")
            }
            Ok(Message::Response { id, outcome }) => format!("response {id:?} {outcome:?}"),
            Err(InvalidMessage { id, is_response: false, error, .. }) => {
                format!("{} {id:?}", error.code)
            }
            Err(InvalidMessage { id, error, .. }) => format!("{} response {id:?}", error.code),
        }
    }

    #[test]
    fn request_notification_and_response_are_distinguished() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "request Signed(7) ping None"),
            (
                r#"{"params":{"a":1},"method":"x","extra":0,"id":"q","jsonrpc":"2.0"}"#,
                r#"request Text("q") x Some({"a":1})"#,
            ),
            (r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#, "notification n Some([1])"),
            (r#"{"jsonrpc":"2.0","method":"n","params":null}"#, "notification n None"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response Some(Signed(1)) Ok({})"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response Some(Signed(1)) Ok(null)"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "response None Err({})"),
            (r#"{"jsonrpc":"2.0","error":{}}"#, "response None Err({})"),
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"x"}"#, "request Whole(1) x None"),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"x"}"#, "request Whole(1000) x None"),
        ] {
            assert_eq!(describe_message(text), expected, "{text}");
        }
    }

    #[test]
    fn null_member_counts_as_absent() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null,"method":null}"#,
                "response Some(Signed(1)) Ok({})",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{}}"#,
                "response Some(Signed(1)) Err({})",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#,
                "response Some(Signed(1)) Ok(null)",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","result":null,"error":null,"params":null}"#,
                "request Signed(1) x None",
            ),
            (r#"{"jsonrpc":"2.0","method":"x","error":null}"#, "notification x None"),
            (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, "-32600 Some(Signed(1))"),
        ] {
            assert_eq!(describe_message(text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_response_is_marked_as_response() {
        for text in [
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":["a"],"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        ] {
            assert!(describe_message(text).starts_with("-32600 response"), "{text}");
        }
    }

    #[test]
    fn equal_numbers_are_equal_ids() {
        assert_eq!(Id::Whole(1), Id::Signed(1));
        assert_eq!(IdBuf::from(Id::Whole(1)), IdBuf::from(Id::Signed(1)));
        assert_ne!(Id::Whole(1), Id::Text("1"));
        assert_ne!(Id::Unsigned(u64::MAX), Id::Signed(-1));
        let mut written = Vec::new();
        IdBuf::from(Id::Whole(-7)).as_id().write(&mut written);
        assert_eq!(written, b"-7.0");
    }

    #[test]
    fn invalid_message_error_keeps_readable_id() {
        for (text, expected) in [
            ("[]", "-32600 None"),
            ("7", "-32600 None"),
            ("{}", "-32600 None"),
            (r#"{"id":1,"method":"x"}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":2.0,"id":"a","method":"x"}"#, r#"-32600 Some(Text("a"))"#),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":"p"}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1e16,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":9007199254740993.0,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"x"}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#, "-32600 Some(Signed(1))"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
                "-32600 response Some(Signed(1))",
            ),
            (r#"{"jsonrpc":"2.0","result":1}"#, "-32600 response None"),
            (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, "-32600 response Some(Signed(1))"),
        ] {
            assert_eq!(describe_message(text), expected, "{text}");
        }
    }

    #[test]
    fn id_longer_than_limit_is_invalid() {
        let request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"x"}}"#);
        let longest = "i".repeat(ID_BYTES_MAX);
        assert!(describe_message(&request(&longest)).starts_with("request Text"));
        assert_eq!(describe_message(&request(&format!("{longest}i"))), "-32600 None");
        // The limit applies to the decoded string.
        assert!(
            describe_message(&request(&r"\u0041".repeat(ID_BYTES_MAX))).starts_with("request Text")
        );
        let response = r#"{"jsonrpc":"2.0","id":"ID","result":{}}"#;
        let described = describe_message(&response.replace("ID", &longest.repeat(2)));
        assert_eq!(described, "-32600 response None");
    }

    #[test]
    fn numeric_id_has_one_representation() {
        assert_eq!(Id::from(7_u64), Id::from(7_i64));
        assert_eq!(Id::from(u64::MAX), Id::Unsigned(u64::MAX));
        assert_eq!(
            describe_message(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#),
            "request Unsigned(18446744073709551615) x None"
        );
        assert_eq!(
            describe_message(r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"x"}"#),
            "request Signed(-9223372036854775808) x None"
        );
    }

    #[test]
    fn owned_id_equals_borrowed_id() {
        for id in [Id::Signed(-1), Id::Unsigned(u64::MAX), Id::Text("a\"b")] {
            let owned = IdBuf::from(id);
            assert_eq!(owned.as_id(), id);
        }
        assert!(size_of::<IdBuf>() <= 24);
    }
}
