//! Calls of one server that are made together.

use super::command::{NewCall, PeerId};

/// Consecutive calls of one server.
#[derive(Debug, Default)]
pub struct CallBatch {
    /// `None` if there are no calls.
    peer: Option<PeerId>,
    calls: Vec<NewCall>,
}

impl CallBatch {
    /// Returns whether a call of the server `peer` may be added.
    pub fn accepts(&self, peer: PeerId) -> bool {
        self.peer.is_none_or(|it| it == peer)
    }

    /// Adds a call, which [`CallBatch::accepts`] allows.
    pub fn push(&mut self, peer: PeerId, call: NewCall) {
        debug_assert!(self.accepts(peer), "calls of two servers in a batch");
        self.peer = Some(peer);
        self.calls.push(call);
    }

    /// Takes the calls, if there are any, and their server.
    pub fn take(&mut self) -> Option<(PeerId, Vec<NewCall>)> {
        Some((self.peer.take()?, std::mem::take(&mut self.calls)))
    }

    /// Takes back the memory of calls that were made.
    pub fn put_memory(&mut self, calls: Vec<NewCall>) {
        debug_assert!(calls.is_empty(), "a call was not made");
        if self.calls.capacity() == 0 {
            self.calls = calls;
        }
    }
}
