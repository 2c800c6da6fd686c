//! The bytes to send on one connection.
//!
//! An idle connection has no buffer: those of completed sends are used by the connections of their
//! thread in turn.

use std::cell::RefCell;
use std::io;

use crate::parity_session::{ParityMessage, ParitySink};
use crate::session::{MessageSink, OutgoingMessage};
use corelane_transport::ndjson::end_line;
use corelane_transport::websocket::client;
use corelane_transport::websocket::limits::CloseCode;

/// Output above which calls wait for the server to read.
const OUTGOING_BYTES_MAX: usize = 1 << 20;

/// Buffers that a thread keeps.
const SPARES_MAX: usize = 256;
/// Largest buffer that is kept.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Takes the messages of a session, and frames them.
#[derive(Debug)]
pub struct StreamOutput {
    bytes: Vec<u8>,
    /// The keys of WebSocket frames; `None` for lines.
    masks: Option<MaskKeys>,
    /// A close frame was written; nothing may follow it.
    is_closed: bool,
}

impl MessageSink for StreamOutput {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        self.push_message(message.text);
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= OUTGOING_BYTES_MAX
    }
}

impl ParitySink for StreamOutput {
    fn send(&mut self, message: ParityMessage<'_>) {
        self.push_message(message.text);
    }

    fn is_full(&self) -> bool {
        MessageSink::is_full(self)
    }
}

/// Keeps the buffer of a completed send for the connections of this thread.
pub(super) fn give_back(mut buffer: Vec<u8>) {
    if buffer.capacity() > SPARE_BYTES_MAX {
        return;
    }
    buffer.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARES_MAX {
            spares.push(buffer);
        }
    });
}

impl StreamOutput {
    /// Creates the output of a connection with messages on lines, or in frames with `masks`.
    pub(super) const fn new(masks: Option<MaskKeys>) -> Self {
        Self { bytes: Vec::new(), masks, is_closed: false }
    }

    /// Appends a message.
    #[inline]
    fn push_message(&mut self, text: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        match &mut self.masks {
            _ if self.is_closed => {}
            None => {
                self.bytes.extend_from_slice(text);
                end_line(&mut self.bytes);
            }
            Some(masks) => {
                client::write_text(&mut self.bytes, text, masks.next());
            }
        }
    }

    /// Returns the bytes, to append to them before the first message.
    pub(super) const fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Answers a ping, unless the server does not read.
    pub(super) fn push_pong(&mut self, payload: &[u8]) {
        if let Some(masks) = &mut self.masks
            && !self.is_closed
            && self.bytes.len() < OUTGOING_BYTES_MAX
        {
            client::write_pong(&mut self.bytes, payload, masks.next());
        }
    }

    /// Sends a ping, unless the server does not read.
    pub(super) fn push_ping(&mut self) {
        if let Some(masks) = &mut self.masks
            && !self.is_closed
            && self.bytes.len() < OUTGOING_BYTES_MAX
        {
            client::write_ping(&mut self.bytes, masks.next());
        }
    }

    /// Appends a close frame, unless there was one.
    pub(super) fn push_close(&mut self, code: CloseCode, reason: &str) {
        if let Some(masks) = &mut self.masks
            && !self.is_closed
        {
            client::write_close(&mut self.bytes, code, reason, masks.next());
            self.is_closed = true;
        }
    }

    /// Returns whether there is nothing to send.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the bytes to send, if any.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}

/// Random bytes that are read from the system at a time.
const RANDOM_BYTES: usize = 256;

/// Masking keys, each used once and unpredictable (RFC 6455, section 5.3).
#[derive(Debug)]
pub(super) struct MaskKeys {
    random: Box<[u8; RANDOM_BYTES]>,
    used: usize,
}

impl MaskKeys {
    /// Reads the first keys.
    ///
    /// # Errors
    ///
    /// If the system has no random source.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = Box::new([0; RANDOM_BYTES]);
        getrandom::fill(&mut *random)?;
        Ok(Self { random, used: 0 })
    }

    /// Returns the next key.
    pub(super) fn next(&mut self) -> [u8; 4] {
        if self.used == RANDOM_BYTES {
            self.used = 0;
            if let Err(error) = getrandom::fill(&mut *self.random) {
                tracing::error!(%error, "masking keys repeat: the system has no random bytes");
            }
        }
        let mut key = [0; 4];
        key.copy_from_slice(&self.random[self.used..self.used + 4]);
        self.used += key.len();
        key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn masking_keys_are_fresh() {
        let mut keys = MaskKeys::new().unwrap();
        let count = RANDOM_BYTES;
        let distinct: BTreeSet<[u8; 4]> = (0..count).map(|_| keys.next()).collect();
        // Two of them are equal once in 130,000 runs.
        assert!(distinct.len() >= count - 1);
    }
}
