//! What a local handler holds while it runs: the way back to its caller.
//!
//! A local handler is a future on the shard that received the call. [`Live`] is its handle to that
//! shard: it tells progress, hears of cancellation and waits. The shard stands behind [`LiveHost`],
//! so that this room knows neither clock nor executor and a test can stand in for the server.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::service::outcome::Cancelled;

/// A future that the host of a handler lends.
pub type HostFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// What the server gives to one running local handler.
pub trait LiveHost {
    /// Tells the caller how far the work is; see [`Live::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Resolves when the request is cancelled, at once where it already is.
    fn cancelled(&self) -> HostFuture<()>;

    /// Resolves after `span` on the shard's clock.
    fn sleep(&self, span: Duration) -> HostFuture<()>;
}

/// A local handler's handle to its request. Cheap to clone; stays on its shard.
///
/// When the caller cancels, [`Live::sleep`] and [`Live::run`] return [`Cancelled`], which `?` turns
/// into the end of the handler. A handler that waits for something else should wait through
/// [`Live::run`], or it is dropped only when it comes to an end by itself.
#[derive(Clone)]
pub struct Live {
    host: Rc<dyn LiveHost>,
}

impl Live {
    /// A handle over what the server lends.
    pub fn new(host: Rc<dyn LiveHost>) -> Self {
        Self { host }
    }

    /// Sends `notifications/progress` where the caller asked for it with a progress token, and does
    /// nothing otherwise. `progress` must grow from call to call; `total` and `message` are shown
    /// as they are, the message by revisions from 2025-03-26 on.
    ///
    /// Source: 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Whether the request was cancelled; nothing that the handler still says will be sent.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Waits until the request is cancelled; forever where that never happens.
    pub fn cancelled(&self) -> HostFuture<()> {
        self.host.cancelled()
    }

    /// Waits for `span`, or less where the request is cancelled meanwhile. Costs one timer.
    pub fn sleep(&self, span: Duration) -> impl Future<Output = Result<(), Cancelled>> + use<> {
        self.run(self.host.sleep(span))
    }

    /// Runs `work` to its end, or drops it as soon as the request is cancelled.
    pub fn run<F: Future>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Cancelled>> + use<F> {
        let mut cancelled = self.host.cancelled();
        async move {
            let mut work = pin!(work);
            poll_fn(|context| {
                // Cancellation first: a caller that has gone must not cost another step of work.
                if cancelled.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(Cancelled));
                }
                work.as_mut().poll(context).map(Ok)
            })
            .await
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Live").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    /// A host whose timers end at once or never, and whose request may be cancelled.
    #[derive(Default)]
    struct Still {
        cancelled: Cell<bool>,
        timers_stand: Cell<bool>,
    }

    impl LiveHost for Still {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.cancelled.get()
        }

        fn cancelled(&self) -> HostFuture<()> {
            if self.cancelled.get() { Box::pin(ready(())) } else { Box::pin(pending()) }
        }

        fn sleep(&self, _: Duration) -> HostFuture<()> {
            if self.timers_stand.get() { Box::pin(pending()) } else { Box::pin(ready(())) }
        }
    }

    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sleep_ends_when_its_timer_does() {
        let live = Live::new(Rc::new(Still::default()));
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Ready(Ok(())));
    }

    #[test]
    fn cancellation_ends_a_wait_that_would_go_on() {
        let host = Rc::new(Still::default());
        host.timers_stand.set(true);
        let live = Live::new(Rc::<Still>::clone(&host));
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Pending);
        host.cancelled.set(true);
        assert!(live.is_cancelled());
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Ready(Err(Cancelled)));
        assert_eq!(poll_once(live.run(pending::<()>())), Poll::Ready(Err(Cancelled)));
        assert_eq!(poll_once(live.cancelled()), Poll::Ready(()));
    }

    #[test]
    fn work_that_is_done_hands_its_value_back() {
        let live = Live::new(Rc::new(Still::default()));
        assert_eq!(poll_once(live.run(ready(7))), Poll::Ready(Ok(7)));
        assert_eq!(poll_once(live.run(pending::<()>())), Poll::Pending);
    }
}
