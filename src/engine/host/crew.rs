//! The crew: one named, pinned thread for each shard, from start-up to the last one's end.
//!
//! What it keeps true: either every shard starts or none goes on. A thread that cannot start (an
//! error, a panic) ends the launch with its cause, after the threads that waited have returned.
//! Later each failure is told as it comes, so that the other shards can be drained.

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
pub struct Crew<T> {
    threads: Vec<JoinHandle<()>>,
    descriptions: Vec<String>,
    reports: Receiver<(ShardId, Report<T>)>,
}

/// What a shard's thread knows of its crew.
#[derive(Debug)]
pub struct Berth<T> {
    shard: ShardId,
    reports: Sender<(ShardId, Report<T>)>,
    orders: Receiver<()>,
}

#[derive(Debug)]
enum Report<T> {
    Ready(String),
    Ended(Result<T, Cause>),
}

/// One shard that did not start or did not end well.
#[derive(Debug)]
pub struct Failure {
    /// Which one.
    pub shard: ShardId,
    /// Why.
    pub cause: Cause,
}

/// Why a shard failed.
#[derive(Debug)]
pub enum Cause {
    /// The system refused something; the text names cause and remedy.
    Failed(io::Error),
    /// It panicked with this message: a broken invariant of ours.
    Panicked(String),
}

/// Starts a thread for each of `loads`, named `name-0` and so on and pinned by `placement`. There
/// `live` makes a shard of its load, calls [`Berth::ready`] and runs the shard to its end. Returns
/// once all of them are ready.
///
/// # Errors
///
/// The first thread that could not be started or pinned, or whose `live` came back before it was
/// ready.
pub fn launch<X, T>(
    name: &str,
    placement: &Placement,
    loads: Vec<X>,
    live: impl Fn(X, &Berth<T>) -> io::Result<T> + Send + Sync + 'static,
) -> Result<Crew<T>, Failure>
where
    X: Send + 'static,
    T: Send + 'static,
{
    let (reporter, reports) = unbounded();
    let (order, orders) = unbounded();
    let (live, placement) = (Arc::new(live), Arc::new(placement.clone()));
    let descriptions = vec![String::new(); loads.len()];
    let mut crew = Crew { threads: Vec::with_capacity(loads.len()), descriptions, reports };
    for (shard, load) in (0..u16::MAX).map(ShardId).zip(loads) {
        let berth = Berth { shard, reports: reporter.clone(), orders: orders.clone() };
        let (live, placement) = (Arc::clone(&live), Arc::clone(&placement));
        let body = move || {
            let ending = contain(|| {
                placement.pin(shard)?;
                live(load, &berth)
            });
            berth.tell(Report::Ended(ending));
        };
        let thread = std::thread::Builder::new().name(format!("{name}-{shard}"));
        match thread.spawn(body) {
            Ok(thread) => crew.threads.push(thread),
            Err(error) => {
                drop(order);
                crew.dismiss();
                return Err(Failure { shard, cause: Cause::Failed(error) });
            }
        }
    }
    if let Err(failure) = crew.await_ready() {
        drop(order);
        crew.dismiss();
        return Err(failure);
    }
    for _ in &crew.threads {
        order.send(()).unwrap_or_else(|_| unreachable!("every thread waits for its order"));
    }
    Ok(crew)
}

impl<T> Berth<T> {
    /// Which shard lives here.
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Tells that the shard can start, with a `description` for the log, and waits for the others;
    /// `false` where one of them cannot, so that this one must return without starting.
    #[must_use = "a shard must not start where another one cannot"]
    pub fn ready(&self, description: String) -> bool {
        self.tell(Report::Ready(description));
        self.orders.recv().is_ok()
    }

    fn tell(&self, report: Report<T>) {
        // Where the crew was dropped nobody wants to hear it.
        drop(self.reports.send((self.shard, report)));
    }
}

impl<T> Crew<T> {
    /// What each shard said when it was ready.
    pub fn descriptions(&self) -> &[String] {
        &self.descriptions
    }

    /// Waits until every shard has ended and returns what they ended with, in their order. At the
    /// first failure `alarm` is called at once, while other shards may still run: the place to
    /// drain them.
    ///
    /// # Errors
    ///
    /// The first failure, after all have ended.
    pub fn join(self, mut alarm: impl FnMut(&Failure)) -> Result<Vec<T>, Failure> {
        let mut ended: Vec<Option<T>> = self.threads.iter().map(|_| None).collect();
        let mut first = None;
        // Ends when the last thread has dropped its sender.
        for (shard, report) in &self.reports {
            match report {
                Report::Ready(_) => {}
                Report::Ended(Ok(value)) => ended[shard.index()] = Some(value),
                Report::Ended(Err(cause)) => {
                    if first.is_none() {
                        alarm(first.insert(Failure { shard, cause }));
                    }
                }
            }
        }
        self.dismiss();
        match first {
            Some(failure) => Err(failure),
            None => Ok(ended.into_iter().flatten().collect()),
        }
    }

    fn await_ready(&mut self) -> Result<(), Failure> {
        let mut waiting = self.threads.len();
        while waiting > 0 {
            let Ok((shard, report)) = self.reports.recv() else {
                unreachable!("every thread reports its end");
            };
            match report {
                Report::Ready(description) => {
                    self.descriptions[shard.index()] = description;
                    waiting -= 1;
                }
                Report::Ended(Err(cause)) => return Err(Failure { shard, cause }),
                Report::Ended(Ok(_)) => {
                    let error = io::Error::other("the shard ended before it was ready");
                    return Err(Failure { shard, cause: Cause::Failed(error) });
                }
            }
        }
        Ok(())
    }

    /// Waits for the threads themselves.
    fn dismiss(self) {
        for thread in self.threads {
            // What it unwound with, if anything, it has reported.
            drop(thread.join());
        }
    }
}

/// Runs the life of a shard and tells how it ended.
fn contain<T>(live: impl FnOnce() -> io::Result<T>) -> Result<T, Cause> {
    // Nothing of the shard is seen again after a panic.
    match catch_unwind(AssertUnwindSafe(live)) {
        Ok(result) => result.map_err(Cause::Failed),
        Err(payload) => Err(Cause::Panicked(message(payload.as_ref()))),
    }
}

/// The text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Failed(error) => write!(formatter, "shard {}: {error}", self.shard),
            Cause::Panicked(message) => {
                write!(formatter, "shard {} panicked: {message}", self.shard)
            }
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Failed(error) => Some(error),
            Cause::Panicked(_) => None,
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
    fn every_shard_lives_on_a_thread_of_its_own_name_and_ends_with_its_value() {
        let crew = launch("crew", &placement(3), vec![10, 20, 30], |load, berth| {
            assert!(berth.ready(format!("load {load}")));
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            assert_eq!(name, format!("crew-{}", berth.shard()));
            Ok(load + 1)
        })
        .unwrap();
        assert_eq!(crew.descriptions(), ["load 10", "load 20", "load 30"]);
        assert_eq!(crew.join(|_| {}).unwrap(), [11, 21, 31]);
    }

    #[test]
    fn one_shard_that_cannot_start_stops_the_others() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let failure = launch("crew", &placement(3), vec![0, 1, 2], move |load, berth| {
            if load == 1 {
                return Err(io::Error::other("no ring"));
            }
            if berth.ready(String::new()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
        .unwrap_err();
        assert_eq!(failure.to_string(), "shard 1: no ring");
        assert_eq!(started.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_before_the_start_is_a_start_up_error() {
        let failure =
            launch("crew", &placement(1), vec![()], |(), _: &Berth<()>| panic!("on {}", "purpose"))
                .unwrap_err();
        assert_eq!(failure.to_string(), "shard 0 panicked: on purpose");
    }

    #[test]
    fn a_panic_is_told_while_the_others_still_run() {
        let (release, released) = unbounded::<()>();
        let crew = launch("crew", &placement(2), vec![0, 1], move |load, berth| {
            assert!(berth.ready(String::new()));
            assert_ne!(load, 0, "the first one fails");
            released.recv().map_err(io::Error::other)
        })
        .unwrap();
        let failure = crew.join(|_| release.send(()).unwrap()).unwrap_err();
        assert_eq!(failure.shard, ShardId(0));
        assert!(matches!(failure.cause, Cause::Panicked(message) if message.contains("first")));
    }
}
