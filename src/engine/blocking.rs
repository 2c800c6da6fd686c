//! The blocking pool: threads for closures that may wait or reckon for long.
//!
//! What it keeps true: its threads and its queue are bounded, and a full queue refuses at once
//! instead of making a shard wait; a job that panics ends alone; jobs begin in the order in which
//! they came.
//!
//! What it does not do: tell how a job ended. A job leaves its answer itself
//! ([`crate::engine::mesh::Post`]), and what it owns is dropped when it is refused or never begun.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

/// A closure for a thread of the pool.
pub type Job = Box<dyn FnOnce() + Send>;

/// A fixed set of threads with one queue. Shared by all shards behind an `Arc`.
///
/// Dropping it drops the jobs that wait. Those that run end by themselves, on threads that nobody
/// waits for: a closure cannot be cut, and a server that ends must not wait for one that hangs.
pub struct BlockingPool {
    /// Gone only while the pool is being dropped.
    queue: Option<Sender<Job>>,
    state: Arc<State>,
    threads: usize,
}

#[derive(Debug, Default)]
struct State {
    ends: AtomicBool,
    panicked: AtomicU64,
}

impl BlockingPool {
    /// Starts `threads` threads (at least one) with room for `jobs_max` jobs that wait for one.
    /// Cost: a stack each, which the system provides as it is used, and 16 bytes for each waiting
    /// job. The threads run on the cpus that the calling thread may run on.
    pub fn new(threads: usize, jobs_max: usize) -> io::Result<Self> {
        let (queue, jobs) = bounded(jobs_max);
        let threads = threads.max(1);
        let pool = Self { queue: Some(queue), state: Arc::default(), threads };
        for number in 0..threads {
            let (jobs, state) = (jobs.clone(), Arc::clone(&pool.state));
            let thread = std::thread::Builder::new().name(format!("blocking-{number}"));
            // The thread is let go: it ends with the queue.
            drop(thread.spawn(move || work(&jobs, &state))?);
        }
        Ok(pool)
    }

    /// Has a thread do `job`, or hands it back when as many wait as may.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let Some(queue) = &self.queue else { return Err(job) };
        queue.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Jobs that wait for a thread.
    pub fn waiting(&self) -> usize {
        self.queue.as_ref().map_or(0, Sender::len)
    }

    /// Jobs that have ended in a panic since the start.
    pub fn panicked(&self) -> u64 {
        self.state.panicked.load(Ordering::Relaxed)
    }
}

impl Drop for BlockingPool {
    fn drop(&mut self) {
        // Release, by way of the queue's own end: a thread that finds the queue closed or takes
        // another job after this sees it.
        self.state.ends.store(true, Ordering::Release);
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

/// The life of one thread: jobs until the queue is closed and empty.
fn work(jobs: &Receiver<Job>, state: &State) {
    for job in jobs {
        let ends = state.ends.load(Ordering::Acquire);
        // A job owns what it uses; what it shares with others is theirs to keep whole.
        let done = catch_unwind(AssertUnwindSafe(move || if ends { drop(job) } else { job() }));
        if done.is_err() {
            state.panicked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::unbounded;

    use super::*;

    /// Occupies a thread of the pool until the returned sender is dropped.
    fn occupy(pool: &BlockingPool) -> Sender<()> {
        let (release, released) = bounded::<()>(0);
        let (tell, begun) = bounded(0);
        let job = move || {
            tell.send(()).unwrap();
            assert!(released.recv().is_err());
        };
        assert!(pool.run(Box::new(job)).is_ok());
        begun.recv().unwrap();
        release
    }

    #[test]
    fn jobs_run_elsewhere_and_each_once() {
        let pool = BlockingPool::new(3, 100).unwrap();
        let (answer, answers) = unbounded();
        for number in 0..100 {
            let answer = answer.clone();
            let job = move || answer.send((number, std::thread::current().id())).unwrap();
            assert!(pool.run(Box::new(job)).is_ok());
        }
        drop(answer);
        let mut answers: Vec<_> = answers.iter().collect();
        assert!(answers.iter().all(|answer| answer.1 != std::thread::current().id()));
        answers.sort_unstable_by_key(|answer| answer.0);
        assert!(answers.iter().map(|answer| answer.0).eq(0..100));
    }

    #[test]
    fn a_full_queue_hands_the_job_back() {
        let pool = BlockingPool::new(1, 1).unwrap();
        let release = occupy(&pool);
        let (answer, answers) = bounded(1);
        assert!(pool.run(Box::new(|| {})).is_ok());
        assert_eq!(pool.waiting(), 1);
        let refused = pool.run(Box::new(move || answer.send(7).unwrap())).unwrap_err();
        refused();
        assert_eq!(answers.recv(), Ok(7));
        drop(release);
    }

    #[test]
    fn a_panic_ends_its_job_and_not_its_thread() {
        let pool = BlockingPool::new(1, 10).unwrap();
        let (answer, answers) = bounded(1);
        assert!(pool.run(Box::new(|| panic!("on purpose"))).is_ok());
        assert!(pool.run(Box::new(move || answer.send(7).unwrap())).is_ok());
        assert_eq!(answers.recv(), Ok(7));
        assert_eq!(pool.panicked(), 1);
    }

    #[test]
    fn a_pool_that_is_dropped_lets_what_runs_end_and_drops_what_waits() {
        let pool = BlockingPool::new(1, 10).unwrap();
        let (release, released) = bounded::<()>(0);
        let (tell, begun) = bounded(0);
        let (answer, answers) = unbounded();
        let running = answer.clone();
        let job = move || {
            tell.send(()).unwrap();
            assert!(released.recv().is_err());
            running.send("ran").unwrap();
        };
        assert!(pool.run(Box::new(job)).is_ok());
        begun.recv().unwrap();
        let waiting = answer.clone();
        assert!(pool.run(Box::new(move || waiting.send("began").unwrap())).is_ok());
        drop(answer);
        // Comes back while the job still runs.
        drop(pool);
        drop(release);
        assert_eq!(answers.iter().collect::<Vec<_>>(), ["ran"]);
    }

    #[test]
    fn a_job_may_be_the_last_owner_of_its_pool() {
        let pool = Arc::new(BlockingPool::new(2, 10).unwrap());
        let (answer, answers) = bounded(1);
        let (tell, begun) = bounded::<()>(0);
        let own = Arc::clone(&pool);
        let job = move || {
            begun.recv().unwrap();
            drop(own);
            answer.send(()).unwrap();
        };
        assert!(pool.run(Box::new(job)).is_ok());
        drop(pool);
        tell.send(()).unwrap();
        assert_eq!(answers.recv(), Ok(()));
    }
}
