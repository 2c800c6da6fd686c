//! Parser of one padded text into a [`Document`].
//!
//! Invariants: parsing copies nothing and, once warm, allocates nothing; text beyond the limits is
//! rejected before memory for its nesting or tokens is allocated; after a text longer than
//! [`ParseLimits::retained_text_bytes_max`] the memory is returned to the allocator.

use super::limits::{NESTING_LIMIT_MAX, PRESCAN_BYTES_MIN, ParseLimits, PrescanError, prescan};
use super::padded_text::PaddedText;
use super::value::Value;
use simd_json::{Buffers, Error, ErrorType, Node, Tape};

/// Why a text was rejected. A text with several faults is rejected for one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseError {
    /// Arrays and objects nested deeper than [`ParseLimits::nesting_max`].
    Depth,
    /// Not JSON, a lone surrogate, or a number beyond the range of a double.
    Syntax,
    /// More keys, values and brackets than [`ParseLimits::tokens_max`].
    Tokens,
    /// Not JSON, detected before any value was decoded: an unterminated string, a control
    /// character inside one, an empty text. The text is unmodified, and may also not be UTF-8.
    Structure,
    /// Not UTF-8.
    Utf8,
}

/// Reusable memory for parsing. One per shard.
pub struct Parser {
    buffers: Buffers,
    nodes: Vec<Node<'static>>,
    limits: ParseLimits,
    /// A large text was parsed.
    is_large: bool,
}

impl Parser {
    /// Creates a parser; a nesting limit above 512 is lowered to it.
    pub fn new(limits: ParseLimits) -> Self {
        let nesting_max = limits.nesting_max.min(NESTING_LIMIT_MAX);
        let limits = ParseLimits { nesting_max, ..limits };
        Self {
            buffers: Buffers::with_max_depth(0, nesting_max),
            nodes: Vec::new(),
            limits,
            is_large: false,
        }
    }

    /// Returns the bytes of memory retained for the nodes of the next text.
    #[cfg(test)]
    pub const fn retained_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<'static>>()
    }

    /// Parses `text`. Strings with escapes are decoded in place, so it is modified.
    ///
    /// Cost: about 1.4 ns a byte for small messages; [`ParseLimits`] states the memory.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The parser can be used again after an error.
    #[inline]
    pub fn parse<'a>(&'a mut self, text: PaddedText<'a>) -> Result<Document<'a>, ParseError> {
        let (text, length) = text.into_parts();
        if length > PRESCAN_BYTES_MIN {
            prescan(&text[..length], &self.limits).map_err(|excess| match excess {
                PrescanError::Nesting => ParseError::Depth,
                PrescanError::Syntax => ParseError::Structure,
                PrescanError::Tokens => ParseError::Tokens,
            })?;
        }
        let mut tape: Tape<'a> = Tape(std::mem::take(&mut self.nodes));
        let parsed = simd_json::fill_tape_padded(text, length, &mut self.buffers, &mut tape);
        let document = Document { nodes: tape.0, parser: self, length };
        match parsed {
            Ok(()) => Ok(document),
            Err(error) => {
                drop(document);
                Err(convert_error(&error))
            }
        }
    }

    /// Returns whether a text longer than [`ParseLimits::retained_text_bytes_max`] was parsed since
    /// the last call.
    #[inline]
    pub const fn take_is_large(&mut self) -> bool {
        std::mem::replace(&mut self.is_large, false)
    }

    /// Takes back the node storage, or frees all memory after a large text.
    fn reclaim_nodes(&mut self, nodes: Vec<Node<'_>>, length: usize) {
        if length > self.limits.retained_text_bytes_max {
            self.buffers = Buffers::with_max_depth(0, self.limits.nesting_max);
            self.is_large = true;
        } else {
            self.nodes = Tape(nodes).reset().0;
        }
    }
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Parser").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A parsed text. Dropping it returns the memory to its [`Parser`].
#[derive(Debug)]
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    parser: &'a mut Parser,
    length: usize,
}

impl Document<'_> {
    /// Returns the outermost value.
    #[inline]
    pub fn root(&self) -> Value<'_> {
        match Value::from_nodes(&self.nodes) {
            Some(root) => root,
            None => unreachable!("a parsed document has a complete root value"),
        }
    }
}

impl Drop for Document<'_> {
    #[inline]
    fn drop(&mut self) {
        self.parser.reclaim_nodes(std::mem::take(&mut self.nodes), self.length);
    }
}

#[cold]
fn convert_error(error: &Error) -> ParseError {
    match error.error() {
        ErrorType::DepthLimitExceeded => ParseError::Depth,
        ErrorType::InputTooLarge => ParseError::Tokens,
        ErrorType::InvalidUtf8 => ParseError::Utf8,
        // Stage 1, which decodes nothing, reports no character.
        _ if error.character().is_none() => ParseError::Structure,
        _ => ParseError::Syntax,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::PADDING_BYTES;

    fn padded(text: &[u8]) -> Vec<u8> {
        let mut bytes = text.to_vec();
        bytes.resize(text.len() + PADDING_BYTES, b'#');
        bytes
    }

    fn reencode(parser: &mut Parser, text: &[u8]) -> Result<String, ParseError> {
        let mut bytes = padded(text);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len()))?;
        let mut out = Vec::new();
        document.root().write(&mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn parser_is_reusable_after_an_error() {
        let mut parser = Parser::new(ParseLimits::default());
        assert_eq!(
            reencode(&mut parser, br#"{"a":[1,-2,0.5,"x\n"]}"#).unwrap(),
            r#"{"a":[1,-2,0.5,"x\n"]}"#
        );
        assert_eq!(reencode(&mut parser, b"{\"a\":"), Err(ParseError::Syntax));
        assert_eq!(reencode(&mut parser, b"\"\xff\""), Err(ParseError::Utf8));
        assert_eq!(reencode(&mut parser, b""), Err(ParseError::Structure));
        assert_eq!(reencode(&mut parser, b"[null,true]").unwrap(), "[null,true]");
    }

    #[test]
    fn nesting_limit_is_exact_and_capped() {
        let mut parser = Parser::new(ParseLimits::default());
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(reencode(&mut parser, &nested(64)).is_ok());
        assert_eq!(reencode(&mut parser, &nested(65)), Err(ParseError::Depth));
        assert_eq!(reencode(&mut parser, &vec![b'['; 1000]), Err(ParseError::Depth));
        let mut parser =
            Parser::new(ParseLimits { nesting_max: usize::MAX, ..ParseLimits::default() });
        assert!(reencode(&mut parser, &nested(NESTING_LIMIT_MAX)).is_ok());
        assert_eq!(reencode(&mut parser, &nested(NESTING_LIMIT_MAX + 1)), Err(ParseError::Depth));
    }

    #[test]
    fn large_text_memory_is_not_retained() {
        let mut parser = Parser::new(ParseLimits::default());
        let text = format!("[{}1]", "1,".repeat(100_000));
        assert!(reencode(&mut parser, text.as_bytes()).is_ok());
        assert_eq!(parser.retained_bytes(), 0);
        assert!(reencode(&mut parser, b"[1]").is_ok());
        assert!(parser.retained_bytes() > 0);
    }

    #[test]
    fn tokens_above_limit_are_rejected() {
        let limits = ParseLimits { tokens_max: 80_000, ..ParseLimits::default() };
        let mut parser = Parser::new(limits);
        let text = format!("[{}1]", "1,".repeat(40_000));
        assert_eq!(reencode(&mut parser, text.as_bytes()), Err(ParseError::Tokens));
    }

    #[test]
    fn padding_bytes_are_ignored_and_unchanged() {
        let mut parser = Parser::new(ParseLimits::default());
        for filler in [b'0', b'"', b'}', b'\\', 0xff] {
            let mut bytes = b"12".to_vec();
            bytes.resize(2 + PADDING_BYTES, filler);
            let document = parser.parse(PaddedText::new(&mut bytes, 2)).unwrap();
            assert_eq!(document.root().as_u64(), Some(12));
            drop(document);
            assert!(bytes[2..].iter().all(|&byte| byte == filler));
        }
    }
}
