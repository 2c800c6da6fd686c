//! The blocking pool: threads for closures that block or compute for long.
//!
//! Invariants: threads and queue are bounded, and a full queue refuses a job at once, so that a
//! shard never waits; a panic ends only its job; jobs start in the order in which they came.
//!
//! A job reports its own result ([`crate::engine::mesh::Sender`]); what it owns is dropped if the
//! job is refused or never starts.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

/// A closure to run on a thread of the pool.
pub type Job = Box<dyn FnOnce() + Send>;

/// A fixed set of threads with one queue, shared by all shards behind an `Arc`.
///
/// Dropping the pool drops the waiting jobs. Running jobs finish on detached threads: a closure
/// cannot be interrupted, and shutdown must not wait for one that hangs.
pub struct BlockingPool {
    /// `None` only while the pool is being dropped.
    queue: Option<Sender<Job>>,
    is_closing: Arc<AtomicBool>,
    threads: usize,
}

impl BlockingPool {
    /// Starts `threads` threads (at least one) with a queue of `jobs_max` waiting jobs. Cost: a
    /// stack for each thread, committed as it is used, and 16 bytes for each waiting job. The
    /// threads inherit the CPU affinity of the calling thread.
    pub fn new(threads: usize, jobs_max: usize) -> io::Result<Self> {
        let (queue, jobs) = bounded(jobs_max);
        let threads = threads.max(1);
        let pool = Self { queue: Some(queue), is_closing: Arc::default(), threads };
        for number in 0..threads {
            let (jobs, is_closing) = (jobs.clone(), Arc::clone(&pool.is_closing));
            let thread = std::thread::Builder::new().name(format!("blocking-{number}"));
            // Detached: the thread ends when the queue is closed.
            drop(thread.spawn(move || run_jobs(&jobs, &is_closing))?);
        }
        Ok(pool)
    }

    /// Queues `job`, or returns it as an error if the queue is full.
    pub fn spawn(&self, job: Job) -> Result<(), Job> {
        let Some(queue) = &self.queue else { return Err(job) };
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Returns the number of jobs waiting for a thread.
    pub fn waiting(&self) -> usize {
        self.queue.as_ref().map_or(0, Sender::len)
    }
}

impl Drop for BlockingPool {
    fn drop(&mut self) {
        // Release: a thread that receives another job, or finds the queue closed, after this store
        // sees it.
        self.is_closing.store(true, Ordering::Release);
        self.queue = None;
    }
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlockingPool")
            .field("threads", &self.threads)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// Runs jobs until the queue is closed and empty.
fn run_jobs(jobs: &Receiver<Job>, is_closing: &AtomicBool) {
    for job in jobs {
        let is_closing = is_closing.load(Ordering::Acquire);
        // A job owns what it uses; shared state must be consistent at every point of a panic.
        let run = move || if is_closing { drop(job) } else { job() };
        catch_unwind(AssertUnwindSafe(run)).ok();
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::unbounded;

    use super::*;

    /// Occupies a thread of the pool until the returned sender is dropped.
    fn occupy(pool: &BlockingPool) -> Sender<()> {
        let (release, released) = bounded::<()>(0);
        let (started_tx, started_rx) = bounded(0);
        let job = move || {
            started_tx.send(()).unwrap();
            assert!(released.recv().is_err());
        };
        assert!(pool.spawn(Box::new(job)).is_ok());
        started_rx.recv().unwrap();
        release
    }

    #[test]
    fn jobs_run_once_on_pool_threads() {
        let pool = BlockingPool::new(3, 100).unwrap();
        let (answer, answers) = unbounded();
        for number in 0..100 {
            let answer = answer.clone();
            let job = move || answer.send((number, std::thread::current().id())).unwrap();
            assert!(pool.spawn(Box::new(job)).is_ok());
        }
        drop(answer);
        let mut answers: Vec<_> = answers.iter().collect();
        assert!(answers.iter().all(|answer| answer.1 != std::thread::current().id()));
        answers.sort_unstable_by_key(|answer| answer.0);
        assert!(answers.iter().map(|answer| answer.0).eq(0..100));
    }

    #[test]
    fn full_pool_returns_the_job() {
        let pool = BlockingPool::new(1, 1).unwrap();
        let release = occupy(&pool);
        let (answer, answers) = bounded(1);
        assert!(pool.spawn(Box::new(|| {})).is_ok());
        assert_eq!(pool.waiting(), 1);
        let refused: Job = pool.spawn(Box::new(move || answer.send(7).unwrap())).unwrap_err();
        refused();
        assert_eq!(answers.recv(), Ok(7));
        drop(release);
    }

    #[test]
    fn panic_ends_the_job_but_not_its_thread() {
        let pool = BlockingPool::new(1, 10).unwrap();
        let (answer, answers) = bounded(1);
        assert!(pool.spawn(Box::new(|| panic!("on purpose"))).is_ok());
        assert!(pool.spawn(Box::new(move || answer.send(7).unwrap())).is_ok());
        assert_eq!(answers.recv(), Ok(7));
    }

    #[test]
    fn dropped_pool_finishes_running_jobs_only() {
        let pool = BlockingPool::new(1, 10).unwrap();
        let (release, released) = bounded::<()>(0);
        let (started_tx, started_rx) = bounded(0);
        let (answer, answers) = unbounded();
        let running = answer.clone();
        let job = move || {
            started_tx.send(()).unwrap();
            assert!(released.recv().is_err());
            running.send("ran").unwrap();
        };
        assert!(pool.spawn(Box::new(job)).is_ok());
        started_rx.recv().unwrap();
        let waiting = answer.clone();
        assert!(pool.spawn(Box::new(move || waiting.send("began").unwrap())).is_ok());
        drop(answer);
        // Returns while the job is still running.
        drop(pool);
        drop(release);
        assert_eq!(answers.iter().collect::<Vec<_>>(), ["ran"]);
    }

    #[test]
    fn job_may_own_the_last_pool_reference() {
        let pool = Arc::new(BlockingPool::new(2, 10).unwrap());
        let (answer, answers) = bounded(1);
        let (start_tx, start_rx) = bounded::<()>(0);
        let own = Arc::clone(&pool);
        let job = move || {
            start_rx.recv().unwrap();
            drop(own);
            answer.send(()).unwrap();
        };
        assert!(pool.spawn(Box::new(job)).is_ok());
        drop(pool);
        start_tx.send(()).unwrap();
        assert_eq!(answers.recv(), Ok(()));
    }
}
