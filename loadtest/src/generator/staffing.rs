//! How many workers a run has, and how large their rings are.
//!
//! A ring over `io_uring` takes as many connections as the process may have files open, each ring
//! on its own; readiness takes them out of one number for the whole process.

use corelane::engine::ring::RingOptions;

use super::crew::Fruitless;

/// Sockets of a ring beside those of its connections: one that ends keeps its place for a while.
const SPARE_SOCKETS: u32 = 64;
/// Files that a process has open beside its connections, and those of each worker.
const FILES: (u32, u32) = (64, 8);

/// Who does a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Staff {
    /// How many workers.
    pub(super) workers: u32,
    /// Whether all connections together may take a file each.
    pub(super) may_poll: bool,
}

impl Staff {
    /// At least `wanted` workers for so many connections, and as many as it takes where the process
    /// may have `files` open. `has_uring` is asked only where that decides.
    ///
    /// # Errors
    ///
    /// Where the connections fit only into rings that this machine does not have.
    pub(super) fn of(
        connections: usize,
        wanted: u32,
        files: u32,
        has_uring: impl FnOnce() -> bool,
    ) -> Result<Self, Fruitless> {
        let connections = u32::try_from(connections.max(1)).unwrap_or(u32::MAX);
        let needed = connections.div_ceil(files.saturating_sub(SPARE_SOCKETS).max(1));
        let workers = wanted.max(needed).clamp(1, connections);
        let others = FILES.0.saturating_add(workers.saturating_mul(FILES.1));
        let possible = files.saturating_sub(others);
        let may_poll = connections <= possible;
        if !may_poll && !has_uring() {
            return Err(Fruitless::Crowded { connections, files, possible });
        }
        Ok(Self { workers, may_poll })
    }
}

/// The sizes of one of `workers` rings for `connections` of all of them.
///
/// The completion queue has room for a completion of each socket and one of each send in one turn.
/// Receive buffers are used in turn, so that more of them than have something to hold at one time
/// only leave the caches of the core: at 1,000 connections over HTTP 4,096 of them cost a tenth
/// more CPU a request than 1,024.
pub(super) fn sizes(connections: usize, workers: u32, files: u32) -> RingOptions {
    let share = connections.div_ceil(workers.max(1) as usize);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let buffers = share.clamp(BUFFERS.0, BUFFERS.1).next_power_of_two();
    RingOptions {
        sockets_max: share.saturating_add(SPARE_SOCKETS).min(files),
        completions_max: share.saturating_mul(2).clamp(COMPLETIONS.0, COMPLETIONS.1),
        receive_buffers: u16::try_from(buffers).unwrap_or(u16::MAX),
        ..RingOptions::default()
    }
}

/// The shortest and the longest completion queue (16 bytes each); the kernel takes no longer one.
const COMPLETIONS: (u32, u32) = (8_192, 65_536);
/// The fewest and the most receive buffers (4 KiB each).
const BUFFERS: (u32, u32) = (256, 4_096);

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(connections: usize, wanted: u32, files: u32) -> u32 {
        Staff::of(connections, wanted, files, || true).unwrap().workers
    }

    #[test]
    fn there_are_as_many_workers_as_were_asked_for_or_more_where_rings_are_too_small() {
        assert_eq!(workers(1_000, 1, 20_000), 1);
        assert_eq!(workers(1_000, 2, 20_000), 2);
        assert_eq!(workers(1, 2, 20_000), 1);
        assert_eq!(workers(60_000, 1, 20_000), 4);
        assert_eq!(workers(59_808, 1, 20_000), 3);
        assert_eq!(workers(60_000, 8, 20_000), 8);
        assert_eq!(workers(60_000, 1, 1_048_576), 1);
        assert_eq!(workers(0, 0, 0), 1);
    }

    #[test]
    fn readiness_takes_a_file_for_each_connection() {
        let staff = |connections| Staff::of(connections, 1, 20_000, || false);
        assert_eq!(staff(19_928).unwrap(), Staff { workers: 1, may_poll: true });
        let crowded = staff(60_000).unwrap_err().to_string();
        assert!(
            crowded.contains("60000 connections") && crowded.contains("ulimit -n"),
            "{crowded}"
        );
        let many = Staff::of(60_000, 1, 20_000, || true).unwrap();
        assert!(!many.may_poll);
    }

    #[test]
    fn rings_grow_with_their_connections_within_bounds() {
        let few = sizes(64, 1, 20_000);
        assert_eq!((few.sockets_max, few.completions_max, few.receive_buffers), (128, 8_192, 256));
        let many = sizes(60_000, 4, 20_000);
        let grown = (many.sockets_max, many.completions_max, many.receive_buffers);
        assert_eq!(grown, (15_064, 30_000, 4_096));
        let deep = sizes(usize::MAX, 1, 20_000);
        let grown = (deep.sockets_max, deep.completions_max, deep.receive_buffers);
        assert_eq!(grown, (20_000, 65_536, 4_096));
    }
}
