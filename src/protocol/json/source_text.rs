//! The text of a message, as it was received, beside its parsed values.

use super::long_string;
use super::padded_text::PaddedText;
use super::value::Value;

/// Where a text is in memory while it is parsed. Strings are decoded at their places, unless the
/// text is long, so that the place of a string is also its place in a copy made before.
#[derive(Clone, Copy, Debug)]
pub struct SourcePlace {
    address: usize,
}

impl SourcePlace {
    /// Returns the place of a text that is not parsed yet, or `None` if it is long.
    #[inline]
    pub fn of_text(text: &PaddedText<'_>) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_short = bytes.len() < long_string::TEXT_BYTES_MIN;
        is_short.then(|| Self { address: bytes.as_ptr().addr() })
    }

    /// Returns whether `value`, of the parsed text, is an object that was written as `expected`,
    /// the text of an object. `copy` is that of the whole text before it was parsed. `false` if the
    /// object is empty, and possibly if there are spaces before its first key.
    #[inline]
    pub fn is_written_as(self, value: Value<'_>, copy: &[u8], expected: &[u8]) -> bool {
        // An object with its first key there is this object, and its text has one end.
        let first_key = value.as_object().and_then(|object| object.iter().next());
        let place = first_key.and_then(|(key, _)| key.as_ptr().addr().checked_sub(self.address));
        let start = place.and_then(|place| place.checked_sub(b"{\"".len()));
        let written = start.and_then(|start| copy.get(start..));
        written.is_some_and(|written| written.starts_with(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{PaddedBuffer, ParseLimits, Parser};

    /// Returns whether the member `a` of `text` was written as `expected`.
    fn is_written_as(text: &str, expected: &str) -> Option<bool> {
        let mut buffer = PaddedBuffer::new(text.as_bytes().to_vec());
        let place = SourcePlace::of_text(&buffer.text())?;
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(buffer.text()).unwrap();
        let value = document.root().as_object()?.find("a")?;
        Some(place.is_written_as(value, text.as_bytes(), expected.as_bytes()))
    }

    #[test]
    fn object_is_found_where_it_was_written() {
        let same = r#"{"b":[1,"\u00e9"]}"#;
        for text in
            [r#"{"a":{"b":[1,"\u00e9"]}}"#, r#"{"\n":"\"a\":{}","a": {"b":[1,"\u00e9"]} ,"c":{}}"#]
        {
            assert_eq!(is_written_as(text, same), Some(true), "{text}");
        }
        for text in [
            r#"{"a":{}}"#,
            r#"{"a":7}"#,
            r#"{"a":{"b":[1,"\u00ea"]}}"#,
            r#"{"a":{"c":{"b":[1,"\u00e9"]}}}"#,
            r#"{"d":{"b":[1,"\u00e9"]},"a":{"b":[1]}}"#,
            r#"{"d\"a":{"b":[1,"\u00e9"]},"a":{"\u0062":[1,"\u00e9"]}}"#,
        ] {
            assert_eq!(is_written_as(text, same), Some(false), "{text}");
        }
    }

    #[test]
    fn place_of_long_text_is_unknown() {
        let long = "a".repeat(long_string::TEXT_BYTES_MIN);
        assert_eq!(is_written_as(&format!(r#"{{"b":"{long}","a":{{"b":1}}}}"#), "{}"), None);
    }
}
