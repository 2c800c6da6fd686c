//! Task ids: unguessable, and each names the shard that owns its task.
//!
//! Invariants: of the 128 bits of an id all but the few that name the shard are random; any shard
//! computes the owner from the id alone, without a map. An id is a bearer credential of its task.
//!
//! Source: MCP 2025-11-25, basic/utilities/tasks, "Task Isolation and Access Control"; Tasks
//! extension 2026-07-28, "Security Considerations".

use std::fmt;

use crate::engine::mesh::ShardId;

/// Id of one task: 128 bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(in crate::server) struct TaskId(u128);

impl TaskId {
    /// Parses an id; `None` unless it is 32 hexadecimal digits in lower case.
    pub(in crate::server) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != ID_DIGITS || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    /// Returns the owner of the task among `shards` shards.
    ///
    /// The upper half of the id, read as a fraction of one, falls into one of `shards` ranges of
    /// equal length.
    pub(in crate::server) fn owner_shard(self, shards: u16) -> ShardId {
        let place = (self.0 >> 64) * u128::from(shards);
        // Below `shards`, because the half is below 2^64.
        ShardId(u16::try_from(place >> 64).unwrap_or(u16::MAX))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// Source of 128 unpredictable bits; `None` if the system has none.
pub(in crate::server) type RandomBits = Box<dyn FnMut() -> Option<u128>>;

/// Generates the ids of the tasks of one shard.
pub(in crate::server) struct TaskIds {
    /// Begin of this shard's range.
    range_start: u128,
    /// Length of the range.
    range_length: u128,
    random_bits: RandomBits,
}

impl TaskIds {
    /// Creates the generator of `shard`, one of `shards`.
    pub(in crate::server) fn new(shard: ShardId, shards: u16, random_bits: RandomBits) -> Self {
        let begin = |shard: u16| (u128::from(shard) << 64).div_ceil(u128::from(shards.max(1)));
        let range_start = begin(shard.0);
        Self {
            range_start,
            range_length: begin(shard.0.saturating_add(1)) - range_start,
            random_bits,
        }
    }

    /// Generates an id that this shard owns; `None` if no random bits are available.
    pub(in crate::server) fn generate(&mut self) -> Option<TaskId> {
        let bits = (self.random_bits)()?;
        let (upper, lower) = (bits >> 64, bits & u128::from(u64::MAX));
        // The product of two halves does not overflow; its upper half is below `length`.
        let upper = self.range_start + ((upper * self.range_length) >> 64);
        Some(TaskId(upper << 64 | lower))
    }
}

impl fmt::Debug for TaskIds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").finish_non_exhaustive()
    }
}

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    fn task_ids(shard: u16, shards: u16, mut draw: impl FnMut() -> u128 + 'static) -> TaskIds {
        TaskIds::new(ShardId(shard), shards, Box::new(move || Some(draw())))
    }

    fn seeded(seed: u64) -> impl FnMut() -> u128 {
        let mut random = Random::seeded(seed);
        move || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }

    #[test]
    fn generated_task_ids_name_their_owner_shard() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for shard in [0, 1, shards / 2, shards - 1] {
                let shard = shard.min(shards - 1);
                let mut drawn = task_ids(shard, shards, seeded(u64::from(shards)));
                for _ in 0..100 {
                    let id = drawn.generate().unwrap();
                    assert_eq!(id.owner_shard(shards), ShardId(shard), "{id} of {shards}");
                }
            }
        }
    }

    #[test]
    fn extreme_random_bits_stay_in_range() {
        for shards in [1, 2, 3, 5, 4096, u16::MAX] {
            for shard in [0, shards - 1] {
                for bits in [0, u128::MAX] {
                    let id = task_ids(shard, shards, move || bits).generate().unwrap();
                    assert_eq!(id.owner_shard(shards), ShardId(shard));
                }
            }
        }
    }

    #[test]
    fn task_id_parses_and_malformed_ids_are_rejected() {
        let id = task_ids(1, 3, seeded(9)).generate().unwrap();
        let text = id.to_string();
        assert_eq!(text.len(), 32);
        assert_eq!(TaskId::parse(&text), Some(id));
        let upper = text.to_uppercase();
        for wrong in ["", "0", &text[1..], &format!("{text}0"), "+", &upper, &"é".repeat(16)] {
            assert_eq!(TaskId::parse(wrong), None, "{wrong}");
        }
        assert_eq!(TaskId::parse(&format!("+{}", &text[1..])), None);
    }

    #[test]
    fn exhausted_random_source_generates_no_task_id() {
        assert_eq!(TaskIds::new(ShardId(0), 1, Box::new(|| None)).generate(), None);
    }
}
