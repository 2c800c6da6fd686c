//! Wakes the glommio executor that shares a thread with a shard when something completes on the
//! shard's ring.
//!
//! The kernel and the ring's wakers add to an eventfd, and a task of the executor reads it. The
//! file belongs to this module because glommio adopts descriptors only through an `unsafe`
//! function.
//!
//! Invariants: an event that follows a wake causes another one; wakes between two polls coalesce.
//! Polling without an event costs no system call.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glommio::Task;
use glommio::io::BufferedFile;
use rustix::event::{EventfdFlags, eventfd};

use crate::ring::Ring;

/// The eventfd of one ring, read by the executor of the calling thread.
#[derive(Debug)]
pub(crate) struct EventFdWaker {
    event: OwnedFd,
    state: Rc<WakerState>,
    /// `None` once it has been awaited or detached.
    reader_task: Option<Task<()>>,
}

#[derive(Debug, Default)]
struct WakerState {
    is_signalled: Cell<bool>,
    is_stopping: Cell<bool>,
    failure: RefCell<Option<io::Error>>,
    waker: RefCell<Option<Waker>>,
}

impl EventFdWaker {
    /// Registers a new eventfd with `ring` and starts the task that reads it.
    ///
    /// # Errors
    ///
    /// If the ring does not support eventfds (only `io_uring` does), or descriptors run out.
    pub(crate) fn register(ring: &mut impl Ring) -> io::Result<Self> {
        // Blocking, so that a read waits until the counter is not zero.
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.register_eventfd(event.as_fd())?;
        let read_end = event.try_clone()?.into_raw_fd();
        // SAFETY: the descriptor is open and unowned: `into_raw_fd` gave up its ownership. The file
        // closes it.
        let file = unsafe { BufferedFile::from_raw_fd(read_end) };
        let state = Rc::<WakerState>::default();
        let reader = Some(glommio::spawn_local(read_events(file, Rc::clone(&state))));
        Ok(Self { event, state, reader_task: reader })
    }

    /// Stops the task and waits for it. Must be awaited before the executor ends: the kernel could
    /// otherwise complete a pending read into freed memory.
    pub(crate) async fn close(mut self) {
        self.stop();
        if let Some(reader) = self.reader_task.take() {
            reader.await;
        }
    }

    /// Completes the pending read and prevents another one.
    fn stop(&self) {
        self.state.is_stopping.set(true);
        // The counter cannot overflow: every read resets it.
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).unwrap_or(0);
    }

    /// Resolves when a wake has occurred since the last time it resolved.
    ///
    /// # Errors
    ///
    /// If reading the eventfd failed.
    pub(crate) fn poll(&self, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.state.failure.borrow_mut().take() {
            return Poll::Ready(Err(error));
        }
        if self.state.is_signalled.take() {
            return Poll::Ready(Ok(()));
        }
        *self.state.waker.borrow_mut() = Some(ctx.waker().clone());
        Poll::Pending
    }
}

async fn read_events(file: BufferedFile, state: Rc<WakerState>) {
    while !state.is_stopping.get() {
        let result = file.read_at(0, size_of::<u64>()).await;
        state.is_signalled.set(true);
        let failure = result.err().map(io::Error::from);
        let has_failed = failure.is_some();
        *state.failure.borrow_mut() = failure;
        let waker = state.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        if has_failed {
            break;
        }
    }
    // A descriptor is released even when closing it reports an error.
    file.close().await.unwrap_or(());
}

impl Drop for EventFdWaker {
    /// Without [`EventFdWaker::close`], the task ends when the executor next runs it.
    fn drop(&mut self) {
        self.stop();
        if let Some(reader) = self.reader_task.take() {
            drop(reader.detach());
        }
    }
}
