//! One subscription stream: its filter and its pending notifications; the notification that is
//! encoded once and copied to every stream.
//!
//! A stream is small, because a shard may have a hundred thousand of them; a pending notification
//! is a mark on a topic, not an entry of a queue.
//!
//! Invariants: each form of a frame (for modern streams, for legacy sessions) is encoded when the
//! first stream needs it, and at most once; a further stream costs two copies and its subscription
//! id in between. Frames have no terminator yet.

use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::holders::PlaceOwner;
use corelane_base::principal::{Principal, is_same_caller};
use corelane_base::slab::Key;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::ChangeNotification;

use crate::server::reply_to::PeerId;
use crate::service::ListChanges;

/// A list of the catalog that has change notifications.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CatalogList {
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `tools/list`
    Tools,
}

impl CatalogList {
    /// All lists, in the order in which their changes are sent.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// Returns the notification of its change.
    pub const fn change_notification(self) -> ChangeNotification<'static> {
        match self {
            Self::Prompts => ChangeNotification::PromptListChanged,
            Self::Resources => ChangeNotification::ResourceListChanged,
            Self::Tools => ChangeNotification::ToolListChanged,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of lists, as a bit set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CatalogLists(u8);

impl CatalogLists {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of lists for which `holds` is true.
    pub fn of(holds: impl Fn(CatalogList) -> bool) -> Self {
        let bits = CatalogList::ALL.into_iter().filter(|list| holds(*list)).map(CatalogList::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }

    /// Returns whether `list` is in the set.
    pub const fn contains(self, list: CatalogList) -> bool {
        self.0 & list.bit() != 0
    }

    pub const fn insert(&mut self, list: CatalogList) {
        self.0 |= list.bit();
    }

    /// Removes `list`; returns `false` if it was not in the set.
    pub const fn remove(&mut self, list: CatalogList) -> bool {
        let had = self.contains(list);
        self.0 &= !list.bit();
        had
    }
}

/// Who subscribes.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber<'a> {
    /// The peer that gets the notifications.
    pub peer: PeerId,
    /// Its address; `None` if it is exempt.
    pub client: Option<ClientAddress>,
    /// The caller, if callers are authenticated.
    pub principal: Option<&'a Arc<Principal>>,
}

impl Subscriber<'_> {
    /// Returns whose place a stream of it is.
    pub(super) fn owner(&self) -> PlaceOwner<'_> {
        PlaceOwner { principal: self.principal.map(|it| &**it), address: self.client }
    }
}

/// A topic of a stream, and the stream's index among its listeners.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicRef {
    pub(super) topic: Key,
    pub(super) index: u32,
    /// Whether an update is pending because the peer was too slow.
    pub(super) is_dirty: bool,
    /// Last version sent, of topics that have versions.
    pub(super) sent_version: u32,
}

/// One stream: a `subscriptions/listen` of a modern client, or all resource subscriptions of a
/// legacy session.
#[derive(Debug)]
pub struct SubscriptionStream {
    /// Peer that gets the notifications.
    pub peer: PeerId,
    /// Subscription id of its notifications; `None` for a legacy session.
    id: Option<IdBuf>,
    /// Who opened it, if callers are authenticated: it gets the status of this caller's tasks only.
    principal: Option<Arc<Principal>>,
    /// The address of the client; `None` if it is exempt.
    client: Option<ClientAddress>,
    /// Bytes that count as those of its caller, in units of [`CHARGE_BYTES`].
    charged: u16,
    /// Lists whose changes are sent.
    pub(super) lists: CatalogLists,
    /// List changes that are pending because the peer was too slow.
    pub(super) dirty_lists: CatalogLists,
    /// Subscribed resources and tasks.
    pub(super) topics: Vec<TopicRef>,
    /// Neighbours in the list of the connection's streams.
    pub(super) next: Option<Key>,
    pub(super) previous: Option<Key>,
}

impl From<ListChanges> for CatalogLists {
    fn from(changes: ListChanges) -> Self {
        Self::of(|list| match list {
            CatalogList::Prompts => changes.prompts,
            CatalogList::Resources => changes.resources,
            CatalogList::Tools => changes.tools,
        })
    }
}

impl SubscriptionStream {
    pub(super) fn new(by: Subscriber<'_>, id: Option<IdBuf>, lists: CatalogLists) -> Self {
        Self {
            peer: by.peer,
            id,
            principal: by.principal.cloned(),
            client: by.client,
            charged: 0,
            lists,
            dirty_lists: CatalogLists::NONE,
            topics: Vec::new(),
            next: None,
            previous: None,
        }
    }

    /// Returns the subscription id of its notifications; `None` for a legacy session.
    #[inline]
    pub fn id(&self) -> Option<Id<'_>> {
        self.id.as_ref().map(IdBuf::as_id)
    }

    /// Returns whether `principal` has opened it.
    pub(super) fn is_opened_by(&self, principal: Option<&Principal>) -> bool {
        is_same_caller(self.principal.as_deref(), principal)
    }

    /// Returns whose it is.
    pub(super) fn owner(&self) -> PlaceOwner<'_> {
        PlaceOwner { principal: self.principal.as_deref(), address: self.client }
    }

    /// Counts bytes as those of its caller. Returns how many.
    pub(super) fn charge(&mut self, bytes: usize) -> usize {
        let before = self.charged;
        self.charged = before.saturating_add(charge_of(bytes));
        usize::from(self.charged - before) * CHARGE_BYTES
    }

    /// Counts at most so many bytes no longer as those of its caller. Returns how many.
    pub(super) fn discharge(&mut self, bytes: usize) -> usize {
        let discharged = self.charged.min(charge_of(bytes));
        self.charged -= discharged;
        usize::from(discharged) * CHARGE_BYTES
    }

    /// Returns its bytes, without the names of its topics.
    pub(super) fn held_bytes(&self) -> usize {
        STREAM_BYTES + self.heap_bytes()
    }

    /// Returns the bytes of its id, which is stored here and among the requests in flight.
    fn id_bytes(&self) -> usize {
        match self.id() {
            Some(Id::Text(text)) => 2 * text.len(),
            _ => 0,
        }
    }

    const fn topic_bytes(&self) -> usize {
        self.topics.len() * TOPIC_REF_BYTES
    }
}

heap_bytes!(
    SubscriptionStream {}
    counted { id: Self::id_bytes, topics: Self::topic_bytes }
    inline { peer, client, charged, lists, dirty_lists, next, previous }
    // The credential of the connection or session has it, too.
    elsewhere { principal }
);

/// The unit in which the bytes of a caller are counted.
const CHARGE_BYTES: usize = 128;

fn charge_of(bytes: usize) -> u16 {
    u16::try_from(bytes.div_ceil(CHARGE_BYTES)).unwrap_or(u16::MAX)
}

/// Upper limit of the bytes of one stream with an integer id and no topics: its slot, which may be
/// in a table that has just doubled, and that of its request among those in flight.
pub const STREAM_BYTES: usize = 2 * size_of::<SubscriptionStream>() + 64;

/// Bytes of one topic of a stream: an entry here and one in the index, with the slack of both.
pub(super) const TOPIC_REF_BYTES: usize = 64;

const _: () = assert!(STREAM_BYTES <= 256, "a listening stream holds at most 256 bytes");

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_set_contains_its_members() {
        let mut lists = CatalogLists::of(|list| list != CatalogList::Prompts);
        assert!(
            lists.contains(CatalogList::Tools)
                && lists.contains(CatalogList::Resources)
                && !lists.contains(CatalogList::Prompts)
        );
        assert!(lists.remove(CatalogList::Tools) && !lists.remove(CatalogList::Tools));
        lists.insert(CatalogList::Prompts);
        assert!(lists.remove(CatalogList::Prompts) && lists.remove(CatalogList::Resources));
        assert_eq!(lists, CatalogLists::NONE);
    }

    #[test]
    fn subscription_stream_stays_small() {
        assert!(size_of::<SubscriptionStream>() <= 96, "{}", size_of::<SubscriptionStream>());
    }
}
