//! JSON-RPC 2.0: ids and envelopes.
//!
//! What it keeps true: an id is echoed with its type and value, and is short enough to be kept as
//! long as its request is in flight ([`ID_BYTES_MAX`]); a message is exactly one of
//! request, notification and response; a member that decides this may occur once. Batches are the
//! caller's: it asks the revision and reads each item here.
//!
//! Source: JSON-RPC 2.0, sections 4 and 5; MCP `basic/index` of each revision (ids are strings or
//! whole numbers, never null).

use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Object, Value, write};

/// Bytes of an id that is a string, its escapes resolved; a longer one is none (-32600). Ids are
/// kept while their requests are in flight, hundreds on one connection, so without a bound they
/// would hold as much as that many messages. The specification knows no bound; the ids of real
/// clients are numbers, UUIDs and the like. Tokens of progress are held to the same one (-32602).
pub const ID_BYTES_MAX: usize = 4096;

/// The id of a request, borrowed from its text.
///
/// One number has one form: [`Id::Unsigned`] is used above `i64::MAX` only, so that equal ids
/// compare equal. The `From` conversions keep to it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Id<'a> {
    /// A whole number.
    Signed(i64),
    /// A whole number above `i64::MAX`.
    Unsigned(u64),
    /// A string, without its escapes.
    Text(&'a str),
}

impl<'a> Id<'a> {
    /// The id that `value` holds; none where it is neither a string of at most [`ID_BYTES_MAX`]
    /// bytes nor a whole number of 64 bits written without fraction and exponent.
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
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Signed(number) => write::signed(out, number),
            Self::Unsigned(number) => write::unsigned(out, number),
            Self::Text(text) => write::string(out, text),
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

/// An id that outlives its text. Numbers take no memory of their own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct IdBuf(Owned);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Owned {
    Signed(i64),
    Text(Box<str>),
    Unsigned(u64),
}

impl IdBuf {
    /// The same id, borrowed.
    #[inline]
    pub const fn as_id(&self) -> Id<'_> {
        match &self.0 {
            Owned::Signed(number) => Id::Signed(*number),
            Owned::Text(text) => Id::Text(text),
            Owned::Unsigned(number) => Id::Unsigned(*number),
        }
    }
}

impl From<Id<'_>> for IdBuf {
    fn from(id: Id<'_>) -> Self {
        Self(match id {
            Id::Signed(number) => Owned::Signed(number),
            Id::Unsigned(number) => Owned::Unsigned(number),
            Id::Text(text) => Owned::Text(text.into()),
        })
    }
}

/// One message. Members that JSON-RPC does not name are passed over.
#[derive(Clone, Copy, Debug)]
pub enum Envelope<'a> {
    /// Has an id and wants an answer.
    Request {
        /// Names the request in its answer.
        id: Id<'a>,
        /// What to do.
        method: &'a str,
        /// An object or an array; `null` counts as left out.
        params: Option<Value<'a>>,
    },
    /// Has no id and gets no answer.
    Notification {
        /// What happened.
        method: &'a str,
        /// An object or an array; `null` counts as left out.
        params: Option<Value<'a>>,
    },
    /// Answers a request of ours.
    Response {
        /// The request; none in an error whose sender could not read it.
        id: Option<Id<'a>>,
        /// The `result`, or the `error` object.
        outcome: Result<Value<'a>, Value<'a>>,
    },
}

/// A message that is none, with its id where that could be read.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// The id to answer with.
    pub id: Option<Id<'a>>,
    /// What is wrong: -32600 in every case.
    pub error: Error,
}

impl<'a> Envelope<'a> {
    /// Reads one message; an array is refused, see the module.
    ///
    /// # Errors
    ///
    /// [`Refused`] when the value is no JSON-RPC 2.0 message.
    #[inline]
    pub fn read(value: Value<'a>) -> Result<Self, Refused<'a>> {
        let Some(object) = value.as_object() else {
            return Err(refuse_shape(value));
        };
        let found = Found::read(object);
        // The road: a request, a method, no duplicates. Everything else may take its time.
        if found.version == Some("2.0")
            && !found.duplicate
            && found.outcome().is_none()
            && let (Some(method), Some(params)) = (found.method(), found.params())
        {
            match found.id.map(Id::from_value) {
                Some(Some(id)) => return Ok(Self::Request { id, method, params }),
                None => return Ok(Self::Notification { method, params }),
                Some(None) => {}
            }
        }
        found.respond_or_refuse()
    }
}

/// The members that JSON-RPC names, as they were found.
#[derive(Default)]
struct Found<'a> {
    version: Option<&'a str>,
    id: Option<Value<'a>>,
    method: Option<Value<'a>>,
    params: Option<Value<'a>>,
    result: Option<Value<'a>>,
    error: Option<Value<'a>>,
    id_twice: bool,
    duplicate: bool,
}

impl<'a> Found<'a> {
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
                found.duplicate = true;
                found.id_twice |= key == "id";
            }
        }
        found.version = version.and_then(Value::as_str);
        found
    }

    #[inline]
    fn method(&self) -> Option<&'a str> {
        self.method.and_then(Value::as_str)
    }

    /// The params, or nothing where they are left out; none where they are neither object nor
    /// array.
    #[inline]
    #[expect(clippy::option_option, reason = "left out and wrong are two things")]
    fn params(&self) -> Option<Option<Value<'a>>> {
        match self.params {
            None => Some(None),
            Some(params) => match params.kind() {
                Kind::Array | Kind::Object => Some(Some(params)),
                Kind::Null => Some(None),
                Kind::Boolean | Kind::Number | Kind::String => None,
            },
        }
    }

    #[inline]
    const fn outcome(&self) -> Option<Value<'a>> {
        if self.result.is_some() { self.result } else { self.error }
    }

    /// A response, or the first thing that is wrong.
    #[cold]
    fn respond_or_refuse(self) -> Result<Envelope<'a>, Refused<'a>> {
        let readable = if self.id_twice { None } else { self.id.and_then(Id::from_value) };
        let error = |message| Err(Refused { id: readable, error: Error::invalid_request(message) });
        if self.duplicate {
            return error("a member of the envelope occurs twice");
        }
        if self.version != Some("2.0") {
            return error("\"jsonrpc\" must be \"2.0\"");
        }
        if self.id.is_some_and(|id| !id.is_null()) && readable.is_none() {
            return error("the id must be a string (4096 bytes) or a whole number of 64 bits");
        }
        if self.method.is_some() {
            return error(self.fault_of_request());
        }
        match (self.result, self.error) {
            (Some(result), None) if readable.is_some() => {
                Ok(Envelope::Response { id: readable, outcome: Ok(result) })
            }
            (None, Some(fault)) if fault.as_object().is_some() => {
                Ok(Envelope::Response { id: readable, outcome: Err(fault) })
            }
            (Some(_), None) => error("a result needs the id of its request"),
            (None, Some(_)) => error("the error of a response must be an object"),
            (Some(_), Some(_)) => error("a response has a result or an error, not both"),
            (None, None) => error("the message has no method"),
        }
    }

    fn fault_of_request(&self) -> &'static str {
        if self.method().is_none() {
            "the method must be a string"
        } else if self.outcome().is_some() {
            "a message has a method, or a result or error, not both"
        } else if self.id.is_some_and(Value::is_null) {
            "the id of a request must not be null"
        } else {
            "params must be an object"
        }
    }
}

#[cold]
fn refuse_shape(value: Value<'_>) -> Refused<'_> {
    let message = match value.kind() {
        Kind::Array => "this revision has no batches: send one message at a time",
        _ => "a message must be a JSON object",
    };
    Refused { id: None, error: Error::invalid_request(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::{Limits, PADDING_BYTES, Parser};

    /// Reads one message and describes it in one line.
    fn described(text: &str) -> String {
        let mut parser = Parser::new(Limits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let document = parser.parse(&mut bytes, text.len()).unwrap();
        match Envelope::read(document.root()) {
            Ok(Envelope::Request { id, method, params }) => {
                format!("request {id:?} {method} {params:?}")
            }
            Ok(Envelope::Notification { method, params }) => {
                format!("notification {method} {params:?}")
            }
            Ok(Envelope::Response { id, outcome }) => format!("response {id:?} {outcome:?}"),
            Err(Refused { id, error }) => format!("{} {id:?}", error.code),
        }
    }

    #[test]
    fn the_three_kinds_of_message_are_told_apart() {
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
            assert_eq!(described(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_where_it_can_be_read() {
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
            assert_eq!(described(text), expected, "{text}");
        }
    }

    #[test]
    fn an_id_that_is_long_to_keep_is_none() {
        let request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"x"}}"#);
        let longest = "i".repeat(ID_BYTES_MAX);
        assert!(described(&request(&longest)).starts_with("request Text"));
        assert_eq!(described(&request(&format!("{longest}i"))), "-32600 None");
        // What it says counts, not how they are written.
        assert!(described(&request(&r"\u0041".repeat(ID_BYTES_MAX))).starts_with("request Text"));
        let response = r#"{"jsonrpc":"2.0","id":"ID","result":{}}"#;
        assert_eq!(described(&response.replace("ID", &longest.repeat(2))), "-32600 None");
    }

    #[test]
    fn one_number_has_one_form() {
        assert_eq!(Id::from(7_u64), Id::from(7_i64));
        assert_eq!(Id::from(u64::MAX), Id::Unsigned(u64::MAX));
        assert_eq!(
            described(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#),
            "request Unsigned(18446744073709551615) x None"
        );
        assert_eq!(
            described(r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"x"}"#),
            "request Signed(-9223372036854775808) x None"
        );
    }

    #[test]
    fn an_owned_id_is_the_same_id() {
        for id in [Id::Signed(-1), Id::Unsigned(u64::MAX), Id::Text("a\"b")] {
            let owned = IdBuf::from(id);
            assert_eq!(owned.as_id(), id);
        }
        assert!(size_of::<IdBuf>() <= 24);
    }
}
