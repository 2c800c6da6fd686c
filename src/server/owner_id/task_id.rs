//! Task ids: 128 bits, written as 32 hexadecimal digits.

use std::fmt;

use corelane_engine::mesh::ShardId;

use super::OwnerId;

/// Id of one task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TaskId(OwnerId);

impl TaskId {
    pub(super) const fn from_owner_id(id: OwnerId) -> Self {
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
    use super::*;

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
