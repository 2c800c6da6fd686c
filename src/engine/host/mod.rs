//! The hosts: who runs a shard's thread and the futures of its local handlers.
//!
//! [`native`] is a small executor of our own in the shard's turn; `glommio` runs the shard as a
//! task among others on a glommio executor. A handler's future sees no difference but what it may
//! use: on `glommio` also that executor's files, timers and channels. [`crew`] starts the pinned
//! threads for either.
//!
//! What every host keeps true:
//!
//! - A future runs and is dropped on the thread that spawned it, whoever wakes it.
//! - A future that panics ends; the shard, its connections and its other futures go on.
//! - A future that is woken while its shard has parked wakes the shard; while the shard is awake a
//!   wake costs no system call.
//! - Dropping a host drops its futures.

mod guest;

pub mod crew;
#[cfg(all(target_os = "linux", feature = "glommio"))]
pub mod glommio;
pub mod native;

use std::pin::Pin;

pub use self::native::Native;

/// A future of a local handler. It stays on its shard, so it need not be [`Send`].
pub type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What runs the local futures of one shard.
pub trait Host {
    /// Runs `future` on this thread from the next [`Host::run_ready`] on, until it ends or its
    /// [`Task`] is dropped. Cost: one allocation.
    fn spawn(&self, future: LocalFuture) -> Task;

    /// Runs futures that are ready, at most `futures_max` of them; `true` where more are ready
    /// and the shard must not park before they have run.
    fn run_ready(&self, futures_max: usize) -> bool;

    /// Announces that the shard is about to park; `false` where a future became ready meanwhile,
    /// so that it must not. Belongs into [`crate::engine::shard::Driver::prepare_park`].
    fn prepare_park(&self) -> bool;

    /// Futures that have been spawned and have not been dropped.
    fn alive(&self) -> usize;

    /// Futures that have ended in a panic since the start.
    fn panicked(&self) -> u64;
}

/// A running future. Dropping it cancels: the future is dropped on its own thread, at once or in
/// the next [`Host::run_ready`].
#[derive(Debug)]
#[must_use = "a task that is dropped is cancelled"]
pub struct Task(Running);

#[derive(Debug)]
enum Running {
    Native(async_task::Task<()>),
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    Glommio(::glommio::Task<()>),
}

impl Task {
    /// Lets the future run to its end with nobody to cancel it.
    pub fn detach(self) {
        match self.0 {
            Running::Native(task) => task.detach(),
            #[cfg(all(target_os = "linux", feature = "glommio"))]
            Running::Glommio(task) => drop(task.detach()),
        }
    }
}
