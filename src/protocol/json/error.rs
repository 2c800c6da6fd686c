//! Why a text is not read.

/// Why a text was rejected. A text with several faults is rejected for one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseError {
    /// Arrays and objects nested deeper than [`nesting_max`](super::ParseLimits::nesting_max).
    Depth,
    /// Not JSON, a lone surrogate, or a number beyond the range of a double.
    Syntax,
    /// More keys, values and brackets than [`tokens_max`](super::ParseLimits::tokens_max).
    Tokens,
    /// Not JSON, detected before any value was decoded: an unterminated string, a control
    /// character inside one, an empty text. The text may also not be UTF-8; nothing is decoded yet,
    /// so that this can be checked.
    Structure,
    /// Not UTF-8.
    Utf8,
}

impl ParseError {
    /// Returns whether `text`, which was rejected for this reason and is
    /// [repaired](super::Parser::repair), is not UTF-8.
    #[cold]
    pub fn is_invalid_utf8(self, text: &[u8]) -> bool {
        match self {
            Self::Utf8 => true,
            // UTF-8 was checked before.
            Self::Syntax => false,
            Self::Depth | Self::Structure | Self::Tokens => {
                simdutf8::basic::from_utf8(text).is_err()
            }
        }
    }
}
