//! The submission and completion queues of a ring, and the count of what is in flight.
//!
//! Invariants: a submission that finds the submission queue full waits in the backlog and keeps its
//! order; `in_flight` is zero only if the kernel uses no memory of a submission.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::CancelBuilder;
use io_uring::{IoUring, Submitter, opcode, squeue};

use super::operations::{OperationKind, encode, is_last};
use super::sys::RingFd;
use crate::clock::Clock;
use crate::ring::{Completion, ParkTimeout, Socket};
use corelane_base::time::Instant;

/// The queues of one ring.
pub(super) struct Queues {
    ring: IoUring,
    ring_fd: RingFd,
    /// Submissions that found the queue full while the kernel was busy.
    backlog: VecDeque<squeue::Entry>,
    /// Submissions whose last completion has not been reaped, including the backlog. Excludes
    /// `MSG_RING`, which completes only on failure.
    in_flight: usize,
    /// Completions that did not come from the kernel.
    ready: Vec<Completion>,
    /// Times that the completion queue was full at the end of a turn.
    overflows: u64,
}

/// An entry of the completion queue, copied out of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletionEntry {
    pub(super) user_data: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

/// Number of receives cancelled before completions are reaped.
const CANCEL_BATCH: usize = 256;

impl Queues {
    pub(super) const fn new(ring: IoUring, ring_fd: RingFd) -> Self {
        Self {
            ring,
            ring_fd,
            backlog: VecDeque::new(),
            in_flight: 0,
            ready: Vec::new(),
            overflows: 0,
        }
    }

    /// Returns the descriptor of the ring.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as the ring, which outlives this borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Returns the interface that registers resources with the ring.
    pub(super) fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    /// Has the kernel signal `eventfd` on every completion.
    pub(super) fn register_eventfd(&self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.submitter().register_eventfd(eventfd.as_raw_fd())
    }

    /// Queues one submission. A full queue is flushed; if that fails, the entry waits in the
    /// backlog until the next park.
    #[inline]
    pub(super) fn push(&mut self, entry: squeue::Entry) {
        self.in_flight += 1;
        if !self.backlog.is_empty() || self.try_push(&entry).is_err() {
            self.backlog.push_back(entry);
        }
    }

    /// Queues one submission that is not counted as in flight, unless others wait in the backlog.
    pub(super) fn push_uncounted(&mut self, entry: &squeue::Entry) -> Result<(), ()> {
        if self.backlog.is_empty() { self.try_push(entry) } else { Err(()) }
    }

    fn try_push(&mut self, entry: &squeue::Entry) -> Result<(), ()> {
        // SAFETY: every entry comes from this backend's builders, whose memory stays valid until
        // the completion (see the backend's invariants).
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        if self.enter(ParkTimeout::Zero).is_err() {
            return Err(());
        }
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| ())
    }

    /// Cancels the operation with user data `kind` and `index`.
    pub(super) fn cancel(&mut self, kind: OperationKind, index: u32) {
        let entry = opcode::AsyncCancel::new(encode(kind, index)).build();
        self.push(entry.user_data(encode(OperationKind::Cancel, 0)));
    }

    /// Queues the submissions of the backlog that find room.
    pub(super) fn flush_backlog(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if self.try_push(&entry).is_err() {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Enters the kernel with the queued submissions. Transient errors are ignored.
    #[inline]
    pub(super) fn enter(&mut self, timeout: ParkTimeout) -> io::Result<()> {
        let queued = self.ring.submission().len();
        match self.ring_fd.enter(queued, timeout) {
            Err(error) if is_transient(&error) => Ok(()),
            entered => entered,
        }
    }

    /// Moves the entries of the completion queue to `into`, and counts an overflow.
    #[inline]
    pub(super) fn take_entries(&mut self, into: &mut Vec<CompletionEntry>) {
        self.overflows += u64::from(self.ring.submission().cq_overflow());
        into.extend(self.ring.completion().map(|entry| CompletionEntry {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }

    /// Counts a completion: the last one of a submission ends it.
    #[inline]
    pub(super) fn count_completion(&mut self, entry: CompletionEntry) {
        self.in_flight -= usize::from(is_last(entry.user_data, entry.flags));
    }

    /// Adds a completion that did not come from the kernel.
    pub(super) fn complete(&mut self, completion: Completion) {
        self.ready.push(completion);
    }

    /// Appends the completions that did not come from the kernel to `into`.
    #[inline]
    pub(super) fn take_ready(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.ready);
    }

    /// Returns whether a park may wait: no completion is ready, and no submission in the backlog.
    pub(super) fn may_wait(&self) -> bool {
        self.ready.is_empty() && self.backlog.is_empty()
    }

    /// Returns how often the completion queue was full at the end of a turn.
    pub(super) const fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Cancels all operations and discards their completions; `receiving` names the sockets with a
    /// receive in flight. Returns whether all operations completed before `deadline`.
    pub(super) fn cancel_all(
        &mut self,
        receiving: &[Socket],
        clock: Clock,
        deadline: Instant,
    ) -> bool {
        // The kernel has not seen the backlog.
        self.in_flight -= self.backlog.len();
        self.backlog.clear();
        self.cancel_receives(receiving);
        let mut cancels = true;
        while self.in_flight > 0 {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            // A full queue is emptied by the enter below.
            if cancels && self.try_push(&entry.user_data(encode(OperationKind::Cancel, 0))).is_ok()
            {
                self.in_flight += 1;
            }
            let entered = self.enter(ParkTimeout::After(CANCEL_INTERVAL));
            cancels = !self.discard_completions();
            if entered.is_err() || clock.now() >= deadline {
                break;
            }
        }
        self.in_flight == 0
    }

    /// Cancels each receive by its user data. Cancelling everything at once takes quadratic time in
    /// the kernel: three seconds for 15,000 receives.
    fn cancel_receives(&mut self, receiving: &[Socket]) {
        for some in receiving.chunks(CANCEL_BATCH) {
            for socket in some {
                let entry =
                    opcode::AsyncCancel::new(encode(OperationKind::Receive, socket.0)).build();
                // If the queue is full, it is cancelled with the rest.
                if self.try_push(&entry.user_data(encode(OperationKind::Cancel, 0))).is_ok() {
                    self.in_flight += 1;
                }
            }
            if self.enter(ParkTimeout::Zero).is_err() {
                return;
            }
            self.discard_completions();
        }
    }

    /// Discards all completions; returns whether there were any.
    fn discard_completions(&mut self) -> bool {
        let before = self.in_flight;
        for entry in self.ring.completion() {
            let is_last = is_last(entry.user_data(), entry.flags());
            self.in_flight = self.in_flight.saturating_sub(usize::from(is_last));
        }
        self.in_flight < before
    }

    /// Unregisters direct descriptors and buffers, and the ring's descriptor. Errors are ignored.
    pub(super) fn unregister(&mut self, buffer_group: u16) {
        let submitter = self.ring.submitter();
        submitter.unregister_files().unwrap_or(());
        submitter.unregister_buf_ring(buffer_group).unwrap_or(());
        self.ring_fd.unregister();
    }
}

/// Whether the error is transient: a timeout, a signal, completions to be reaped first, or a lack
/// of memory.
fn is_transient(error: &io::Error) -> bool {
    let codes = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// After this time without a completion everything is cancelled again: operations that run on a
/// kernel thread may have missed the cancellation.
const CANCEL_INTERVAL: Duration = Duration::from_millis(10);
