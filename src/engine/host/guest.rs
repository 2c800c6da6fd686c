//! A local future as its host sees it: counted, reachable, and contained when it panics.
//!
//! What it keeps true: the register counts a guest from its making until its future has been
//! dropped, and holds a waker of every guest that waits; a panic in the future, polled or dropped,
//! goes no further than here. The panic itself is told by the process's panic hook.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::LocalFuture;
use crate::base::slab::{Key, Slab};

/// The guests of one host.
#[derive(Debug)]
pub(super) struct Register {
    /// A waker for every guest; none before it was polled for the first time.
    wakers: RefCell<Slab<Option<Waker>>>,
    panicked: Cell<u64>,
    closes: Cell<bool>,
    /// Whether a guest has run since somebody asked.
    moved: Cell<bool>,
    /// Who wants to hear when the next guest has run.
    listener: RefCell<Option<Waker>>,
}

impl Default for Register {
    fn default() -> Self {
        Self {
            wakers: RefCell::new(Slab::new(usize::MAX)),
            panicked: Cell::new(0),
            closes: Cell::new(false),
            moved: Cell::new(false),
            listener: RefCell::new(None),
        }
    }
}

impl Register {
    /// Guests whose futures have not been dropped.
    pub(super) fn alive(&self) -> usize {
        self.wakers.borrow().len()
    }

    /// Panics of guests so far.
    pub(super) const fn panicked(&self) -> u64 {
        self.panicked.get()
    }

    /// Asks every guest to end: each drops its future when it is next polled.
    pub(super) fn close(&self) {
        self.closes.set(true);
        let wakers: Vec<_> = self.wakers.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether a guest has run since the last time this was asked; if not, `listener` is woken
    /// when one has.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    pub(super) fn has_moved(&self, listener: &Waker) -> bool {
        let moved = self.moved.take();
        *self.listener.borrow_mut() = (!moved).then(|| listener.clone());
        moved
    }

    /// Takes what guests have done so far as seen.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    pub(super) fn forget_moves(&self) {
        self.moved.set(false);
    }

    /// Notes that a guest has run.
    fn tell_moved(&self) {
        self.moved.set(true);
        let listener = self.listener.borrow_mut().take();
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Does `act`; `None` where it panicked.
    fn contain<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        // The future is not used again after a panic; what it shares with others is theirs to keep
        // whole at every point where it may be left.
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
    key: Key,
    register: Rc<Register>,
}

impl Guest {
    pub(super) fn new(future: LocalFuture, register: &Rc<Register>) -> Self {
        let Ok(key) = register.wakers.borrow_mut().insert(None) else {
            unreachable!("memory ends before four thousand million futures are alive");
        };
        Self { future: Some(future), key, register: Rc::clone(register) }
    }

    fn remember(&self, waker: &Waker) {
        if let Some(place) = self.register.wakers.borrow_mut().get_mut(self.key) {
            place.get_or_insert_with(|| waker.clone());
        }
    }

    fn end(&mut self) {
        if let Some(future) = self.future.take() {
            self.register.contain(|| drop(future));
            let waker = self.register.wakers.borrow_mut().remove(self.key);
            // Dropped here, with the slab no longer borrowed.
            drop(waker);
            self.register.tell_moved();
        }
    }
}

impl Future for Guest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.remember(context.waker());
        let Self { future: Some(future), register, .. } = &mut *self else {
            return Poll::Ready(());
        };
        if !register.closes.get() {
            let polled = register.contain(|| future.as_mut().poll(context));
            register.tell_moved();
            if polled == Some(Poll::Pending) {
                return Poll::Pending;
            }
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
