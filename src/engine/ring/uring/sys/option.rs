//! Socket options of direct descriptors, which setsockopt(2) cannot reach.

use io_uring::types::Fixed;
use io_uring::{opcode, squeue};

/// Sets one option of the socket in `slot`. Kernels before 6.7 refuse. `value` must be static,
/// because the kernel reads it later.
pub(crate) fn set_option<T>(
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
