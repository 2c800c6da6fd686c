//! How the allocator of the process returns freed memory to the system.

/// Size from which an allocation is a memory mapping of its own, and free bytes at the end of a
/// heap above which they are returned. Smaller values cost system calls and page faults per
/// message; larger ones keep that much memory for each thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED_BYTES_MIN: libc::c_int = 2 << 20;

/// Variables that configure the allocator of glibc.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const VARIABLES: [&str; 3] = ["GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];

/// Makes the allocator return the memory of large strings to the system when they are freed.
/// Returns whether it did. Call once, before the first thread starts.
///
/// The allocator of glibc raises both sizes, up to 32 and 64 MiB, when large allocations are freed.
/// Later ones are parts of its heaps, where memory stays resident behind smaller allocations. Other
/// allocators, and variables that configure this one, are left alone.
pub fn return_large_allocations() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !is_configured() {
        return [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD].into_iter().all(|parameter| {
            // SAFETY: the call has no precondition; it sets a parameter of the allocator, and does
            // nothing in another one.
            unsafe { libc::mallopt(parameter, RETURNED_BYTES_MIN) == 1 }
        });
    }
    false
}

/// Returns whether the environment configures the allocator of glibc.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(clippy::disallowed_methods, reason = "variables of glibc, not options of the server")]
fn is_configured() -> bool {
    VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
}

/// Returns the free pages of all heaps to the system, with glibc. A thread that allocates waits for
/// the trim of its heap: tens of milliseconds if hundreds of megabytes are free.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call has no precondition; the allocator locks each heap while it trims it.
    unsafe {
        libc::malloc_trim(0);
    }
}
