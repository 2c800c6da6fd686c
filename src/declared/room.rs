//! Room for what running calls have read: output of programs, bodies of responses, files.
//!
//! Invariants: a call holds [`FREE_BYTES`] without asking. For more it takes room for as much as
//! its limit permits, at once, so that no two calls wait for each other; until there is room it
//! reads nothing, and waits within its time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use corelane_engine::mesh::SharedCounter;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// Bytes that each call holds without room.
pub const FREE_BYTES: usize = 64 << 10;

/// Most bytes that all calls may hold beyond [`FREE_BYTES`] each.
const ROOM_BYTES: u32 = 64 << 20;

/// Bytes of one permit.
const UNIT_BYTES: u32 = 1 << 10;

/// Why a call has ended that waited for room.
pub const NO_ROOM: &str = "the output waited for memory that the outputs of other calls have until \
                           the time of the call was over (limits.timeout); try again later";

/// The room of all calls of a server.
pub struct OutputRoom {
    units: AtomicU32,
    free: Semaphore,
    held: Arc<SharedCounter>,
}

impl OutputRoom {
    fn new(bytes: u32) -> Self {
        let units = bytes / UNIT_BYTES;
        let free = Semaphore::new(units as usize);
        Self { units: AtomicU32::new(units), free, held: Arc::default() }
    }

    /// Gives the room `bytes`, at most 64 MiB. What calls have taken they keep.
    pub fn resize(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(UNIT_BYTES, ROOM_BYTES);
        let units = bytes / UNIT_BYTES;
        let before = self.units.swap(units, Ordering::Relaxed);
        if units > before {
            self.free.add_permits((units - before) as usize);
            return;
        }
        let excess = (before - units) as usize;
        let taken = excess - self.free.forget_permits(excess);
        // These stay until the server starts again.
        self.units.fetch_add(u32::try_from(taken).unwrap_or(0), Ordering::Relaxed);
    }

    /// Bytes that calls with room hold, for the memory account of the server.
    pub const fn held(&self) -> &Arc<SharedCounter> {
        &self.held
    }

    async fn take(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES as usize)).unwrap_or(u32::MAX);
        // A call that may have more than all the room has it alone.
        self.free.acquire_many(units.min(self.units.load(Ordering::Relaxed))).await.ok()
    }
}

impl Default for OutputRoom {
    fn default() -> Self {
        Self::new(ROOM_BYTES)
    }
}

impl fmt::Debug for OutputRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OutputRoom").field("held", &self.held).finish_non_exhaustive()
    }
}

/// What one call may hold.
pub struct CallRoom<'r> {
    bytes_max: usize,
    room: &'r OutputRoom,
    taken: OnceCell<Option<SemaphorePermit<'r>>>,
    /// The part of [`OutputRoom::held`].
    counted: AtomicUsize,
    is_waiting: AtomicBool,
}

impl<'r> CallRoom<'r> {
    /// The part of a call that may hold `bytes_max` bytes.
    pub fn new(room: &'r OutputRoom, bytes_max: usize) -> Self {
        let (counted, is_waiting) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { bytes_max, room, taken: OnceCell::new(), counted, is_waiting }
    }

    /// Whether the call waits for room, or has waited for it until it was ended.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Bytes of output that the call may have.
    pub const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Waits until the call may hold `bytes` bytes.
    pub async fn grow(&self, bytes: usize) {
        if bytes > FREE_BYTES {
            if !self.taken.initialized() {
                self.is_waiting.store(true, Ordering::Relaxed);
                self.taken.get_or_init(|| self.room.take(self.bytes_max)).await;
                self.is_waiting.store(false, Ordering::Relaxed);
            }
            self.room.held.adjust(self.counted.swap(bytes, Ordering::Relaxed), bytes);
        }
    }
}

impl Drop for CallRoom<'_> {
    fn drop(&mut self) {
        self.room.held.adjust(*self.counted.get_mut(), 0);
    }
}

impl fmt::Debug for CallRoom<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallRoom").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    const KIB: usize = 1 << 10;

    /// Whether `future` waits when it is polled once.
    async fn waits(future: impl Future<Output = ()>) -> bool {
        let mut future = pin!(future);
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn small_outputs_need_no_room() {
        let room = OutputRoom::new(100 << 10);
        let (large, small) = (CallRoom::new(&room, 100 * KIB), CallRoom::new(&room, 70 * KIB));
        large.grow(FREE_BYTES + 1).await;
        assert_eq!(room.held().count(), FREE_BYTES + 1);
        assert!(!waits(small.grow(FREE_BYTES)).await);
        assert!(waits(small.grow(FREE_BYTES + 1)).await);
        large.grow(90 * KIB).await;
        assert_eq!(room.held().count(), 90 * KIB);
        drop(large);
        assert!(!waits(small.grow(FREE_BYTES + 1)).await);
        assert_eq!(room.held().count(), FREE_BYTES + 1);
        drop(small);
        assert_eq!(room.held().count(), 0);
    }

    #[tokio::test]
    async fn room_is_resized_while_calls_have_it() {
        let room = OutputRoom::new(200 << 10);
        let (large, other) = (CallRoom::new(&room, 100 * KIB), CallRoom::new(&room, 100 * KIB));
        large.grow(FREE_BYTES + 1).await;
        room.resize(100 << 10);
        assert!(waits(other.grow(FREE_BYTES + 1)).await);
        assert!(other.is_waiting() && !large.is_waiting());
        room.resize(1 << 30);
        assert!(!waits(other.grow(FREE_BYTES + 1)).await);
        assert!(!other.is_waiting());
    }

    #[tokio::test]
    async fn output_beyond_all_room_has_it_alone() {
        let room = OutputRoom::new(100 << 10);
        let (large, other) = (CallRoom::new(&room, 1 << 30), CallRoom::new(&room, 65 * KIB));
        large.grow(200 * KIB).await;
        assert_eq!(room.held().count(), 200 * KIB);
        assert!(waits(other.grow(FREE_BYTES + 1)).await);
    }
}
