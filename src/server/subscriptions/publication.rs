//! What has happened, as it is said to everybody who listens: encoded once, copied to each.
//!
//! What it keeps true: each form of a frame (for modern streams, for legacy sessions) is encoded
//! when the first stream needs it, and at most once; after that a stream costs two copies and its
//! name in between. It knows neither connections nor framing: a frame has no terminator yet.

use crate::protocol::message::Change;
use crate::protocol::rpc::Id;

/// One change on its way to those who listen. Its buffers serve the next one too.
#[derive(Debug, Default)]
pub(in crate::server) struct Publication {
    head: Vec<u8>,
    tail: Vec<u8>,
    legacy: Vec<u8>,
    /// Frames encoded since the start, each for all who listen.
    pub(in crate::server) encoded: u64,
}

impl Publication {
    /// Begins with another change.
    pub(in crate::server) fn begin(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.legacy.clear();
    }

    /// Begins with a change of a task, which its own shard has encoded: `tail` stands behind the
    /// name of each stream.
    pub(in crate::server) fn begin_task(&mut self, change: &Change<'_>, tail: &[u8]) {
        self.begin();
        change.write_head(&mut self.head);
        self.tail.extend_from_slice(tail);
    }

    /// Appends the frame that tells the stream `id`, or a legacy session, of `change`: the same one
    /// since the last [`Publication::begin`].
    #[inline]
    pub(in crate::server) fn say(
        &mut self,
        change: &Change<'_>,
        id: Option<Id<'_>>,
        out: &mut Vec<u8>,
    ) {
        let Some(id) = id else {
            if self.legacy.is_empty() {
                self.encoded += 1;
                change.write_legacy(&mut self.legacy);
            }
            out.extend_from_slice(&self.legacy);
            return;
        };
        if self.head.is_empty() {
            self.encoded += 1;
            change.write_head(&mut self.head);
            change.write_tail(&mut self.tail);
        }
        out.reserve(self.head.len() + self.tail.len() + ID_BYTES);
        out.extend_from_slice(&self.head);
        id.write(out);
        out.extend_from_slice(&self.tail);
    }
}

/// Room for a name that is a number, with the terminator of the frame.
const ID_BYTES: usize = 24;
