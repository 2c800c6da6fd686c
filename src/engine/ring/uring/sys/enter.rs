//! The system call of a turn: `io_uring_enter(2)` submits, runs deferred task work and waits.
//!
//! Not made through the `io_uring` crate, whose registration of the ring's descriptor ends with a
//! borrow of its submitter: the kernel would hold the ring as long as the thread lives, and every
//! call would still look the descriptor up.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::IoUring;

use crate::ring::ParkTimeout;

/// Enters a ring through its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFd {
    /// The ring's descriptor.
    fd: RawFd,
    /// Its index among the registered rings of this thread (5.18): one lookup less a call.
    registered_index: Option<u32>,
}

impl RingFd {
    /// Registers the descriptor of `ring` for the calling thread.
    pub(crate) fn register(ring: &IoUring) -> Self {
        let fd = ring.as_raw_fd();
        let data = u64::try_from(fd).unwrap_or(u64::MAX);
        let mut update = RsrcUpdate { offset: u32::MAX, reserved: 0, data };
        let is_registered = update_ring_fds(fd, REGISTER_RING_FDS, &mut update);
        Self { fd, registered_index: is_registered.then_some(update.offset) }
    }

    /// Returns whether the descriptor is registered.
    pub(crate) const fn is_registered(self) -> bool {
        self.registered_index.is_some()
    }

    /// Unregisters the descriptor, which would otherwise keep the ring alive.
    pub(crate) fn unregister(&mut self) {
        if let Some(offset) = self.registered_index.take() {
            let mut update = RsrcUpdate { offset, reserved: 0, data: 0 };
            update_ring_fds(self.fd, UNREGISTER_RING_FDS, &mut update);
        }
    }

    /// Submits `queued` entries and waits for at least one completion or the timeout. Runs deferred
    /// task work and flushes overflowed completions in any case.
    ///
    /// # Errors
    ///
    /// The kernel's error; `ETIME` on timeout.
    #[inline]
    pub(crate) fn enter(self, queued: usize, timeout: ParkTimeout) -> io::Result<()> {
        let (completions_min, duration) = match timeout {
            ParkTimeout::Zero => (0, None),
            ParkTimeout::After(duration) => (1, Some(duration)),
            ParkTimeout::Infinite => (1, None),
        };
        let timespec = duration.map(Timespec::from);
        let arguments = timespec.as_ref().map(|timespec| GeteventsArg {
            sigmask: 0,
            sigmask_bytes: 0,
            reserved: 0,
            timeout: ptr::from_ref(timespec),
        });
        let (fd, flags) = match self.registered_index {
            Some(offset) => (i64::from(offset), ENTER_GETEVENTS | ENTER_REGISTERED_RING),
            None => (i64::from(self.fd), ENTER_GETEVENTS),
        };
        let (flags, pointer, bytes) = match &arguments {
            Some(arguments) => {
                (flags | ENTER_EXT_ARG, ptr::from_ref(arguments), size_of::<GeteventsArg>())
            }
            None => (flags, ptr::null(), 0),
        };
        // SAFETY: the arguments and the timespec live until the call returns, and the kernel only
        // reads them. Memory that submissions refer to is upheld by their builders.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                fd,
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

/// Registers or unregisters a ring descriptor; returns `false` on failure.
fn update_ring_fds(descriptor: RawFd, operation: libc::c_int, update: &mut RsrcUpdate) -> bool {
    let update = ptr::from_mut(update);
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update`, which is exclusively
    // borrowed.
    let registered =
        unsafe { libc::syscall(libc::SYS_io_uring_register, descriptor, operation, update, 1) };
    registered == 1
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RsrcUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct GeteventsArg {
    sigmask: u64,
    sigmask_bytes: u32,
    reserved: u32,
    timeout: *const Timespec,
}

/// `struct __kernel_timespec`.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl From<Duration> for Timespec {
    fn from(duration: Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: i64::from(duration.subsec_nanos()) }
    }
}

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 8;
const ENTER_REGISTERED_RING: u32 = 16;
const REGISTER_RING_FDS: libc::c_int = 20;
const UNREGISTER_RING_FDS: libc::c_int = 21;
