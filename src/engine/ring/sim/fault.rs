//! What may go wrong in a simulated world, and which of it does under a seed.
//!
//! Each seed draws its own set (a swarm, Groce and others, 2012): with every fault on at once the
//! common ones hide the states that only a few of them reach together.

use std::fmt;

use crate::base::random::Random;

/// One kind of trouble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Time jumps ahead, past every timeout at once, as when the machine was suspended. Whoever
    /// runs the world says when: [`super::World::jump`].
    ClockJump,
    /// Completions come up to two milliseconds late.
    Delay,
    /// The receive buffers are gone for a while, as if others held them.
    DryBuffers,
    /// Connections cannot be accepted for a moment, or are lost on the way.
    FailedAccept,
    /// The mesh between shards is full after a few letters
    /// ([`crate::engine::mesh::MeshOptions::simulated`]).
    FullMesh,
    /// Letters of different senders overtake each other, and some wait though the shard reads
    /// ([`crate::engine::mesh::Reading::Drawn`]).
    MixedLetters,
    /// The kernel takes a send in pieces, with time between them.
    PartialSend,
    /// Completions of different sockets overtake each other.
    Reorder,
    /// Connections are reset in the middle.
    Reset,
    /// Bytes arrive in pieces, often a single one.
    ShortRead,
    /// A send ends early and says how much of it went.
    ShortSend,
    /// Clients have a small window and read from it now and then.
    SlowReader,
    /// The ring comes back from a park for no reason.
    SpuriousWake,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::ClockJump,
        Self::Delay,
        Self::DryBuffers,
        Self::FailedAccept,
        Self::FullMesh,
        Self::MixedLetters,
        Self::PartialSend,
        Self::Reorder,
        Self::Reset,
        Self::ShortRead,
        Self::ShortSend,
        Self::SlowReader,
        Self::SpuriousWake,
    ];
}

/// The kinds of trouble that a world has.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Faults(u16);

impl Faults {
    /// A world in which everything works.
    pub const NONE: Self = Self(0);

    /// Every kind there is.
    #[must_use]
    pub fn all() -> Self {
        Fault::ALL.into_iter().fold(Self::NONE, Self::with)
    }

    /// Each kind with a chance of one half.
    #[must_use]
    pub fn drawn(random: &mut Random) -> Self {
        let drawn = Fault::ALL.into_iter().filter(|_| random.chance(1, 2));
        drawn.fold(Self::NONE, Self::with)
    }

    /// This one as well.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u16)
    }

    /// All of them but this one.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u16))
    }

    /// Whether the world has it.
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
    fn a_seed_draws_the_same_swarm_and_seeds_differ() {
        let draw = |seed| Faults::drawn(&mut Random::seeded(seed));
        assert_eq!(draw(3), draw(3));
        assert!((0..20).any(|seed| draw(seed) != draw(seed + 1)));
    }

    #[test]
    fn a_kind_can_be_added_and_taken_away() {
        let faults = Faults::all().without(Fault::Reset);
        assert!(!faults.has(Fault::Reset) && faults.has(Fault::Delay));
        assert_eq!(faults.with(Fault::Reset), Faults::all());
        assert_eq!(format!("{:?}", Faults::NONE.with(Fault::Delay)), "{Delay}");
    }
}
