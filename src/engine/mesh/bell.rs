//! The bell: how a ring calls the glommio executor that its shard shares a thread with.
//!
//! The kernel adds to an eventfd whenever something completes on the ring, wakers add to it as
//! well, and a task of the executor reads it. It stands in this room because glommio adopts a
//! descriptor only through an `unsafe` function.
//!
//! What it keeps true: what happened after one ring of the bell makes the next; rings between two
//! looks fold into one. Looking costs no more than a cell, however often it is done.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glommio::Task;
use glommio::io::BufferedFile;
use rustix::event::{EventfdFlags, eventfd};

use crate::engine::ring::Ring;

/// One ring's bell, in the executor of the calling thread.
#[derive(Debug)]
pub(crate) struct Bell {
    event: OwnedFd,
    state: Rc<State>,
    /// Gone once it is no longer this bell's to end.
    reader: Option<Task<()>>,
}

#[derive(Debug, Default)]
struct State {
    has_rung: Cell<bool>,
    ends: Cell<bool>,
    failure: RefCell<Option<io::Error>>,
    listener: RefCell<Option<Waker>>,
}

impl Bell {
    /// Hangs a bell on `ring`.
    ///
    /// # Errors
    ///
    /// Where the ring is none that can ring one, or descriptors are short.
    pub(crate) fn hang(ring: &mut impl Ring) -> io::Result<Self> {
        // Blocking, so that a read waits for the count to rise.
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.signal_through(event.as_fd())?;
        let read_end = event.try_clone()?.into_raw_fd();
        // SAFETY: the descriptor is open, and nobody else owns it: `into_raw_fd` gave it up. The
        // file closes it.
        let file = unsafe { BufferedFile::from_raw_fd(read_end) };
        let state = Rc::<State>::default();
        let reader = Some(glommio::spawn_local(read(file, Rc::clone(&state))));
        Ok(Self { event, state, reader })
    }

    /// Takes the bell down. Awaited before the executor ends: a read that is still with the kernel
    /// then would be written to memory that is free.
    pub(crate) async fn close(mut self) {
        self.end();
        if let Some(reader) = self.reader.take() {
            reader.await;
        }
    }

    /// Completes the read that waits and lets no other follow.
    fn end(&self) {
        self.state.ends.set(true);
        // The count cannot be full: one read was enough to empty it.
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).unwrap_or(0);
    }

    /// Resolves when the bell has rung since it resolved the last time.
    ///
    /// # Errors
    ///
    /// Where the reading failed, which a healthy kernel has no reason to do.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.state.failure.borrow_mut().take() {
            return Poll::Ready(Err(error));
        }
        if self.state.has_rung.take() {
            return Poll::Ready(Ok(()));
        }
        *self.state.listener.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Reads the event for as long as the bell hangs.
async fn read(file: BufferedFile, state: Rc<State>) {
    while !state.ends.get() {
        let result = file.read_at(0, size_of::<u64>()).await;
        state.has_rung.set(true);
        let failure = result.err().map(io::Error::from);
        let fails = failure.is_some();
        *state.failure.borrow_mut() = failure;
        let listener = state.listener.borrow_mut().take();
        if let Some(listener) = listener {
            listener.wake();
        }
        if fails {
            break;
        }
    }
    // A descriptor that cannot be closed has been closed.
    file.close().await.unwrap_or(());
}

impl Drop for Bell {
    /// Without [`Bell::close`] the reader ends by itself on the executor's next round.
    fn drop(&mut self) {
        self.end();
        if let Some(reader) = self.reader.take() {
            drop(reader.detach());
        }
    }
}
