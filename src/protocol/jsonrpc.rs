//! JSON-RPC 2.0 ids and messages.
//!
//! Invariants: an id is echoed with its type and value and is at most [`ID_BYTES_MAX`] long; a
//! message is exactly one of request, notification and response; its members occur once. Batches
//! are handled by the caller, which checks the revision and reads each item here.
//!
//! JSON-RPC 2.0, sections 4 and 5; MCP `basic/index` of each revision (ids are strings or
//! integers, never null).

use std::fmt;

use crate::protocol::error::Error;
use crate::protocol::json::{Object, Value, ValueKind, write};

/// Longest string id in bytes, escapes decoded; a longer one is an invalid request (-32600). Ids
/// are stored while their requests are in flight, so without a bound hundreds of them could retain
/// as much memory as that many messages. The specification sets no bound; real clients use numbers
/// and UUIDs. Progress tokens have the same bound (-32602).
pub const ID_BYTES_MAX: usize = 4096;

/// The id of a request, borrowed from the message.
///
/// The representation of a number is unique, so that equal ids compare equal: [`Id::Unsigned`] is
/// used above `i64::MAX` only. The `From` conversions follow this rule.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Id<'a> {
    /// An integer.
    Signed(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    /// A string, its escapes decoded.
    Text(&'a str),
}

impl<'a> Id<'a> {
    /// Reads an id; returns `None` unless `value` is a string of at most [`ID_BYTES_MAX`] bytes or
    /// a 64-bit integer written without fraction and exponent.
    #[doc(hidden)]
    #[inline]
    pub fn from_value(value: Value<'a>) -> Option<Self> {
        if let Some(number) = value.as_i64() {
            return Some(Self::Signed(number));
        }
        match value.as_str() {
            Some(text) => (text.len() <= ID_BYTES_MAX).then_some(Self::Text(text)),
            None => value.as_u64().map(Self::Unsigned),
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
        }
    }
}

impl fmt::Display for Id<'_> {
    /// Writes the number, or the string without quotes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number) => number.fmt(formatter),
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
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct IdBuf(OwnedId);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum OwnedId {
    Signed(i64),
    Text(Box<str>),
    Unsigned(u64),
}

impl IdBuf {
    /// Returns the borrowed form.
    #[inline]
    pub const fn as_id(&self) -> Id<'_> {
        match &self.0 {
            OwnedId::Signed(number) => Id::Signed(*number),
            OwnedId::Text(text) => Id::Text(text),
            OwnedId::Unsigned(number) => Id::Unsigned(*number),
        }
    }
}

impl From<Id<'_>> for IdBuf {
    fn from(id: Id<'_>) -> Self {
        Self(match id {
            Id::Signed(number) => OwnedId::Signed(number),
            Id::Unsigned(number) => OwnedId::Unsigned(number),
            Id::Text(text) => OwnedId::Text(text.into()),
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
        found.result().map_or_else(|| found.into_response(), Ok)
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

    /// Returns the response, or an error that names the first fault.
    #[cold]
    fn into_response(self) -> Result<Message<'a>, InvalidMessage<'a>> {
        let id = if self.has_duplicate_id { None } else { self.id.and_then(Id::from_value) };
        let error = |message| Err(InvalidMessage { id, error: Error::invalid_request(message) });
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
            return error(self.request_error());
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
    InvalidMessage { id: None, error: Error::invalid_request(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

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
            Err(InvalidMessage { id, error }) => format!("{} {id:?}", error.code),
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
        ] {
            assert_eq!(describe_message(text), expected, "{text}");
        }
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
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"x"}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"x"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "-32600 Some(Signed(1))"),
            (r#"{"jsonrpc":"2.0","result":1}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, "-32600 Some(Signed(1))"),
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
        assert_eq!(describe_message(&response.replace("ID", &longest.repeat(2))), "-32600 None");
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
