//! A notification encoded once and copied to every subscription stream.
//!
//! Invariants: each form of a frame (for modern streams, for legacy sessions) is encoded when the
//! first stream needs it, and at most once; a further stream costs two copies and its subscription
//! id in between. Frames have no terminator yet.

use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::ChangeNotification;

/// One change notification. Its buffers are reused by the next one.
#[derive(Debug, Default)]
pub struct EncodedNotification {
    head: Vec<u8>,
    tail: Vec<u8>,
    legacy: Vec<u8>,
    /// Number of frames encoded since the start.
    pub encoded_frames: u64,
}

impl EncodedNotification {
    /// Resets the buffers for another change.
    pub fn reset(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.legacy.clear();
    }

    /// Sets a change of a task, encoded by its shard: `tail` follows the subscription id of each
    /// stream.
    pub fn set_task_change(&mut self, change: &ChangeNotification<'_>, tail: &[u8]) {
        self.reset();
        change.write_head(&mut self.head);
        self.tail.extend_from_slice(tail);
    }

    /// Appends the frame of `change` for the stream `id`, or for a legacy session. The change must
    /// be the same since the last [`EncodedNotification::reset`].
    #[inline]
    pub fn write_frame(
        &mut self,
        change: &ChangeNotification<'_>,
        id: Option<Id<'_>>,
        out: &mut Vec<u8>,
    ) {
        let Some(id) = id else {
            if self.legacy.is_empty() {
                self.encoded_frames += 1;
                change.write_legacy(&mut self.legacy);
            }
            out.extend_from_slice(&self.legacy);
            return;
        };
        if self.head.is_empty() {
            self.encoded_frames += 1;
            change.write_head(&mut self.head);
            change.write_tail(&mut self.tail);
        }
        out.reserve(self.head.len() + self.tail.len() + ID_BYTES);
        out.extend_from_slice(&self.head);
        id.write(out);
        out.extend_from_slice(&self.tail);
    }
}

/// Bytes of an integer id, with the terminator of the frame.
const ID_BYTES: usize = 24;
