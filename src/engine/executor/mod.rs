//! Executors: what runs a shard's thread and the futures of its local handlers.
//!
//! [`native`] is a small executor that runs within the turns of the shard loop; `glommio` runs the
//! shard as a task of a glommio executor, whose files, timers and channels handlers may then use.
//! [`thread_group`] starts the pinned threads for either.
//!
//! Invariants of every executor:
//!
//! - A future is polled and dropped on the thread that spawned it, whichever thread wakes it.
//! - A panic ends only its future.
//! - Waking a future wakes its shard if that has parked; otherwise it costs no system call.
//! - Dropping an executor drops its futures.
//!
//! Each executor wraps the futures of local handlers: counted, cancellable, with panics contained.
//! The registry counts a future from its creation until it has been dropped, and holds a waker of
//! every one that was polled; a panic while polling or dropping a future is contained after the
//! panic hook of the process has reported it.

#[cfg(all(target_os = "linux", feature = "glommio"))]
pub mod glommio;
pub mod native;
pub mod thread_group;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use corelane_base::slab::{Key, Slab};

pub use self::native::NativeExecutor;

/// A future of a local handler. It stays on its shard, so it need not be [`Send`].
pub type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Runs the local futures of one shard.
pub trait Executor {
    /// Spawns `future` on this thread; it is first polled by the next [`Executor::poll_futures`]
    /// and ends when it completes or its [`Task`] is dropped. Cost: one allocation.
    fn spawn(&self, future: LocalFuture) -> Task;

    /// Polls at most `futures_max` ready futures; returns whether more are ready, so that the shard
    /// must not park.
    fn poll_futures(&self, futures_max: usize) -> bool;

    /// Announces that the shard is about to park. Returns `false`, so that it must not park, if a
    /// future is ready. Called from [`crate::shard_loop::Driver::prepare_park`].
    fn prepare_park(&self) -> bool;

    /// Returns the number of futures that have been spawned and not dropped.
    fn live_futures(&self) -> usize;

    /// Returns the number of futures that have panicked since start.
    fn panicked(&self) -> u64;
}

/// A handle to a spawned future. Dropping it cancels the future, which is dropped on its own
/// thread, at once or in the next [`Executor::poll_futures`].
#[derive(Debug)]
#[must_use = "dropping a task cancels it"]
pub struct Task(TaskHandle);

#[derive(Debug)]
enum TaskHandle {
    Native(async_task::Task<()>),
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    Glommio(::glommio::Task<()>),
}

impl Task {
    /// Lets the future run to completion without a handle.
    pub fn detach(self) {
        match self.0 {
            TaskHandle::Native(task) => task.detach(),
            #[cfg(all(target_os = "linux", feature = "glommio"))]
            TaskHandle::Glommio(task) => drop(task.detach()),
        }
    }
}

/// The live futures of one executor.
#[derive(Debug)]
struct FutureRegistry {
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
    fn live_futures(&self) -> usize {
        self.wakers.borrow().len()
    }

    /// Returns the number of futures that have panicked.
    const fn panicked(&self) -> u64 {
        self.panicked.get()
    }

    /// Makes every future end: each is dropped when it is next polled.
    fn close(&self) {
        self.is_closing.set(true);
        let wakers: Vec<_> = self.wakers.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Returns whether a future has run since the last call; if not, `waker` is woken when one has.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    fn poll_progress(&self, waker: &Waker) -> bool {
        let moved = self.has_progress.take();
        *self.progress_waker.borrow_mut() = (!moved).then(|| waker.clone());
        moved
    }

    /// Marks all progress so far as seen.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    fn clear_progress(&self) {
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

struct TrackedFuture {
    /// `None` once it has been dropped.
    future: Option<LocalFuture>,
    key: Key,
    registry: Rc<FutureRegistry>,
}

impl TrackedFuture {
    fn new(future: LocalFuture, register: &Rc<FutureRegistry>) -> Self {
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
