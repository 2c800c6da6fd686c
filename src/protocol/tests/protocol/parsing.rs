//! Parsing of a text like the request path does.

use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseError, ParseLimits, Parser, Value};

/// Parses `text` and returns what `look` returns for its value.
pub(crate) fn with_value<T>(
    text: impl AsRef<[u8]>,
    look: impl FnOnce(Value<'_>) -> T,
) -> Result<T, ParseError> {
    let text = text.as_ref();
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = pad(text);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len()))?;
    Ok(look(document.root()))
}

/// Returns `text` followed by padding bytes, whose content must not matter.
pub(crate) fn pad(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.resize(text.len() + PADDING_BYTES, b'{');
    bytes
}

/// Parses `text` and encodes it again.
pub(crate) fn reencode(text: impl AsRef<[u8]>) -> Result<String, ParseError> {
    with_value(text, |value| {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).expect("encoded JSON is UTF-8")
    })
}
