//! The names of tasks: unguessable, and each tells which shard keeps its task.
//!
//! What it keeps true: a name holds 128 bits less the few that say the shard, all of them drawn
//! from the source that the server was given; any shard finds the owner in the name alone, without
//! a map and without asking. A name proves nothing else: who knows it may use the task, which is
//! why nobody else can learn or guess it.
//!
//! Source: 2025-11-25, basic/utilities/tasks, "Task Isolation and Access Control"; Tasks extension
//! 2026-07-28, "Security Considerations".

use std::fmt;

use crate::engine::mesh::ShardId;

/// Names one task: 128 bits, told as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(in crate::server) struct TaskId(u128);

impl TaskId {
    /// Reads a name as a peer sent it; `None` where it is none of ours: 32 digits, lower case.
    pub(in crate::server) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    /// The shard that keeps the task, of as many as there are.
    ///
    /// The upper half of the name, read as a fraction of one, falls into one of `shards` stretches
    /// of equal length.
    pub(in crate::server) fn owner(self, shards: u16) -> ShardId {
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

/// Where names come from: 128 bits that nobody can foretell, or `None` where the system has none to
/// give.
pub(in crate::server) type Chance = Box<dyn FnMut() -> Option<u128>>;

/// Draws the names of the tasks of one shard.
pub(in crate::server) struct Names {
    /// Where the stretch of this shard begins.
    first: u128,
    /// How long it is.
    length: u128,
    chance: Chance,
}

impl Names {
    /// The names of `shard`, one of `shards`.
    pub(in crate::server) fn new(shard: ShardId, shards: u16, chance: Chance) -> Self {
        let begin = |shard: u16| (u128::from(shard) << 64).div_ceil(u128::from(shards.max(1)));
        let first = begin(shard.0);
        Self { first, length: begin(shard.0.saturating_add(1)) - first, chance }
    }

    /// Draws a name that this shard owns; `None` where chance has run dry.
    pub(in crate::server) fn draw(&mut self) -> Option<TaskId> {
        let bits = (self.chance)()?;
        let (upper, lower) = (bits >> 64, bits & u128::from(u64::MAX));
        // The product of two halves does not overflow; its upper half is below `length`.
        let upper = self.first + ((upper * self.length) >> 64);
        Some(TaskId(upper << 64 | lower))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").finish_non_exhaustive()
    }
}

/// Hexadecimal digits of a name.
const DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    fn names(shard: u16, shards: u16, mut draw: impl FnMut() -> u128 + 'static) -> Names {
        Names::new(ShardId(shard), shards, Box::new(move || Some(draw())))
    }

    fn seeded(seed: u64) -> impl FnMut() -> u128 {
        let mut random = Random::seeded(seed);
        move || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }

    #[test]
    fn every_name_leads_to_the_shard_that_drew_it() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for shard in [0, 1, shards / 2, shards - 1] {
                let shard = shard.min(shards - 1);
                let mut drawn = names(shard, shards, seeded(u64::from(shards)));
                for _ in 0..100 {
                    let id = drawn.draw().unwrap();
                    assert_eq!(id.owner(shards), ShardId(shard), "{id} of {shards}");
                }
            }
        }
    }

    #[test]
    fn the_ends_of_chance_stay_within_the_stretch() {
        for shards in [1, 2, 3, 5, 4096, u16::MAX] {
            for shard in [0, shards - 1] {
                for bits in [0, u128::MAX] {
                    let id = names(shard, shards, move || bits).draw().unwrap();
                    assert_eq!(id.owner(shards), ShardId(shard));
                }
            }
        }
    }

    #[test]
    fn a_name_reads_back_and_no_other_text_does() {
        let id = names(1, 3, seeded(9)).draw().unwrap();
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
    fn where_chance_runs_dry_there_is_no_name() {
        assert_eq!(Names::new(ShardId(0), 1, Box::new(|| None)).draw(), None);
    }
}
