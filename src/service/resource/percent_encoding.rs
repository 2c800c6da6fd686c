//! Decoding of percent-encoded text (RFC 3986, section 2.1).

use std::borrow::Cow;

/// Replaces every `%XX` by its byte. Returns `None` if a `%` is not followed by two hexadecimal
/// digits, or if the bytes are not UTF-8. Allocates only if there is a `%`.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let Some(first) = text.find('%') else { return Some(Cow::Borrowed(text)) };
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(&text.as_bytes()[..first]);
    let mut rest = &text.as_bytes()[first..];
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (*byte, tail) {
            (b'%', [high, low, tail @ ..]) => (hex_digit(*high)? << 4 | hex_digit(*low)?, tail),
            (b'%', _) => return None,
            (byte, tail) => (byte, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_decoded_once() {
        for (text, decoded) in [
            ("", Some("")),
            ("plain/é", Some("plain/é")),
            ("a%20b", Some("a b")),
            ("%C3%a9", Some("é")),
            ("%252e", Some("%2e")),
            ("%", None),
            ("%2", None),
            ("%zz", None),
            ("%é9", None),
            ("%FF", None),
        ] {
            assert_eq!(decode(text).as_deref(), decoded, "{text}");
        }
    }
}
