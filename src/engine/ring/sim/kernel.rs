//! The kernel state of one simulated ring: sockets, receive buffers and pending completions.
//!
//! Invariants, upheld by panics: one send in flight per socket, no operation on a closed socket, no
//! buffer released twice, no name reused before its [`Completion::Closed`]. Bytes are moved by
//! [`Kernels`](super::kernels::Kernels).

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ResourceUsage;
use super::connection::EndId;
use crate::ring::{Completion, ReceiveBuffer, RingOptions, Socket};
use corelane_base::random::Random;
use corelane_base::time::Instant;

/// The kernel state of one ring.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) options: RingOptions,
    pub(super) usage: ResourceUsage,
    pub(super) buffers: BufferSet,
    pub(super) parking: Parking,
    /// Sockets that found no buffer, in order.
    starved: VecDeque<Socket>,
    /// Failures to report that belong to no socket.
    failures: Vec<(Instant, u64, Completion)>,
    sockets: Vec<Option<SocketState>>,
    vacant: Vec<u32>,
    /// Sockets with a completion that is due.
    due: BTreeSet<Socket>,
}

/// Which receive buffers of a ring are free.
#[derive(Debug)]
pub(super) struct BufferSet {
    free: Vec<u16>,
    is_held: Vec<bool>,
    /// No buffers are available, because of a fault.
    is_out_of_buffers: bool,
}

/// When a ring was last parked, and what wakes it.
#[derive(Debug)]
pub(super) struct Parking {
    parked_at: Instant,
    sleeps_until: Option<Instant>,
    /// The last park returned with work.
    is_busy: bool,
    /// Set by wakers, on any thread.
    is_woken: Arc<AtomicBool>,
    /// The ring has been dropped.
    is_dropped: bool,
}

/// The state of one socket.
#[derive(Debug)]
pub(super) struct SocketState {
    pub(super) end_id: EndId,
    pub(super) receive_state: ReceiveState,
    pub(super) pending_send: Option<PendingSend>,
    /// The write side is to be shut down after the send in flight.
    pub(super) shutdown_pending: bool,
    /// A close was requested.
    pub(super) is_closing: bool,
    /// The token of a connect in progress.
    pub(super) connecting: Option<u64>,
    /// Pending completions, in order.
    completions: VecDeque<(Instant, u64, PendingCompletion)>,
    /// When the last of them is due.
    last_due: Instant,
}

/// The receive state of a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReceiveState {
    AtEnd,
    Stopped,
    Receiving,
    Starved,
}

#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) buffer: Vec<u8>,
    pub(super) offset: usize,
    pub(super) next: usize,
    /// The next part is sent after a delay.
    pub(super) is_delayed: bool,
}

#[derive(Debug)]
pub(super) enum PendingCompletion {
    /// Received bytes, until they are copied into their buffer.
    Bytes {
        socket: Socket,
        buffer: ReceiveBuffer,
        bytes: Vec<u8>,
    },
    Other(Completion),
}

impl Kernel {
    /// Creates the state of a new ring.
    pub(super) fn new(options: RingOptions) -> Self {
        Self {
            options,
            usage: ResourceUsage::default(),
            buffers: BufferSet::new(options.receive_buffers),
            parking: Parking::new(),
            starved: VecDeque::new(),
            failures: Vec::new(),
            sockets: Vec::new(),
            vacant: Vec::new(),
            due: BTreeSet::new(),
        }
    }

    /// Returns whether no further socket can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.vacant.is_empty() && self.sockets.len() >= self.options.sockets_max as usize
    }

    /// Opens a socket at one end of a connection.
    pub(super) fn open(&mut self, end_id: EndId) -> Option<Socket> {
        let state = SocketState {
            end_id,
            receive_state: ReceiveState::Stopped,
            pending_send: None,
            shutdown_pending: false,
            is_closing: false,
            connecting: None,
            completions: VecDeque::new(),
            last_due: Instant::ORIGIN,
        };
        if self.is_full() {
            return None;
        }
        if let Some(name) = self.vacant.pop() {
            self.sockets[name as usize] = Some(state);
            return Some(Socket(name));
        }
        let name = u32::try_from(self.sockets.len()).ok()?;
        self.sockets.push(Some(state));
        Some(Socket(name))
    }

    /// Returns the state of a socket, or `None` once it is closed.
    pub(super) fn find(&mut self, socket: Socket) -> Option<&mut SocketState> {
        self.sockets.get_mut(socket.index())?.as_mut()
    }

    /// Returns a socket that the driver may use.
    ///
    /// # Panics
    ///
    /// If the socket is not open, or is being closed.
    pub(super) fn expect_open(&mut self, socket: Socket, operation: &str) -> &mut SocketState {
        match self.find(socket) {
            Some(state) if !state.is_closing && state.connecting.is_none() => state,
            _ => panic!("{operation} on {socket:?}, which is not open"),
        }
    }

    /// Takes a free buffer for received bytes.
    pub(super) fn take_buffer(&mut self, length: usize) -> Option<ReceiveBuffer> {
        let index = self.buffers.take()?;
        self.usage.receive_buffers_held += 1;
        Some(ReceiveBuffer { index, len: u32::try_from(length).ok()? })
    }

    /// Returns a buffer to the set.
    pub(super) fn release(&mut self, buffer: u16) {
        self.buffers.release(buffer);
        self.usage.receive_buffers_held -= 1;
    }

    /// Queues a socket that found no buffer.
    pub(super) fn queue_starved(&mut self, socket: Socket) {
        self.usage.buffer_exhaustions += 1;
        self.starved.push_back(socket);
        if let Some(state) = self.find(socket) {
            state.receive_state = ReceiveState::Starved;
        }
    }

    /// Returns the number of sockets that found no buffer.
    pub(super) fn starved_count(&self) -> usize {
        self.starved.len()
    }

    /// Takes the first socket that found no buffer, which receives again, if a buffer is free.
    pub(super) fn take_starved(&mut self) -> Option<Socket> {
        if !self.buffers.has_free() {
            return None;
        }
        let socket = self.starved.pop_front()?;
        if let Some(state) = self.find(socket) {
            state.receive_state = ReceiveState::Receiving;
        }
        Some(socket)
    }

    /// Removes a socket from those that found no buffer.
    pub(super) fn remove_starved(&mut self, socket: Socket) {
        self.starved.retain(|&other| other != socket);
    }

    /// Queues a completion of a socket, not before `at` and not before earlier ones. Returns when
    /// it is due.
    pub(super) fn queue_completion(
        &mut self,
        socket: Socket,
        at: Instant,
        order: u64,
        new: PendingCompletion,
    ) -> Instant {
        let Some(Some(state)) = self.sockets.get_mut(socket.index()) else {
            unreachable!("{socket:?} has a completion after its close");
        };
        state.last_due = state.last_due.max(at);
        state.completions.push_back((state.last_due, order, new));
        state.last_due
    }

    /// Queues a failure that belongs to no socket.
    pub(super) fn queue_failure(&mut self, at: Instant, order: u64, completion: Completion) {
        self.failures.push((at, order, completion));
    }

    /// Marks a socket that has a completion due.
    pub(super) fn mark_due(&mut self, socket: Socket) {
        self.due.insert(socket);
    }

    /// Returns whether a completion is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.failures.is_empty()
    }

    /// Returns whether the ring would stay parked: nothing is due, and its timeout has not passed.
    pub(super) fn is_asleep(&self, now: Instant) -> bool {
        self.parking.is_dropped || (!self.is_due() && self.parking.is_asleep(now))
    }

    /// Discards the pending completions of a socket that is being closed, except for its send.
    pub(super) fn discard_completions(&mut self, socket: Socket) {
        let Some(state) = self.find(socket) else { return };
        let completions = std::mem::take(&mut state.completions);
        let mut kept = VecDeque::new();
        for (at, order, completion) in completions {
            match completion {
                PendingCompletion::Bytes { buffer, .. } => self.release(buffer.index),
                PendingCompletion::Other(Completion::EndOfStream { .. }) => {}
                PendingCompletion::Other(_) => kept.push_back((at, order, completion)),
            }
        }
        if let Some(state) = self.find(socket) {
            state.completions = kept;
        }
        self.remove_starved(socket);
    }

    /// Takes all due completions, ordered by time, or with `shuffle` in a random order that
    /// preserves that of each socket. Frees the names of closed sockets.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        shuffle: Option<&mut Random>,
    ) -> Vec<PendingCompletion> {
        let mut queues: Vec<VecDeque<(Instant, u64, PendingCompletion)>> = Vec::new();
        let loose = self.failures.drain(..);
        queues.push(
            loose
                .map(|(at, order, completion)| (at, order, PendingCompletion::Other(completion)))
                .collect(),
        );
        for socket in std::mem::take(&mut self.due) {
            let Some(state) = self.find(socket) else { continue };
            let count = state.completions.iter().take_while(|&&(at, ..)| at <= now).count();
            queues.push(state.completions.drain(..count).collect());
        }
        let collected = merge(queues, shuffle);
        for completion in &collected {
            self.account(completion);
        }
        collected
    }

    /// Updates the usage for a delivered completion.
    fn account(&mut self, completion: &PendingCompletion) {
        match completion {
            PendingCompletion::Other(Completion::Closed { socket }) => {
                self.sockets[socket.index()] = None;
                self.vacant.push(socket.0);
                self.usage.sockets_open -= 1;
            }
            PendingCompletion::Other(Completion::Sent { .. }) => self.usage.sends_in_flight -= 1,
            PendingCompletion::Other(Completion::Connected { result, .. }) => {
                self.usage.connects_in_flight -= 1;
                self.usage.sockets_open += usize::from(result.is_ok());
            }
            PendingCompletion::Other(Completion::Accepted { .. }) => self.usage.sockets_open += 1,
            PendingCompletion::Bytes { .. } | PendingCompletion::Other(_) => {}
        }
    }

    /// Removes a socket that was never reported.
    pub(super) fn remove(&mut self, socket: Socket) {
        self.sockets[socket.index()] = None;
        self.vacant.push(socket.0);
    }

    pub(super) fn open_sockets(&self) -> Vec<Socket> {
        let names = (0..).map(Socket);
        names
            .zip(&self.sockets)
            .filter(|(_, state)| state.is_some())
            .map(|(name, _)| name)
            .collect()
    }
}

impl BufferSet {
    fn new(count: u16) -> Self {
        let count = count.max(1);
        Self {
            free: (0..count).rev().collect(),
            is_held: vec![false; usize::from(count)],
            is_out_of_buffers: false,
        }
    }

    /// Returns whether a buffer is free.
    pub(super) fn has_free(&self) -> bool {
        !self.is_out_of_buffers && !self.free.is_empty()
    }

    /// Returns whether no buffers are available because of a fault.
    pub(super) const fn is_out_of_buffers(&self) -> bool {
        self.is_out_of_buffers
    }

    /// Makes all buffers unavailable, or available again.
    pub(super) const fn set_out_of_buffers(&mut self, is_out_of_buffers: bool) {
        self.is_out_of_buffers = is_out_of_buffers;
    }

    fn take(&mut self) -> Option<u16> {
        let buffer = self.free.pop()?;
        self.is_held[usize::from(buffer)] = true;
        Some(buffer)
    }

    fn release(&mut self, buffer: u16) {
        let was_leased = std::mem::replace(&mut self.is_held[usize::from(buffer)], false);
        assert!(was_leased, "buffer {buffer} is released twice");
        self.free.push(buffer);
    }
}

impl Parking {
    fn new() -> Self {
        Self {
            parked_at: Instant::ORIGIN,
            sleeps_until: None,
            is_busy: true,
            is_woken: Arc::default(),
            is_dropped: false,
        }
    }

    /// Returns the flag that wakers set.
    pub(super) fn wake_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_woken)
    }

    /// Returns whether a waker was called since the last park.
    pub(super) fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }

    /// Returns when the ring was last parked.
    pub(super) const fn parked_at(&self) -> Instant {
        self.parked_at
    }

    /// Returns when the last park times out, if it does.
    pub(super) const fn sleeps_until(&self) -> Option<Instant> {
        self.sleeps_until
    }

    /// Returns whether the ring has been dropped.
    pub(super) const fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    fn is_asleep(&self, now: Instant) -> bool {
        !self.is_busy && !self.is_woken() && self.sleeps_until.is_none_or(|until| now < until)
    }

    /// Ends a park at `now` whose timeout is `until`, and resets the wake flag. The ring stays
    /// awake if it `has_work` or was woken.
    pub(super) fn park(&mut self, now: Instant, until: Option<Instant>, has_work: bool) {
        let was_woken = self.is_woken.swap(false, Ordering::AcqRel);
        self.parked_at = now;
        self.sleeps_until = until;
        self.is_busy = was_woken || has_work;
    }

    /// Records that the ring has been dropped.
    pub(super) const fn drop_ring(&mut self) {
        self.sleeps_until = None;
        self.is_busy = false;
        self.is_dropped = true;
    }
}

impl SocketState {
    /// Returns whether received bytes are to be delivered.
    pub(super) fn is_receiving(&self) -> bool {
        self.receive_state == ReceiveState::Receiving
    }

    /// Completes the send in flight with `result`.
    pub(super) fn complete_send(
        &mut self,
        socket: Socket,
        result: io::Result<usize>,
    ) -> Option<Completion> {
        let PendingSend { buffer, .. } = self.pending_send.take()?;
        Some(Completion::Sent { socket, buffer, result })
    }
}

/// Merges queues, preserving the order of each.
fn merge(
    mut queues: Vec<VecDeque<(Instant, u64, PendingCompletion)>>,
    shuffle: Option<&mut Random>,
) -> Vec<PendingCompletion> {
    let mut merged = Vec::new();
    if let Some(random) = shuffle {
        queues.retain(|queue| !queue.is_empty());
        while !queues.is_empty() {
            let chosen = random.below(queues.len());
            merged.extend(queues[chosen].pop_front());
            if queues[chosen].is_empty() {
                queues.swap_remove(chosen);
            }
        }
    } else {
        merged.extend(queues.into_iter().flatten());
        merged.sort_by_key(|&(at, order, _)| (at, order));
    }
    merged.into_iter().map(|(.., completion)| completion).collect()
}
