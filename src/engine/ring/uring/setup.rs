//! Building a ring: what to ask the kernel for, what it granted, and what to say when it refuses.

use std::io;

use io_uring::{IoUring, Probe, opcode};

use super::kernel::Entrance;
use crate::engine::capacity::descriptors_max;
use crate::engine::ring::RingOptions;

/// What the kernel granted to one ring.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent kernel features")]
pub(super) struct Granted {
    /// `SINGLE_ISSUER` and `DEFER_TASKRUN` (6.1): completions are made on our own enter.
    pub(super) deferred: bool,
    /// `COOP_TASKRUN` (5.19), to fall back to. Its flag is not asked for: every turn enters.
    pub(super) cooperative: bool,
    /// `NO_SQARRAY` (6.6): one indirection less a submission.
    pub(super) no_array: bool,
    /// `MSG_RING` (5.18): shards wake each other without a descriptor.
    pub(super) message: bool,
    /// `BIND` (6.11): a direct descriptor is bound to a local address.
    pub(super) bind: bool,
    /// The ring's own descriptor is registered (5.18): one look-up less an enter.
    pub(super) ring_registered: bool,
    /// Slots for direct descriptors.
    pub(super) slots: u32,
}

/// Builds the ring with the best set of flags that this kernel takes. It must be called on the
/// thread that will use the ring.
pub(super) fn build(options: &RingOptions) -> io::Result<(IoUring, Entrance, Granted)> {
    let (ring, deferred, cooperative, no_array) = build_within(options).map_err(explain)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(explain)?;
    let has = |code| probe.is_supported(code);
    if !has(opcode::SendZc::CODE) || !has(opcode::Socket::CODE) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel's io_uring has no multishot receive (it needs Linux 6.0); \
             use --ring poll or a newer kernel",
        ));
    }
    let slots = register_slots(&ring, options.sockets_max)?;
    let entrance = Entrance::of(&ring);
    let granted = Granted {
        deferred,
        cooperative,
        no_array,
        message: has(opcode::MsgRingData::CODE),
        bind: has(opcode::Bind::CODE),
        ring_registered: entrance.is_registered(),
        slots,
    };
    Ok((ring, entrance, granted))
}

/// The smallest completion queue worth having: below it, the refusal is told.
const COMPLETIONS_MIN: u32 = 1_024;

/// Queues are locked memory, which the system bounds for each user: where the wanted ones do not
/// fit any more, shorter ones do the same with more overflows.
fn build_within(options: &RingOptions) -> io::Result<(IoUring, bool, bool, bool)> {
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

/// Tries the flag sets from the newest to the plainest.
fn build_ring(options: &RingOptions) -> io::Result<(IoUring, bool, bool, bool)> {
    let mut refusal = None;
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
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(refusal.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
}

/// Registers an empty table of direct descriptors, as large as the process's file limit allows.
fn register_slots(ring: &IoUring, wanted: u32) -> io::Result<u32> {
    let slots = wanted.clamp(1, descriptors_max());
    ring.submitter().register_files_sparse(slots).map_err(explain)?;
    Ok(slots)
}

/// Adds cause and remedy to the refusals that people meet.
fn explain(error: io::Error) -> io::Error {
    let remedy = match error.raw_os_error() {
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
    io::Error::new(error.kind(), format!("{remedy} ({error})"))
}

impl Granted {
    /// The set for the line at start.
    pub(super) fn describe(&self) -> String {
        let mut text = String::from("io_uring");
        let mut list = |granted: bool, name: &str| {
            text.push_str(if granted { " +" } else { " -" });
            text.push_str(name);
        };
        list(self.deferred, "defer_taskrun");
        if self.cooperative {
            list(true, "coop_taskrun");
        }
        list(self.no_array, "no_sqarray");
        list(self.message, "msg_ring");
        list(self.bind, "bind");
        list(self.ring_registered, "registered_ring");
        list(true, "direct_descriptors");
        list(true, "buffer_ring");
        text
    }
}
