//! The kernel interface of this backend: `io_uring_enter(2)`, socket addresses, and socket options
//! of direct descriptors, which setsockopt(2) cannot reach.
//!
//! The layouts and numbers of `linux/io_uring.h` and `bits/socket.h` are defined only here.
//!
//! `io_uring_enter(2)` is the system call of a turn: it submits, runs deferred task work and waits.
//! It is not made through the `io_uring` crate, whose registration of the descriptor of the ring
//! ends with a borrow of its submitter: the kernel would hold the ring as long as the thread lives,
//! and every call would still look the descriptor up.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::types::Fixed;
use io_uring::{IoUring, opcode, squeue};

use crate::ring::ParkTimeout;

/// Enters a ring through its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFd {
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

/// A buffer for a socket address of either family.
#[derive(Clone, Copy)]
pub(crate) struct SocketAddressBuffer {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

#[expect(clippy::cast_possible_truncation, reason = "the sizes of C structs fit a socklen_t")]
const STORAGE_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

impl SocketAddressBuffer {
    /// Creates an empty buffer, to be filled by the kernel.
    pub(crate) const fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage (family AF_UNSPEC).
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, len: STORAGE_BYTES }
    }

    /// Creates a buffer that holds `address`.
    pub(crate) fn from_address(address: SocketAddr) -> Self {
        let raw = socket2::SockAddr::from(address);
        let mut room = Self::empty();
        // SAFETY: both point to valid memory of at least `raw.len()` bytes, which is at most the
        // size of a sockaddr_storage.
        unsafe {
            ptr::copy_nonoverlapping(
                raw.as_ptr().cast::<u8>(),
                (&raw mut room.storage).cast::<u8>(),
                raw.len() as usize,
            );
        }
        room.len = raw.len();
        room
    }

    /// Returns pointers to address and length, for accept.
    pub(crate) fn as_mut_pointers(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        self.len = STORAGE_BYTES;
        ((&raw mut self.storage).cast(), &raw mut self.len)
    }

    /// Returns a pointer to the address and its length, for bind and connect.
    pub(crate) const fn as_pointer(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }

    pub(crate) fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// Parses the address that the kernel wrote; returns `None` for other families.
    pub(crate) fn parse(&self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: the family shows that this is a sockaddr_in.
                let raw = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family shows that this is a sockaddr_in6.
                let raw = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                let port = u16::from_be(raw.sin6_port);
                Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// Sets one option of the socket in `slot`. Kernels before 6.7 refuse. `value` must be static,
/// because the kernel reads it later.
pub(crate) fn set_option<T>(
    slot: u32,
    level: libc::c_int,
    name: libc::c_int,
    value: &'static T,
) -> squeue::Entry {
    let value_bytes = u32::try_from(size_of::<T>()).unwrap_or(0);
    let value = ptr::from_ref(value).cast();
    opcode::SetSockOpt::new(
        Fixed(slot),
        level.cast_unsigned(),
        name.cast_unsigned(),
        value,
        value_bytes,
    )
    .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_survive_the_kernel_format() {
        for text in ["127.0.0.3:65535", "[::1]:1", "[fe80::7%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddressBuffer::from_address(address).parse(), Some(address));
        }
        assert_eq!(SocketAddressBuffer::empty().parse(), None);
    }
}
