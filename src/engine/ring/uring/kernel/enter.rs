//! The system call of a turn: submit what is queued, run what the kernel has deferred, wait.
//!
//! Made here and not through the wrapper of the `io_uring` crate, whose registration of the ring's
//! descriptor lives in a short borrow: the kernel would hold the ring for as long as the thread
//! lives, and every call would look the descriptor up all the same.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::IoUring;

use crate::engine::ring::Patience;

/// How a ring is entered.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine::ring::uring) struct Entrance {
    /// The ring's descriptor.
    descriptor: RawFd,
    /// Its number among those that this thread has registered (5.18): one look-up less a call.
    registered: Option<u32>,
}

impl Entrance {
    /// The entrance of `ring` for the calling thread.
    pub(in crate::engine::ring::uring) fn of(ring: &IoUring) -> Self {
        let descriptor = ring.as_raw_fd();
        let data = u64::try_from(descriptor).unwrap_or(u64::MAX);
        let mut update = Update { offset: u32::MAX, reserved: 0, data };
        let is_registered = register(descriptor, REGISTER_RING_FDS, &mut update);
        Self { descriptor, registered: is_registered.then_some(update.offset) }
    }

    /// Whether the short way was granted.
    pub(in crate::engine::ring::uring) const fn is_registered(self) -> bool {
        self.registered.is_some()
    }

    /// Gives the registration back: it would keep the ring alive.
    pub(in crate::engine::ring::uring) fn close(&mut self) {
        if let Some(offset) = self.registered.take() {
            let mut update = Update { offset, reserved: 0, data: 0 };
            register(self.descriptor, UNREGISTER_RING_FDS, &mut update);
        }
    }

    /// Submits `queued` entries and waits for at least one completion or the end of `patience`.
    /// Completions that were deferred or did not fit are made in any case.
    ///
    /// # Errors
    ///
    /// What the kernel says; `ETIME` where patience ended.
    #[inline]
    pub(in crate::engine::ring::uring) fn enter(
        self,
        queued: usize,
        patience: Patience,
    ) -> io::Result<()> {
        let (completions_min, span) = match patience {
            Patience::None => (0, None),
            Patience::For(span) => (1, Some(span)),
            Patience::Forever => (1, None),
        };
        let span = span.map(Timespec::from);
        let arguments = span.as_ref().map(|span| Arguments {
            signals: 0,
            signals_bytes: 0,
            reserved: 0,
            span: ptr::from_ref(span),
        });
        let (number, flags) = match self.registered {
            Some(offset) => (i64::from(offset), ENTER_GETEVENTS | ENTER_REGISTERED_RING),
            None => (i64::from(self.descriptor), ENTER_GETEVENTS),
        };
        let (flags, pointer, bytes) = match &arguments {
            Some(arguments) => {
                (flags | ENTER_EXT_ARG, ptr::from_ref(arguments), size_of::<Arguments>())
            }
            None => (flags, ptr::null(), 0),
        };
        // SAFETY: the arguments and the time they point at live until the call returns, and the
        // kernel only reads them. What the entries themselves point at is the business of whoever
        // queued them.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                number,
                queued,
                completions_min,
                flags,
                pointer,
                bytes,
            )
        };
        if entered < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Registers or forgets one ring descriptor of this thread; `false` where the kernel refuses.
fn register(descriptor: RawFd, operation: libc::c_int, update: &mut Update) -> bool {
    let update = ptr::from_mut(update);
    // SAFETY: the kernel reads and writes one `Update`, which is there and borrowed for it alone.
    let registered =
        unsafe { libc::syscall(libc::SYS_io_uring_register, descriptor, operation, update, 1) };
    registered == 1
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Update {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct Arguments {
    signals: u64,
    signals_bytes: u32,
    reserved: u32,
    span: *const Timespec,
}

/// `struct __kernel_timespec`.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl From<Duration> for Timespec {
    fn from(span: Duration) -> Self {
        let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: i64::from(span.subsec_nanos()) }
    }
}

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 8;
const ENTER_REGISTERED_RING: u32 = 16;
const REGISTER_RING_FDS: libc::c_int = 20;
const UNREGISTER_RING_FDS: libc::c_int = 21;
