//! Who speaks with us, whatever carries it.
//!
//! A connection over TCP or standard input and output is a party of its own. So is an HTTP
//! connection as long as its requests are modern: each stands alone. A legacy session over HTTP is
//! a party that many connections carry, one request each.
//!
//! What it keeps true: calls, questions, streams and tasks name a [`Party`] and know nothing of
//! sockets; a key of a party that has gone names nobody.

use crate::base::slab::Key;
use crate::protocol::error::Kind;

/// Names one party of a shard.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Party {
    /// A connection.
    Connection(Key),
    /// A legacy session over HTTP.
    Session(Key),
}

/// Where a message for a party goes: the way that its request came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Outlet {
    /// Who is to hear it.
    pub(super) party: Party,
    /// By which of its streams, where it is a session; a connection has one.
    pub(super) stream: u32,
}

impl Outlet {
    /// The stream on which a session hears what belongs to no request.
    pub(super) const GENERAL: u32 = 0;

    /// No stream: the session has no room for another one.
    pub(super) const NOWHERE: u32 = u32::MAX;

    /// The way to a party for what belongs to no request.
    pub(super) const fn general(party: Party) -> Self {
        Self { party, stream: Self::GENERAL }
    }

    /// Whether an answer can come later.
    pub(super) const fn may_wait(self) -> bool {
        self.stream != Self::NOWHERE
    }
}

/// What a text was answered at once. Whoever carries the text frames what was said accordingly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    /// Nothing: it wants no answer, or gets it later.
    Nothing,
    /// Its answer, or those of a batch.
    Answer,
    /// The error that is its answer.
    Refusal(Kind),
    /// Something else: it comes before the answer, which comes later, or belongs to no request.
    Word,
}

impl Said {
    /// Whether the request has its answer with that.
    pub(super) const fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Refusal(_))
    }
}
