//! JSON text with the padding that the parser needs, and its place in memory: the text as it was
//! received, beside its parsed values.

use super::error::ParseError;
use super::parsed::ParsedText;
use super::prescan::{LONG_STRING_TEXT_BYTES_MIN, PRESCAN_BYTES_MIN};
use super::value::Value;

/// Bytes of any content that must follow the text, because vector loads read past its end.
pub const PADDING_BYTES: usize = simd_json::INPUT_PADDING;

/// Bytes behind the padding of an owned long text, for a copy of what is beside its long string.
const SPARE_BYTES: usize = 4 << 10;

/// A text in a larger buffer. At least [`PADDING_BYTES`] bytes of any content follow it.
#[derive(Debug)]
pub struct PaddedText<'a> {
    bytes: &'a mut [u8],
    length: usize,
    /// All bytes behind the text are free to be overwritten.
    has_spare: bool,
    /// What parsing it has found, if that is done.
    parsed: Option<&'a ParsedText>,
}

impl<'a> PaddedText<'a> {
    /// Returns the text `bytes[..length]`.
    ///
    /// # Panics
    ///
    /// Panics if fewer than [`PADDING_BYTES`] bytes follow it.
    #[inline]
    pub fn new(bytes: &'a mut [u8], length: usize) -> Self {
        assert!(bytes.len() >= length + PADDING_BYTES, "PADDING_BYTES of padding must follow text");
        Self { bytes, length, has_spare: false, parsed: None }
    }

    /// Returns the text `bytes[..length]`; what follows it may be overwritten.
    ///
    /// # Panics
    ///
    /// Panics if fewer than [`PADDING_BYTES`] bytes follow it.
    #[inline]
    pub fn with_spare(bytes: &'a mut [u8], length: usize) -> Self {
        Self { has_spare: true, ..Self::new(bytes, length) }
    }

    /// Returns the text without its padding.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self.bytes.get(..self.length) {
            Some(bytes) => bytes,
            None => self.parsed_bytes(),
        }
    }

    /// Returns a text that was parsed apart.
    #[cold]
    fn parsed_bytes(&self) -> &[u8] {
        let text = self.parsed.and_then(ParsedText::text).unwrap_or_default();
        text.as_bytes().get(..self.length).unwrap_or_default()
    }

    /// Returns the same text for a shorter time.
    #[inline]
    pub const fn reborrow(&mut self) -> PaddedText<'_> {
        let Self { length, has_spare, parsed, .. } = *self;
        PaddedText { bytes: self.bytes, length, has_spare, parsed }
    }

    /// Returns the part from `start` to `end`; what follows it is its padding.
    ///
    /// # Panics
    ///
    /// Panics if the part is not within the text.
    #[inline]
    pub fn part(&mut self, start: usize, end: usize) -> PaddedText<'_> {
        assert!(start <= end && end <= self.length, "the part is not within the text");
        let has_spare = self.has_spare && end == self.length;
        PaddedText { bytes: &mut self.bytes[start..], length: end - start, has_spare, parsed: None }
    }

    /// Returns the text without its padding, for changes in place.
    ///
    /// # Panics
    ///
    /// Panics if it was parsed apart.
    #[inline]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Returns the bytes from `start` to `middle`, and the part from there to `end`.
    ///
    /// # Panics
    ///
    /// Panics if these are not within the text, in this order.
    #[inline]
    pub fn split(
        &mut self,
        start: usize,
        middle: usize,
        end: usize,
    ) -> (&mut [u8], PaddedText<'_>) {
        assert!(middle <= end && end <= self.length, "the part is not within the text");
        let has_spare = self.has_spare && end == self.length;
        let (before, bytes) = self.bytes[start..].split_at_mut(middle - start);
        (before, PaddedText { bytes, length: end - middle, has_spare, parsed: None })
    }

    /// Returns the buffer with the padding, and the length of the text.
    #[inline]
    pub(super) const fn into_parts(self) -> (&'a mut [u8], usize) {
        (self.bytes, self.length)
    }

    /// Returns what parsing it has found, if that is done.
    #[inline]
    pub(super) const fn parsed(&self) -> Option<&'a ParsedText> {
        self.parsed
    }

    /// Returns whether all bytes behind the text may be overwritten.
    #[inline]
    pub(super) const fn has_spare(&self) -> bool {
        self.has_spare
    }
}

/// Returns how many bytes follow an owned text.
pub const fn padding_of(length: usize) -> usize {
    PADDING_BYTES + if length > PRESCAN_BYTES_MIN { SPARE_BYTES } else { 0 }
}

/// An owned text followed by its padding.
#[derive(Debug)]
pub struct PaddedBuffer {
    /// Empty once the text is parsed apart, unless it was rejected.
    bytes: Vec<u8>,
    length: usize,
    parsed: Option<Box<ParsedText>>,
}

impl PaddedBuffer {
    /// Appends the padding to `text`, and spare bytes to a long one.
    pub fn new(mut text: Vec<u8>) -> Self {
        let length = text.len();
        text.resize(length + padding_of(length), 0);
        Self { bytes: text, length, parsed: None }
    }

    /// Returns the text `bytes[..length]`; what follows it may be overwritten.
    ///
    /// # Panics
    ///
    /// Panics if fewer than [`PADDING_BYTES`] bytes follow it.
    pub fn from_padded(bytes: Vec<u8>, length: usize) -> Self {
        assert!(bytes.len() >= length + PADDING_BYTES, "PADDING_BYTES of padding must follow text");
        Self { bytes, length, parsed: None }
    }

    /// Replaces a text that is rejected because of `error` by `text`.
    pub fn reject(&mut self, error: ParseError, text: Vec<u8>) {
        *self = Self { parsed: Some(Box::new(ParsedText::Rejected(error))), ..Self::new(text) };
    }

    /// Sets what parsing the text has found, which takes the buffer over.
    pub(super) fn set_parsed(&mut self, parsed: impl FnOnce(Vec<u8>) -> ParsedText) {
        let bytes = std::mem::take(&mut self.bytes);
        self.parsed = Some(Box::new(parsed(bytes)));
    }

    /// Returns whether it was [parsed apart](super::Parser::parse_apart), or rejected.
    pub const fn is_parsed(&self) -> bool {
        self.parsed.is_some()
    }

    /// Returns the strings of a text that was parsed apart, wherever they stand.
    pub fn parsed_text(&self) -> Option<&str> {
        self.parsed.as_deref().and_then(ParsedText::text)
    }

    /// Returns the bytes held: the capacity of the buffer, and what parsing it has found.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.parsed.as_deref().map_or(0, ParsedText::held_bytes)
    }

    /// Returns a copy of `text`.
    pub fn copy_of(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + padding_of(text.len()));
        bytes.extend_from_slice(text);
        Self::new(bytes)
    }

    /// Returns the text without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        let bytes = self.parsed_text().map_or(&*self.bytes, str::as_bytes);
        &bytes[..self.length]
    }

    /// Returns the text to be parsed.
    pub fn text(&mut self) -> PaddedText<'_> {
        let parsed = self.parsed.as_deref();
        PaddedText { bytes: &mut self.bytes, length: self.length, has_spare: true, parsed }
    }

    /// Returns the buffer, for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        let Self { bytes, parsed, .. } = self;
        parsed.and_then(|parsed| parsed.into_buffer()).unwrap_or(bytes)
    }
}

impl Default for PaddedBuffer {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

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
        let is_short = bytes.len() < LONG_STRING_TEXT_BYTES_MIN;
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
    use crate::json::{ParseLimits, Parser};

    #[test]
    fn part_ends_before_its_padding() {
        let mut buffer = PaddedBuffer::copy_of(b"[1] [2]");
        let mut text = buffer.text();
        assert_eq!(text.part(4, 7).as_bytes(), b"[2]");
        assert_eq!(text.part(0, 3).as_bytes(), b"[1]");
        assert_eq!(buffer.text().as_bytes(), b"[1] [2]");
        assert_eq!(buffer.into_buffer().len(), 7 + PADDING_BYTES);
    }

    #[test]
    #[should_panic(expected = "padding must follow")]
    fn text_without_padding_is_rejected() {
        PaddedText::new(&mut [b'1'; 8], 1);
    }

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
        let long = "a".repeat(LONG_STRING_TEXT_BYTES_MIN);
        assert_eq!(is_written_as(&format!(r#"{{"b":"{long}","a":{{"b":1}}}}"#), "{}"), None);
    }
}
