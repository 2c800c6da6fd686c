//! The glommio host: a shard as one task of a glommio executor.
//!
//! Handlers' futures are glommio tasks and may use that executor's files, timers and channels. Two
//! entries: [`run`] for a thread that exists for its shard ([`enter`] makes it one), [`run_here`]
//! for a program that lives on glommio already.
//!
//! ```text
//!             no local future alive                 local futures alive, or `run_here`
//!             park in the ring itself               turn without patience; then wait for
//!             (as the native host does)             the bell, the deadline, or a future's step
//! ```
//!
//! What it keeps true: the shard takes a turn after its futures have run and before the executor
//! sleeps; whatever ends a park of the ring ends the wait.
//!
//! What it does not do: with [`run`], see tasks that a handler gave to the executor behind the
//! host's back. They stand still while no future of the host is alive and nothing arrives.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ::glommio::timer::Timer;
use ::glommio::{LocalExecutorBuilder, Placement, executor, spawn_local};

use super::guest::{Guest, Register};
use super::{Host, LocalFuture, Running, Task};
use crate::base::time::Moment;
use crate::engine::mesh::bell::Bell;
use crate::engine::ring::{Patience, Ring};
use crate::engine::shard::{Driver, Shard, Turn};

/// The futures of one shard, as tasks of the calling thread's executor.
#[derive(Debug, Default)]
pub struct Glommio {
    register: Rc<Register>,
    /// Whether the present turn may park in the ring, where no task of the executor runs.
    parks_in_ring: Cell<bool>,
}

impl Glommio {
    /// A host without futures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops every future that is still alive, on the executor's next round.
    async fn close(&self) {
        self.register.close();
        while self.alive() > 0 {
            executor().yield_task_queue_now().await;
        }
    }
}

impl Host for Glommio {
    fn spawn(&self, future: LocalFuture) -> Task {
        Task(Running::Glommio(spawn_local(Guest::new(future, &self.register))))
    }

    /// Nothing: the executor runs them between two turns.
    fn run_ready(&self, _futures_max: usize) -> bool {
        false
    }

    fn prepare_park(&self) -> bool {
        !self.parks_in_ring.get() || self.alive() == 0
    }

    fn alive(&self) -> usize {
        self.register.alive()
    }

    fn panicked(&self) -> u64 {
        self.register.panicked()
    }
}

impl Drop for Glommio {
    fn drop(&mut self) {
        self.register.close();
    }
}

/// Makes the calling thread a glommio executor for as long as `live` takes. `live` builds a shard
/// with the host that it is given and passes it to [`run`]. Futures that are alive when it returns
/// are dropped.
///
/// # Errors
///
/// Where the executor cannot be built, and those of `live`.
///
/// # Panics
///
/// Where the thread is an executor already.
pub fn enter<T, F>(live: impl FnOnce(Rc<Glommio>) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    // The thread has been pinned by whoever started it.
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make().map_err(|error| {
        io::Error::other(format!(
            "cannot build a glommio executor: {error}; raise the limit of locked memory \
             (ulimit -l) or use the native executor"
        ))
    })?;
    executor.run(async {
        let host = Rc::new(Glommio::new());
        let result = live(Rc::clone(&host)).await;
        host.close().await;
        result
    })
}

/// Runs a shard until its driver has drained. Blocks the executor while no future of `host` is
/// alive: for threads that exist for their shard.
///
/// # Errors
///
/// Where the shard's ring cannot call an executor (only `io_uring` can).
pub async fn run<R: Ring, D: Driver<R>>(shard: &mut Shard<R, D>, host: &Glommio) -> io::Result<()> {
    drive(shard, host, true).await
}

/// Runs a shard until its driver has drained, never blocking the executor: for programs with
/// tasks of their own on this thread. Costs a tenth to a fifth more than [`run`] (measured with an
/// echo over 64 to 1,000 connections).
///
/// # Errors
///
/// As [`run`].
pub async fn run_here<R: Ring, D: Driver<R>>(
    shard: &mut Shard<R, D>,
    host: &Glommio,
) -> io::Result<()> {
    drive(shard, host, false).await
}

async fn drive<R: Ring, D: Driver<R>>(
    shard: &mut Shard<R, D>,
    host: &Glommio,
    may_park_in_ring: bool,
) -> io::Result<()> {
    let bell = Bell::hang(shard.ring_mut()).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("this ring cannot call glommio ({error}): use io_uring or the native executor"),
        )
    })?;
    let mut waits = Waits { bell, alarm: None };
    let result = turn_and_wait(shard, host, may_park_in_ring, &mut waits).await;
    waits.bell.close().await;
    result
}

async fn turn_and_wait<R: Ring, D: Driver<R>>(
    shard: &mut Shard<R, D>,
    host: &Glommio,
    may_park_in_ring: bool,
    waits: &mut Waits,
) -> io::Result<()> {
    loop {
        let parks_in_ring = may_park_in_ring && host.alive() == 0;
        host.parks_in_ring.set(parks_in_ring);
        // What futures did so far is seen by this turn.
        host.register.forget_moves();
        let patience = if parks_in_ring { Patience::Forever } else { Patience::None };
        if shard.turn(patience) == Turn::Finished {
            return Ok(());
        }
        if parks_in_ring && host.alive() == 0 {
            continue;
        }
        if shard.is_idle() && !parks_in_ring {
            waits.wait(&host.register, shard.driver().deadline(), shard.now()).await?;
        } else {
            // There is more to do at once, but others first, and the executor's own ring.
            executor().yield_task_queue_now().await;
        }
    }
}

/// What a shard waits for outside its ring.
struct Waits {
    bell: Bell,
    /// A timer that runs, and when it ends. It is kept over waits that end for other reasons: one
    /// that comes too early costs a turn, setting it anew would cost that each time.
    alarm: Option<(Moment, Timer)>,
}

impl Waits {
    /// Waits until the ring calls, `deadline` comes or a future has run.
    async fn wait(
        &mut self,
        register: &Register,
        deadline: Option<Moment>,
        now: Moment,
    ) -> io::Result<()> {
        if let Some(deadline) = deadline
            && self.alarm.as_ref().is_none_or(|(end, _)| *end > deadline)
        {
            self.alarm = Some((deadline, Timer::new(deadline.since(now))));
        }
        poll_fn(|context| {
            if register.has_moved(context.waker()) {
                return Poll::Ready(Ok(()));
            }
            if let Some((_, timer)) = &mut self.alarm
                && Pin::new(timer).poll(context).is_ready()
            {
                self.alarm = None;
                return Poll::Ready(Ok(()));
            }
            self.bell.poll(context)
        })
        .await
    }
}
