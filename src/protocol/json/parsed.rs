//! What parsing a text has found, kept apart from the text.
//!
//! Nodes borrow the strings of their text. Here they name the places of these strings instead, so
//! that text and nodes can be moved to another thread together.

use simd_json::Node;

use super::error::ParseError;

/// The outcome of parsing a text.
#[derive(Debug)]
pub(super) enum ParsedText {
    Nodes(Vec<PlacedNode>),
    Rejected(ParseError),
}

impl ParsedText {
    /// Returns the bytes held.
    pub(super) const fn held_bytes(&self) -> usize {
        match self {
            Self::Nodes(nodes) => nodes.capacity() * size_of::<PlacedNode>(),
            Self::Rejected(_) => 0,
        }
    }
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
    /// Its string is not within the text, or not UTF-8: `text` is not the one that was parsed.
    pub(super) fn restore<'a>(&self, text: &'a [u8]) -> Result<Node<'a>, ParseError> {
        match *self {
            Self::String { start, length } => {
                let string = text.get(start..start + length).ok_or(ParseError::Structure)?;
                let string = simdutf8::basic::from_utf8(string).map_err(|_| ParseError::Utf8)?;
                Ok(Node::String(string))
            }
            Self::Other(node) => Ok(node),
        }
    }
}
