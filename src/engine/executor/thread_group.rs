//! The threads of all shards: named, pinned, started together.
//!
//! Invariants: either every shard starts or none does. A thread that fails to start (an error or a
//! panic) fails the whole start, after the waiting threads have returned. Later failures are
//! reported immediately, so that the other shards can be drained.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::mesh::ShardId;
use crate::placement::Placement;

/// The threads of all shards, each of which ends with a `T`.
#[derive(Debug)]
pub struct ThreadGroup<T> {
    threads: Vec<JoinHandle<()>>,
    descriptions: Vec<String>,
    reports: Receiver<(ShardId, ThreadReport<T>)>,
    /// Number of threads that have ended.
    ended: usize,
    results: Vec<Option<T>>,
    first_failure: Option<ShardFailure>,
    waiter: Arc<Waiter>,
}

/// A shard thread's handle to its group.
#[derive(Debug)]
pub struct ThreadHandle<T> {
    shard: ShardId,
    reports: Sender<(ShardId, ThreadReport<T>)>,
    start_signal: Receiver<()>,
    is_started: Cell<bool>,
    waiter: Arc<Waiter>,
}

/// The task that waits for the end of a group.
#[derive(Debug)]
struct Waiter {
    /// Number of threads that run.
    running: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

/// Locked when a thread ends, and by the task that waits for it.
#[expect(clippy::disallowed_types, reason = "not locked while a shard runs")]
type Mutex<T> = std::sync::Mutex<T>;

impl Waiter {
    fn set(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Counts the end of a thread; the last one wakes the task.
    fn end_thread(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Debug)]
enum ThreadReport<T> {
    Ready(String),
    Ended(Result<T, ShardFailure>),
}

/// A shard that failed to start or ended with an error.
#[derive(Debug)]
pub struct ShardFailure {
    /// The shard that failed.
    pub shard: ShardId,
    /// The cause.
    pub cause: FailureCause,
}

/// Why a shard failed.
#[derive(Debug)]
pub enum FailureCause {
    /// A system error; the text contains a hint.
    Io(io::Error),
    /// A panic with this message, caused by a bug.
    Panicked(String),
}

/// Starts a thread for each of `inputs`, named `name-0` and so on and pinned by `placement`. On it
/// `run` builds a shard from its input, calls [`ThreadHandle::report_ready`] and runs the shard
/// until it ends. Returns once all threads are ready. A shard that fails after that calls
/// `on_failure` on its thread, while others may still run, so that they can be drained.
///
/// # Errors
///
/// The first thread that could not be started or pinned, or whose `run` returned before it was
/// ready.
pub fn spawn_threads<X, T>(
    name: &str,
    placement: &Placement,
    inputs: Vec<X>,
    run: impl Fn(X, &ThreadHandle<T>) -> io::Result<T> + Send + Sync + 'static,
    on_failure: impl Fn(&ShardFailure) + Send + Sync + 'static,
) -> Result<ThreadGroup<T>, ShardFailure>
where
    X: Send + 'static,
    T: Send + 'static,
{
    let (report_tx, report_rx) = unbounded();
    let (start_tx, start_rx) = unbounded();
    let (body, placement) = (Arc::new((run, on_failure)), Arc::new(placement.clone()));
    let mut group = ThreadGroup {
        threads: Vec::with_capacity(inputs.len()),
        descriptions: vec![String::new(); inputs.len()],
        reports: report_rx,
        ended: 0,
        results: inputs.iter().map(|_| None).collect(),
        first_failure: None,
        waiter: Arc::new(Waiter {
            running: AtomicUsize::new(inputs.len()),
            waker: Mutex::default(),
        }),
    };
    for (shard, input) in (0..u16::MAX).map(ShardId).zip(inputs) {
        let handle = ThreadHandle {
            shard,
            reports: report_tx.clone(),
            start_signal: start_rx.clone(),
            is_started: Cell::new(false),
            waiter: Arc::clone(&group.waiter),
        };
        let (body, placement) = (Arc::clone(&body), Arc::clone(&placement));
        let body = move || {
            let (run, on_failure) = &*body;
            let result = catch_panic(|| {
                placement.pin(shard)?;
                run(input, &handle)
            });
            handle.report_end(result, on_failure);
        };
        let thread = std::thread::Builder::new().name(format!("{name}-{shard}"));
        match thread.spawn(body) {
            Ok(thread) => group.threads.push(thread),
            Err(error) => {
                drop(start_tx);
                group.join_threads();
                return Err(ShardFailure { shard, cause: FailureCause::Io(error) });
            }
        }
    }
    if let Err(failure) = group.wait_until_ready() {
        drop(start_tx);
        group.join_threads();
        return Err(failure);
    }
    for _ in &group.threads {
        start_tx.send(()).unwrap_or_else(|_| unreachable!("every thread waits for its start"));
    }
    Ok(group)
}

impl<T> ThreadHandle<T> {
    /// Returns the shard of this thread.
    #[cfg(test)]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Reports that the shard can start, with a `description` for the log, and waits for the
    /// others. Returns `false` if one of them cannot start; the caller must then return without
    /// starting.
    #[must_use = "a shard must not start if another one cannot"]
    pub fn report_ready(&self, description: String) -> bool {
        self.send_report(ThreadReport::Ready(description));
        self.is_started.set(self.start_signal.recv().is_ok());
        self.is_started.get()
    }

    fn report_end(&self, result: Result<T, FailureCause>, on_failure: &impl Fn(&ShardFailure)) {
        let result = result.map_err(|cause| ShardFailure { shard: self.shard, cause });
        if let Err(failure) = &result
            && self.is_started.get()
        {
            on_failure(failure);
        }
        self.send_report(ThreadReport::Ended(result));
        self.waiter.end_thread();
    }

    fn send_report(&self, report: ThreadReport<T>) {
        // Fails only if the group was dropped.
        drop(self.reports.send((self.shard, report)));
    }
}

impl<T> ThreadGroup<T> {
    /// Returns the description that each shard reported.
    pub fn descriptions(&self) -> &[String] {
        &self.descriptions
    }

    /// Waits until every shard has ended and returns their results in order; once.
    ///
    /// # Errors
    ///
    /// The first failure, after all threads have ended.
    pub fn join(&mut self) -> Result<Vec<T>, ShardFailure> {
        while self.ended < self.threads.len()
            && let Ok((shard, report)) = self.reports.recv()
        {
            self.record(shard, report);
        }
        self.take_results()
    }

    /// [`ThreadGroup::join`] as a task: wakes `context` when the last shard has ended.
    pub fn poll_join(&mut self, context: &Context<'_>) -> Poll<Result<Vec<T>, ShardFailure>> {
        // Before the reports are read: one that is sent meanwhile wakes the task.
        self.waiter.set(context.waker());
        while let Ok((shard, report)) = self.reports.try_recv() {
            self.record(shard, report);
        }
        if self.ended < self.threads.len() {
            return Poll::Pending;
        }
        Poll::Ready(self.take_results())
    }

    fn record(&mut self, shard: ShardId, report: ThreadReport<T>) {
        let ThreadReport::Ended(result) = report else { return };
        self.ended += 1;
        match result {
            Ok(value) => self.results[shard.index()] = Some(value),
            Err(failure) => {
                self.first_failure.get_or_insert(failure);
            }
        }
    }

    fn take_results(&mut self) -> Result<Vec<T>, ShardFailure> {
        self.join_threads();
        match self.first_failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.results.drain(..).flatten().collect()),
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), ShardFailure> {
        let mut waiting = self.threads.len();
        while waiting > 0 {
            let Ok((shard, report)) = self.reports.recv() else {
                unreachable!("every thread reports its end");
            };
            match report {
                ThreadReport::Ready(description) => {
                    self.descriptions[shard.index()] = description;
                    waiting -= 1;
                }
                ThreadReport::Ended(Err(failure)) => return Err(failure),
                ThreadReport::Ended(Ok(_)) => {
                    let error = io::Error::other("the shard ended before it was ready");
                    return Err(ShardFailure { shard, cause: FailureCause::Io(error) });
                }
            }
        }
        Ok(())
    }

    fn join_threads(&mut self) {
        self.ended = 0;
        for thread in self.threads.drain(..) {
            // A panic has been reported already.
            drop(thread.join());
        }
    }
}

/// Runs a shard and converts a panic into an error.
fn catch_panic<T>(run: impl FnOnce() -> io::Result<T>) -> Result<T, FailureCause> {
    // The shard is not used again after a panic.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(FailureCause::Io),
        Err(payload) => Err(FailureCause::Panicked(panic_message(payload.as_ref()))),
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

impl fmt::Display for ShardFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            FailureCause::Io(error) => write!(formatter, "shard {}: {error}", self.shard),
            FailureCause::Panicked(message) => {
                write!(formatter, "shard {} panicked: {message}", self.shard)
            }
        }
    }
}

impl Error for ShardFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            FailureCause::Io(error) => Some(error),
            FailureCause::Panicked(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(shards: u16) -> Placement {
        Placement::choose(None, Some(shards)).unwrap()
    }

    #[test]
    fn shard_threads_are_named_and_return_values() {
        let run = |input, handle: &ThreadHandle<_>| {
            assert!(handle.report_ready(format!("input {input}")));
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            assert_eq!(name, format!("shard-{}", handle.shard()));
            Ok(input + 1)
        };
        let mut group =
            spawn_threads("shard", &placement(3), vec![10, 20, 30], run, |_| {}).unwrap();
        assert_eq!(group.descriptions(), ["input 10", "input 20", "input 30"]);
        assert_eq!(group.join().unwrap(), [11, 21, 31]);
    }

    #[test]
    fn failed_shard_start_stops_the_others() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let run = move |input, handle: &ThreadHandle<_>| {
            if input == 1 {
                return Err(io::Error::other("no ring"));
            }
            if handle.report_ready(String::new()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let reported = |failure: &ShardFailure| panic!("reported: {failure}");
        let inputs = vec![0, 1, 2];
        let failure = spawn_threads("shard", &placement(3), inputs, run, reported).unwrap_err();
        assert_eq!(failure.to_string(), "shard 1: no ring");
        assert_eq!(started.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn panic_before_start_is_a_start_error() {
        let run = |(), _: &ThreadHandle<()>| panic!("on {}", "purpose");
        let failure = spawn_threads("shard", &placement(1), vec![()], run, |_| {}).unwrap_err();
        assert_eq!(failure.to_string(), "shard 0 panicked: on purpose");
    }

    #[test]
    fn panic_is_reported_while_others_run() {
        let (release, released) = unbounded::<()>();
        let run = move |input, handle: &ThreadHandle<_>| {
            assert!(handle.report_ready(String::new()));
            assert_ne!(input, 0, "the first one fails");
            released.recv().map_err(io::Error::other)
        };
        let reported = move |_: &ShardFailure| release.send(()).unwrap();
        let mut group = spawn_threads("shard", &placement(2), vec![0, 1], run, reported).unwrap();
        let failure = group.join().unwrap_err();
        assert_eq!(failure.shard, ShardId(0));
        assert!(
            matches!(failure.cause, FailureCause::Panicked(message) if message.contains("first"))
        );
    }

    #[test]
    fn last_thread_wakes_waiting_task() {
        let (release, released) = unbounded::<()>();
        let run = move |input, handle: &ThreadHandle<_>| {
            assert!(handle.report_ready(String::new()));
            released.recv().map_err(io::Error::other)?;
            Ok(input)
        };
        let mut group = spawn_threads("shard", &placement(2), vec![1, 2], run, |_| {}).unwrap();
        let (wake, woken) = unbounded();
        let waker = crate::ring::Waker::new(move || wake.send(()).unwrap());
        let waker = Waker::from(Arc::new(WakeBy(waker)));
        let context = Context::from_waker(&waker);
        assert!(group.poll_join(&context).is_pending());
        release.send(()).unwrap();
        release.send(()).unwrap();
        woken.recv().unwrap();
        let Poll::Ready(results) = group.poll_join(&context) else { panic!("both have ended") };
        assert_eq!(results.unwrap(), [1, 2]);
    }

    struct WakeBy(crate::ring::Waker);

    impl std::task::Wake for WakeBy {
        fn wake(self: Arc<Self>) {
            self.0.wake();
        }
    }
}
