//! Reading of messages, with memory that a load thread reuses.

use corelane_parity::envelope::Envelope;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};

/// Reader of messages, one per load thread.
#[derive(Debug)]
pub(in crate::mcp) struct MessageReader {
    parser: Parser,
    /// Capacity for the text being parsed.
    buffer: Vec<u8>,
}

impl MessageReader {
    /// Reads a message and calls `act` with it; `None` stands for a text that is no message.
    pub(in crate::mcp) fn read<T>(
        &mut self,
        text: &[u8],
        act: impl FnOnce(Option<Envelope<'_>>) -> T,
    ) -> T {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(text);
        let mut padded = PaddedBuffer::new(buffer);
        let result = match self.parser.parse(padded.text()) {
            Ok(document) => act(Envelope::read(document.root()).ok()),
            Err(_) => act(None),
        };
        self.buffer = padded.into_buffer();
        result
    }
}

impl Default for MessageReader {
    fn default() -> Self {
        Self { parser: Parser::new(ParseLimits::default()), buffer: Vec::new() }
    }
}
