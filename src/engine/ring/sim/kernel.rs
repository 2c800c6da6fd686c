//! The kernel's side of one simulated ring: its sockets, listeners and receive buffers, and what
//! it is about to tell.
//!
//! What it keeps true, by panicking in the test that breaks it: one send in flight a socket, no
//! operation on a socket after its close, no lease released twice, no name reused before its
//! [`Completion::Closed`] was told. It moves no bytes: that is the network's business.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ledger::Ledger;
use super::link::Place;
use crate::base::random::Random;
use crate::base::time::Moment;
use crate::engine::ring::{Completion, Lease, RingOptions, Socket};

/// One ring as its kernel sees it.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) options: RingOptions,
    pub(super) ledger: Ledger,
    pub(super) gates: Vec<Gate>,
    /// Sockets that found no buffer, in this order.
    pub(super) starved: VecDeque<Socket>,
    /// No buffer is given out: an episode.
    pub(super) is_dry: bool,
    /// To be told of no socket: failures.
    loose: Vec<(Moment, u64, Completion)>,
    seats: Vec<Option<Seat>>,
    vacant: Vec<u32>,
    free_buffers: Vec<u16>,
    is_leased: Vec<bool>,
    /// Sockets with something to tell that is due.
    due: BTreeSet<Socket>,
    /// When it was last parked, and until when it wanted to sleep.
    pub(super) parked_at: Moment,
    pub(super) sleeps_until: Option<Moment>,
    /// The last park came back with something to do.
    pub(super) is_busy: bool,
    /// Set by wakers, on any thread.
    pub(super) is_woken: Arc<AtomicBool>,
    /// The ring is gone.
    pub(super) is_dropped: bool,
}

/// One socket.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) place: Place,
    pub(super) intake: Intake,
    pub(super) sending: Option<Sending>,
    /// The sending half ends after the send in flight.
    pub(super) is_finishing: bool,
    /// Close was asked for; nothing more may be.
    pub(super) is_closing: bool,
    /// The token of an attempt to connect that has not been answered.
    pub(super) connecting: Option<u64>,
    /// To be told, in this order.
    told: VecDeque<(Moment, u64, Told)>,
    /// When the last of it is due.
    told_last: Moment,
}

/// What a socket does about bytes that arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Intake {
    Ended,
    Paused,
    Receiving,
    Starved,
}

/// A send in flight.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) buffer: Vec<u8>,
    pub(super) from: usize,
    pub(super) next: usize,
    /// The kernel will take the next piece later.
    pub(super) is_resting: bool,
}

/// One listener.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) address: SocketAddr,
    pub(super) is_accepting: bool,
    pub(super) is_closed: bool,
    /// It failed and tries again later, or when a socket is closed.
    pub(super) is_resting: bool,
    pub(super) backlog: VecDeque<usize>,
}

/// A completion on its way to the ring.
#[derive(Debug)]
pub(super) enum Told {
    /// Bytes, until they can be put into the memory of their lease.
    Bytes {
        socket: Socket,
        lease: Lease,
        bytes: Vec<u8>,
    },
    Other(Completion),
}

impl Kernel {
    /// A ring of these sizes that nothing has happened to.
    pub(super) fn new(options: RingOptions) -> Self {
        let buffers = options.receive_buffers.max(1);
        Self {
            options,
            ledger: Ledger::default(),
            gates: Vec::new(),
            starved: VecDeque::new(),
            is_dry: false,
            loose: Vec::new(),
            seats: Vec::new(),
            vacant: Vec::new(),
            free_buffers: (0..buffers).rev().collect(),
            is_leased: vec![false; usize::from(buffers)],
            due: BTreeSet::new(),
            parked_at: Moment::ORIGIN,
            sleeps_until: None,
            is_busy: true,
            is_woken: Arc::default(),
            is_dropped: false,
        }
    }

    /// Whether no further socket can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.vacant.is_empty() && self.seats.len() >= self.options.sockets_max as usize
    }

    /// Names the socket at one end of a link.
    pub(super) fn open(&mut self, place: Place) -> Option<Socket> {
        let seat = Seat {
            place,
            intake: Intake::Paused,
            sending: None,
            is_finishing: false,
            is_closing: false,
            connecting: None,
            told: VecDeque::new(),
            told_last: Moment::ORIGIN,
        };
        if self.is_full() {
            return None;
        }
        if let Some(name) = self.vacant.pop() {
            self.seats[name as usize] = Some(seat);
            return Some(Socket(name));
        }
        let name = u32::try_from(self.seats.len()).ok()?;
        self.seats.push(Some(seat));
        Some(Socket(name))
    }

    /// The seat of a name that is open.
    pub(super) fn find(&mut self, socket: Socket) -> Option<&mut Seat> {
        self.seats.get_mut(socket.index())?.as_mut()
    }

    /// The seat of a name that the driver may use now.
    ///
    /// Panics for one that it was not told of, or that it has closed.
    pub(super) fn used(&mut self, socket: Socket, for_what: &str) -> &mut Seat {
        match self.find(socket) {
            Some(seat) if !seat.is_closing && seat.connecting.is_none() => seat,
            _ => panic!("the driver names {socket:?}, which is not open, to {for_what}"),
        }
    }

    /// Takes a buffer for bytes that arrived.
    pub(super) fn lease(&mut self, length: usize) -> Option<Lease> {
        let buffer = self.free_buffers.pop()?;
        self.is_leased[usize::from(buffer)] = true;
        self.ledger.leases_out += 1;
        Some(Lease { buffer, length: u32::try_from(length).ok()? })
    }

    /// Whether a buffer can be had.
    pub(super) fn has_buffer(&self) -> bool {
        !self.is_dry && !self.free_buffers.is_empty()
    }

    /// Takes the buffer of a lease back.
    pub(super) fn release(&mut self, buffer: u16) {
        let was_leased = std::mem::replace(&mut self.is_leased[usize::from(buffer)], false);
        assert!(was_leased, "buffer {buffer} is released twice");
        self.free_buffers.push(buffer);
        self.ledger.leases_out -= 1;
    }

    /// Notes something to tell of a socket, not before `at` and after all that was noted earlier.
    /// Returns when it is due.
    pub(super) fn tell(&mut self, socket: Socket, at: Moment, order: u64, told: Told) -> Moment {
        let Some(Some(seat)) = self.seats.get_mut(socket.index()) else {
            unreachable!("{socket:?} is told of while it is open");
        };
        seat.told_last = seat.told_last.max(at);
        seat.told.push_back((seat.told_last, order, told));
        seat.told_last
    }

    /// Notes a failure to tell.
    pub(super) fn tell_loose(&mut self, at: Moment, order: u64, completion: Completion) {
        self.loose.push((at, order, completion));
    }

    /// The time of something of this socket has come.
    pub(super) fn mark_due(&mut self, socket: Socket) {
        self.due.insert(socket);
    }

    /// Whether something is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.loose.is_empty()
    }

    /// Whether the ring sleeps: it has looked at everything, and its patience has not ended.
    pub(super) fn is_asleep(&self, now: Moment) -> bool {
        self.is_dropped
            || (!self.is_busy
                && !self.is_due()
                && !self.is_woken.load(Ordering::Acquire)
                && self.sleeps_until.is_none_or(|until| now < until))
    }

    /// Drops what is still to be told of a socket that is asked to close, but for its send.
    pub(super) fn withdraw(&mut self, socket: Socket) {
        let Some(seat) = self.find(socket) else { return };
        let told = std::mem::take(&mut seat.told);
        let mut kept = VecDeque::new();
        for (at, order, told) in told {
            match told {
                Told::Bytes { lease, .. } => self.release(lease.buffer),
                Told::Other(Completion::Ended { .. }) => {}
                Told::Other(_) => kept.push_back((at, order, told)),
            }
        }
        if let Some(seat) = self.find(socket) {
            seat.told = kept;
        }
        self.starved.retain(|&other| other != socket);
    }

    /// Everything that is due, in the order of its time; with `shuffle` in any order that keeps
    /// that of each socket. Frees the names of the sockets that are told closed.
    pub(super) fn collect(&mut self, now: Moment, shuffle: Option<&mut Random>) -> Vec<Told> {
        let mut queues: Vec<VecDeque<(Moment, u64, Told)>> = Vec::new();
        let loose = self.loose.drain(..);
        queues.push(loose.map(|(at, order, told)| (at, order, Told::Other(told))).collect());
        for socket in std::mem::take(&mut self.due) {
            let Some(seat) = self.find(socket) else { continue };
            let count = seat.told.iter().take_while(|&&(at, ..)| at <= now).count();
            queues.push(seat.told.drain(..count).collect());
        }
        let collected = merge(queues, shuffle);
        for told in &collected {
            self.settle(told);
        }
        collected
    }

    /// Books one completion that is told now.
    fn settle(&mut self, told: &Told) {
        match told {
            Told::Other(Completion::Closed { socket }) => {
                self.seats[socket.index()] = None;
                self.vacant.push(socket.0);
                self.ledger.sockets_open -= 1;
            }
            Told::Other(Completion::Sent { .. }) => self.ledger.sends_in_flight -= 1,
            Told::Other(Completion::Connected { result, .. }) => {
                self.ledger.connects_in_flight -= 1;
                self.ledger.sockets_open += usize::from(result.is_ok());
            }
            Told::Other(Completion::Accepted { .. }) => self.ledger.sockets_open += 1,
            Told::Bytes { .. } | Told::Other(_) => {}
        }
    }

    /// Forgets a socket that was never told of.
    pub(super) fn forget(&mut self, socket: Socket) {
        self.seats[socket.index()] = None;
        self.vacant.push(socket.0);
    }

    /// Every open socket.
    pub(super) fn open_sockets(&self) -> Vec<Socket> {
        let names = (0..).map(Socket);
        names.zip(&self.seats).filter(|(_, seat)| seat.is_some()).map(|(name, _)| name).collect()
    }
}

impl Seat {
    /// Whether bytes that arrive are to be told.
    pub(super) fn is_receiving(&self) -> bool {
        self.intake == Intake::Receiving
    }

    /// The send in flight is over, with this result.
    pub(super) fn conclude(
        &mut self,
        socket: Socket,
        result: io::Result<usize>,
    ) -> Option<Completion> {
        let Sending { buffer, .. } = self.sending.take()?;
        Some(Completion::Sent { socket, buffer, result })
    }
}

/// One list of several, each of which keeps its order.
fn merge(
    mut queues: Vec<VecDeque<(Moment, u64, Told)>>,
    shuffle: Option<&mut Random>,
) -> Vec<Told> {
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
    merged.into_iter().map(|(.., told)| told).collect()
}
