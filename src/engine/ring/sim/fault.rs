//! The faults of a simulated world, and their selection by seed.
//!
//! Each seed enables its own subset (swarm testing, Groce and others, 2012): with every fault
//! enabled at once, common faults hide states that only a few of them reach together.

use std::fmt;

use corelane_base::random::Random;

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Time jumps ahead past every timeout, as after a suspend of the machine. The test decides
    /// when: [`super::World::jump_clock`].
    ClockJump,
    /// Completions are up to two milliseconds late.
    Delay,
    /// No receive buffer is available for a while.
    NoBuffers,
    /// Connections cannot be accepted for a moment, or are lost.
    AcceptFailure,
    /// The channels between shards hold only a few messages.
    FullMesh,
    /// Messages of different senders are reordered, and some are delayed
    /// ([`crate::mesh::ReadOrder::Random`]).
    ReorderedMessages,
    /// A send is accepted in pieces, with delays between them.
    PartialSend,
    /// Completions of different sockets are reordered.
    Reorder,
    /// Connections are reset.
    Reset,
    /// Bytes arrive in pieces, often single ones.
    ShortRead,
    /// A send ends early and reports a partial result.
    ShortSend,
    /// Clients have a small window and read at intervals.
    SlowReader,
    /// Parks return for no reason.
    SpuriousWake,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::ClockJump,
        Self::Delay,
        Self::NoBuffers,
        Self::AcceptFailure,
        Self::FullMesh,
        Self::ReorderedMessages,
        Self::PartialSend,
        Self::Reorder,
        Self::Reset,
        Self::ShortRead,
        Self::ShortSend,
        Self::SlowReader,
        Self::SpuriousWake,
    ];
}

/// A set of faults.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Faults(u16);

impl Faults {
    /// No faults.
    pub const NONE: Self = Self(0);

    /// Returns all faults.
    #[must_use]
    pub fn all() -> Self {
        Fault::ALL.into_iter().fold(Self::NONE, Self::with)
    }

    /// Returns a random set that contains each fault with probability one half.
    #[must_use]
    pub fn random(random: &mut Random) -> Self {
        let drawn = Fault::ALL.into_iter().filter(|_| random.chance(1, 2));
        drawn.fold(Self::NONE, Self::with)
    }

    /// Returns the set with `fault` added.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u16)
    }

    /// Returns the set with `fault` removed.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u16))
    }

    /// Returns whether the set contains `fault`.
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u16 != 0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = Fault::ALL.into_iter().filter(|&fault| self.has(fault));
        formatter.debug_set().entries(faults).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_selection_depends_on_the_seed() {
        let draw = |seed| Faults::random(&mut Random::seeded(seed));
        assert_eq!(draw(3), draw(3));
        assert!((0..20).any(|seed| draw(seed) != draw(seed + 1)));
    }

    #[test]
    fn faults_can_be_added_and_removed() {
        let faults = Faults::all().without(Fault::Reset);
        assert!(!faults.has(Fault::Reset) && faults.has(Fault::Delay));
        assert_eq!(faults.with(Fault::Reset), Faults::all());
        assert_eq!(format!("{:?}", Faults::NONE.with(Fault::Delay)), "{Delay}");
    }
}
