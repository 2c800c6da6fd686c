//! The kernel state of one simulated ring: sockets, listeners, receive buffers and pending
//! completions.
//!
//! Invariants, upheld by panics: one send in flight per socket, no operation on a closed socket, no
//! buffer released twice, no name reused before its [`Completion::Closed`]. Bytes are moved by
//! [`Network`](super::network::Network).

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::connection::EndId;
use super::resource_usage::ResourceUsage;
use crate::base::random::Random;
use crate::base::time::Instant;
use crate::engine::ring::{Completion, ReceiveBuffer, RingOptions, Socket};

/// The kernel state of one ring.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) options: RingOptions,
    pub(super) usage: ResourceUsage,
    pub(super) listeners: Vec<ListenerState>,
    /// Sockets that found no buffer, in order.
    pub(super) starved: VecDeque<Socket>,
    /// No buffers are available, because of a fault.
    pub(super) is_out_of_buffers: bool,
    /// Failures to report that belong to no socket.
    failures: Vec<(Instant, u64, Completion)>,
    sockets: Vec<Option<SocketState>>,
    vacant: Vec<u32>,
    free_buffers: Vec<u16>,
    is_held: Vec<bool>,
    /// Sockets with a completion that is due.
    due: BTreeSet<Socket>,
    /// When the ring was last parked, and until when.
    pub(super) parked_at: Instant,
    pub(super) sleeps_until: Option<Instant>,
    /// The last park returned with work.
    pub(super) is_busy: bool,
    /// Set by wakers, on any thread.
    pub(super) is_woken: Arc<AtomicBool>,
    /// The ring has been dropped.
    pub(super) is_dropped: bool,
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

/// A send in flight.
#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) buffer: Vec<u8>,
    pub(super) offset: usize,
    pub(super) next: usize,
    /// The next part is sent after a delay.
    pub(super) is_delayed: bool,
}

#[derive(Debug)]
pub(super) struct ListenerState {
    pub(super) address: SocketAddr,
    pub(super) is_accepting: bool,
    pub(super) is_closed: bool,
    /// It failed, and retries later or when a socket is closed.
    pub(super) is_paused: bool,
    pub(super) backlog: VecDeque<usize>,
}

/// A pending completion.
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
        let buffers = options.receive_buffers.max(1);
        Self {
            options,
            usage: ResourceUsage::default(),
            listeners: Vec::new(),
            starved: VecDeque::new(),
            is_out_of_buffers: false,
            failures: Vec::new(),
            sockets: Vec::new(),
            vacant: Vec::new(),
            free_buffers: (0..buffers).rev().collect(),
            is_held: vec![false; usize::from(buffers)],
            due: BTreeSet::new(),
            parked_at: Instant::ORIGIN,
            sleeps_until: None,
            is_busy: true,
            is_woken: Arc::default(),
            is_dropped: false,
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

    /// Returns an open socket.
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
        let buffer = self.free_buffers.pop()?;
        self.is_held[usize::from(buffer)] = true;
        self.usage.receive_buffers_held += 1;
        Some(ReceiveBuffer { index: buffer, len: u32::try_from(length).ok()? })
    }

    /// Returns whether a buffer is free.
    pub(super) fn has_buffer(&self) -> bool {
        !self.is_out_of_buffers && !self.free_buffers.is_empty()
    }

    /// Returns a buffer to the set.
    pub(super) fn release(&mut self, buffer: u16) {
        let was_leased = std::mem::replace(&mut self.is_held[usize::from(buffer)], false);
        assert!(was_leased, "buffer {buffer} is released twice");
        self.free_buffers.push(buffer);
        self.usage.receive_buffers_held -= 1;
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
        self.is_dropped
            || (!self.is_busy
                && !self.is_due()
                && !self.is_woken.load(Ordering::Acquire)
                && self.sleeps_until.is_none_or(|until| now < until))
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
        self.starved.retain(|&other| other != socket);
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

    /// Returns all open sockets.
    pub(super) fn open_sockets(&self) -> Vec<Socket> {
        let names = (0..).map(Socket);
        names
            .zip(&self.sockets)
            .filter(|(_, state)| state.is_some())
            .map(|(name, _)| name)
            .collect()
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
