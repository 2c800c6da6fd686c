//! The threads of all shards: named, pinned, started together.
//!
//! Invariants: either every shard starts or none does. A thread that fails to start (an error or a
//! panic) fails the whole start, after the waiting threads have returned. Later failures are
//! reported immediately, so that the other shards can be drained.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::engine::mesh::ShardId;
use crate::engine::placement::Placement;

/// The threads of all shards, each of which ends with a `T`.
#[derive(Debug)]
pub struct ThreadGroup<T> {
    threads: Vec<JoinHandle<()>>,
    descriptions: Vec<String>,
    reports: Receiver<(ShardId, ThreadReport<T>)>,
}

/// A shard thread's handle to its group.
#[derive(Debug)]
pub struct ThreadHandle<T> {
    shard: ShardId,
    reports: Sender<(ShardId, ThreadReport<T>)>,
    start_signal: Receiver<()>,
}

#[derive(Debug)]
enum ThreadReport<T> {
    Ready(String),
    Ended(Result<T, FailureCause>),
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
/// until it ends. Returns once all threads are ready.
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
) -> Result<ThreadGroup<T>, ShardFailure>
where
    X: Send + 'static,
    T: Send + 'static,
{
    let (report_tx, report_rx) = unbounded();
    let (start_tx, start_rx) = unbounded();
    let (run, placement) = (Arc::new(run), Arc::new(placement.clone()));
    let descriptions = vec![String::new(); inputs.len()];
    let threads = Vec::with_capacity(inputs.len());
    let mut group = ThreadGroup { threads, descriptions, reports: report_rx };
    for (shard, input) in (0..u16::MAX).map(ShardId).zip(inputs) {
        let handle =
            ThreadHandle { shard, reports: report_tx.clone(), start_signal: start_rx.clone() };
        let (run, placement) = (Arc::clone(&run), Arc::clone(&placement));
        let body = move || {
            let result = catch_panic(|| {
                placement.pin(shard)?;
                run(input, &handle)
            });
            handle.send_report(ThreadReport::Ended(result));
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
        self.start_signal.recv().is_ok()
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

    /// Waits until every shard has ended and returns their results in order. Calls `on_failure` at
    /// the first failure, while other shards may still run, so that they can be drained.
    ///
    /// # Errors
    ///
    /// The first failure, after all threads have ended.
    pub fn join(self, mut on_failure: impl FnMut(&ShardFailure)) -> Result<Vec<T>, ShardFailure> {
        let mut results: Vec<Option<T>> = self.threads.iter().map(|_| None).collect();
        let mut first = None;
        // Ends when the last thread has dropped its sender.
        for (shard, report) in &self.reports {
            match report {
                ThreadReport::Ready(_) => {}
                ThreadReport::Ended(Ok(value)) => results[shard.index()] = Some(value),
                ThreadReport::Ended(Err(cause)) => {
                    if first.is_none() {
                        on_failure(first.insert(ShardFailure { shard, cause }));
                    }
                }
            }
        }
        self.join_threads();
        match first {
            Some(failure) => Err(failure),
            None => Ok(results.into_iter().flatten().collect()),
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
                ThreadReport::Ended(Err(cause)) => return Err(ShardFailure { shard, cause }),
                ThreadReport::Ended(Ok(_)) => {
                    let error = io::Error::other("the shard ended before it was ready");
                    return Err(ShardFailure { shard, cause: FailureCause::Io(error) });
                }
            }
        }
        Ok(())
    }

    /// Joins the threads.
    fn join_threads(self) {
        for thread in self.threads {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn placement(shards: u16) -> Placement {
        Placement::choose(None, Some(shards)).unwrap()
    }

    #[test]
    fn shard_threads_are_named_and_return_values() {
        let group = spawn_threads("shard", &placement(3), vec![10, 20, 30], |input, handle| {
            assert!(handle.report_ready(format!("input {input}")));
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            assert_eq!(name, format!("shard-{}", handle.shard()));
            Ok(input + 1)
        })
        .unwrap();
        assert_eq!(group.descriptions(), ["input 10", "input 20", "input 30"]);
        assert_eq!(group.join(|_| {}).unwrap(), [11, 21, 31]);
    }

    #[test]
    fn failed_shard_start_stops_the_others() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let failure = spawn_threads("shard", &placement(3), vec![0, 1, 2], move |input, handle| {
            if input == 1 {
                return Err(io::Error::other("no ring"));
            }
            if handle.report_ready(String::new()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
        .unwrap_err();
        assert_eq!(failure.to_string(), "shard 1: no ring");
        assert_eq!(started.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn panic_before_start_is_a_start_error() {
        let failure =
            spawn_threads("shard", &placement(1), vec![()], |(), _: &ThreadHandle<()>| {
                panic!("on {}", "purpose")
            })
            .unwrap_err();
        assert_eq!(failure.to_string(), "shard 0 panicked: on purpose");
    }

    #[test]
    fn panic_is_reported_while_others_run() {
        let (release, released) = unbounded::<()>();
        let group = spawn_threads("shard", &placement(2), vec![0, 1], move |input, handle| {
            assert!(handle.report_ready(String::new()));
            assert_ne!(input, 0, "the first one fails");
            released.recv().map_err(io::Error::other)
        })
        .unwrap();
        let failure = group.join(|_| release.send(()).unwrap()).unwrap_err();
        assert_eq!(failure.shard, ShardId(0));
        assert!(
            matches!(failure.cause, FailureCause::Panicked(message) if message.contains("first"))
        );
    }
}
