//! What threads share, and how they wait: a value that is set once, a value that clients have in
//! common, a future on a thread without an executor.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::{fmt, mem, thread};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// The value that was shared last: the clients of a process mostly have equal options.
pub(super) struct SharedValue<T>(Mutex<Weak<T>>);

impl<T: PartialEq> SharedValue<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the value that was shared last, if it is in use and equals `value`, else `value`.
    pub fn share(&self, value: T) -> Arc<T> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.upgrade()
            && *last == value
        {
            return last;
        }
        let shared = Arc::new(value);
        *last = Arc::downgrade(&shared);
        shared
    }
}

/// Wakes a parked thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(ThreadWaker(thread::current())).into();
}

/// Runs a future to its end on this thread, for programs and tests without a runtime.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    let waker = WAKER.with(Waker::clone);
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Set once a connection is closed.
pub(super) type CloseSlot = Arc<Oneshot<()>>;

/// The place of one value. It is set at most once; later values are dropped.
pub struct Oneshot<T>(Mutex<State<T>>);

enum State<T> {
    /// Not set; the task to wake.
    Pending(Option<Waker>),
    Set(T),
    Taken,
}

impl<T> Default for Oneshot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Oneshot<T> {
    /// Creates a place without a value.
    pub const fn new() -> Self {
        Self(Mutex::new(State::Pending(None)))
    }

    /// Sets the value and wakes the task.
    pub fn set(&self, value: T) {
        if let Some(waker) = self.store(value) {
            waker.wake();
        }
    }

    /// Sets the value. Returns what wakes the task.
    pub(super) fn store(&self, value: T) -> Option<Waker> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Pending(waker) = &mut *state else { return None };
        let waker = waker.take();
        *state = State::Set(value);
        waker
    }

    /// Takes the value once it is set. Pending for good after that.
    pub fn poll_take(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Set(_) => match mem::replace(&mut *state, State::Taken) {
                State::Set(value) => Poll::Ready(value),
                State::Pending(_) | State::Taken => Poll::Pending,
            },
            State::Pending(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Taken => Poll::Pending,
        }
    }

    /// Takes the value once it is set.
    pub async fn take(&self) -> T {
        poll_fn(|context| self.poll_take(context)).await
    }

    /// Returns whether the value is neither set nor taken.
    pub fn is_pending(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*state, State::Pending(_))
    }
}

impl<T> fmt::Debug for Oneshot<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Oneshot").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let values = SharedValue::new();
        let first = values.share("a".to_owned());
        assert!(Arc::ptr_eq(&first, &values.share("a".to_owned())));
        let other = values.share("b".to_owned());
        assert_eq!((&**first, &**other), ("a", "b"));
        drop(other);
        assert_eq!(*values.share("b".to_owned()), "b");
    }
}
