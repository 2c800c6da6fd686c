//! From a padded text to a document.
//!
//! What it keeps true: parsing copies nothing and, once warm, allocates nothing; hostile text is
//! refused before memory is taken for its depth or tokens; after a text longer than
//! [`Limits::retained_text_bytes_max`] the memory goes back to the allocator. It does not know what
//! the text means.

use super::limits::{Excess, Limits, NESTING_CEILING, SURVEYED_BYTES_MIN, survey};
use super::value::Value;
use simd_json::{Buffers, Error, ErrorType, Node, Tape};

/// How many bytes, of any content, must stand behind the text: vector loads reach over its end.
pub const PADDING_BYTES: usize = simd_json::INPUT_PADDING;

/// Why a text is no document. A text with several faults is refused for one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseError {
    /// Arrays and objects nested deeper than [`Limits::nesting_max`].
    Depth,
    /// Not JSON, a lone surrogate, or a number beyond the range of a double.
    Syntax,
    /// More keys, values and brackets than [`Limits::tokens_max`].
    Tokens,
    /// Not JSON, which showed before any of it was read: a string that does not end, a control
    /// character inside one, nothing at all. The text is as it was, and may not be UTF-8 either.
    Unread,
    /// Not UTF-8.
    Utf8,
}

/// The memory for parsing, reused from text to text. One per shard.
pub struct Parser {
    buffers: Buffers,
    nodes: Vec<Node<'static>>,
    limits: Limits,
}

impl Parser {
    /// A parser within `limits`; a nesting limit above [`NESTING_CEILING`] is lowered to it.
    pub fn new(limits: Limits) -> Self {
        let nesting_max = limits.nesting_max.min(NESTING_CEILING);
        let limits = Limits { nesting_max, ..limits };
        Self { buffers: Buffers::with_max_depth(0, nesting_max), nodes: Vec::new(), limits }
    }

    /// The limits in force.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes of memory kept for the tape of the next text.
    pub const fn retained_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<'static>>()
    }

    /// Parses `text[..length]`, which at least [`PADDING_BYTES`] bytes of any content follow.
    /// Strings with escapes are decoded in place, so the text is spent afterwards.
    ///
    /// Cost: about 1.4 ns a byte for small messages; see the module for memory.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The parser is ready for the next text in any case.
    ///
    /// # Panics
    ///
    /// When the padding is missing: the caller's buffers are too small by construction.
    #[inline]
    pub fn parse<'a>(
        &'a mut self,
        text: &'a mut [u8],
        length: usize,
    ) -> Result<Document<'a>, ParseError> {
        assert!(text.len() >= length + PADDING_BYTES, "a text is followed by padding");
        if length > SURVEYED_BYTES_MIN {
            survey(&text[..length], &self.limits).map_err(|excess| match excess {
                Excess::Nesting => ParseError::Depth,
                Excess::Syntax => ParseError::Unread,
                Excess::Tokens => ParseError::Tokens,
            })?;
        }
        let mut tape: Tape<'a> = Tape(std::mem::take(&mut self.nodes));
        let parsed = simd_json::fill_tape_padded(text, length, &mut self.buffers, &mut tape);
        let document = Document { nodes: tape.0, parser: self, length };
        match parsed {
            Ok(()) => Ok(document),
            Err(error) => {
                drop(document);
                Err(translate(&error))
            }
        }
    }

    /// Takes the node store back, or gives everything to the allocator after a large text.
    fn restore(&mut self, nodes: Vec<Node<'_>>, length: usize) {
        if length > self.limits.retained_text_bytes_max {
            self.buffers = Buffers::with_max_depth(0, self.limits.nesting_max);
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

/// A parsed text. Dropping it hands the memory back to its [`Parser`].
#[derive(Debug)]
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    parser: &'a mut Parser,
    length: usize,
}

impl Document<'_> {
    /// The outermost value.
    #[inline]
    pub fn root(&self) -> Value<'_> {
        match Value::at(&self.nodes) {
            Some(root) => root,
            None => unreachable!("a parsed text has a root that holds its children"),
        }
    }
}

impl Drop for Document<'_> {
    #[inline]
    fn drop(&mut self) {
        self.parser.restore(std::mem::take(&mut self.nodes), self.length);
    }
}

#[cold]
fn translate(error: &Error) -> ParseError {
    match error.error() {
        ErrorType::DepthLimitExceeded => ParseError::Depth,
        ErrorType::InputTooLarge => ParseError::Tokens,
        ErrorType::InvalidUtf8 => ParseError::Utf8,
        // The first stage, which decodes nothing, does not say where.
        _ if error.character().is_none() => ParseError::Unread,
        _ => ParseError::Syntax,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(text: &[u8]) -> Vec<u8> {
        let mut bytes = text.to_vec();
        bytes.resize(text.len() + PADDING_BYTES, b'#');
        bytes
    }

    fn outcome(parser: &mut Parser, text: &[u8]) -> Result<String, ParseError> {
        let mut bytes = padded(text);
        let document = parser.parse(&mut bytes, text.len())?;
        let mut out = Vec::new();
        document.root().write(&mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_parser_goes_on_after_a_text_it_refused() {
        let mut parser = Parser::new(Limits::default());
        assert_eq!(
            outcome(&mut parser, br#"{"a":[1,-2,0.5,"x\n"]}"#).unwrap(),
            r#"{"a":[1,-2,0.5,"x\n"]}"#
        );
        assert_eq!(outcome(&mut parser, b"{\"a\":"), Err(ParseError::Syntax));
        assert_eq!(outcome(&mut parser, b"\"\xff\""), Err(ParseError::Utf8));
        assert_eq!(outcome(&mut parser, b""), Err(ParseError::Unread));
        assert_eq!(outcome(&mut parser, b"[null,true]").unwrap(), "[null,true]");
    }

    #[test]
    fn nesting_is_accepted_up_to_its_limit_and_not_beyond() {
        let mut parser = Parser::new(Limits::default());
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(outcome(&mut parser, &nested(64)).is_ok());
        assert_eq!(outcome(&mut parser, &nested(65)), Err(ParseError::Depth));
        assert_eq!(outcome(&mut parser, &vec![b'['; 1000]), Err(ParseError::Depth));
        let mut parser = Parser::new(Limits { nesting_max: usize::MAX, ..Limits::default() });
        assert!(outcome(&mut parser, &nested(NESTING_CEILING)).is_ok());
        assert_eq!(outcome(&mut parser, &nested(NESTING_CEILING + 1)), Err(ParseError::Depth));
    }

    #[test]
    fn a_large_text_leaves_no_large_parser_behind() {
        let mut parser = Parser::new(Limits::default());
        let text = format!("[{}1]", "1,".repeat(100_000));
        assert!(outcome(&mut parser, text.as_bytes()).is_ok());
        assert_eq!(parser.retained_bytes(), 0);
        assert!(outcome(&mut parser, b"[1]").is_ok());
        assert!(parser.retained_bytes() > 0);
    }

    #[test]
    fn more_tokens_than_the_limit_are_refused() {
        let limits = Limits { tokens_max: 80_000, ..Limits::default() };
        let mut parser = Parser::new(limits);
        let text = format!("[{}1]", "1,".repeat(40_000));
        assert_eq!(outcome(&mut parser, text.as_bytes()), Err(ParseError::Tokens));
    }

    #[test]
    fn the_bytes_behind_the_text_neither_matter_nor_change() {
        let mut parser = Parser::new(Limits::default());
        for filler in [b'0', b'"', b'}', b'\\', 0xff] {
            let mut bytes = b"12".to_vec();
            bytes.resize(2 + PADDING_BYTES, filler);
            let document = parser.parse(&mut bytes, 2).unwrap();
            assert_eq!(document.root().as_u64(), Some(12));
            drop(document);
            assert!(bytes[2..].iter().all(|&byte| byte == filler));
        }
    }
}
