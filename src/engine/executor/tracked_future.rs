//! Wraps the futures of local handlers: counted, cancellable, with panics contained.
//!
//! Invariants: the registry counts a future from its creation until it has been dropped, and holds
//! a waker of every one that was polled; a panic while polling or dropping a future is contained
//! here, after the process's panic hook has reported it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::LocalFuture;
use corelane_base::slab::{Key, Slab};

/// The live futures of one executor.
#[derive(Debug)]
pub(super) struct FutureRegistry {
    /// The waker of each future; `None` before the first poll.
    wakers: RefCell<Slab<Option<Waker>>>,
    panicked: Cell<u64>,
    is_closing: Cell<bool>,
    /// Whether a future has run since the last check.
    has_progress: Cell<bool>,
    /// Woken when a future has run.
    progress_waker: RefCell<Option<Waker>>,
}

impl Default for FutureRegistry {
    fn default() -> Self {
        Self {
            wakers: RefCell::new(Slab::new(usize::MAX)),
            panicked: Cell::new(0),
            is_closing: Cell::new(false),
            has_progress: Cell::new(false),
            progress_waker: RefCell::new(None),
        }
    }
}

impl FutureRegistry {
    /// Returns the number of futures that have not been dropped.
    pub(super) fn live_futures(&self) -> usize {
        self.wakers.borrow().len()
    }

    /// Returns the number of futures that have panicked.
    pub(super) const fn panicked(&self) -> u64 {
        self.panicked.get()
    }

    /// Makes every future end: each is dropped when it is next polled.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
        let wakers: Vec<_> = self.wakers.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Returns whether a future has run since the last call; if not, `waker` is woken when one has.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    pub(super) fn poll_progress(&self, waker: &Waker) -> bool {
        let moved = self.has_progress.take();
        *self.progress_waker.borrow_mut() = (!moved).then(|| waker.clone());
        moved
    }

    /// Marks all progress so far as seen.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    pub(super) fn clear_progress(&self) {
        self.has_progress.set(false);
    }

    /// Records that a future has run.
    fn notify_progress(&self) {
        self.has_progress.set(true);
        let waker = self.progress_waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Runs `f`; returns `None` if it panicked.
    fn catch_panic<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        // The future is not used again after a panic; state that it shares with others must be
        // consistent at every await point.
        let result = catch_unwind(AssertUnwindSafe(f));
        if result.is_err() {
            self.panicked.set(self.panicked.get() + 1);
        }
        result.ok()
    }
}

pub(super) struct TrackedFuture {
    /// `None` once it has been dropped.
    future: Option<LocalFuture>,
    key: Key,
    registry: Rc<FutureRegistry>,
}

impl TrackedFuture {
    pub(super) fn new(future: LocalFuture, register: &Rc<FutureRegistry>) -> Self {
        let Ok(key) = register.wakers.borrow_mut().insert(None) else {
            unreachable!("fewer than 2^32 futures fit into memory");
        };
        Self { future: Some(future), key, registry: Rc::clone(register) }
    }

    fn store_waker(&self, waker: &Waker) {
        if let Some(entry) = self.registry.wakers.borrow_mut().get_mut(self.key) {
            entry.get_or_insert_with(|| waker.clone());
        }
    }

    fn drop_future(&mut self) {
        if let Some(future) = self.future.take() {
            self.registry.catch_panic(|| drop(future));
            let waker = self.registry.wakers.borrow_mut().remove(self.key);
            // Dropped while the slab is not borrowed: dropping a waker may run arbitrary code.
            drop(waker);
            self.registry.notify_progress();
        }
    }
}

impl Future for TrackedFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<()> {
        self.store_waker(ctx.waker());
        let Self { future: Some(future), registry: register, .. } = &mut *self else {
            return Poll::Ready(());
        };
        if !register.is_closing.get() {
            let polled = register.catch_panic(|| future.as_mut().poll(ctx));
            register.notify_progress();
            if polled == Some(Poll::Pending) {
                return Poll::Pending;
            }
        }
        self.drop_future();
        Poll::Ready(())
    }
}

impl Drop for TrackedFuture {
    fn drop(&mut self) {
        self.drop_future();
    }
}
