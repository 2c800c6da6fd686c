//! The bell: how a ring calls the glommio executor that its shard shares a thread with.
//!
//! The kernel adds to an eventfd whenever something completes on the ring or someone wakes it, and
//! a read of that eventfd waits in the executor's own ring. It stands in this room because glommio
//! adopts a descriptor only through an `unsafe` function.
//!
//! What it keeps true: what happened after one ring of the bell makes the next; rings between two
//! polls fold into one. At most one read waits, and it survives polls that end for other reasons.

use std::io;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use glommio::io::BufferedFile;
use rustix::event::{EventfdFlags, eventfd};

use crate::engine::ring::Ring;

/// One ring's bell, in the executor of the calling thread.
pub(crate) struct Bell {
    file: Rc<BufferedFile>,
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = io::Result<()>>>>;

impl Bell {
    /// Hangs a bell on `ring`.
    ///
    /// # Errors
    ///
    /// Where the ring is none that can ring one, or descriptors are short.
    pub(crate) fn hang(ring: &mut impl Ring) -> io::Result<Self> {
        // Blocking, so that a read waits for the count to rise. The kernel keeps its own hold of
        // the event from the registration on.
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.signal_through(event.as_fd())?;
        // SAFETY: the descriptor is open, and nobody else owns it: `into_raw_fd` gave it up. The
        // file closes it.
        let file = unsafe { BufferedFile::from_raw_fd(event.into_raw_fd()) };
        Ok(Self { file: Rc::new(file), reading: None })
    }

    /// Resolves when the bell has rung since it resolved the last time.
    ///
    /// # Errors
    ///
    /// Where the read fails, which a healthy kernel has no reason to do.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let file = &self.file;
        let reading = self.reading.get_or_insert_with(|| {
            let file = Rc::clone(file);
            Box::pin(async move {
                file.read_at(0, size_of::<u64>()).await.map(drop).map_err(io::Error::from)
            })
        });
        let polled = reading.as_mut().poll(context);
        if polled.is_ready() {
            self.reading = None;
        }
        polled
    }
}
