//! Ids of sessions and tasks: unguessable, and each names the shard that owns its object.
//!
//! Invariants: any shard computes the owner from the id alone, without a map; all bits but those
//! that name the shard, and those that a format fixes, are random. An id is a bearer credential of
//! its object: therefore it is never written to a log.
//!
//! Source: MCP 2025-11-25, basic/transports, "Session Management"; basic/utilities/tasks, "Task
//! Isolation and Access Control"; Tasks extension 2026-07-28, "Security Considerations".

mod session_id;

use std::fmt;

use corelane_engine::mesh::{Inbox, ShardId};

use crate::guard::auth::token_table::digest_of;

pub(super) use self::session_id::{SessionId, SessionIdHasher};

/// Returns what stands for the id of a session in logs and spans: the first 16 digits of the
/// SHA-256 of its text. It gives no access to the session.
pub(super) fn log_id(session: &str) -> String {
    let first = digest_of(session).first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    format!("{first:016x}")
}

/// 128 bits that name their owner among the shards.
///
/// The first 48 bits, read as a fraction of one, fall into the range of the owner; the ranges of
/// all shards have the same length. The bits are two words, so that what holds an id need not be
/// aligned to 16 bytes.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub(super) struct OwnerId {
    upper: u64,
    lower: u64,
}

impl OwnerId {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub(super) const fn from_bits(bits: u128) -> Self {
        Self { upper: (bits >> 64) as u64, lower: bits as u64 }
    }

    pub(super) const fn bits(self) -> u128 {
        (self.upper as u128) << 64 | self.lower as u128
    }

    /// Returns the owner among `shards` shards.
    pub(super) fn owner(self, shards: u16) -> ShardId {
        let place = (self.bits() >> REST_BITS) * u128::from(shards);
        // Below `shards`, because the fraction is below one.
        ShardId(u16::try_from(place >> OWNER_BITS).unwrap_or(u16::MAX))
    }
}

impl fmt::Debug for OwnerId {
    /// Hides the id, which gives access to its object.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OwnerId(..)")
    }
}

/// Source of 128 unpredictable bits; `None` if the system has none.
type RandomBits = Box<dyn FnMut() -> Option<u128>>;

/// Generates the ids that one shard owns.
pub(super) struct OwnerIds {
    /// Begin of this shard's range.
    range_start: u128,
    /// Length of the range.
    range_length: u128,
    random_bits: RandomBits,
}

impl OwnerIds {
    /// Creates the generator of `shard`, one of `shards`. No other shard may have the same source.
    pub(super) fn new(shard: ShardId, shards: u16, random_bits: RandomBits) -> Self {
        let start =
            |shard: u16| (u128::from(shard) << OWNER_BITS).div_ceil(u128::from(shards.max(1)));
        let range_start = start(shard.0);
        let range_length = start(shard.0.saturating_add(1)) - range_start;
        Self { range_start, range_length, random_bits }
    }

    /// Generates the id of a session; `None` if no random bits are available.
    pub(super) fn session_id(&mut self) -> Option<SessionId> {
        self.generate().map(SessionId::from_owner_id)
    }

    /// Generates the id of a task; `None` if no random bits are available.
    pub(super) fn task_id(&mut self) -> Option<TaskId> {
        self.generate().map(TaskId::from_owner_id)
    }

    fn generate(&mut self) -> Option<OwnerId> {
        let bits = (self.random_bits)()?;
        let (fraction, rest) = (bits >> REST_BITS, bits & ((1 << REST_BITS) - 1));
        // The product of two fractions, the second one below the length.
        let fraction = self.range_start + ((fraction * self.range_length) >> OWNER_BITS);
        Some(OwnerId::from_bits(fraction << REST_BITS | rest))
    }
}

impl fmt::Debug for OwnerIds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnerIds").finish_non_exhaustive()
    }
}

/// Bits of an id that name its shard: those before the version of a UUID.
const OWNER_BITS: u32 = 48;
const REST_BITS: u32 = u128::BITS - OWNER_BITS;

/// The id of this shard, the number of shards, and those that are slow to read messages.
#[derive(Debug)]
pub(super) struct ShardSet {
    own: ShardId,
    count: u16,
    /// Shards with a full queue, for which requests are rejected.
    slow: Vec<ShardId>,
    /// Queue length from which a shard counts as slow.
    queued_messages_max: usize,
}

impl ShardSet {
    pub const fn new(own: ShardId, count: u16, queued_messages_max: usize) -> Self {
        Self { own, count, slow: Vec::new(), queued_messages_max }
    }

    pub const fn own(&self) -> ShardId {
        self.own
    }

    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Returns whether optional messages to `shard` should be dropped.
    pub fn is_slow(&self, shard: ShardId) -> bool {
        self.slow.contains(&shard)
    }

    /// Notes which shards have not read what was sent to them.
    #[inline]
    pub fn update_slow<M: Send>(&mut self, inbox: &Inbox<M>) {
        inbox.collect_slow_shards(self.queued_messages_max, &mut self.slow);
    }
}

/// Id of one task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct TaskId(OwnerId);

impl TaskId {
    const fn from_owner_id(id: OwnerId) -> Self {
        Self(id)
    }

    /// Parses an id; `None` unless it is 32 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|bits| Self(OwnerId::from_bits(bits)))
    }

    /// Returns the owner of the task among `shards` shards.
    pub fn owner(self, shards: u16) -> ShardId {
        self.0.owner(shards)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0.bits())
    }
}

/// Hexadecimal digits of an id.
const DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    use corelane_base::random::Random;

    use super::*;

    fn owner_ids(shard: u16, shards: u16, mut draw: impl FnMut() -> u128 + 'static) -> OwnerIds {
        OwnerIds::new(ShardId(shard), shards, Box::new(move || Some(draw())))
    }

    fn seeded(seed: u64) -> impl FnMut() -> u128 {
        let mut random = Random::seeded(seed);
        move || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }

    #[test]
    fn generated_ids_name_their_owner_shard() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for shard in [0, 1, shards / 2, shards - 1] {
                let shard = shard.min(shards - 1);
                let mut ids = owner_ids(shard, shards, seeded(u64::from(shards)));
                for _ in 0..100 {
                    let id = ids.session_id().unwrap();
                    assert_eq!(id.owner(shards), ShardId(shard), "{id} of {shards}");
                    let id = ids.task_id().unwrap();
                    assert_eq!(id.owner(shards), ShardId(shard), "{id} of {shards}");
                }
            }
        }
    }

    #[test]
    fn extreme_random_bits_stay_in_range() {
        for shards in [1, 2, 3, 5, 4096, u16::MAX] {
            for shard in [0, shards - 1] {
                for bits in [0, u128::MAX] {
                    let mut ids = owner_ids(shard, shards, move || bits);
                    assert_eq!(ids.session_id().unwrap().owner(shards), ShardId(shard));
                    assert_eq!(ids.task_id().unwrap().owner(shards), ShardId(shard));
                }
            }
        }
    }

    #[test]
    fn exhausted_random_source_generates_no_id() {
        let mut ids = OwnerIds::new(ShardId(0), 1, Box::new(|| None));
        assert_eq!((ids.session_id(), ids.task_id()), (None, None));
    }

    #[test]
    fn task_id_parses_and_malformed_ids_are_rejected() {
        let id = TaskId(OwnerId::from_bits(0x00ff_1234 << 96 | 0x5678_9abc));
        let text = id.to_string();
        assert_eq!(text.len(), 32);
        assert_eq!(TaskId::parse(&text), Some(id));
        let upper = text.to_uppercase();
        for wrong in ["", "0", &text[1..], &format!("{text}0"), "+", &upper, &"é".repeat(16)] {
            assert_eq!(TaskId::parse(wrong), None, "{wrong}");
        }
        assert_eq!(TaskId::parse(&format!("+{}", &text[1..])), None);
    }
}
