//! Number of load threads, rings per thread, and sizes of the rings.
//!
//! Each `io_uring` ring holds as many connections as the process may have files open. A poll ring
//! shares one limit of open files with the whole process.

use corelane_engine::ring::RingOptions;

use super::ring_set::receive_buffers_max;
use super::run_error::RunError;

/// Socket slots of a ring beyond its connections: a closing socket keeps its slot for a while.
const SPARE_SOCKET_SLOTS: u32 = 64;
/// Files open besides connections: of the process, and of each load thread.
const RESERVED_FILES: (u32, u32) = (64, 8);

/// Number of load threads and rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ThreadPlan {
    pub(super) threads: u32,
    /// Rings of each load thread.
    pub(super) rings: u32,
    /// Whether the limit of open files allows a file for each connection.
    pub(super) can_use_poll: bool,
}

impl ThreadPlan {
    /// Plans `wanted` load threads, at most one per connection, each with as many rings as its
    /// connections need if the process may have `files` open. `has_uring` is called only if that
    /// decides.
    ///
    /// # Errors
    ///
    /// Returns [`RunError::TooManyConnections`] if only `io_uring` could hold the connections and
    /// it is not available.
    pub(super) fn new(
        connections: usize,
        wanted: u32,
        files: u32,
        has_uring: impl FnOnce() -> bool,
    ) -> Result<Self, RunError> {
        let connections = u32::try_from(connections.max(1)).unwrap_or(u32::MAX);
        let threads = wanted.clamp(1, connections);
        let held_max = files.saturating_sub(SPARE_SOCKET_SLOTS).max(1);
        let rings = connections.div_ceil(threads).div_ceil(held_max);
        let others = RESERVED_FILES.0.saturating_add(threads.saturating_mul(RESERVED_FILES.1));
        let possible = files.saturating_sub(others);
        let can_use_poll = connections <= possible;
        if !can_use_poll && !has_uring() {
            return Err(RunError::TooManyConnections {
                connections,
                open_files_max: files,
                connections_max: possible,
            });
        }
        Ok(Self { threads, rings, can_use_poll })
    }
}

/// Returns the options of each ring.
///
/// The completion queue holds a completion per socket and one per send of a turn, up to more than
/// the kernel delivers at once. Larger queues and more receive buffers than needed cost CPU time,
/// because their entries are used round-robin and evict each other from the caches: at 1,000 HTTP
/// connections, 4,096 buffers cost 10 % more CPU per request than 1,024, and those a few percent
/// more than 128; 4,096 submissions and 8,192 completions cost 0.5 % more than these. If one runs
/// out, the ring loses a turn and no data.
pub(super) fn ring_options(
    connections: usize,
    threads: u32,
    rings: u32,
    files: u32,
) -> RingOptions {
    let share = connections.div_ceil(threads.max(1) as usize).div_ceil(rings.max(1) as usize);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let buffers = (share / 8).clamp(BUFFERS.0, BUFFERS.1).next_power_of_two();
    let buffers = buffers.min(receive_buffers_max(rings));
    RingOptions {
        sockets_max: share.saturating_add(SPARE_SOCKET_SLOTS).min(files),
        submissions_max: SUBMISSIONS,
        completions_max: share.saturating_mul(2).clamp(COMPLETIONS.0, COMPLETIONS.1),
        receive_buffers: u16::try_from(buffers).unwrap_or(u16::MAX),
        ..RingOptions::default()
    }
}

/// Entries of the submission queue (64 bytes each): more than one turn fills.
const SUBMISSIONS: u32 = 256;
/// Minimum and maximum entries of the completion queue (16 bytes each).
const COMPLETIONS: (u32, u32) = (512, 4_096);
/// Minimum and maximum receive buffers (8 KiB each).
const BUFFERS: (u32, u32) = (64, 4_096);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of load threads and rings.
    fn thread_plan(connections: usize, wanted: u32, files: u32) -> (u32, u32) {
        let plan = ThreadPlan::new(connections, wanted, files, || true).unwrap();
        (plan.threads, plan.rings)
    }

    #[test]
    fn thread_plan_adds_rings_for_many_connections() {
        assert_eq!(thread_plan(1_000, 1, 20_000), (1, 1));
        assert_eq!(thread_plan(1_000, 2, 20_000), (2, 1));
        assert_eq!(thread_plan(1, 2, 20_000), (1, 1));
        assert_eq!(thread_plan(60_000, 1, 20_000), (1, 4));
        assert_eq!(thread_plan(60_000, 2, 20_000), (2, 2));
        assert_eq!(thread_plan(59_808, 1, 20_000), (1, 3));
        assert_eq!(thread_plan(60_000, 8, 20_000), (8, 1));
        assert_eq!(thread_plan(60_000, 1, 1_048_576), (1, 1));
        assert_eq!(thread_plan(0, 0, 0), (1, 1));
    }

    #[test]
    fn thread_plan_without_uring_limits_connections() {
        let plan = |connections| ThreadPlan::new(connections, 1, 20_000, || false);
        assert_eq!(plan(19_928).unwrap(), ThreadPlan { threads: 1, rings: 1, can_use_poll: true });
        let crowded = plan(60_000).unwrap_err().to_string();
        assert!(
            crowded.contains("60000 connections") && crowded.contains("ulimit -n"),
            "{crowded}"
        );
        let many = ThreadPlan::new(60_000, 1, 20_000, || true).unwrap();
        assert!(!many.can_use_poll);
    }

    #[test]
    fn ring_options_grow_with_connections_within_bounds() {
        let few = ring_options(64, 1, 1, 20_000);
        assert_eq!((few.sockets_max, few.completions_max, few.receive_buffers), (128, 512, 64));
        let many = ring_options(60_000, 1, 4, 20_000);
        let grown = (many.sockets_max, many.completions_max, many.receive_buffers);
        assert_eq!(grown, (15_064, 4_096, 2_048));
        let deep = ring_options(usize::MAX, 1, 1, 20_000);
        let grown = (deep.sockets_max, deep.completions_max, deep.receive_buffers);
        assert_eq!(grown, (20_000, 4_096, 4_096));
        assert_eq!(ring_options(60_000, 1, 2, 60_000).receive_buffers, 4_096);
        assert_eq!(ring_options(60_000, 1, 64, 1_000).receive_buffers, 128);
    }
}
