//! What parsing a text has found, kept apart from the text.
//!
//! Nodes borrow the strings of their text. Here they name the places of these strings instead, so
//! that text and nodes can be moved to another thread together. The text is a [`String`] then, so
//! that its strings are known to be UTF-8 wherever they are read.

use simd_json::Node;

use super::error::ParseError;

/// The outcome of parsing a text.
#[derive(Debug)]
pub(super) enum ParsedText {
    /// The nodes, and their text with what follows it.
    Nodes {
        nodes: Vec<PlacedNode>,
        text: String,
    },
    Rejected(ParseError),
}

impl ParsedText {
    /// Returns the bytes held.
    pub(super) const fn held_bytes(&self) -> usize {
        match self {
            Self::Nodes { nodes, text } => {
                nodes.capacity() * size_of::<PlacedNode>() + text.capacity()
            }
            Self::Rejected(_) => 0,
        }
    }

    /// Returns the text with what follows it, unless it was rejected.
    pub(super) const fn text(&self) -> Option<&str> {
        match self {
            Self::Nodes { text, .. } => Some(text.as_str()),
            Self::Rejected(_) => None,
        }
    }

    /// Returns the buffer of the text, unless it was rejected.
    pub(super) fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            Self::Nodes { text, .. } => Some(text.into_bytes()),
            Self::Rejected(_) => None,
        }
    }
}

/// Returns the buffer of a parsed text as a string. Where it is not UTF-8, which is outside of the
/// strings of the text, it has spaces.
///
/// Parsing leaves parts of characters behind a string that it has decoded.
pub(super) fn into_string(mut buffer: Vec<u8>) -> String {
    let mut from = 0;
    while let Err(error) = simdutf8::compat::from_utf8(&buffer[from..]) {
        from += error.valid_up_to();
        buffer[from] = b' ';
    }
    String::from_utf8(buffer).unwrap_or_default()
}

/// A node of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlacedNode {
    String { start: usize, length: usize },
    Other(Node<'static>),
}

impl PlacedNode {
    /// Returns `node` of the text at `address`.
    pub(super) fn new(node: &Node<'_>, address: usize) -> Self {
        match *node {
            Node::String(text) => {
                // An empty string may be anywhere.
                let start = text.as_ptr().addr().saturating_sub(address);
                Self::String { start: if text.is_empty() { 0 } else { start }, length: text.len() }
            }
            Node::Object { len, count } => Self::Other(Node::Object { len, count }),
            Node::Array { len, count } => Self::Other(Node::Array { len, count }),
            Node::Static(value) => Self::Other(Node::Static(value)),
        }
    }

    /// Returns the node in `text`, its text with what follows it.
    ///
    /// # Errors
    ///
    /// Its string is not within the text: `text` is not the one that was parsed.
    pub(super) fn restore<'a>(&self, text: &'a str) -> Result<Node<'a>, ParseError> {
        match *self {
            Self::String { start, length } => {
                let string = text.get(start..start + length).ok_or(ParseError::Structure)?;
                Ok(Node::String(string))
            }
            Self::Other(node) => Ok(node),
        }
    }
}
