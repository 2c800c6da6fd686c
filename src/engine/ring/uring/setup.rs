//! Creation of a ring: the features requested, those available, and errors with advice.

use std::io;

use io_uring::{IoUring, Probe, opcode};

use super::sys::RingFd;
use crate::process::raise_open_files_limit;
use crate::ring::{RingOptions, SocketLimit};

/// The kernel features that a ring uses.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent kernel features")]
pub(super) struct RingFeatures {
    /// `SINGLE_ISSUER` and `DEFER_TASKRUN` (6.1): completions are created only in our own enter.
    pub(super) defer_taskrun: bool,
    /// `COOP_TASKRUN` (5.19), the fallback. `TASKRUN_FLAG` is not set: every turn enters.
    pub(super) coop_taskrun: bool,
    /// `NO_SQARRAY` (6.6): one indirection less per submission.
    pub(super) no_sqarray: bool,
    /// `MSG_RING` (5.18): shards wake each other without a descriptor.
    pub(super) msg_ring: bool,
    /// `BIND` (6.11): binds a direct descriptor to a local address.
    pub(super) bind: bool,
    /// The ring's own descriptor is registered (5.18): one lookup less per enter.
    pub(super) registered_ring: bool,
    /// Number of slots for direct descriptors.
    pub(super) slots: u32,
    /// What bounds them.
    pub(super) socket_limit: SocketLimit,
}

/// Creates a ring with the best set of flags that this kernel supports. Must be called on the
/// thread that will use the ring.
pub(super) fn build(options: &RingOptions) -> io::Result<(IoUring, RingFd, RingFeatures)> {
    let (ring, deferred, cooperative, no_array) =
        build_with_fallback_sizes(options).map_err(add_advice)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(add_advice)?;
    let has = |code| probe.is_supported(code);
    if !has(opcode::SendZc::CODE) || !has(opcode::Socket::CODE) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel's io_uring has no multishot receive (it needs Linux 6.0); \
             use --ring poll or a newer kernel",
        ));
    }
    let socket_limit = register_slots(&ring, options.sockets_max)?;
    let (SocketLimit::OpenFiles(slots) | SocketLimit::SocketsMax(slots)) = socket_limit;
    let entrance = RingFd::register(&ring);
    let granted = RingFeatures {
        defer_taskrun: deferred,
        coop_taskrun: cooperative,
        no_sqarray: no_array,
        msg_ring: has(opcode::MsgRingData::CODE),
        bind: has(opcode::Bind::CODE),
        registered_ring: entrance.is_registered(),
        slots,
        socket_limit,
    };
    Ok((ring, entrance, granted))
}

/// The smallest completion queue to fall back to.
const COMPLETIONS_MIN: u32 = 1_024;

/// Creates a ring. Queues are locked memory, which the system limits for each user: if the
/// requested sizes do not fit, smaller ones are tried, which work with more overflows.
fn build_with_fallback_sizes(options: &RingOptions) -> io::Result<(IoUring, bool, bool, bool)> {
    let mut sizes = *options;
    loop {
        match build_ring(&sizes) {
            Err(error)
                if error.raw_os_error() == Some(libc::ENOMEM)
                    && sizes.completions_max > COMPLETIONS_MIN =>
            {
                sizes.completions_max /= 2;
                sizes.submissions_max = sizes.submissions_max.min(sizes.completions_max / 2);
            }
            built => return built,
        }
    }
}

/// Tries sets of flags from the newest to the oldest.
fn build_ring(options: &RingOptions) -> io::Result<(IoUring, bool, bool, bool)> {
    let mut last_error = None;
    for (deferred, cooperative, no_array) in
        [(true, false, true), (true, false, false), (false, true, false), (false, false, false)]
    {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(options.completions_max);
        if no_array {
            builder.setup_no_sqarray();
        }
        if deferred {
            builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
        }
        if cooperative {
            builder.setup_coop_taskrun().setup_submit_all();
        }
        match builder.build(options.submissions_max) {
            Ok(ring) => return Ok((ring, deferred, cooperative, no_array)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last_error = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last_error.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
}

/// Registers an empty table of direct descriptors, limited by the process's limit of open files.
fn register_slots(ring: &IoUring, slots_max: u32) -> io::Result<SocketLimit> {
    let open_files = raise_open_files_limit();
    let slots = slots_max.clamp(1, open_files);
    ring.submitter().register_files_sparse(slots).map_err(add_advice)?;
    let is_bound = open_files < slots_max;
    Ok(if is_bound { SocketLimit::OpenFiles(slots) } else { SocketLimit::SocketsMax(slots) })
}

/// Adds cause and advice to frequent errors.
fn add_advice(error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here (a container's seccomp profile, or the sysctl \
             kernel.io_uring_disabled); allow it or use --ring poll"
        }
        Some(libc::ENOSYS) => "this kernel has no io_uring; use --ring poll",
        Some(libc::ENOMEM) => {
            "the memory lock limit is too small for the ring (ulimit -l); raise it or use \
             smaller ring.submissions_max and ring.completions_max"
        }
        Some(libc::EINVAL) => "this kernel's io_uring is too old (before 6.0); use --ring poll",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{advice} ({error})"))
}

impl RingFeatures {
    /// Describes the features, for the log.
    pub(super) fn describe(&self) -> String {
        let mut text = String::from("io_uring");
        let mut list = |granted: bool, name: &str| {
            text.push_str(if granted { " +" } else { " -" });
            text.push_str(name);
        };
        list(self.defer_taskrun, "defer_taskrun");
        if self.coop_taskrun {
            list(true, "coop_taskrun");
        }
        list(self.no_sqarray, "no_sqarray");
        list(self.msg_ring, "msg_ring");
        list(self.bind, "bind");
        list(self.registered_ring, "registered_ring");
        list(true, "direct_descriptors");
        list(true, "buffer_ring");
        text
    }
}
