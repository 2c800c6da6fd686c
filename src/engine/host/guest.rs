//! A local future as its host sees it: counted, and contained when it panics.
//!
//! What it keeps true: the register counts a guest from its making until its future has been
//! dropped; a panic in the future, polled or dropped, goes no further than here. The panic itself
//! is told by the process's panic hook.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::LocalFuture;

/// The guests of one host.
#[derive(Debug, Default)]
pub(super) struct Register {
    alive: Cell<usize>,
    panicked: Cell<u64>,
}

impl Register {
    /// Guests whose futures have not been dropped.
    pub(super) const fn alive(&self) -> usize {
        self.alive.get()
    }

    /// Panics of guests so far.
    pub(super) const fn panicked(&self) -> u64 {
        self.panicked.get()
    }

    /// Does `act`; `None` where it panicked.
    fn contain<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        // What the future shares with others was changed by code that does not own the shard;
        // whoever lent it must hold its own invariants at every point where it may be left.
        let result = catch_unwind(AssertUnwindSafe(act));
        if result.is_err() {
            self.panicked.set(self.panicked.get() + 1);
        }
        result.ok()
    }
}

/// One future.
pub(super) struct Guest {
    /// Gone once it has ended.
    future: Option<LocalFuture>,
    register: Rc<Register>,
}

impl Guest {
    pub(super) fn new(future: LocalFuture, register: &Rc<Register>) -> Self {
        register.alive.set(register.alive.get() + 1);
        Self { future: Some(future), register: Rc::clone(register) }
    }

    fn end(&mut self) {
        if let Some(future) = self.future.take() {
            self.register.contain(|| drop(future));
            self.register.alive.set(self.register.alive.get() - 1);
        }
    }
}

impl Future for Guest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { future, register } = &mut *self;
        let Some(future) = future else { return Poll::Ready(()) };
        let polled = register.contain(|| future.as_mut().poll(context));
        if polled == Some(Poll::Pending) {
            return Poll::Pending;
        }
        self.end();
        Poll::Ready(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}
