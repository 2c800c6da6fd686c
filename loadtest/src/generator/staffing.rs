//! How many workers a run has, how many rings each of them, and how large those are.
//!
//! A ring over `io_uring` takes as many connections as the process may have files open, each ring
//! on its own; readiness takes them out of one number for the whole process.

use corelane::engine::ring::RingOptions;

use super::crew::Fruitless;
use super::rings::receive_buffers_max;

/// Sockets of a ring beside those of its connections: one that ends keeps its place for a while.
const SPARE_SOCKETS: u32 = 64;
/// Files that a process has open beside its connections, and those of each worker.
const FILES: (u32, u32) = (64, 8);

/// Who does a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Staff {
    /// How many workers.
    pub(super) workers: u32,
    /// How many rings each of them has.
    pub(super) rings: u32,
    /// Whether all connections together may take a file each.
    pub(super) may_poll: bool,
}

impl Staff {
    /// `wanted` workers for so many connections, or one for each connection where that is fewer,
    /// with as many rings as it takes where the process may have `files` open. `has_uring` is
    /// asked only where that decides.
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
        let workers = wanted.clamp(1, connections);
        let held_max = files.saturating_sub(SPARE_SOCKETS).max(1);
        let rings = connections.div_ceil(workers).div_ceil(held_max);
        let others = FILES.0.saturating_add(workers.saturating_mul(FILES.1));
        let possible = files.saturating_sub(others);
        let may_poll = connections <= possible;
        if !may_poll && !has_uring() {
            return Err(Fruitless::Crowded { connections, files, possible });
        }
        Ok(Self { workers, rings, may_poll })
    }
}

/// The sizes of each ring of a crew that has so many connections.
///
/// The completion queue has room for a completion of each socket and one of each send in one turn,
/// up to more than the kernel brings at once. The places of the queues and the receive buffers are
/// used in turn, so that more of them than have something to hold at one time only leave the caches
/// of the core: at 1,000 connections over HTTP 4,096 buffers cost a tenth more CPU a request than
/// 1,024, and those some hundredths more than 128; queues of 4,096 submissions and of 8,192
/// completions cost half a hundredth more than these. Where one of them runs out for a moment,
/// nothing is lost but a turn.
pub(super) fn sizes(connections: usize, (workers, rings): (u32, u32), files: u32) -> RingOptions {
    let share = connections.div_ceil(workers.max(1) as usize).div_ceil(rings.max(1) as usize);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let buffers = (share / 8).clamp(BUFFERS.0, BUFFERS.1).next_power_of_two();
    let buffers = buffers.min(receive_buffers_max(rings));
    RingOptions {
        sockets_max: share.saturating_add(SPARE_SOCKETS).min(files),
        submissions_max: SUBMISSIONS,
        completions_max: share.saturating_mul(2).clamp(COMPLETIONS.0, COMPLETIONS.1),
        receive_buffers: u16::try_from(buffers).unwrap_or(u16::MAX),
        ..RingOptions::default()
    }
}

/// Entries of the submission queue (64 bytes each): more than one turn fills over connections that
/// are open.
const SUBMISSIONS: u32 = 256;
/// The shortest and the longest completion queue (16 bytes each).
const COMPLETIONS: (u32, u32) = (512, 4_096);
/// The fewest and the most receive buffers (4 KiB each).
const BUFFERS: (u32, u32) = (64, 4_096);

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers and the rings of each.
    fn staff(connections: usize, wanted: u32, files: u32) -> (u32, u32) {
        let staff = Staff::of(connections, wanted, files, || true).unwrap();
        (staff.workers, staff.rings)
    }

    #[test]
    fn there_are_as_many_workers_as_were_asked_for_and_more_rings_where_one_is_too_small() {
        assert_eq!(staff(1_000, 1, 20_000), (1, 1));
        assert_eq!(staff(1_000, 2, 20_000), (2, 1));
        assert_eq!(staff(1, 2, 20_000), (1, 1));
        assert_eq!(staff(60_000, 1, 20_000), (1, 4));
        assert_eq!(staff(60_000, 2, 20_000), (2, 2));
        assert_eq!(staff(59_808, 1, 20_000), (1, 3));
        assert_eq!(staff(60_000, 8, 20_000), (8, 1));
        assert_eq!(staff(60_000, 1, 1_048_576), (1, 1));
        assert_eq!(staff(0, 0, 0), (1, 1));
    }

    #[test]
    fn readiness_takes_a_file_for_each_connection() {
        let staff = |connections| Staff::of(connections, 1, 20_000, || false);
        assert_eq!(staff(19_928).unwrap(), Staff { workers: 1, rings: 1, may_poll: true });
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
        let few = sizes(64, (1, 1), 20_000);
        assert_eq!((few.sockets_max, few.completions_max, few.receive_buffers), (128, 512, 64));
        let many = sizes(60_000, (1, 4), 20_000);
        let grown = (many.sockets_max, many.completions_max, many.receive_buffers);
        assert_eq!(grown, (15_064, 4_096, 2_048));
        let deep = sizes(usize::MAX, (1, 1), 20_000);
        let grown = (deep.sockets_max, deep.completions_max, deep.receive_buffers);
        assert_eq!(grown, (20_000, 4_096, 4_096));
        assert_eq!(sizes(60_000, (1, 2), 60_000).receive_buffers, 4_096);
        assert_eq!(sizes(60_000, (1, 64), 1_000).receive_buffers, 128);
    }
}
