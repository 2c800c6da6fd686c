//! One change of the catalog that a local handler waits for, on its shard.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::service::{CatalogError, Edit};

/// What came of an edit; none where it panicked.
pub(in crate::server) type Made = Option<Result<(), CatalogError>>;

/// An edit on its way, where what comes of it is laid down, and who waits for it.
pub(in crate::server) struct Draft {
    edit: Cell<Option<Edit>>,
    made: Cell<Option<Made>>,
    waker: RefCell<Option<Waker>>,
}

impl Draft {
    /// An edit that nobody has taken on.
    pub(in crate::server) fn new(edit: Edit) -> Rc<Self> {
        let (edit, made, waker) = (Cell::new(Some(edit)), Cell::default(), RefCell::default());
        Rc::new(Self { edit, made, waker })
    }

    /// Takes the edit on, once.
    pub(in crate::server) fn take(&self) -> Option<Edit> {
        self.edit.take()
    }

    /// Lays down what came of it, and wakes whoever waits.
    pub(in crate::server) fn put(&self, made: Made) {
        self.made.set(Some(made));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Draft").finish_non_exhaustive()
    }
}

/// Resolves when a change was made. Panics where the edit did: whoever waits for it wrote it.
#[derive(Debug)]
pub(in crate::server) struct Awaited(pub(in crate::server) Rc<Draft>);

impl Future for Awaited {
    type Output = Result<(), CatalogError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(made) = self.0.made.take() else {
            self.0.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        };
        Poll::Ready(made.unwrap_or_else(|| panic!("the edit of the catalog panicked")))
    }
}
