//! The native host: a run queue inside the shard's turn, and the loop of a shard's thread.
//!
//! A future that is woken on its own thread goes to a plain queue. One that is woken elsewhere (a
//! channel from a helper thread, say) goes to a concurrent one, and the ring is woken if the shard
//! has parked.
//!
//! What it keeps true: runnables never end on a foreign thread. When the host is dropped it wakes
//! every future it still has and drops what comes back, until none is alive.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_task::Runnable;
use crossbeam::queue::SegQueue;

use super::guest::{Guest, Register};
use super::{Host, LocalFuture, Running, Task};
use crate::engine::mesh::parking::Parking;
use crate::engine::ring::{Patience, Ring, Waker};
use crate::engine::shard::{Driver, Shard, Turn};

/// Runs a shard on the calling thread until its driver has drained. An idle shard waits in the
/// kernel and uses no processor time.
pub fn run<R: Ring, D: Driver<R>>(shard: &mut Shard<R, D>) {
    while shard.turn(Patience::Forever) == Turn::More {}
}

/// The futures of one shard, run in its turns.
#[derive(Debug)]
pub struct Native {
    local: Rc<LocalQueue>,
    outside: Arc<Outside>,
    register: Rc<Register>,
    announced: Cell<bool>,
}

impl Native {
    /// A host without futures for the shard whose ring is behind `waker`, on the calling thread.
    pub fn new(waker: Waker) -> Self {
        // Relaxed: numbers need only differ.
        let number = HOSTS.fetch_add(1, Ordering::Relaxed);
        let local = Rc::new(LocalQueue::default());
        LOCAL_QUEUES.with_borrow_mut(|queues| queues.push((number, Rc::clone(&local))));
        let parking = Parking::new();
        Self {
            local,
            outside: Arc::new(Outside { number, runnables: SegQueue::new(), parking, waker }),
            register: Rc::default(),
            announced: Cell::new(false),
        }
    }

    /// Moves what other threads woke to the end of the local queue.
    fn collect(&self) {
        // Asked first: an empty pop costs a fence, which every turn would pay.
        while !self.outside.runnables.is_empty() {
            if let Some(runnable) = self.outside.runnables.pop() {
                self.local.borrow_mut().push_back(runnable);
            }
        }
    }
}

impl Host for Native {
    fn spawn(&self, future: LocalFuture) -> Task {
        let guest = Guest::new(future, &self.register);
        let outside = Arc::clone(&self.outside);
        let schedule = move |runnable| outside.schedule(runnable);
        let (runnable, task) = async_task::spawn_local(guest, schedule);
        runnable.schedule();
        Task(Running::Native(task))
    }

    fn run_ready(&self, futures_max: usize) -> bool {
        if self.announced.take() {
            self.outside.parking.withdraw();
        }
        self.collect();
        for _ in 0..futures_max {
            // Taken in a statement of its own: the future it runs may wake others.
            let runnable = self.local.borrow_mut().pop_front();
            let Some(runnable) = runnable else { return false };
            runnable.run();
        }
        !self.local.borrow().is_empty()
    }

    fn prepare_park(&self) -> bool {
        if self.alive() == 0 {
            return true;
        }
        self.outside.parking.announce();
        let parks = self.local.borrow().is_empty() && self.outside.runnables.is_empty();
        if !parks {
            self.outside.parking.withdraw();
        }
        self.announced.set(parks);
        parks
    }

    fn alive(&self) -> usize {
        self.register.alive()
    }

    fn panicked(&self) -> u64 {
        self.register.panicked()
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        while self.alive() > 0 {
            self.register.close();
            self.collect();
            let runnables = std::mem::take(&mut *self.local.borrow_mut());
            if runnables.is_empty() {
                // Another thread is between waking a future and handing it over here.
                std::thread::yield_now();
            }
            // A runnable that is dropped drops its future.
            drop(runnables);
        }
        let number = self.outside.number;
        // Where the thread itself is ending, its queues have gone already.
        LOCAL_QUEUES
            .try_with(|queues| queues.borrow_mut().retain(|queue| queue.0 != number))
            .unwrap_or_default();
    }
}

/// What the wakers of a host's futures know of it, on whatever thread they are.
#[derive(Debug)]
struct Outside {
    number: u64,
    runnables: SegQueue<Runnable>,
    parking: Parking,
    waker: Waker,
}

impl Outside {
    fn schedule(&self, runnable: Runnable) {
        let mut runnable = Some(runnable);
        // Where this thread is ending, its queues have gone already.
        LOCAL_QUEUES
            .try_with(|queues| {
                let queues = queues.borrow();
                if let Some((_, queue)) = queues.iter().find(|queue| queue.0 == self.number) {
                    queue.borrow_mut().extend(runnable.take());
                }
            })
            .unwrap_or_default();
        if let Some(runnable) = runnable {
            self.runnables.push(runnable);
            if self.parking.rouse() {
                self.waker.wake();
            }
        }
    }
}

type LocalQueue = RefCell<VecDeque<Runnable>>;

/// Numbers the hosts of the process.
static HOSTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The run queues of the hosts that live on this thread: one, or several in the simulator.
    static LOCAL_QUEUES: RefCell<Vec<(u64, Rc<LocalQueue>)>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::AtomicUsize;
    use std::task::{self, Poll};

    use super::*;

    fn host() -> (Native, Arc<AtomicUsize>) {
        let rung = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rung);
        let waker = Waker::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (Native::new(waker), rung)
    }

    /// A future that is pending once, after handing out its waker.
    fn sleep_once(slot: &Rc<RefCell<Option<task::Waker>>>) -> LocalFuture {
        let slot = Rc::clone(slot);
        let mut polled = false;
        Box::pin(poll_fn(move |context| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            *slot.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    #[test]
    fn futures_run_in_order_and_no_more_than_the_bound_at_a_time() {
        let (host, _) = host();
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..5 {
            let order = Rc::clone(&order);
            host.spawn(Box::pin(async move { order.borrow_mut().push(number) })).detach();
        }
        assert!(host.run_ready(2));
        assert_eq!(*order.borrow(), [0, 1]);
        assert!(!host.run_ready(10));
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
        assert_eq!(host.alive(), 0);
    }

    #[test]
    fn dropping_a_task_drops_its_future() {
        let (host, _) = host();
        let witness = Rc::new(());
        let held = Rc::clone(&witness);
        let task = host.spawn(Box::pin(async move {
            pending::<()>().await;
            drop(held);
        }));
        assert!(!host.run_ready(10));
        assert_eq!((host.alive(), Rc::strong_count(&witness)), (1, 2));
        drop(task);
        assert!(!host.run_ready(10));
        assert_eq!((host.alive(), Rc::strong_count(&witness)), (0, 1));
    }

    #[test]
    fn a_panic_ends_its_future_and_nothing_else() {
        let (host, _) = host();
        let reached = Rc::new(Cell::new(false));
        let mark = Rc::clone(&reached);
        host.spawn(Box::pin(async { panic!("on purpose") })).detach();
        host.spawn(Box::pin(async move { mark.set(true) })).detach();
        assert!(!host.run_ready(10));
        assert!(reached.get());
        assert_eq!((host.alive(), host.panicked()), (0, 1));
    }

    #[test]
    fn a_wake_on_the_own_thread_keeps_the_shard_from_parking_without_waking_its_ring() {
        let (host, rung) = host();
        let slot = Rc::default();
        host.spawn(sleep_once(&slot)).detach();
        assert!(!host.run_ready(10));
        assert!(host.prepare_park());
        slot.borrow_mut().take().unwrap().wake();
        assert!(!host.prepare_park());
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        assert!(!host.run_ready(10));
        assert_eq!(host.alive(), 0);
    }

    #[test]
    fn a_wake_from_another_thread_wakes_a_parked_ring_once() {
        let (host, rung) = host();
        let slots = [Rc::default(), Rc::default(), Rc::default()];
        for slot in &slots {
            host.spawn(sleep_once(slot)).detach();
        }
        assert!(!host.run_ready(10));
        let elsewhere = |slot: &Rc<RefCell<Option<task::Waker>>>| {
            let waker = slot.borrow_mut().take().unwrap();
            std::thread::spawn(move || waker.wake()).join().unwrap();
        };
        elsewhere(&slots[0]);
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        assert!(!host.prepare_park());
        assert!(!host.run_ready(10));
        assert!(host.prepare_park());
        elsewhere(&slots[1]);
        elsewhere(&slots[2]);
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        assert!(!host.run_ready(10));
        assert_eq!(host.alive(), 0);
    }

    #[test]
    fn a_host_that_is_dropped_drops_its_futures_and_leaves_their_wakers_harmless() {
        let (host, _) = host();
        let (slot, witness) = (Rc::default(), Rc::new(()));
        let (sleep, held) = (sleep_once(&slot), Rc::clone(&witness));
        host.spawn(Box::pin(async move {
            sleep.await;
            drop(held);
        }))
        .detach();
        host.spawn(Box::pin(pending())).detach();
        assert!(!host.run_ready(10));
        drop(host);
        assert_eq!(Rc::strong_count(&witness), 1);
        let waker: task::Waker = slot.borrow_mut().take().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
    }

    #[test]
    fn two_hosts_on_one_thread_run_their_own_futures() {
        let ((one, _), (two, _)) = (host(), host());
        let ran = Rc::new(Cell::new(0));
        let mark = Rc::clone(&ran);
        two.spawn(Box::pin(async move { mark.set(2) })).detach();
        assert!(!one.run_ready(10));
        assert_eq!(ran.get(), 0);
        assert!(!two.run_ready(10));
        assert_eq!(ran.get(), 2);
    }
}
