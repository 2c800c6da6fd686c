//! Messages that are written to connections of lines and of WebSocket.
//!
//! Invariant: a message is framed in the buffer in which it is written.

use super::entry::Entry;
use super::state::{Connection, MessageMark};

/// A message that is being written to the output of a connection.
#[derive(Debug)]
#[must_use = "end or cancel the message"]
pub struct BegunMessage<'a, S> {
    entry: Entry<'a, S>,
    mark: MessageMark,
}

impl<'a, S> Entry<'a, S> {
    /// Begins a message, which is sent at the end of the turn. Returns `None` if the connection
    /// does not accept output any more, or is HTTP.
    #[inline]
    pub fn begin_message(mut self) -> Option<BegunMessage<'a, S>> {
        if self.reserve_output() { self.begin_response() } else { None }
    }

    /// Begins the response to a message that was received in this turn, for which the output is
    /// reserved. Returns `None` if the connection is HTTP.
    #[inline]
    pub fn begin_response(self) -> Option<BegunMessage<'a, S>> {
        let mark = self.connection.codec().begin_message(&mut self.connection.outgoing)?;
        Some(BegunMessage { entry: self, mark })
    }
}

impl<'a, S> BegunMessage<'a, S> {
    /// Returns the connection, whose output the text is to be appended to.
    #[inline]
    pub const fn connection(&mut self) -> &mut Connection<S> {
        self.entry.connection
    }

    /// Appends the text, and ends the message.
    #[inline]
    pub fn write(mut self, text: impl FnOnce(&mut Vec<u8>)) {
        text(&mut self.connection().outgoing);
        self.end();
    }

    /// Ends and counts the message.
    #[inline]
    pub fn end(self) {
        let Self { entry: Entry { connection, shared, .. }, mark } = self;
        let (window_bits, counters) = (connection.window_bits(), &mut shared.statistics.websocket);
        mark.end(&mut connection.outgoing, window_bits, &mut shared.deflater, counters);
        connection.record.traffic.messages_out += 1;
    }

    /// Removes the message, whose text is empty.
    #[inline]
    pub fn cancel(self) -> Entry<'a, S> {
        self.mark.cancel(&mut self.entry.connection.outgoing);
        self.entry
    }
}
