//! Messages over TCP and stdio that wait until the authorization server has said what their token
//! is.
//!
//! Invariants: a connection has one such message at most, since nothing is read behind it; a
//! message is charged to the memory of handlers; it waits as long as its token is asked about.

use std::collections::HashMap;

use corelane_base::slab::Key;
use corelane_protocol::json::PaddedBuffer;

use super::memory::handler_memory::HandlerCharge;

/// The messages of a shard that wait.
#[derive(Debug, Default)]
pub(super) struct HeldMessages(HashMap<Key, HeldMessage>);

#[derive(Debug)]
struct HeldMessage {
    text: Vec<u8>,
    _charge: HandlerCharge,
}

impl HeldMessages {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of messages that wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a message of a connection waits.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// Adds the text of a message of a connection.
    pub(super) fn insert(&mut self, key: Key, text: Vec<u8>, charge: HandlerCharge) {
        self.0.insert(key, HeldMessage { text, _charge: charge });
    }

    /// Takes the message of a connection, to be dispatched again or dropped.
    pub(super) fn take(&mut self, key: Key) -> Option<PaddedBuffer> {
        self.0.remove(&key).map(|message| PaddedBuffer::new(message.text))
    }
}
