//! Runs a shard as a task of a glommio executor.
//!
//! Handlers' futures are glommio tasks and may use the executor's files, timers and channels.
//! [`run_shard`] is for a thread that exists for its shard (see [`enter_executor`]),
//! [`run_shard_cooperatively`] for programs with other glommio tasks on the thread.
//!
//! ```text
//!             no local future alive                 local futures alive, or cooperative
//!             park in the ring itself               turn with a zero timeout; then wait for
//!             (as the native executor does)         the eventfd, the deadline or a future
//! ```
//!
//! Invariants: the shard runs a turn after its futures have run and before the executor sleeps;
//! whatever ends a park of the ring ends the wait.
//!
//! [`run_shard`] does not see tasks that a handler spawned on the executor directly: they stand
//! still while no local future is alive and nothing arrives.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ::glommio::timer::Timer;
use ::glommio::{LocalExecutorBuilder, Placement, executor, spawn_local};

use super::{Executor, FutureRegistry, LocalFuture, Task, TaskHandle, TrackedFuture};
use crate::mesh::eventfd_waker::EventFdWaker;
use crate::ring::{ParkTimeout, Ring};
use crate::shard_loop::{Driver, ShardLoop, TurnStatus};
use corelane_base::time::Instant;

/// Runs the futures of one shard as tasks of the calling thread's glommio executor.
#[derive(Debug, Default)]
pub struct GlommioExecutor {
    futures: Rc<FutureRegistry>,
    /// Whether this turn may park in the ring, which stops all tasks of the executor.
    parks_in_ring: Cell<bool>,
}

impl GlommioExecutor {
    /// Creates an executor without futures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all remaining futures, when glommio next runs their tasks.
    async fn close(&self) {
        self.futures.close();
        while self.live_futures() > 0 {
            executor().yield_task_queue_now().await;
        }
    }
}

impl Executor for GlommioExecutor {
    fn spawn(&self, future: LocalFuture) -> Task {
        Task(TaskHandle::Glommio(spawn_local(TrackedFuture::new(future, &self.futures))))
    }

    /// Does nothing: glommio runs the futures between two turns.
    fn poll_futures(&self, _futures_max: usize) -> bool {
        false
    }

    fn prepare_park(&self) -> bool {
        !self.parks_in_ring.get() || self.live_futures() == 0
    }

    fn live_futures(&self) -> usize {
        self.futures.live_futures()
    }

    fn panicked(&self) -> u64 {
        self.futures.panicked()
    }
}

impl Drop for GlommioExecutor {
    fn drop(&mut self) {
        self.futures.close();
    }
}

/// Makes the calling thread a glommio executor while `run` is running. `run` builds a shard with
/// the given executor and passes it to [`run_shard`]. Futures that are alive when it returns are
/// dropped.
///
/// # Errors
///
/// If the executor cannot be built, or the error of `run`.
///
/// # Panics
///
/// If the thread is a glommio executor already.
pub fn enter_executor<T, F>(run: impl FnOnce(Rc<GlommioExecutor>) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    // The calling thread is pinned already.
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make().map_err(|error| {
        io::Error::other(format!(
            "cannot build a glommio executor: {error}; raise the locked memory limit (ulimit -l) \
             or use the native executor"
        ))
    })?;
    executor.run(async {
        let executor = Rc::new(GlommioExecutor::new());
        let result = run(Rc::clone(&executor)).await;
        executor.close().await;
        result
    })
}

/// Runs a shard until its driver has drained. Blocks the thread while no future of `executor` is
/// alive: for threads that exist for their shard.
///
/// # Errors
///
/// If the shard's ring does not support eventfds (only `io_uring` does).
pub async fn run_shard<R: Ring, D: Driver<R>>(
    shard: &mut ShardLoop<R, D>,
    executor: &GlommioExecutor,
) -> io::Result<()> {
    drive_shard(shard, executor, true).await
}

/// Runs a shard until its driver has drained, without blocking the thread: for programs with other
/// tasks on it. Costs 10 to 20 % more than [`run_shard`] (measured with an echo over 64 to 1,000
/// connections).
///
/// # Errors
///
/// As for [`run_shard`].
pub async fn run_shard_cooperatively<R: Ring, D: Driver<R>>(
    shard: &mut ShardLoop<R, D>,
    executor: &GlommioExecutor,
) -> io::Result<()> {
    drive_shard(shard, executor, false).await
}

async fn drive_shard<R: Ring, D: Driver<R>>(
    shard: &mut ShardLoop<R, D>,
    futures: &GlommioExecutor,
    may_park_in_ring: bool,
) -> io::Result<()> {
    let eventfd = EventFdWaker::register(shard.ring_mut()).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("this ring cannot wake glommio ({error}): use io_uring or the native executor"),
        )
    })?;
    let mut waits = WaitSources { eventfd, timer: None };
    let result = run_turns(shard, futures, may_park_in_ring, &mut waits).await;
    waits.eventfd.close().await;
    result
}

async fn run_turns<R: Ring, D: Driver<R>>(
    shard: &mut ShardLoop<R, D>,
    futures: &GlommioExecutor,
    may_park_in_ring: bool,
    waits: &mut WaitSources,
) -> io::Result<()> {
    loop {
        let parks_in_ring = may_park_in_ring && futures.live_futures() == 0;
        futures.parks_in_ring.set(parks_in_ring);
        // This turn sees everything that futures did so far.
        futures.futures.clear_progress();
        let timeout = if parks_in_ring { ParkTimeout::Infinite } else { ParkTimeout::Zero };
        if shard.run_turn(timeout) == TurnStatus::Finished {
            return Ok(());
        }
        if parks_in_ring && futures.live_futures() == 0 {
            continue;
        }
        if shard.is_idle() && !parks_in_ring {
            waits.wait(&futures.futures, shard.next_deadline(), shard.now()).await?;
        } else {
            // There is more work, but other tasks and glommio's own ring go first.
            executor().yield_task_queue_now().await;
        }
    }
}

/// What a shard waits for outside its ring.
struct WaitSources {
    eventfd: EventFdWaker,
    /// The running timer and its deadline. It is retained over waits that end for other reasons: a
    /// timer that fires early costs a turn, resetting it would cost that each time.
    timer: Option<(Instant, Timer)>,
}

impl WaitSources {
    /// Waits until the eventfd is signalled, `deadline` passes or a future has run.
    async fn wait(
        &mut self,
        register: &FutureRegistry,
        deadline: Option<Instant>,
        now: Instant,
    ) -> io::Result<()> {
        if let Some(deadline) = deadline
            && self.timer.as_ref().is_none_or(|(end, _)| *end > deadline)
        {
            self.timer = Some((deadline, Timer::new(deadline.since(now))));
        }
        poll_fn(|ctx| {
            if register.poll_progress(ctx.waker()) {
                return Poll::Ready(Ok(()));
            }
            if let Some((_, timer)) = &mut self.timer
                && Pin::new(timer).poll(ctx).is_ready()
            {
                self.timer = None;
                return Poll::Ready(Ok(()));
            }
            self.eventfd.poll(ctx)
        })
        .await
    }
}
