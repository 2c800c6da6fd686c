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

mod tracked_future;

#[cfg(all(target_os = "linux", feature = "glommio"))]
pub mod glommio;
pub mod native;
pub mod thread_group;

use std::pin::Pin;

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
