//! Parser of one padded text into a [`Document`].
//!
//! Invariants: parsing copies nothing and, once warm, allocates nothing; text beyond the limits is
//! rejected before memory for its nesting or tokens is allocated; after a text longer than
//! [`ParseLimits::retained_text_bytes_max`] the memory is returned to the allocator, unless it is
//! kept by [`Parser::keep_large`].

use super::error::ParseError;
use super::padded_text::{PADDING_BYTES, PaddedBuffer, PaddedText};
use super::parsed::{ParsedText, PlacedNode, into_string};
use super::prescan::{
    LONG_STRING_TEXT_BYTES_MIN, NESTING_LIMIT_MAX, PRESCAN_BYTES_MIN, ParseLimits, PrescanError,
    find_long_string, prescan,
};
use super::repair;
use super::value::Value;
use simd_json::{Buffers, Deserializer, Error, ErrorType, Implementation, Node, Tape};
use std::ops::Range;

/// Reusable memory for parsing. One per shard, and one per text that is parsed apart.
pub struct Parser {
    buffers: Buffers,
    nodes: Vec<Node<'static>>,
    limits: ParseLimits,
    /// A large text was parsed.
    is_large: bool,
    /// Memory of large texts.
    large: LargeMemory,
    /// What parsing has changed in the text that was rejected last.
    changes: Changes,
}

/// What is kept of large texts.
#[derive(Debug, Default)]
struct LargeMemory {
    bytes: usize,
    /// 0 while nothing is kept.
    bytes_max: usize,
}

/// What parsing has changed in a text: its long string was moved to the start, and the first of its
/// strings are decoded in place. Beside a long string that stays, a copy is parsed.
#[derive(Debug, Default)]
struct Changes {
    /// Place of the string that was moved.
    moved: Option<Range<usize>>,
    /// Lengths of the decoded strings.
    decoded: Vec<u32>,
    /// What is beside the long string was copied behind the text, and nothing has changed.
    is_copied: bool,
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
            large: LargeMemory::default(),
            changes: Changes::default(),
        }
    }

    /// Returns the bytes of memory retained for the nodes of the next text.
    #[cfg(test)]
    pub const fn retained_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<'static>>()
    }

    /// Parses `text`. Strings with escapes are decoded in place and a long one is moved to its
    /// start, so it is modified; unless what is beside the long string fits behind the text.
    ///
    /// Cost: about 1.4 ns a byte for small messages, 0.2 ns for each further one of a string;
    /// [`ParseLimits`] states the memory.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The parser can be used again after an error; the text has other values
    /// then until [`Parser::repair`], which also frees the memory of a large one.
    #[inline]
    pub fn parse<'a>(&'a mut self, text: PaddedText<'a>) -> Result<Document<'a>, ParseError> {
        let (has_spare, parsed) = (text.has_spare(), text.parsed());
        let (text, length) = text.into_parts();
        if length >= LONG_STRING_TEXT_BYTES_MIN || parsed.is_some() {
            if let Some(parsed) = parsed {
                return self.restore(parsed, length);
            }
            return self.parse_long(text, length, has_spare);
        }
        self.fill_tape(text, length, length)
    }

    /// Parses `buffer` for another parser, which then reads it without parsing it again: its text
    /// is that of [`PaddedBuffer::text`], and is not to be copied any more, since parsing has
    /// changed it. A text that is rejected is repaired as [`Parser::read`] does.
    ///
    /// Cost: that of [`Parser::parse`] and a check of UTF-8; reading it costs a few nanoseconds for
    /// each value.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The values of the text are then what they were before it was parsed.
    pub fn parse_apart(&mut self, buffer: &mut PaddedBuffer) -> Result<(), ParseError> {
        let mut text = buffer.text();
        let address = text.as_bytes().as_ptr().addr();
        let nodes = self.read(&mut text, |document| {
            document.nodes.iter().map(|node| PlacedNode::new(node, address)).collect()
        })?;
        buffer.set_parsed(|bytes| ParsedText::Nodes { nodes, text: into_string(bytes) });
        Ok(())
    }

    /// Returns the document of a text that was parsed apart.
    #[cold]
    fn restore<'a>(
        &'a mut self,
        parsed: &'a ParsedText,
        length: usize,
    ) -> Result<Document<'a>, ParseError> {
        let (placed, text) = match parsed {
            ParsedText::Nodes { nodes, text } => (nodes, text),
            ParsedText::Rejected(error) => return Err(*error),
        };
        let mut nodes = Tape::<'a>(std::mem::take(&mut self.nodes)).0;
        for node in placed {
            nodes.push(node.restore(text)?);
        }
        Ok(Document { nodes, parser: self, length })
    }

    /// Parses `text`, once more after each repair, and passes its document to `read`.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The values of the text are then what they were before it was parsed.
    #[inline]
    pub fn read<T>(
        &mut self,
        text: &mut PaddedText<'_>,
        read: impl FnOnce(&Document<'_>) -> T,
    ) -> Result<T, ParseError> {
        loop {
            let error = match self.parse(text.reborrow()) {
                // The only call of `read`, so that it is inlined.
                Ok(document) => return Ok(read(&document)),
                Err(error) => error,
            };
            if !self.repair(text, error) {
                return Err(error);
            }
        }
    }

    /// Parses a long text: its long string, if it has one, apart from the rest.
    fn parse_long<'a>(
        &'a mut self,
        text: &'a mut [u8],
        length: usize,
        has_spare: bool,
    ) -> Result<Document<'a>, ParseError> {
        self.changes = Changes::default();
        let long_string = if length > PRESCAN_BYTES_MIN {
            prescan(&text[..length], &self.limits).map_err(|excess| match excess {
                PrescanError::Nesting => ParseError::Depth,
                PrescanError::Syntax => ParseError::Structure,
                PrescanError::Tokens => ParseError::Tokens,
            })?
        } else {
            find_long_string(&text[..length])
        };
        let Some(contents) = long_string else {
            return self.fill_tape(text, length, length);
        };
        let rest_length = length - contents.len();
        let (string, rest) = if has_spare && text.len() - length >= rest_length + PADDING_BYTES {
            self.changes.is_copied = true;
            let (text, spare) = text.split_at_mut(length);
            spare[..contents.start].copy_from_slice(&text[..contents.start]);
            spare[contents.start..rest_length].copy_from_slice(&text[contents.end..]);
            (&text[contents.clone()], spare)
        } else {
            self.changes.moved = Some(contents.clone());
            text[..contents.end].rotate_left(contents.start);
            let (string, rest) = text.split_at_mut(contents.len());
            (&*string, rest)
        };
        let string = simdutf8::basic::from_utf8(string).map_err(|_| ParseError::Utf8)?;
        let empty_string = rest[contents.start..].as_ptr();
        let mut document = self.fill_tape(rest, rest_length, length)?;
        let mut nodes = document.nodes.iter_mut();
        let node =
            nodes.find(|node| matches!(node, Node::String(text) if text.as_ptr() == empty_string));
        match node {
            Some(node) => *node = Node::String(string),
            None => unreachable!("every string of the text has a node"),
        }
        Ok(document)
    }

    /// Parses `text[..length]`, the rest of a text of `total_length` bytes.
    #[inline]
    fn fill_tape<'a>(
        &'a mut self,
        text: &'a mut [u8],
        length: usize,
        total_length: usize,
    ) -> Result<Document<'a>, ParseError> {
        let mut tape: Tape<'a> = Tape(std::mem::take(&mut self.nodes));
        let parsed = simd_json::fill_tape_padded(text, length, &mut self.buffers, &mut tape);
        let document = Document { nodes: tape.0, parser: self, length: total_length };
        match parsed {
            Ok(()) => Ok(document),
            Err(error) => Err(document.reject(&error)),
        }
    }

    /// Repairs `text`, which [`Parser::parse`] has just rejected because of `error`, if it can be
    /// read nevertheless: a byte order mark at its start is replaced by spaces, lone surrogate
    /// escapes by that of U+FFFD. Returns whether the text is to be parsed again. In any case its
    /// values are afterwards what they were before it was parsed.
    ///
    /// Cost: linear in the text.
    #[cold]
    pub fn repair(&mut self, text: &mut PaddedText<'_>, error: ParseError) -> bool {
        if text.parsed().is_some() {
            // It was repaired where it was parsed.
            return false;
        }
        let Changes { moved, decoded, .. } = std::mem::take(&mut self.changes);
        let bytes = text.as_bytes_mut();
        let rest = moved.as_ref().map_or(0, Range::len);
        repair::encode_decoded(&mut bytes[rest..], self.buffers.structural_indexes(), &decoded);
        if let Some(Range { start, end }) = moved {
            bytes[..end].rotate_right(start);
        }
        self.free_after(bytes.len());
        // A text that is not UTF-8 or beyond the limits is so without its mark, too. Without vector
        // instructions the string with the fault is decoded up to it, and so is not repaired.
        let is_whole = !matches!(Deserializer::algorithm(), Implementation::Native);
        match error {
            ParseError::Syntax if is_whole => repair::repair(bytes),
            ParseError::Syntax | ParseError::Structure => repair::remove_byte_order_mark(bytes),
            ParseError::Depth | ParseError::Tokens | ParseError::Utf8 => false,
        }
    }

    /// Returns whether a text longer than [`ParseLimits::retained_text_bytes_max`] was parsed since
    /// the last call.
    #[inline]
    pub const fn take_is_large(&mut self) -> bool {
        std::mem::replace(&mut self.is_large, false)
    }

    /// Keeps up to `bytes_max` bytes after large texts from now on: each page of new memory costs
    /// microseconds at its first use.
    pub const fn keep_large(&mut self, bytes_max: usize) {
        self.large.bytes_max = bytes_max;
    }

    /// Frees the memory of large texts, and keeps none from now on.
    #[cold]
    pub fn free_large(&mut self) {
        if self.large.bytes > 0 {
            self.free();
        }
        self.large = LargeMemory::default();
    }

    /// Returns the bytes of memory that are kept of large texts, about.
    pub const fn large_bytes(&self) -> usize {
        self.large.bytes
    }

    /// Takes back the node storage, or frees all memory after a large text.
    #[inline]
    fn reclaim_nodes(&mut self, nodes: Vec<Node<'_>>, length: usize) {
        self.nodes = Tape(nodes).reset().0;
        self.free_after(length);
    }

    /// Frees all memory after a text of `length` bytes, if that is a large one and its memory is
    /// not kept.
    #[inline]
    fn free_after(&mut self, length: usize) {
        if length > self.limits.retained_text_bytes_max {
            self.end_large();
        }
    }

    #[cold]
    fn end_large(&mut self) {
        self.is_large = true;
        let indexes = size_of_val(self.buffers.structural_indexes());
        let bytes = self.nodes.capacity() * size_of::<Node<'static>>() + 2 * indexes;
        if bytes > self.large.bytes_max {
            self.free();
        } else {
            self.large.bytes = self.large.bytes.max(bytes);
        }
    }

    fn free(&mut self) {
        self.nodes = Vec::new();
        self.buffers = Buffers::with_max_depth(0, self.limits.nesting_max);
        self.large.bytes = 0;
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

impl Document<'_> {
    /// Notes what parsing has changed in a text that is rejected, and returns why it is.
    #[cold]
    fn reject(mut self, error: &Error) -> ParseError {
        if self.length < LONG_STRING_TEXT_BYTES_MIN {
            (self.parser.changes.moved, self.parser.changes.is_copied) = (None, false);
        }
        let lengths = self.nodes.iter().filter_map(|node| match node {
            Node::String(text) => u32::try_from(text.len()).ok(),
            Node::Array { .. } | Node::Object { .. } | Node::Static(_) => None,
        });
        if !self.parser.changes.is_copied {
            self.parser.changes.decoded = lengths.collect();
        }
        // The memory is kept for `Parser::repair`, also that of a large text.
        self.length = 0;
        convert_error(error)
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

    /// Parses `text`, repairs it, and returns whether that helped and the text afterwards.
    fn repair(text: &str) -> (bool, String) {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = padded(text.as_bytes());
        let error = parser.parse(PaddedText::new(&mut bytes, text.len())).err().unwrap();
        let repaired = parser.repair(&mut PaddedText::new(&mut bytes, text.len()), error);
        bytes.truncate(text.len());
        (repaired, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn rejected_text_keeps_its_values() {
        let long = "€ long {[,:]} ".repeat(80);
        let before =
            r#"{"\\" : "\"a\u0041\n\u001f\u00e9\ud83d\ude00" ,"\u007b":["","LONG"],"k\/"  :"#;
        for (last, readable, helps) in [
            (r#""x\ud83d"}"#, r#""x\ufffd"}"#, true),
            (r#""\"\ud83d","y":"\udc00z"}"#, r#""\"\ufffd","y":"\ufffdz"}"#, true),
            ("1e400}", "1}", false),
            (r#""\x"}"#, r#""x"}"#, false),
        ] {
            for contents in ["", r#"\t\""#, &long] {
                let [text, expected] = [last, readable]
                    .map(|last| format!("{before}{last}").replace("LONG", contents));
                let (repaired, after) = repair(&text);
                assert_eq!(repaired, helps, "{text}");
                let after = after.replace("1e400", "1").replace(r"\x", "x");
                let [after, expected] = [after, expected]
                    .map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
                assert_eq!(after, expected, "{text}");
            }
        }
    }

    #[test]
    fn memory_of_rejected_text_is_freed() {
        let mut parser = Parser::new(ParseLimits::default());
        let text = format!("[{}1e400]", "1,".repeat(100_000));
        let mut bytes = padded(text.as_bytes());
        let error = parser.parse(PaddedText::new(&mut bytes, text.len())).err().unwrap();
        assert!(!parser.repair(&mut PaddedText::new(&mut bytes, text.len()), error));
        assert_eq!(parser.retained_bytes(), 0);
        assert!(parser.take_is_large());
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
    fn long_string_parses_like_short_one() {
        let mut parser = Parser::new(ParseLimits::default());
        let long = "ä€ long {[,:]} ".repeat(80);
        for text in [
            r#"{"a":"LONG"}"#,
            r#"["","LONG",""]"#,
            r#"{"LONG":["",{}],"b":"\n\"LONG"}"#,
            r#"{"id":1,"params":{"a":"LONG","b":"LONG","c":[null,"\u00e9",-0.5]}}"#,
            r#""LONG""#,
        ] {
            let text = text.replace("LONG", &long);
            let parsed = reencode(&mut parser, text.as_bytes()).unwrap();
            let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(parsed, expected.to_string());
        }
        for (text, error) in [
            (r#"{"a":"LONG"]"#, ParseError::Syntax),
            (r#"a"LONG""#, ParseError::Syntax),
            (r#"{"a":"LONG","b}"#, ParseError::Structure),
            ("[\"LONG\",\"\n\"]", ParseError::Structure),
            (r#"["LONG","\x"]"#, ParseError::Syntax),
        ] {
            let text = text.replace("LONG", &long);
            assert_eq!(reencode(&mut parser, text.as_bytes()), Err(error), "{text}");
        }
        for place in [1, 3, 900] {
            let mut text = format!(r#"["a","{long}"]"#).into_bytes();
            text[place] = 0xff;
            assert!(matches!(
                reencode(&mut parser, &text),
                Err(ParseError::Utf8 | ParseError::Structure)
            ));
        }
    }

    /// Texts around a string that is longer than all the rest, and whether they are valid.
    const AROUND: [(&str, bool); 8] = [
        (r#"{"a":"LONG"}"#, true),
        (r#""LONG""#, true),
        (r#"["","\\","LONG","\u00e9\n",{"LAST":-0.5}]"#, true),
        (r#"{"LONG":["",{}],"b":"\n"}"#, true),
        (r#"["\ud83d","LONG","x\udc00"]"#, true),
        (r#"{"a":"LONG"]"#, false),
        (r#"{"a\n":"LONG","b":"\x"}"#, false),
        (r#"{"a\n":1e400,"b":"LONG"}"#, false),
    ];

    #[test]
    fn long_string_is_parsed_where_it_is() {
        let mut parser = Parser::new(ParseLimits::default());
        let long = "ä€ long {[,:]} ".repeat(10_000);
        for (text, is_valid) in AROUND {
            let text = text.replace("LONG", &long);
            let mut kept = PaddedBuffer::new(text.clone().into_bytes());
            let mut moved = padded(text.as_bytes());
            let mut out = [Vec::new(), Vec::new()];
            let [first, second] = &mut out;
            let results = [
                parser.read(&mut kept.text(), |document| document.root().write(first)),
                parser.read(&mut PaddedText::new(&mut moved, text.len()), |document| {
                    document.root().write(second);
                }),
            ];
            assert_eq!(results[0], results[1], "{}", &text[..20]);
            assert_eq!(results[0].is_ok(), is_valid, "{}", &text[..20]);
            assert_eq!(out[0], out[1]);
            assert!(!is_valid || out[0].len() > long.len());
            assert!(is_valid || kept.as_bytes() == text.as_bytes());
        }
    }

    #[test]
    fn text_parsed_apart_has_same_values() {
        let long = "ä€ long {[,:]} ".repeat(10_000);
        let texts = AROUND.iter().filter(|(_, is_valid)| *is_valid).map(|(text, _)| *text);
        // What is left behind these strings begins or ends within a character.
        let decoded =
            [r#"["\né€","\u00e9€","€\né","",{"\té":"\u20acé\nä"},"LONG\né"]"#, "\"\\né\""];
        for text in texts.chain(decoded) {
            let text = text.replace("LONG", &long);
            let mut buffer = PaddedBuffer::new(text.clone().into_bytes());
            let mut out = [Vec::new(), Vec::new()];
            let [first, second] = &mut out;
            let mut parser = Parser::new(ParseLimits::default());
            let mut copy = PaddedBuffer::copy_of(text.as_bytes());
            parser.read(&mut copy.text(), |document| document.root().write(first)).unwrap();
            parser.parse_apart(&mut buffer).unwrap();
            assert_eq!(buffer.text().as_bytes().len(), text.len());
            for _ in 0..2 {
                let mut text = buffer.text();
                second.clear();
                parser.read(&mut text, |document| document.root().write(second)).unwrap();
            }
            assert_eq!(out[0], out[1]);
            assert!(buffer.held_bytes() > text.len() && buffer.into_buffer().len() > text.len());
        }
    }

    #[test]
    fn long_string_that_is_not_utf8_is_rejected() {
        let mut parser = Parser::new(ParseLimits::default());
        let long = "€".repeat(40_000);
        for place in [20, 60_000] {
            let mut text = format!(r#"["a","{long}"]"#).into_bytes();
            text[place] = 0xff;
            let mut kept = PaddedBuffer::new(text.clone());
            assert_eq!(parser.read(&mut kept.text(), |_| ()), Err(ParseError::Utf8));
            text[place] = b'\n';
            let mut kept = PaddedBuffer::new(text);
            assert!(parser.read(&mut kept.text(), |_| ()).is_err());
        }
    }

    #[test]
    fn text_with_error_is_utf8_as_before() {
        let mut parser = Parser::new(ParseLimits::default());
        let long = "€".repeat(700);
        for text in [format!(r#"{{"a":"{long}","b}}"#), format!(r#"{{"ä":"{long}","€}}"#)] {
            let mut bytes = padded(text.as_bytes());
            let parsed = parser.parse(PaddedText::new(&mut bytes, text.len()));
            assert_eq!(parsed.err(), Some(ParseError::Structure));
            assert!(std::str::from_utf8(&bytes[..text.len()]).is_ok());
        }
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
