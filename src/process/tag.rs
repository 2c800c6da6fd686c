//! A mark that every process inherits which a child starts, so that those of one child are found
//! once their parents have ended, whatever group or session they are in.
//!
//! It is the soft limit `RLIMIT_RTTIME`: fork and exec keep it, `/proc` shows it, and it means
//! nothing but to real-time schedulers, and to those nothing at this size (146,000 years).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::wire::ChildId;

/// Bit that every tag has.
const TAG: u64 = 1 << 62;
/// Bits of the id of the child; those of the supervisor follow.
const ID_BITS: u32 = ChildId::BITS;

/// The mark of what a child starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tag {
    /// Process id of the supervisor.
    pub(crate) supervisor: i32,
    pub(crate) child: ChildId,
}

impl Tag {
    /// Sets the tag of the processes that this process starts from now on. Without effect if the
    /// limit of this process may not be so high.
    pub(crate) fn set(self) {
        let maximum = getrlimit(Resource::Rttime).maximum;
        if maximum.is_none_or(|maximum| maximum >= self.to_limit()) {
            let limit = Rlimit { current: Some(self.to_limit()), maximum };
            // A system without this limit has no tags.
            setrlimit(Resource::Rttime, limit).ok();
        }
    }

    /// Returns the tag of a process, if it has one.
    pub(crate) fn of(process: i32) -> Option<Self> {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
        Self::from_limit(line.split_ascii_whitespace().next()?.parse().ok()?)
    }

    fn to_limit(self) -> u64 {
        TAG | (u64::from(self.supervisor.cast_unsigned()) << ID_BITS) | u64::from(self.child)
    }

    fn from_limit(limit: u64) -> Option<Self> {
        let child = u32::try_from(limit & u64::from(ChildId::MAX)).ok()?;
        let supervisor = u32::try_from((limit & !TAG) >> ID_BITS).ok()?.cast_signed();
        (limit & TAG != 0 && limit >> 63 == 0).then_some(Self { supervisor, child })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_read_from_its_limit() {
        let tag = Tag { supervisor: 4_194_304, child: u32::MAX };
        assert_eq!(Tag::from_limit(tag.to_limit()), Some(tag));
        assert_eq!(Tag::from_limit(u64::MAX), None);
        assert_eq!(Tag::from_limit(1_000), None);
    }
}
