//! Handshakes in progress: how many there are on the shard and of each client address, what has
//! arrived of each, whose turn is next, and which have no time left.
//!
//! Invariants: input that waits for its turn, or for the end of a step, is bounded by what is
//! received before a stop takes effect; a stopped handshake has a step ahead of it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::listeners::{HandshakeLimit, TlsSlot};
use super::steps::{HandshakeStep, WaitingStep};
use corelane_base::client_address::ClientAddress;
use corelane_base::eviction::{HOLDERS_MAX, Holder, Idle, Usage};
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{HeapBytes, buffer_bytes};
use corelane_base::id_map::IdMap;
use corelane_base::time::Instant;
use corelane_engine::ring::Socket;

/// Bytes of a handshake that wait for their turn, or for the end of a step; then its receive stops.
/// The first request may follow the last message of the client.
const WAITING_BYTES_MAX: usize = 80 << 10;

/// Time that a silent connection has while there are many.
const SHORT_SILENCE: Duration = Duration::from_secs(3);

/// The handshakes of a ring. Each has a number, since sockets are used again.
#[derive(Debug, Default)]
pub(super) struct PendingHandshakes {
    handshakes: IdMap<Socket, Handshake>,
    /// The sum of what they hold.
    held_bytes: usize,
    /// Number of the last one.
    begun: u64,
    /// How many are silent.
    silent: usize,
    /// Sockets with input that are not in a step, in order of arrival.
    ready: VecDeque<(Socket, u64)>,
    /// In order of the deadlines, since all have the same time. Some are complete.
    deadlines: VecDeque<(Instant, Socket, u64)>,
    /// When connections were accepted, in order. Some are silent no more.
    accepted: VecDeque<(Instant, Socket, u64)>,
}

/// A handshake in progress.
#[derive(Debug)]
pub(super) struct Handshake {
    number: u64,
    /// The address of the client, if it is known.
    pub(super) peer: Option<SocketAddr>,
    /// The address that the limits of handshakes count by, if the client has one.
    pub(super) address: Option<ClientAddress>,
    /// When the connection was accepted or its first byte arrived.
    since: Instant,
    /// The configuration of the listener, until the first byte arrives.
    pub(super) silent: Option<TlsSlot>,
    /// Input that waits for its turn.
    input: Vec<u8>,
    /// Nothing is received until the end of the next step.
    is_stopped: bool,
    /// A step is being done.
    is_in_step: bool,
    /// The step, if it is done on a thread.
    step: Option<WaitingStep>,
    /// What the step took with it: the filter and input.
    step_bytes: usize,
    /// The end of the stream behind the input.
    pub(super) end: Option<io::Result<()>>,
}

heap_bytes!(
    Handshake {}
    counted { input: Handshake::input_bytes, step_bytes: Handshake::bytes_in_step }
    inline { number, peer, address, since, silent, is_stopped, is_in_step, end }
    elsewhere { step }
);

impl Handshake {
    const fn input_bytes(&self) -> usize {
        buffer_bytes(&self.input)
    }

    const fn bytes_in_step(&self) -> usize {
        self.step_bytes
    }

    /// Returns the bytes that it holds, its places in the tables included.
    fn held_bytes(&self) -> usize {
        PLACE_BYTES + self.heap_bytes()
    }
}

/// The places of a handshake: in the table, and in the queues of deadlines and of those accepted.
const PLACE_BYTES: usize =
    size_of::<(Socket, Handshake)>() + 2 * size_of::<(Instant, Socket, u64)>();

/// Input of a handshake whose turn it is.
#[derive(Debug)]
pub(super) struct HandshakeInput {
    /// Number of the handshake.
    pub(super) number: u64,
    pub(super) address: Option<ClientAddress>,
    pub(super) bytes: Vec<u8>,
}

/// What has happened to a handshake until the end of its step.
#[derive(Debug)]
pub(super) struct EndedStep {
    /// Input that has arrived since the step began.
    pub(super) input: Vec<u8>,
    /// The receive was stopped, and goes on unless the handshake fails.
    pub(super) resumes: bool,
}

/// The name of a handshake.
pub(super) type HandshakeKey = (Socket, u64);

impl PendingHandshakes {
    /// Adds a connection from which no byte has arrived, accepted at `now`.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        deadline: Instant,
        socket: Socket,
        peer: Option<SocketAddr>,
        client: SilentClient,
    ) {
        self.begun += 1;
        self.silent += 1;
        let SilentClient { address, slot } = client;
        let handshake = Handshake {
            number: self.begun,
            peer,
            address,
            since: now,
            silent: Some(slot),
            input: Vec::new(),
            is_stopped: false,
            is_in_step: false,
            step: None,
            step_bytes: 0,
            end: None,
        };
        self.held_bytes += handshake.held_bytes();
        self.handshakes.insert(socket, handshake);
        self.deadlines.push_back((deadline, socket, self.begun));
        self.accepted.push_back((now, socket, self.begun));
    }

    /// Returns the bytes that all handshakes hold.
    #[inline]
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the bytes that the handshake of a socket holds; 0 if it has none.
    pub(super) fn held_bytes_of(&self, socket: Socket) -> usize {
        self.handshakes.get(&socket).map_or(0, Handshake::held_bytes)
    }

    /// Changes a handshake, and accounts what it holds then.
    fn change<T>(&mut self, socket: Socket, change: impl FnOnce(&mut Handshake) -> T) -> Option<T> {
        let handshake = self.handshakes.get_mut(&socket)?;
        self.held_bytes -= handshake.held_bytes();
        let changed = change(handshake);
        self.held_bytes += handshake.held_bytes();
        Some(changed)
    }

    /// Returns whether a connection is silent.
    #[inline]
    pub(super) const fn has_silent(&self) -> bool {
        self.silent > 0
    }

    /// Returns the address and the configuration of a silent connection.
    pub(super) fn silent(&self, socket: Socket) -> Option<(Option<ClientAddress>, &TlsSlot)> {
        let handshake = self.handshakes.get(&socket)?;
        Some((handshake.address, handshake.silent.as_ref()?))
    }

    /// The first byte of a silent connection has arrived at `now`.
    pub(super) fn begin(&mut self, socket: Socket, now: Instant) {
        if let Some(handshake) = self.handshakes.get_mut(&socket) {
            self.silent -= usize::from(handshake.silent.take().is_some());
            handshake.since = now;
        }
    }

    /// Lists the handshakes that are silent, or the others, for a search of one to evict: those of
    /// the address, if there is one.
    pub(super) fn holders(
        &self,
        is_silent: bool,
        of: Option<ClientAddress>,
        now: Instant,
    ) -> impl Iterator<Item = Holder<HandshakeKey>> {
        // Others each time, if there are more than are looked at.
        let beyond = self.handshakes.len().saturating_sub(HOLDERS_MAX as usize) as u64;
        let skipped = usize::try_from(now.milliseconds() % (beyond + 1)).unwrap_or_default();
        let handshakes = self.handshakes.iter().skip(skipped);
        let listed = handshakes.filter(move |(_, it)| {
            it.silent.is_some() == is_silent && (of.is_none() || it.address == of)
        });
        listed.take(HOLDERS_MAX as usize).map(|(socket, it)| Holder {
            key: (*socket, it.number),
            client: it.address,
            idle: Some(Idle { usage: Usage::None, since: it.since }),
        })
    }

    /// Keeps input of a handshake for its turn. Returns whether its receive has to stop until the
    /// next step has ended.
    pub(super) fn keep_input(&mut self, socket: Socket, bytes: &[u8]) -> bool {
        let kept = self.change(socket, |handshake| {
            let begins = handshake.input.is_empty() && !handshake.is_in_step;
            handshake.input.extend_from_slice(bytes);
            let stops = handshake.input.len() > WAITING_BYTES_MAX && !handshake.is_stopped;
            handshake.is_stopped |= stops;
            (begins.then_some(handshake.number), stops)
        });
        let Some((begun, stops)) = kept else { return false };
        self.ready.extend(begun.map(|number| (socket, number)));
        stops
    }

    /// Keeps the end of the stream of a handshake, unless nothing is to be done before it: then it
    /// is returned.
    pub(super) fn keep_end(
        &mut self,
        socket: Socket,
        result: io::Result<()>,
    ) -> Option<io::Result<()>> {
        match self.handshakes.get_mut(&socket) {
            Some(handshake) if handshake.is_in_step || !handshake.input.is_empty() => {
                handshake.end = Some(result);
                None
            }
            _ => Some(result),
        }
    }

    /// Takes the input of a handshake whose step begins, with a filter that holds `filter_bytes`.
    pub(super) fn begin_step(
        &mut self,
        socket: Socket,
        filter_bytes: usize,
    ) -> Option<HandshakeInput> {
        self.change(socket, |handshake| {
            handshake.is_in_step = true;
            handshake.step_bytes =
                size_of::<HandshakeStep>() + filter_bytes + handshake.input_bytes();
            let bytes = std::mem::take(&mut handshake.input);
            HandshakeInput { number: handshake.number, address: handshake.address, bytes }
        })
    }

    /// Keeps a step that is done on a thread, so that it does not begin once its handshake has
    /// ended.
    pub(super) fn keep_step(&mut self, socket: Socket, step: WaitingStep) {
        if let Some(handshake) = self.handshakes.get_mut(&socket) {
            handshake.step = Some(step);
        }
    }

    /// Ends the step of a handshake. Returns `None` if the handshake has ended.
    pub(super) fn end_step(&mut self, socket: Socket, number: u64) -> Option<EndedStep> {
        let is_current = |it: &Handshake| it.number == number && it.is_in_step;
        if !self.handshakes.get(&socket).is_some_and(is_current) {
            return None;
        }
        self.change(socket, |handshake| {
            handshake.is_in_step = false;
            handshake.step = None;
            handshake.step_bytes = 0;
            let was_stopped = std::mem::take(&mut handshake.is_stopped);
            EndedStep {
                input: std::mem::take(&mut handshake.input),
                resumes: was_stopped && handshake.end.is_none(),
            }
        })
    }

    /// Has input wait that [`PendingHandshakes::end_step`] has returned. Returns the end of the
    /// stream if that is next.
    pub(super) fn restore_input(
        &mut self,
        socket: Socket,
        input: Vec<u8>,
    ) -> Option<io::Result<()>> {
        if input.is_empty() {
            return self.handshakes.get_mut(&socket)?.end.take();
        }
        let number = self.change(socket, |handshake| {
            handshake.input = input;
            handshake.number
        })?;
        self.ready.push_back((socket, number));
        None
    }

    /// Ends a handshake. Returns it, unless it has ended before.
    pub(super) fn end(&mut self, socket: Socket) -> Option<Handshake> {
        let mut handshake = self.handshakes.remove(&socket)?;
        self.held_bytes -= handshake.held_bytes();
        self.silent -= usize::from(handshake.silent.is_some());
        if let Some(step) = handshake.step.take() {
            step.withdraw();
        }
        Some(handshake)
    }

    /// Takes the handshake whose turn is next.
    pub(super) fn pop_ready(&mut self) -> Option<Socket> {
        while let Some((socket, number)) = self.ready.pop_front() {
            if self.is_pending(socket, number) {
                return Some(socket);
            }
        }
        None
    }

    /// Takes a handshake whose time is over at `now`.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Socket> {
        while let Some((_, socket, number)) = self.deadlines.pop_front_if(|(due, ..)| *due <= now) {
            if self.is_pending(socket, number) {
                return Some(socket);
            }
        }
        None
    }

    /// Takes a connection that has been silent for too long at `now`, while more than half of
    /// `silent_max` are.
    pub(super) fn pop_silent(&mut self, now: Instant, silent_max: usize) -> Option<Socket> {
        while let Some((since, socket, number)) = self.accepted.front().copied() {
            let handshake = self.handshakes.get(&socket).filter(|it| it.number == number);
            let is_silent = handshake.is_some_and(|handshake| handshake.silent.is_some());
            if is_silent && (self.silent <= silent_max / 2 || since.after(SHORT_SILENCE) > now) {
                return None;
            }
            self.accepted.pop_front();
            if is_silent {
                return Some(socket);
            }
        }
        None
    }

    /// Returns whether a handshake is in progress.
    pub(super) fn is_pending(&self, socket: Socket, number: u64) -> bool {
        self.handshakes.get(&socket).is_some_and(|handshake| handshake.number == number)
    }

    /// Returns whether a handshake waits for its turn.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next deadline, if so many connections may be silent.
    pub(super) fn next_deadline(&self, silent_max: usize) -> Option<Instant> {
        let accepted = self.accepted.front().filter(|_| self.silent > silent_max / 2);
        let silent = accepted.map(|(since, ..)| since.after(SHORT_SILENCE));
        silent.into_iter().chain(self.deadlines.front().map(|(due, ..)| *due)).min()
    }
}

/// A client that has not sent a byte.
#[derive(Debug)]
pub(super) struct SilentClient {
    /// The address that the limits of handshakes count by, if the client has one.
    pub(super) address: Option<ClientAddress>,
    /// The configuration of its listener.
    pub(super) slot: TlsSlot,
}

/// Numbers of handshakes in progress. An address without one takes no memory.
#[derive(Debug, Default)]
pub(super) struct HandshakeCounts {
    total: usize,
    by_address: HashMap<ClientAddress, usize>,
}

impl HandshakeCounts {
    /// Counts a handshake that begins, unless a limit is reached: `max`, and `per_address_max` if
    /// it has an address.
    pub(super) fn begin(
        &mut self,
        address: Option<ClientAddress>,
        max: usize,
        per_address_max: usize,
    ) -> Result<(), HandshakeLimit> {
        if let Some(address) = address {
            match self.by_address.entry(address) {
                Entry::Occupied(entry) if *entry.get() >= per_address_max => {
                    return Err(HandshakeLimit::Address);
                }
                _ if self.total >= max => return Err(HandshakeLimit::Shard),
                entry => *entry.or_default() += 1,
            }
        } else if self.total >= max {
            return Err(HandshakeLimit::Shard);
        }
        self.total += 1;
        Ok(())
    }

    /// Ends the count of a handshake that has begun.
    pub(super) fn end(&mut self, address: Option<ClientAddress>) {
        self.total -= 1;
        if let Some(Entry::Occupied(mut entry)) = address.map(|it| self.by_address.entry(it)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use corelane_engine::ring::RingOptions;
    use corelane_engine::ring::sim::{Faults, World};

    use super::*;

    /// Adds a handshake, and a socket for it.
    fn handshake(pending: &mut PendingHandshakes) -> Socket {
        let world = World::with_faults(1, Faults::NONE);
        let (socket, _peer) = world.ring(RingOptions::default()).attach().unwrap();
        let handshake = Handshake {
            number: 1,
            peer: None,
            address: None,
            since: Instant::ORIGIN,
            silent: None,
            input: Vec::new(),
            is_stopped: false,
            is_in_step: false,
            step: None,
            step_bytes: 0,
            end: None,
        };
        pending.held_bytes += handshake.held_bytes();
        pending.handshakes.insert(socket, handshake);
        socket
    }

    #[test]
    fn receive_stops_until_end_of_step() {
        let mut pending = PendingHandshakes::default();
        let socket = handshake(&mut pending);
        let input = vec![0; 2 * WAITING_BYTES_MAX];
        assert!(!pending.keep_input(socket, &input[..WAITING_BYTES_MAX]));
        assert!(pending.keep_input(socket, &[0; 1]) && !pending.keep_input(socket, &[0; 1]));
        assert_eq!(pending.pop_ready(), Some(socket));
        let HandshakeInput { number, bytes, .. } = pending.begin_step(socket, 1 << 10).unwrap();
        assert_eq!(bytes.len(), WAITING_BYTES_MAX + 2);
        assert!(!pending.keep_input(socket, &input));
        let ended = pending.end_step(socket, number).unwrap();
        assert_eq!((ended.input.len(), ended.resumes), (2 * WAITING_BYTES_MAX, true));
        // Behind the end of the stream there is nothing to receive.
        pending.begin_step(socket, 0).unwrap();
        assert!(pending.keep_input(socket, &input));
        assert!(pending.keep_end(socket, Ok(())).is_none());
        assert!(!pending.end_step(socket, number).unwrap().resumes);
    }

    fn address(text: &str) -> Option<ClientAddress> {
        ClientAddress::new(text.parse().unwrap())
    }

    #[test]
    fn handshakes_of_one_prefix_share_limit() {
        let mut counts = HandshakeCounts::default();
        let [one, two] = [address("2001:db8:0:1::1"), address("2001:db8:0:1:2::2")];
        assert_eq!(counts.begin(one, 5, 2), Ok(()));
        assert_eq!(counts.begin(two, 5, 2), Ok(()));
        assert_eq!(counts.begin(two, 5, 2), Err(HandshakeLimit::Address));
        assert_eq!(counts.begin(address("2001:db8:0:2::1"), 5, 2), Ok(()));
        counts.end(two);
        assert_eq!(counts.begin(one, 5, 2), Ok(()));
    }

    #[test]
    fn loopback_handshakes_have_only_shard_limit() {
        let mut counts = HandshakeCounts::default();
        for _ in 0..5 {
            assert_eq!(counts.begin(address("127.0.0.1"), 5, 2), Ok(()));
        }
        assert_eq!(counts.begin(address("192.0.2.1"), 5, 2), Err(HandshakeLimit::Shard));
    }

    #[test]
    fn ended_handshakes_take_no_memory() {
        let mut counts = HandshakeCounts::default();
        for host in 0..100 {
            let address = address(&format!("192.0.2.{host}"));
            assert_eq!(counts.begin(address, 5, 2), Ok(()));
            counts.end(address);
        }
        assert!(counts.by_address.is_empty() && counts.total == 0);
    }
}
