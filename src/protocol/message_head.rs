//! What can be read of a message whose text does not parse: its id, and what it is.
//!
//! Invariants: only members of the message itself count, not those of its params or result; a
//! member that occurs twice is not read; the work is linear in the text.
//!
//! JSON-RPC 2.0, section 5: an error has the id of its request unless that could not be read, and
//! a response is not answered.

use std::borrow::Cow;

use memchr::memchr2;

use crate::json::ObjectWriter;
use crate::jsonrpc::{ID_BYTES_MAX, Id, IdBuf};

/// The members of a message that name it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MessageHead {
    id: Option<IdBuf>,
    has_method: bool,
    has_outcome: bool,
}

impl MessageHead {
    /// Reads the members of the object `text`, up to its end or to a place where they cannot be
    /// told apart. Values may be invalid: only quotes and brackets are looked at.
    #[cold]
    pub fn read(text: &[u8]) -> Self {
        let mut head = Self::default();
        let mut ids = 0;
        let mut reader = Reader { text, at: 0 };
        reader.skip_byte_order_mark();
        if !reader.take(b'{') {
            return head;
        }
        while let Some(key) = reader.string() {
            if !reader.take(b':') {
                break;
            }
            let value = reader.value();
            match &*decoded(key) {
                b"id" => {
                    ids += 1;
                    head.id = value.and_then(read_id);
                }
                b"method" => head.has_method = true,
                b"result" | b"error" => head.has_outcome = true,
                _ => {}
            }
            if value.is_none() || !reader.take(b',') {
                break;
            }
        }
        head.id = head.id.filter(|_| ids == 1);
        head
    }

    /// Returns a short text with the same head.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut members = ObjectWriter::open(&mut text);
        if let Some(id) = self.id() {
            id.write(members.key("id"));
        }
        if self.has_method {
            members.string("method", "");
        }
        if self.has_outcome {
            members.raw("result", b"null");
        }
        members.close();
        text
    }

    /// Returns the id, if it can be read.
    pub fn id(&self) -> Option<Id<'_>> {
        self.id.as_ref().map(IdBuf::as_id)
    }

    /// Returns whether the message is a response: it has a result or an error, and no method.
    pub const fn is_response(&self) -> bool {
        self.has_outcome && !self.has_method
    }

    /// Returns whether the message is a request or a notification.
    pub const fn has_method(&self) -> bool {
        self.has_method
    }
}

/// Returns the id that is written as `text`.
fn read_id(text: &[u8]) -> Option<IdBuf> {
    // An escape has at most six bytes; the quotes are two.
    if text.len() > 6 * ID_BYTES_MAX + 2 {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    match &value {
        serde_json::Value::String(text) => {
            (text.len() <= ID_BYTES_MAX).then(|| Id::Text(text).into())
        }
        serde_json::Value::Number(number) => {
            let written = number.as_i64().map(Id::from).or_else(|| number.as_u64().map(Id::from));
            Some(written.or_else(|| Id::from_double(number.as_f64()?))?.into())
        }
        _ => None,
    }
}

/// Returns a key with its escapes decoded.
fn decoded(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.contains(&b'\\') {
        return key.into();
    }
    let quoted = [b"\"", key, b"\""].concat();
    serde_json::from_slice::<String>(&quoted)
        .map_or_else(|_| key.into(), |key| key.into_bytes().into())
}

/// Reads tokens of an object.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    fn skip_byte_order_mark(&mut self) {
        if self.text.starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.text.get(self.at).copied()
    }

    /// Takes `expected`, behind white space.
    fn take(&mut self, expected: u8) -> bool {
        let is_there = self.peek() == Some(expected);
        self.at += usize::from(is_there);
        is_there
    }

    /// Takes a string and returns its contents as written.
    fn string(&mut self) -> Option<&'t [u8]> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            self.at += memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            if self.text[self.at] == b'"' {
                self.at += 1;
                return Some(&self.text[start..self.at - 1]);
            }
            self.at += 2;
        }
    }

    /// Takes a value and returns it as written, or `None` if the text ends before it does.
    fn value(&mut self) -> Option<&'t [u8]> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => drop(self.string()?),
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let is_end = |byte: &u8| b",:]}[{\"\t\n\r ".contains(byte);
                self.at += self.text[start..].iter().position(is_end)?;
            }
        }
        Some(&self.text[start..self.at])
    }

    /// Skips an object or an array.
    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> String {
        MessageHead::read(text.as_bytes()).id().map_or_else(|| "none".into(), |id| id.to_string())
    }

    #[test]
    fn id_is_read_whatever_is_invalid() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":42,"method":"m","params":{"n":1e400}}"#, "42"),
            (r#"{"method":"m","params":{"n":1e400,"id":7},"id":42}"#, "42"),
            (r#"{"params":[{"id":7},["]","}"]],"id":"a\u0062","x":tru}"#, "ab"),
            (r#" { "id" : -3.0 , "method":"m","params":{"a":"\ud83d"} }"#, "-3"),
            ("\u{feff}{\"id\":18446744073709551615,\"a\":\"\\x\"}", "18446744073709551615"),
            (r#"{"id":42,"method":"m","params":{"a":"#, "42"),
            (r#"{"id":42,"method":"m" "params":{}}"#, "42"),
            (r#"{"id":42}"#, "42"),
        ] {
            assert_eq!(id(text), expected, "{text}");
        }
        let nested = format!(r#"{{"a":{}{},"id":"deep"}}"#, "[".repeat(9_999), "]".repeat(9_999));
        assert_eq!(id(&nested), "deep");
    }

    #[test]
    fn other_member_is_not_the_id() {
        for text in [
            r#"{"method":"m","params":{"id":7,"n":1e400}}"#,
            r#"{"id":1,"id":2,"a":1e400}"#,
            r#"{"id":1,"a":"\ud83d","id":1}"#,
            r#"{"id":1,"\u0069d":1,"a":1e400}"#,
            r#"{"a":"\"id\":7,","b":"{\"id\":7}"}"#,
            r#"[{"id":7,"a":1e400}]"#,
            r#"{"id":7"#,
            r#"{"id":7.5,"a":1e400}"#,
            r#"{"id":{"id":7},"a":1e400}"#,
            r#"{"id":null,"a":1e400}"#,
            r#"{"method":"foobar, "params":"bar","id":7]"#,
            r#"{"params":{"a":1,"id":7"#,
            r#""id":7"#,
            "",
        ] {
            assert_eq!(id(text), "none", "{text}");
        }
    }

    #[test]
    fn response_has_an_outcome_and_no_method() {
        for (text, expected) in [
            (r#"{"id":1,"result":{"n":1e400}}"#, true),
            (r#"{"error":{"method":1e400},"id":1}"#, true),
            (r#"{"id":1,"method":"m","params":{"result":1e400}}"#, false),
            (r#"{"id":1,"result":"#, true),
            (r#"{"id":1,"a":1e400}"#, false),
        ] {
            assert_eq!(MessageHead::read(text.as_bytes()).is_response(), expected, "{text}");
        }
    }
}
