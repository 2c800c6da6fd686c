//! What the handlers of a shard hold: they themselves with the arguments of calls and tasks until
//! they end, the requests to their clients while they are open, and the responses that tasks store;
//! and the results of blocking handlers, from the end of the handler until the shard has written
//! them to the output of their peers.
//!
//! Invariants: all of it but the results takes a quarter of the memory limit at most, because it is
//! freed only when handlers end; a call whose peer, and a request whose handler, holds less than
//! its share is admitted nevertheless.
//!
//! Results take an eighth of the memory limit at most, over all shards. The room for a result is
//! reserved before its handler starts, by the size that the handler declares or by those of its
//! last results ([`super::result_sizes`]). One result that is larger than all the room has it
//! alone. A handler that returns more than it has declared, or for the first time, exceeds the
//! room, by one result for each thread of the pool. Results of tokio handlers have no room: they
//! count from the end of their handlers until the shard takes them, and so does what calls that run
//! outside of the shards have read, which is an eighth of the limit at most.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::heap_bytes::HeapBytes;
use corelane_engine::blocking::Reservation;
use corelane_engine::mesh::{ShardId, SharedCounter};
use corelane_protocol::error::Error;

use super::result_sizes::{ExpectedSize, ResultSizes};
use super::{MemoryLimit, short_of_memory};
use crate::server::reply_to::PeerId;
use crate::service::{HandlerError, HandlerOutput, ResultSize};

/// The memory of the handlers of a shard.
#[derive(Debug)]
pub struct HandlerMemory {
    limit: Cell<MemoryLimit>,
    /// Blocking handlers release their arguments on other threads.
    held: Arc<SharedCounter>,
    /// Number of refused charges.
    refused: Cell<u64>,
}

/// A part of the memory of the handlers, released when it is dropped.
#[derive(Debug)]
pub struct HandlerCharge {
    held: Arc<SharedCounter>,
    bytes: usize,
}

/// The account of one handler for its requests to the client.
#[derive(Clone, Debug)]
pub struct RequestAccount {
    memory: Rc<HandlerMemory>,
    /// The sum of its charges.
    held: Rc<Cell<usize>>,
}

/// The charge for one request to the client, or for the response to it.
#[derive(Debug)]
pub struct RequestCharge {
    account: RequestAccount,
    charge: HandlerCharge,
}

impl HandlerMemory {
    pub fn new(limit: MemoryLimit) -> Self {
        Self { limit: Cell::new(limit), held: Arc::default(), refused: Cell::new(0) }
    }

    /// Returns the limit of the shard.
    #[inline]
    pub const fn limit(&self) -> MemoryLimit {
        self.limit.get()
    }

    pub fn set_limit(&self, limit: MemoryLimit) {
        self.limit.set(limit);
    }

    /// Returns the bytes held by all handlers.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.held.count()
    }

    /// Returns the number of refused charges.
    pub const fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Charges `bytes` to an owner that holds `owner_bytes` besides.
    ///
    /// # Errors
    ///
    /// The server is short of memory, and the owner holds more than its share.
    pub fn charge(
        &self,
        bytes: usize,
        owner_bytes: impl FnOnce() -> usize,
    ) -> Result<HandlerCharge, Error> {
        let limit = self.limit();
        let is_free = self.held_bytes().saturating_add(bytes) <= limit.handlers();
        if !is_free && owner_bytes().saturating_add(bytes) > limit.share() {
            self.refused.set(self.refused.get() + 1);
            return Err(short_of_memory());
        }
        self.held.adjust(0, bytes);
        Ok(HandlerCharge { held: Arc::clone(&self.held), bytes })
    }
}

impl HandlerCharge {
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges `bytes` more, which cannot be refused any more.
    pub fn extend(&mut self, bytes: usize) {
        self.held.adjust(0, bytes);
        self.bytes += bytes;
    }
}

impl Drop for HandlerCharge {
    fn drop(&mut self) {
        self.held.adjust(self.bytes, 0);
    }
}

impl RequestAccount {
    pub fn new(memory: &Rc<HandlerMemory>) -> Self {
        Self { memory: Rc::clone(memory), held: Rc::default() }
    }

    /// Charges `bytes` to the handler.
    ///
    /// # Errors
    ///
    /// The server is short of memory, and the requests of the handler hold more than its share.
    pub fn charge(&self, bytes: usize) -> Result<RequestCharge, Error> {
        let charge = self.memory.charge(bytes, || self.held.get())?;
        self.held.set(self.held.get() + bytes);
        Ok(RequestCharge { account: self.clone(), charge })
    }
}

impl RequestCharge {
    /// Returns the account that it belongs to.
    pub const fn account(&self) -> &RequestAccount {
        &self.account
    }

    pub const fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Releases all but `bytes`, if it is for more.
    pub fn shrink(&mut self, bytes: usize) {
        let HandlerCharge { held, bytes: charged } = &mut self.charge;
        if bytes < *charged {
            held.adjust(*charged, bytes);
            self.account.held.set(self.account.held.get() - (*charged - bytes));
            *charged = bytes;
        }
    }
}

impl Drop for RequestCharge {
    fn drop(&mut self) {
        self.account.held.set(self.account.held.get() - self.bytes());
    }
}

/// The memory of the results that go to one shard, and its part of what calls outside of the shards
/// have read for results that they have not made yet.
#[derive(Debug)]
pub struct ResultMemory {
    account: ResultAccount,
    sizes: ResultSizes,
    /// What calls that run outside of the shards have read, over all of the shards.
    outside: Arc<SharedCounter>,
    shards: u16,
}

/// What the results that go to one shard take, for the threads that make them.
#[derive(Clone, Debug, Default)]
pub struct ResultAccount {
    held: Arc<SharedCounter>,
}

/// Size up to which a result is not charged: an inbox is full before such results take much.
const RESULT_BYTES_UNCHARGED_MAX: usize = 4 << 10;

impl ResultMemory {
    /// Creates the memory of one of `shards` shards.
    pub fn new(outside: Arc<SharedCounter>, shards: u16) -> Self {
        Self { account: ResultAccount::default(), sizes: ResultSizes::default(), outside, shards }
    }

    /// Returns the bytes of the results that are charged, of those that are reserved for running
    /// handlers, and of the part of the shard of those outside.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        let outside = self.outside.count();
        let outside = if outside == 0 { 0 } else { outside / usize::from(self.shards) };
        self.account.held.count() + outside
    }

    /// Returns the expected size of a result.
    pub fn expected_size(&mut self, size: ResultSize) -> ExpectedSize {
        self.sizes.expected(size)
    }

    /// Returns the account for the threads.
    pub fn account(&self) -> ResultAccount {
        self.account.clone()
    }
}

impl ResultAccount {
    /// Charges the result of a handler for which nothing was reserved; `None` for a small one.
    #[cfg(feature = "tokio")]
    pub fn charge_result(&self, result: &HandlerResult) -> Option<HandlerCharge> {
        let bytes = reserved_bytes(result_bytes(result));
        (bytes > 0).then(|| {
            self.held.adjust(0, bytes);
            HandlerCharge { held: Arc::clone(&self.held), bytes }
        })
    }

    /// Charges what was reserved for a result.
    pub fn charge(&self, reserved: Reservation) -> ChargedResult {
        self.held.adjust(0, reserved.bytes());
        ChargedResult { held: Arc::clone(&self.held), reserved }
    }
}

/// Returns what is reserved for a result of `bytes` bytes: nothing for a small one.
pub const fn reserved_bytes(bytes: usize) -> usize {
    // Half, so that the sum with results that exist does not overflow.
    let bytes = if bytes > usize::MAX / 2 { usize::MAX / 2 } else { bytes };
    if bytes > RESULT_BYTES_UNCHARGED_MAX { bytes } else { 0 }
}

/// Returns the size of a result.
pub fn result_bytes(result: &HandlerResult) -> usize {
    result.as_ref().map_or_else(HandlerError::heap_bytes, HandlerOutput::heap_bytes)
}

/// The end of a handler: its output, or the error that the shard reports and answers.
pub type HandlerResult = Result<HandlerOutput, HandlerError>;

/// The charge for the result of one handler. Boxed to keep messages short.
pub type ResultCharge = Box<ChargedResult>;

/// What is charged for the result of one handler, released when it is dropped.
#[derive(Debug)]
pub struct ChargedResult {
    held: Arc<SharedCounter>,
    reserved: Reservation,
}

impl ChargedResult {
    /// Returns the charged bytes.
    pub const fn bytes(&self) -> usize {
        self.reserved.bytes()
    }

    /// Charges what the result takes instead.
    pub fn resize(&mut self, bytes: usize) {
        self.held.adjust(self.bytes(), bytes);
        self.reserved.resize(bytes);
    }
}

impl Drop for ChargedResult {
    fn drop(&mut self) {
        self.held.adjust(self.bytes(), 0);
    }
}

/// For whom a job runs. All owners have the same share of the pool.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum JobOwner {
    /// The clients at an address.
    Address(ClientAddress),
    /// A connection or session of a shard whose address is exempt.
    Peer(ShardId, PeerId),
    /// The catalog updates that local handlers of a shard request.
    CatalogUpdates(ShardId),
}

impl JobOwner {
    /// Returns the owner of the calls of a peer of `shard`.
    pub fn new(client: Option<ClientAddress>, shard: ShardId, peer_id: PeerId) -> Self {
        client.map_or(Self::Peer(shard, peer_id), Self::Address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share of 100 bytes, 400 for all handlers.
    const LIMIT: MemoryLimit = MemoryLimit::new(1600);

    #[test]
    fn calls_below_their_share_are_admitted() {
        let memory = HandlerMemory::new(LIMIT);
        let large = memory.charge(400, || 0).unwrap();
        assert_eq!(memory.charge(101, || 0).unwrap_err().code, -32603);
        assert!(memory.charge(60, || 41).is_err());
        let small = memory.charge(60, || 40).unwrap();
        assert_eq!((memory.held_bytes(), small.bytes(), memory.refused()), (460, 60, 2));
        drop((large, small));
        assert_eq!(memory.held_bytes(), 0);
        assert!(memory.charge(400, || 400).is_ok());
    }

    #[test]
    fn requests_of_a_handler_share_one_account() {
        let memory = Rc::new(HandlerMemory::new(LIMIT));
        let (one, other) = (RequestAccount::new(&memory), RequestAccount::new(&memory));
        let mut large = one.charge(400).unwrap();
        assert!(one.charge(1).is_err());
        let small = other.charge(60).unwrap();
        assert!(other.charge(41).is_err());
        assert!(other.charge(40).is_ok());
        large.shrink(30);
        large.shrink(50);
        assert_eq!((memory.held_bytes(), large.bytes()), (90, 30));
        assert!(large.account().charge(310).is_ok());
        drop((large, small));
        assert_eq!((memory.held_bytes(), one.held.get(), other.held.get()), (0, 0, 0));
    }
}
