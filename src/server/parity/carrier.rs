//! Where a message came from, and where its answer goes.

use crate::base::slab::Key;
use crate::server::shard_message::{ExchangeAddress, ParityCaller};

/// What a message came with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier<'a> {
    /// A connection of this shard that carries the session.
    Connection(Key),
    /// An HTTP request, on any shard.
    Exchange {
        address: ExchangeAddress,
        caller: &'a ParityCaller,
        /// What the response is.
        response: ResponseKind,
    },
}

/// What the response to an HTTP request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResponseKind {
    /// One message.
    Message,
    /// One message, or the chunks of a stream.
    Chunks,
    /// The event stream of the session.
    Events,
}
