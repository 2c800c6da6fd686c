//! What the tests share: a text, parsed the way the road parses it.

use corelane::protocol::json::{Limits, PADDING_BYTES, ParseError, Parser, Value};

/// Parses `text` and shows its value to `look`.
pub(crate) fn with_value<T>(
    text: impl AsRef<[u8]>,
    look: impl FnOnce(Value<'_>) -> T,
) -> Result<T, ParseError> {
    let text = text.as_ref();
    let mut parser = Parser::new(Limits::default());
    let mut bytes = padded(text);
    let document = parser.parse(&mut bytes, text.len())?;
    Ok(look(document.root()))
}

/// `text` with the padding that the parser asks for, of bytes that must not matter.
pub(crate) fn padded(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.resize(text.len() + PADDING_BYTES, b'{');
    bytes
}

/// `text`, parsed and encoded again.
pub(crate) fn reencoded(text: impl AsRef<[u8]>) -> Result<String, ParseError> {
    with_value(text, |value| {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).expect("what is encoded is UTF-8")
    })
}
