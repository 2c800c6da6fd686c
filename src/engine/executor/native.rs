//! The native executor: a run queue polled by the shard loop.
//!
//! A future that is woken on its own thread is queued locally. One that is woken on another thread
//! (such as by a channel from a helper thread) is queued in a concurrent queue. Both wake the ring
//! if the shard has parked; on its own thread that is a shard which shares it with other tasks.
//!
//! Invariants: futures are never dropped on another thread. Dropping the executor wakes all its
//! futures and drops what is scheduled, until none is alive.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_task::Runnable;
use crossbeam::queue::SegQueue;

use super::{Executor, FutureRegistry, LocalFuture, Task, TaskHandle, TrackedFuture};
use crate::mesh::event_count::EventCount;
use crate::ring::{ParkTimeout, Ring, Waker};
use crate::shard_loop::{Driver, ShardLoop, TurnStatus};

/// Runs a shard on the calling thread until its driver has drained. An idle shard waits in the
/// kernel and uses no CPU time.
pub fn run_shard<R: Ring, D: Driver<R>>(shard: &mut ShardLoop<R, D>) {
    while shard.run_turn(ParkTimeout::Infinite) == TurnStatus::Continue {}
}

/// Runs the futures of one shard in its turns.
#[derive(Debug)]
pub struct NativeExecutor {
    local: Rc<LocalQueue>,
    remote: Arc<RemoteQueue>,
    futures: Rc<FutureRegistry>,
}

impl NativeExecutor {
    /// Creates an executor on the calling thread, for the shard whose ring is behind `waker`.
    pub fn new(waker: Waker) -> Self {
        // Relaxed: only uniqueness matters.
        let id = NEXT_EXECUTOR_ID.fetch_add(1, Ordering::Relaxed);
        let local = Rc::new(LocalQueue::default());
        LOCAL_QUEUES.with_borrow_mut(|queues| queues.push((id, Rc::clone(&local))));
        let (runnables, parking) = (SegQueue::new(), EventCount::new());
        Self {
            local,
            remote: Arc::new(RemoteQueue {
                executor_id: id,
                runnables,
                event_count: parking,
                waker,
            }),
            futures: Rc::default(),
        }
    }

    /// Moves futures woken by other threads to the end of the local queue.
    fn drain_remote(&self) {
        // Checked first: an empty pop costs a fence.
        while !self.remote.runnables.is_empty() {
            if let Some(runnable) = self.remote.runnables.pop() {
                self.local.runnables.borrow_mut().push_back(runnable);
            }
        }
    }
}

impl Executor for NativeExecutor {
    fn spawn(&self, future: LocalFuture) -> Task {
        let future = TrackedFuture::new(future, &self.futures);
        let outside = Arc::clone(&self.remote);
        let schedule = move |runnable| outside.schedule(runnable);
        let (runnable, task) = async_task::spawn_local(future, schedule);
        runnable.schedule();
        Task(TaskHandle::Native(task))
    }

    fn poll_futures(&self, futures_max: usize) -> bool {
        if self.local.is_parked.take() {
            self.remote.event_count.cancel_wait();
        }
        self.drain_remote();
        for _ in 0..futures_max {
            // A separate statement ends the borrow: the future may wake others.
            let runnable = self.local.runnables.borrow_mut().pop_front();
            let Some(runnable) = runnable else { return false };
            runnable.run();
        }
        !self.local.runnables.borrow().is_empty()
    }

    fn prepare_park(&self) -> bool {
        if self.live_futures() == 0 {
            return true;
        }
        self.remote.event_count.prepare_wait();
        let parks = self.local.runnables.borrow().is_empty() && self.remote.runnables.is_empty();
        if !parks {
            self.remote.event_count.cancel_wait();
        }
        self.local.is_parked.set(parks);
        parks
    }

    fn live_futures(&self) -> usize {
        self.futures.live_futures()
    }

    fn panicked(&self) -> u64 {
        self.futures.panicked()
    }
}

impl Drop for NativeExecutor {
    fn drop(&mut self) {
        while self.live_futures() > 0 {
            self.futures.close();
            self.drain_remote();
            let runnables = std::mem::take(&mut *self.local.runnables.borrow_mut());
            if runnables.is_empty() {
                // Another thread is between waking a future and queueing it.
                std::thread::yield_now();
            }
            // Dropping a runnable drops its future.
            drop(runnables);
        }
        let id = self.remote.executor_id;
        // The thread-local is gone if the thread is ending.
        LOCAL_QUEUES
            .try_with(|queues| queues.borrow_mut().retain(|queue| queue.0 != id))
            .unwrap_or_default();
    }
}

/// The part of an executor that wakers use from any thread.
#[derive(Debug)]
struct RemoteQueue {
    executor_id: u64,
    runnables: SegQueue<Runnable>,
    event_count: EventCount,
    waker: Waker,
}

impl RemoteQueue {
    fn schedule(&self, runnable: Runnable) {
        let mut runnable = Some(runnable);
        // The thread-local is gone if this thread is ending.
        LOCAL_QUEUES
            .try_with(|queues| {
                let queues = queues.borrow();
                if let Some((_, queue)) = queues.iter().find(|queue| queue.0 == self.executor_id) {
                    queue.runnables.borrow_mut().extend(runnable.take());
                    // A shard may share its thread with other tasks, which wake its futures.
                    if queue.is_parked.get() {
                        self.waker.wake();
                    }
                }
            })
            .unwrap_or_default();
        if let Some(runnable) = runnable {
            self.runnables.push(runnable);
            if self.event_count.wake() {
                self.waker.wake();
            }
        }
    }
}

/// The run queue of an executor.
#[derive(Debug, Default)]
struct LocalQueue {
    runnables: RefCell<VecDeque<Runnable>>,
    /// The shard has announced that it parks.
    is_parked: Cell<bool>,
}

static NEXT_EXECUTOR_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The run queues of the executors on this thread: one, or several in the simulator.
    static LOCAL_QUEUES: RefCell<Vec<(u64, Rc<LocalQueue>)>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::AtomicUsize;
    use std::task::{self, Poll};

    use super::*;

    fn executor() -> (NativeExecutor, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        let waker = Waker::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (NativeExecutor::new(waker), wakes)
    }

    /// A future that is pending once, after storing its waker in `slot`.
    fn sleep_once(slot: &Rc<RefCell<Option<task::Waker>>>) -> LocalFuture {
        let slot = Rc::clone(slot);
        let mut polled = false;
        Box::pin(poll_fn(move |ctx| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            *slot.borrow_mut() = Some(ctx.waker().clone());
            Poll::Pending
        }))
    }

    #[test]
    fn futures_run_in_order_within_the_bound() {
        let (executor, _) = executor();
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..5 {
            let order = Rc::clone(&order);
            executor.spawn(Box::pin(async move { order.borrow_mut().push(number) })).detach();
        }
        assert!(executor.poll_futures(2));
        assert_eq!(*order.borrow(), [0, 1]);
        assert!(!executor.poll_futures(10));
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
        assert_eq!(executor.live_futures(), 0);
    }

    #[test]
    fn dropped_task_drops_its_future() {
        let (executor, _) = executor();
        let probe = Rc::new(());
        let held = Rc::clone(&probe);
        let task = executor.spawn(Box::pin(async move {
            pending::<()>().await;
            drop(held);
        }));
        assert!(!executor.poll_futures(10));
        assert_eq!((executor.live_futures(), Rc::strong_count(&probe)), (1, 2));
        drop(task);
        assert!(!executor.poll_futures(10));
        assert_eq!((executor.live_futures(), Rc::strong_count(&probe)), (0, 1));
    }

    #[test]
    fn panic_ends_only_its_future() {
        let (executor, _) = executor();
        let reached = Rc::new(Cell::new(false));
        let mark = Rc::clone(&reached);
        executor.spawn(Box::pin(async { panic!("on purpose") })).detach();
        executor.spawn(Box::pin(async move { mark.set(true) })).detach();
        assert!(!executor.poll_futures(10));
        assert!(reached.get());
        assert_eq!((executor.live_futures(), executor.panicked()), (0, 1));
    }

    #[test]
    fn local_wake_wakes_ring_only_when_parked() {
        let (executor, wakes) = executor();
        let slot = Rc::default();
        executor.spawn(sleep_once(&slot)).detach();
        assert!(!executor.poll_futures(10));
        assert!(executor.prepare_park());
        slot.borrow_mut().take().unwrap().wake();
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(!executor.prepare_park());
        assert!(!executor.poll_futures(10));
        assert_eq!(executor.live_futures(), 0);
        executor.spawn(sleep_once(&slot)).detach();
        assert!(!executor.poll_futures(10));
        slot.borrow_mut().take().unwrap().wake();
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "it has not parked");
    }

    #[test]
    fn remote_wakes_wake_a_parked_ring_once() {
        let (executor, wakes) = executor();
        let slots = [Rc::default(), Rc::default(), Rc::default()];
        for slot in &slots {
            executor.spawn(sleep_once(slot)).detach();
        }
        assert!(!executor.poll_futures(10));
        let elsewhere = |slot: &Rc<RefCell<Option<task::Waker>>>| {
            let waker = slot.borrow_mut().take().unwrap();
            std::thread::spawn(move || waker.wake()).join().unwrap();
        };
        elsewhere(&slots[0]);
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        assert!(!executor.prepare_park());
        assert!(!executor.poll_futures(10));
        assert!(executor.prepare_park());
        elsewhere(&slots[1]);
        elsewhere(&slots[2]);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(!executor.poll_futures(10));
        assert_eq!(executor.live_futures(), 0);
    }

    #[test]
    fn dropped_executor_drops_futures_wakers_stay_valid() {
        let (executor, _) = executor();
        let (slot, probe) = (Rc::default(), Rc::new(()));
        let (sleep, held) = (sleep_once(&slot), Rc::clone(&probe));
        executor
            .spawn(Box::pin(async move {
                sleep.await;
                drop(held);
            }))
            .detach();
        executor.spawn(Box::pin(pending())).detach();
        assert!(!executor.poll_futures(10));
        drop(executor);
        assert_eq!(Rc::strong_count(&probe), 1);
        let waker: task::Waker = slot.borrow_mut().take().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
    }

    #[test]
    fn two_executors_on_one_thread_are_independent() {
        let ((one, _), (two, _)) = (executor(), executor());
        let ran = Rc::new(Cell::new(0));
        let mark = Rc::clone(&ran);
        two.spawn(Box::pin(async move { mark.set(2) })).detach();
        assert!(!one.poll_futures(10));
        assert_eq!(ran.get(), 0);
        assert!(!two.poll_futures(10));
        assert_eq!(ran.get(), 2);
    }
}
