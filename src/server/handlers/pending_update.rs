//! A catalog update that a local handler waits for.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::server::shard_message::UpdateResult;
use crate::service::{CatalogError, CatalogUpdate};

/// An update, its result, and the waker of the handler that waits for it.
pub struct PendingUpdate {
    update: Cell<Option<CatalogUpdate>>,
    result: Cell<Option<UpdateResult>>,
    waker: RefCell<Option<Waker>>,
}

impl PendingUpdate {
    pub fn new(update: CatalogUpdate) -> Rc<Self> {
        let (update, result, waker) =
            (Cell::new(Some(update)), Cell::default(), RefCell::default());
        Rc::new(Self { update, result, waker })
    }

    /// Takes the update closure, once.
    pub fn take_update(&self) -> Option<CatalogUpdate> {
        self.update.take()
    }

    /// Stores the result and wakes the handler.
    pub fn complete(&self, result: UpdateResult) {
        self.result.set(Some(result));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for PendingUpdate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingUpdate").finish_non_exhaustive()
    }
}

/// Resolves with the result of the update. Panics if the update panicked.
#[derive(Debug)]
pub(super) struct UpdateFuture(pub(super) Rc<PendingUpdate>);

impl Future for UpdateFuture {
    type Output = Result<(), CatalogError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = self.0.result.take() else {
            self.0.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        };
        Poll::Ready(result.unwrap_or_else(|| panic!("the catalog update panicked")))
    }
}
