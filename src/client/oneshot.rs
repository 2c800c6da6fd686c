//! A value that one thread sends and one task receives.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

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
