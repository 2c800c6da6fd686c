//! One stored session, with its links in the list of idle ones.

use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::server::http::sessions::streams::SessionStreams;
use crate::server::owner_id::SessionId;

#[derive(Debug)]
pub(super) struct StoredSession<S> {
    pub(super) id: SessionId,
    pub(super) session: S,
    pub(super) streams: SessionStreams,
    /// Running requests.
    pub(super) in_flight: u32,
    /// Whether it is in the list of idle sessions.
    pub(super) is_in_idle_list: bool,
    /// Since when it is idle, or was last.
    pub(super) idle_since: Instant,
    /// Neighbours in the list of idle sessions.
    pub(super) previous_idle: Option<Key>,
    pub(super) next_idle: Option<Key>,
}

impl<S> StoredSession<S> {
    /// Creates a session without streams, which is not in the list of idle ones yet.
    pub(super) fn new(id: SessionId, session: S, now: Instant) -> Self {
        Self {
            id,
            session,
            streams: SessionStreams::default(),
            in_flight: 0,
            is_in_idle_list: false,
            idle_since: now,
            previous_idle: None,
            next_idle: None,
        }
    }

    /// Returns whether none of its requests runs and none of its streams is attached.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.streams.attached() == 0
    }

    /// Upper estimate of the bytes of one session, without its streams and what its `S` allocates:
    /// slab and index may have just doubled.
    pub(super) const BYTES: usize = 2 * (size_of::<Self>() + INDEX_BYTES);
}

/// Bytes of one session in the index of ids, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<StoredSession<()>>() + INDEX_BYTES <= 160,
    "a session without streams holds at most 160 bytes besides its `S`"
);
