//! The blocking pool: threads for jobs that block or compute for long.
//!
//! Invariants: threads and waiting jobs are bounded, and a job that does not fit is refused at
//! once, so that a shard never waits for the pool; the owners of jobs are served in turns, and the
//! jobs of one owner start in the order in which they came; a panic ends only its job; the bytes
//! that jobs hand on are reserved before they start.
//!
//! A job reports its own result ([`crate::mesh::Sender`]). What it owns is dropped if it
//! never starts.

mod job_queue;

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam::utils::Backoff;

use self::job_queue::{HandsOn, JobId, JobQueue, Queued};
use super::clock::Clock;
use super::placement::{Affinity, yield_to_others};
use corelane_base::time::Instant;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation of the queue")]
type Mutex<T> = std::sync::Mutex<T>;

/// What a thread of the pool runs.
pub trait Job: Send + Sized + 'static {
    /// For whom it runs.
    type Owner: Clone + Eq + Hash + Send + 'static;

    /// Returns how many bytes the job may hand on, at most. The number can change while it waits.
    fn bytes(&self) -> usize;

    /// Runs the job. It may block. `reserved` is what it may hand on; it holds the reservation for
    /// as long as what it hands on exists.
    fn run(self, reserved: Reservation);
}

impl<J: Job> HandsOn for J {
    fn bytes(&self) -> usize {
        Job::bytes(self)
    }
}

/// Up to a fixed number of threads that run jobs, shared by all shards behind an `Arc`. A thread is
/// started when a job waits and no thread is idle.
///
/// A job starts when what it may hand on fits beside what is reserved, or nothing is reserved: so
/// what running jobs have declared, and jobs have handed on, exceeds the room only for one job, and
/// for what jobs hand on beyond what they have declared.
///
/// Dropping the pool drops the waiting jobs, on its threads. Running jobs finish on detached
/// threads: a job cannot be interrupted, and shutdown must not wait for one that hangs.
pub struct BlockingPool<J: Job> {
    shared: Arc<Shared<J>>,
}

/// What the threads share.
struct Shared<J: Job> {
    threads_max: usize,
    /// What the threads are called, before their number.
    name: &'static str,
    /// Whether the threads yield to others.
    is_background: bool,
    /// The CPUs that the threads may use.
    affinity: Affinity,
    clock: Clock,
    state: Mutex<PoolState<J>>,
    /// Whether a job may start; changed with `state` locked.
    has_jobs: AtomicBool,
    /// Notified for a new job and when the pool is dropped.
    has_changed: Condvar,
}

/// A thread runs a job, searches for one, or is idle. At most one thread searches at a time, and
/// when it has found a job it wakes the next one: waking a thread is a system call, which a shard
/// makes once for a burst of jobs.
struct PoolState<J: Job> {
    queue: JobQueue<J::Owner, J>,
    /// What all jobs may hand on.
    bytes_max: usize,
    /// What running jobs may hand on, and what is handed on.
    reserved: usize,
    /// Threads that were started; they end with the pool.
    threads: usize,
    /// Threads that wait to be notified.
    idle: usize,
    /// A thread looks for a job, or has been notified to do so.
    is_searched: bool,
    /// Notifications that no thread has received.
    notified: usize,
    is_closing: bool,
}

/// A job that the pool has accepted.
#[derive(Debug)]
pub struct Spawned<J: Job> {
    /// The job while it waits.
    pub waiting: WaitingJob<J>,
    /// The job of another owner that has lost its place to it, if the queue was full.
    pub displaced: Option<J>,
}

impl<J: Job> PoolState<J> {
    /// Returns how many bytes a job may hand on that starts now.
    const fn room(&self) -> usize {
        if self.reserved == 0 { usize::MAX } else { self.bytes_max.saturating_sub(self.reserved) }
    }

    /// Returns whether a job may start.
    fn has_next(&self) -> bool {
        self.queue.has_next(self.room())
    }
}

impl<J: Job> BlockingPool<J> {
    /// Creates a pool of up to `threads` threads (at least one) with a queue of `jobs_max` waiting
    /// jobs. What its jobs hand on has no limit. Cost: a stack for each started thread, committed
    /// as it is used, and about 40 bytes besides each waiting job and 160 for each owner of one.
    /// The threads get the CPU affinity that the calling thread has now.
    pub fn new(threads: usize, jobs_max: usize) -> Self {
        Self::with_threads("blocking", threads, jobs_max, false)
    }

    /// [`BlockingPool::new`] with threads that are called `name`, and on Linux yield to those of
    /// other programs and of shards: their niceness is higher by 5.
    pub fn background(name: &'static str, threads: usize, jobs_max: usize) -> Self {
        Self::with_threads(name, threads, jobs_max, true)
    }

    fn with_threads(
        name: &'static str,
        threads: usize,
        jobs_max: usize,
        is_background: bool,
    ) -> Self {
        let shared = Arc::new(Shared {
            threads_max: threads.max(1),
            name,
            is_background,
            affinity: Affinity::of_calling_thread(),
            clock: Clock::start(),
            state: Mutex::new(PoolState {
                queue: JobQueue::new(jobs_max),
                bytes_max: usize::MAX,
                reserved: 0,
                threads: 0,
                idle: 0,
                is_searched: false,
                notified: 0,
                is_closing: false,
            }),
            has_jobs: AtomicBool::new(false),
            has_changed: Condvar::new(),
        });
        Self { shared }
    }

    /// Sets how many bytes all jobs together may hand on. What is reserved stays.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        let mut state = self.shared.lock();
        state.bytes_max = bytes_max;
        self.shared.unlock_with_thread(state);
    }

    /// Queues `job`. In a full queue it displaces the newest job of the owner with the most waiting
    /// jobs, if that owner keeps at least as many as `owner` has then; otherwise `job` is returned
    /// as an error. So of n owners each is sure of `jobs_max / n` places. A job is also returned if
    /// the pool has no thread and the system refuses one.
    pub fn spawn(&self, owner: J::Owner, job: J) -> Result<Spawned<J>, J> {
        self.spawn_within(usize::MAX, self.shared.lock(), owner, job)
    }

    /// [`BlockingPool::spawn`] of a job whose waiting time is measured. `decide` receives how long
    /// the job has waited that leaves the queue next, and returns whether the queue is treated as
    /// full. It receives `None` if none waits, or only for room that `job` does not need, or if its
    /// time was not measured.
    pub fn spawn_timed(
        &self,
        owner: J::Owner,
        job: J,
        decide: impl FnOnce(Option<Duration>) -> bool,
    ) -> Result<Spawned<J>, J> {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        state.queue.set_now(now);
        let needs_room = Job::bytes(&job) > 0;
        let next = state.queue.next_queued_at(needs_room).filter(|at| *at != Instant::ORIGIN);
        let is_full = decide(next.map(|queued_at| now.since(queued_at)));
        let jobs_max = if is_full { state.queue.len() } else { usize::MAX };
        self.spawn_within(jobs_max, state, owner, job)
    }

    /// Queues a job behind at most `jobs_max` others.
    fn spawn_within(
        &self,
        jobs_max: usize,
        mut state: MutexGuard<'_, PoolState<J>>,
        owner: J::Owner,
        job: J,
    ) -> Result<Spawned<J>, J> {
        if state.threads == 0 && !self.shared.start_thread(&mut state) {
            return Err(job);
        }
        let pushed = state.queue.push(jobs_max, owner, job);
        state.queue.set_now(Instant::ORIGIN);
        let Queued { id, displaced } = pushed?;
        self.shared.unlock_with_thread(state);
        let waiting = WaitingJob { shared: Arc::clone(&self.shared), id };
        Ok(Spawned { waiting, displaced })
    }

    /// Returns the number of jobs waiting for a thread.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }
}

impl<J: Job> Drop for BlockingPool<J> {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.has_changed.notify_all();
    }
}

impl<J: Job> fmt::Debug for BlockingPool<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlockingPool")
            .field("threads_max", &self.shared.threads_max)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl<J: Job> Shared<J> {
    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, PoolState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unlocks the state after a change of the queue; wakes an idle thread if one is needed.
    fn unlock(&self, mut state: MutexGuard<'_, PoolState<J>>) {
        let has_jobs = state.has_next();
        // Relaxed: only a hint.
        self.has_jobs.store(has_jobs, Ordering::Relaxed);
        let is_needed = has_jobs && !state.is_searched && state.idle > 0;
        if is_needed {
            state.idle -= 1;
            state.is_searched = true;
            state.notified += 1;
        }
        drop(state);
        if is_needed {
            self.has_changed.notify_one();
        }
    }

    /// Waits for a few microseconds until jobs wait.
    fn spin(&self) {
        let backoff = Backoff::new();
        while !self.has_jobs.load(Ordering::Relaxed) && !backoff.is_completed() {
            backoff.snooze();
        }
    }

    /// Unlocks the state after a change of the queue; wakes an idle thread or starts one if a job
    /// waits for it.
    fn unlock_with_thread(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState<J>>) {
        let is_waiting = state.has_next() && !state.is_searched && state.idle == 0;
        if is_waiting && state.threads < self.threads_max && !state.is_closing {
            // Without it the job waits for one of the other threads.
            self.start_thread(&mut state);
        }
        self.unlock(state);
    }

    /// Starts a thread, which looks for a job. Returns whether the system has allowed it.
    fn start_thread(self: &Arc<Self>, state: &mut PoolState<J>) -> bool {
        let shared = Arc::clone(self);
        let name = format!("{}-{}", self.name, state.threads);
        let thread = std::thread::Builder::new().name(name);
        let is_started = thread.spawn(move || shared.run_jobs()).is_ok();
        if is_started {
            // Detached: the thread ends when the pool is dropped.
            state.threads += 1;
            state.is_searched = true;
        }
        is_started
    }

    /// Runs jobs until the pool is dropped and its queue is empty.
    fn run_jobs(self: Arc<Self>) {
        self.affinity.apply();
        if self.is_background {
            yield_to_others();
        }
        // A new thread searches.
        let mut is_searching = true;
        while let Some((job, reserved)) = self.next_job(is_searching) {
            is_searching = false;
            // A job owns what it uses; shared state must be consistent at every point of a panic.
            let run = move || match reserved {
                Some(reserved) => job.run(reserved),
                None => drop(job),
            };
            catch_unwind(AssertUnwindSafe(run)).ok();
            if self.is_background {
                // With a real-time policy the niceness has no effect (sched(7)): a shard on the
                // same CPU waits for one job, not for all.
                std::thread::yield_now();
            }
        }
    }

    /// Waits for a job. Returns it with the reservation of what it may hand on, without one if the
    /// pool was dropped; `None` if that has happened and no job is left. `is_searching`: the
    /// calling thread is the one that searches.
    fn next_job(self: &Arc<Self>, mut is_searching: bool) -> Option<(J, Option<Reservation>)> {
        let mut state = self.lock();
        loop {
            let room = if state.is_closing { usize::MAX } else { state.room() };
            if let Some(job) = state.queue.pop(room) {
                let (bytes, is_closing) = (Job::bytes(&job), state.is_closing);
                if is_searching {
                    state.is_searched = false;
                }
                state.reserved += bytes;
                self.unlock_with_thread(state);
                let reserved = Reservation { pool: Arc::<Self>::clone(self), bytes };
                return Some((job, (!is_closing).then_some(reserved)));
            }
            if state.is_closing {
                return None;
            }
            if !state.is_searched {
                (state.is_searched, is_searching) = (true, true);
                drop(state);
                self.spin();
                state = self.lock();
                continue;
            }
            if is_searching {
                state.is_searched = false;
            }
            state.idle += 1;
            while state.notified == 0 && !state.is_closing {
                state = self.has_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            // The notification says that this thread is not idle, and searches.
            is_searching = state.notified > 0;
            state.notified = state.notified.saturating_sub(1);
        }
    }
}

/// Bytes that a job may hand on, or has handed on; released when this is dropped.
pub struct Reservation {
    pool: Arc<dyn Reserve>,
    bytes: usize,
}

/// A pool, whatever its jobs are.
trait Reserve: Send + Sync {
    /// Reserves `bytes` instead of `before`.
    fn adjust(self: Arc<Self>, before: usize, bytes: usize);
}

impl<J: Job> Reserve for Shared<J> {
    fn adjust(self: Arc<Self>, before: usize, bytes: usize) {
        let mut state = self.lock();
        state.reserved = state.reserved - before + bytes;
        self.unlock_with_thread(state);
    }
}

impl Reservation {
    /// Returns the reserved bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the reserved bytes, to more than there is room for if need be.
    pub fn resize(&mut self, bytes: usize) {
        if bytes != self.bytes {
            Arc::clone(&self.pool).adjust(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reservation").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// A job that waits for a thread, or has waited.
pub struct WaitingJob<J: Job> {
    shared: Arc<Shared<J>>,
    id: JobId,
}

impl<J: Job> WaitingJob<J> {
    /// Removes the job from the queue and returns it. Returns `None` if a thread has taken it, or
    /// another job has displaced it.
    pub fn withdraw(self) -> Option<J> {
        let mut state = self.shared.lock();
        let job = state.queue.remove(self.id);
        // The job behind it may have room.
        self.shared.unlock_with_thread(state);
        job
    }
}

impl<J: Job> fmt::Debug for WaitingJob<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WaitingJob").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Sender, bounded, unbounded};

    use super::*;

    type TestPool = BlockingPool<TestJob>;

    /// What a job does, and what it hands on.
    struct TestJob(Box<dyn FnOnce(Reservation) + Send>, usize);

    impl Job for TestJob {
        type Owner = char;

        fn bytes(&self) -> usize {
            self.1
        }

        fn run(self, reserved: Reservation) {
            (self.0)(reserved);
        }
    }

    /// Queues a job of one owner.
    fn spawn(
        pool: &TestPool,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<Spawned<TestJob>, TestJob> {
        pool.spawn('a', TestJob(Box::new(|_| job()), 0))
    }

    /// Occupies a thread of the pool until the returned sender is dropped.
    fn occupy(pool: &TestPool) -> Sender<()> {
        let (release, released) = bounded::<()>(0);
        let (started_tx, started_rx) = bounded(0);
        let job = move || {
            started_tx.send(()).unwrap();
            assert!(released.recv().is_err());
        };
        assert!(spawn(pool, job).is_ok());
        started_rx.recv().unwrap();
        release
    }

    #[test]
    fn jobs_run_once_on_pool_threads() {
        let pool = TestPool::new(3, 100);
        let (answer, answers) = unbounded();
        for number in 0..100 {
            let answer = answer.clone();
            let job = move || answer.send((number, std::thread::current().id())).unwrap();
            assert!(spawn(&pool, job).is_ok());
        }
        drop(answer);
        let mut answers: Vec<_> = answers.iter().collect();
        assert!(answers.iter().all(|answer| answer.1 != std::thread::current().id()));
        answers.sort_unstable_by_key(|answer| answer.0);
        assert!(answers.iter().map(|answer| answer.0).eq(0..100));
    }

    #[test]
    fn threads_start_with_the_jobs_they_run() {
        let pool = TestPool::new(2, 10);
        assert_eq!(pool.shared.lock().threads, 0);
        let first = occupy(&pool);
        assert_eq!(pool.shared.lock().threads, 1);
        let second = occupy(&pool);
        assert_eq!(pool.shared.lock().threads, 2);
        assert!(spawn(&pool, || {}).is_ok());
        assert_eq!((pool.waiting(), pool.shared.lock().threads), (1, 2));
        drop((first, second));
    }

    #[test]
    fn full_pool_returns_the_job() {
        let pool = TestPool::new(1, 1);
        let release = occupy(&pool);
        let (answer, answers) = bounded(1);
        assert!(spawn(&pool, || {}).is_ok());
        assert_eq!(pool.waiting(), 1);
        let refused = spawn(&pool, move || answer.send(7).unwrap()).err().unwrap();
        refused.run(Reservation { pool: Arc::<Shared<_>>::clone(&pool.shared), bytes: 0 });
        assert_eq!(answers.recv(), Ok(7));
        drop(release);
    }

    #[test]
    fn withdrawn_job_does_not_run() {
        let pool = TestPool::new(1, 1);
        let release = occupy(&pool);
        let (answer, answers) = unbounded();
        let withdrawn = answer.clone();
        let spawned = spawn(&pool, move || withdrawn.send("withdrawn").unwrap()).ok().unwrap();
        assert!(spawned.waiting.withdraw().is_some());
        let spawned = spawn(&pool, move || answer.send("ran").unwrap()).ok().unwrap();
        drop(release);
        assert_eq!(answers.iter().collect::<Vec<_>>(), ["ran"]);
        assert!(spawned.waiting.withdraw().is_none());
    }

    #[test]
    fn owners_share_the_threads_in_turns() {
        let pool = TestPool::new(1, 4);
        let release = occupy(&pool);
        let (answer, answers) = unbounded();
        let mut displaced = 0;
        for (owner, job) in [('a', 1), ('a', 2), ('a', 3), ('a', 4), ('b', 5), ('b', 6)] {
            let answer = answer.clone();
            let job = TestJob(Box::new(move |_| answer.send(job).unwrap()), 0);
            displaced += usize::from(pool.spawn(owner, job).ok().unwrap().displaced.is_some());
        }
        drop((release, answer));
        assert_eq!(answers.iter().collect::<Vec<_>>(), [1, 5, 2, 6]);
        assert_eq!(displaced, 2);
    }

    /// Queues a job that hands on its reservation, of `bytes`.
    fn hand_on(pool: &TestPool, bytes: usize, results: &Sender<Reservation>) {
        let results = results.clone();
        let job = TestJob(Box::new(move |reserved| results.send(reserved).unwrap()), bytes);
        assert!(pool.spawn('a', job).is_ok());
    }

    #[test]
    fn jobs_wait_for_room_before_they_start() {
        let pool = TestPool::new(2, 10);
        pool.set_bytes_max(100);
        let (handed_on, results) = unbounded();
        for bytes in [60, 30, 11] {
            hand_on(&pool, bytes, &handed_on);
        }
        let first = [(); 2].map(|()| results.recv().unwrap());
        assert_eq!(first.iter().map(Reservation::bytes).sum::<usize>(), 90);
        assert_eq!((pool.waiting(), pool.shared.lock().reserved), (1, 90));
        // Others go on.
        let (answer, answers) = bounded(1);
        let other = TestJob(Box::new(move |_| answer.send(7).unwrap()), 0);
        assert!(pool.spawn('b', other).is_ok());
        assert_eq!((answers.recv(), pool.waiting()), (Ok(7), 1));
        let [first, mut second] = first;
        second.resize(second.bytes() - 1);
        assert_eq!(results.recv().unwrap().bytes(), 11);
        drop((first, second));
        assert_eq!(pool.shared.lock().reserved, 0);
    }

    #[test]
    fn job_larger_than_all_room_runs_alone() {
        let pool = TestPool::new(2, 10);
        pool.set_bytes_max(100);
        let (handed_on, results) = unbounded();
        for bytes in [1, 101, 1] {
            hand_on(&pool, bytes, &handed_on);
        }
        for bytes in [1, 101, 1] {
            let reserved = results.recv().unwrap();
            assert_eq!((reserved.bytes(), pool.shared.lock().reserved), (bytes, bytes));
        }
        // What a job hands on beyond its reservation counts.
        hand_on(&pool, 1, &handed_on);
        let mut reserved = results.recv().unwrap();
        reserved.resize(200);
        hand_on(&pool, 1, &handed_on);
        assert_eq!(pool.shared.lock().room(), 0);
        drop(reserved);
        assert_eq!(results.recv().unwrap().bytes(), 1);
    }

    #[test]
    fn panic_ends_the_job_but_not_its_thread() {
        let pool = TestPool::new(1, 10);
        let (answer, answers) = bounded(1);
        assert!(spawn(&pool, || panic!("on purpose")).is_ok());
        assert!(spawn(&pool, move || answer.send(7).unwrap()).is_ok());
        assert_eq!(answers.recv(), Ok(7));
    }

    #[test]
    fn dropped_pool_finishes_running_jobs_only() {
        let pool = TestPool::new(1, 10);
        let (release, released) = bounded::<()>(0);
        let (started_tx, started_rx) = bounded(0);
        let (answer, answers) = unbounded();
        let running = answer.clone();
        let job = move || {
            started_tx.send(()).unwrap();
            assert!(released.recv().is_err());
            running.send("ran").unwrap();
        };
        assert!(spawn(&pool, job).is_ok());
        started_rx.recv().unwrap();
        let waiting = answer.clone();
        assert!(spawn(&pool, move || waiting.send("began").unwrap()).is_ok());
        drop(answer);
        // Returns while the job is still running.
        drop(pool);
        drop(release);
        assert_eq!(answers.iter().collect::<Vec<_>>(), ["ran"]);
    }

    #[test]
    fn job_may_own_the_last_pool_reference() {
        let pool = Arc::new(TestPool::new(2, 10));
        let (answer, answers) = bounded(1);
        let (start_tx, start_rx) = bounded::<()>(0);
        let own = Arc::clone(&pool);
        let job = move || {
            start_rx.recv().unwrap();
            drop(own);
            answer.send(()).unwrap();
        };
        assert!(spawn(&pool, job).is_ok());
        drop(pool);
        start_tx.send(()).unwrap();
        assert_eq!(answers.recv(), Ok(()));
    }
}
