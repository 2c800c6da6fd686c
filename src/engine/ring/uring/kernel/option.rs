//! Socket options of direct descriptors, which no system call but the ring's own reaches.

use io_uring::types::Fixed;
use io_uring::{opcode, squeue};

/// Sets one option of the socket in `slot`. A kernel before 6.7 refuses. `value` must stay where
/// it is until the kernel has read it: hand in a static.
pub(in crate::engine::ring::uring) fn set_option<T>(
    slot: u32,
    level: libc::c_int,
    name: libc::c_int,
    value: &'static T,
) -> squeue::Entry {
    let value_bytes = u32::try_from(size_of::<T>()).unwrap_or(0);
    let value = std::ptr::from_ref(value).cast();
    opcode::SetSockOpt::new(
        Fixed(slot),
        level.cast_unsigned(),
        name.cast_unsigned(),
        value,
        value_bytes,
    )
    .build()
}
