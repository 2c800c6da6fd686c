//! The time that a command has.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_client::{ClientError, ClientErrorKind};
use corelane_engine::clock::Clock;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Time by which a request that times out by itself may be late, so that its own error counts.
const GRACE: Duration = Duration::from_millis(250);
/// Least time between two looks at the clock.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time to close the connection of a command whose time is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The times of requests are multiples of it, rounded up.
const STEP_MS: u64 = 100;

/// The time that a command has since its start (`--timeout`). Time in which the user is asked does
/// not count.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    clock: Clock,
    /// `None` without a limit.
    limit: Option<Duration>,
    questions: Mutex<Questions>,
}

/// The time for which the user was asked.
#[derive(Clone, Copy, Debug, Default)]
struct Questions {
    /// Of the questions that are answered.
    time: Duration,
    /// Since when the user is asked.
    since: Option<Instant>,
}

impl TimeLimit {
    /// Starts a limit now.
    pub(crate) fn start(limit: Option<Duration>) -> Self {
        Self { clock: Clock::start(), limit, questions: Mutex::default() }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(Instant::ORIGIN)
    }

    /// Notes that the user is asked, or has answered.
    pub(crate) fn set_asking(&self, is_asking: bool) {
        let now = self.clock.now();
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = questions.since.take() {
            questions.time += now.since(since);
        }
        questions.since = is_asking.then_some(now);
    }

    /// Returns the time that is left; `None` without a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.limit?.saturating_sub(self.used()))
    }

    /// Returns the time since the end of the limit.
    fn overrun(&self) -> Duration {
        let limit = self.limit.unwrap_or(Duration::MAX);
        self.used().saturating_sub(limit)
    }

    /// Returns the time since the start in which the user was not asked.
    fn used(&self) -> Duration {
        let now = self.clock.now();
        let questions = *self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = questions.time + questions.since.map_or(Duration::ZERO, |it| now.since(it));
        now.since(Instant::ORIGIN).saturating_sub(asked)
    }

    /// Returns the time of a request that is sent now; `None` for the default.
    pub(crate) fn of_request(&self) -> Option<Duration> {
        let left = u64::try_from(self.left()?.as_millis()).unwrap_or(u64::MAX);
        let rounded = left.div_ceil(STEP_MS).max(1).saturating_mul(STEP_MS);
        self.limit.map(|limit| limit.min(Duration::from_millis(rounded)))
    }

    /// Waits for `future`, which does `what`.
    ///
    /// # Errors
    ///
    /// Its own; [`ClientErrorKind::Timeout`] once the time is over.
    pub(crate) fn run<T>(
        &self,
        what: &str,
        future: impl IntoFuture<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let time = || {
            let left = self.left().unwrap_or(Duration::MAX);
            if !left.is_zero() {
                return Some(left);
            }
            // The grace is that of the command, not of each of its requests.
            GRACE.checked_sub(self.overrun()).filter(|grace| !grace.is_zero())
        };
        block_until(future, time).unwrap_or_else(|| {
            let limit = self.limit.unwrap_or_default();
            let text = format!("{what} did not end within {limit:?}");
            Err(ClientError::new(ClientErrorKind::Timeout, text))
        })
    }

    /// Waits for the end of a connection, for a short time once the limit is over.
    pub(crate) fn close(&self, future: impl IntoFuture<Output = ()>) {
        let end = self.left().map(|left| self.clock.now().after(left.max(CLOSE_TIMEOUT)));
        let time = || {
            let Some(end) = end else { return Some(Duration::MAX) };
            let now = self.clock.now();
            (now < end).then(|| end.since(now))
        };
        block_until(future, time);
    }

    /// Waits for `delay`, unless the time is over before. Returns whether it has waited.
    pub(crate) fn wait(&self, delay: Duration) -> bool {
        if self.left().is_some_and(|left| left <= delay) {
            return false;
        }
        let until = self.clock.now().after(delay);
        while self.clock.now() < until {
            thread::park_timeout(until.since(self.clock.now()));
        }
        true
    }
}

/// Wakes a parked thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread until it ends or `time`, which returns the time that is left,
/// returns `None`.
fn block_until<F: IntoFuture>(future: F, time: impl Fn() -> Option<Duration>) -> Option<F::Output> {
    let mut future = pin!(future.into_future());
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match time()? {
            Duration::MAX => thread::park(),
            time => thread::park_timeout(time.max(CHECK_INTERVAL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[test]
    fn future_that_stays_pending_times_out() {
        let limit = TimeLimit::start(Some(Duration::from_millis(20)));
        let pending = future::pending::<Result<(), ClientError>>();
        let error = limit.run("a test", pending).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Timeout);
        assert_eq!(error.to_string(), "a test did not end within 20ms");
        assert!(!limit.wait(Duration::from_millis(1)));
    }

    #[test]
    fn questions_take_no_time_of_the_limit() {
        let limit = TimeLimit::start(Some(Duration::from_mins(1)));
        limit.set_asking(true);
        let left = limit.left().unwrap();
        thread::yield_now();
        assert_eq!(limit.left().unwrap(), left);
        limit.set_asking(false);
        assert!(limit.left().unwrap() <= left);
    }

    #[test]
    fn request_has_what_is_left() {
        let limit = TimeLimit::start(Some(Duration::from_mins(1)));
        assert_eq!(limit.of_request(), Some(Duration::from_mins(1)));
        assert_eq!(TimeLimit::start(None).of_request(), None);
    }
}
