//! Handshakes in progress: how many there are on the shard and of each client address, what has
//! arrived of each, whose turn is next, and which have no time left.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use corelane_base::client_address::ClientAddress;
use corelane_base::id_map::IdMap;
use corelane_base::time::Instant;
use corelane_engine::ring::Socket;
use corelane_tls::TlsError;

use super::listeners::{HandshakeLimit, TlsLimits};

/// Bytes of a handshake that wait for their turn: a client's messages have at most 64 KiB.
const HANDSHAKE_BYTES_MAX: usize = 80 << 10;

/// The handshakes of a ring. Each has a number, since sockets are used again.
#[derive(Debug, Default)]
pub(super) struct PendingHandshakes {
    handshakes: IdMap<Socket, Handshake>,
    /// Number of the last one.
    begun: u64,
    /// Sockets with input that are not in a step, in order of arrival.
    ready: VecDeque<(Socket, u64)>,
    /// In order of the deadlines, since all have the same time. Some are complete.
    deadlines: VecDeque<(Instant, Socket, u64)>,
}

/// A handshake in progress.
#[derive(Debug)]
pub(super) struct Handshake {
    number: u64,
    /// The address of the client, if it is known.
    pub(super) peer: Option<SocketAddr>,
    /// The address that the limits of handshakes count by, if the client has one.
    pub(super) address: Option<ClientAddress>,
    /// Input that waits for its turn.
    input: Vec<u8>,
    /// A step is being done.
    is_in_step: bool,
    /// The end of the stream behind the input.
    pub(super) end: Option<io::Result<()>>,
}

/// Input of a handshake whose turn it is.
#[derive(Debug)]
pub(super) struct HandshakeInput {
    /// Number of the handshake.
    pub(super) number: u64,
    pub(super) address: Option<ClientAddress>,
    pub(super) bytes: Vec<u8>,
}

impl PendingHandshakes {
    /// Adds a handshake that begins.
    pub(super) fn begin(
        &mut self,
        deadline: Instant,
        socket: Socket,
        peer: Option<SocketAddr>,
        address: Option<ClientAddress>,
    ) {
        self.begun += 1;
        let handshake = Handshake {
            number: self.begun,
            peer,
            address,
            input: Vec::new(),
            is_in_step: false,
            end: None,
        };
        self.handshakes.insert(socket, handshake);
        self.deadlines.push_back((deadline, socket, self.begun));
    }

    /// Keeps input of a handshake for its turn.
    ///
    /// # Errors
    ///
    /// There is too much.
    pub(super) fn keep_input(&mut self, socket: Socket, bytes: &[u8]) -> Result<(), TlsError> {
        let Some(handshake) = self.handshakes.get_mut(&socket) else { return Ok(()) };
        if handshake.input.len() + bytes.len() > HANDSHAKE_BYTES_MAX {
            return Err(TlsError::long_handshake());
        }
        if handshake.input.is_empty() && !handshake.is_in_step {
            self.ready.push_back((socket, handshake.number));
        }
        handshake.input.extend_from_slice(bytes);
        Ok(())
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

    /// Takes the input of a handshake whose step begins.
    pub(super) fn begin_step(&mut self, socket: Socket) -> Option<HandshakeInput> {
        let handshake = self.handshakes.get_mut(&socket)?;
        handshake.is_in_step = true;
        let bytes = std::mem::take(&mut handshake.input);
        Some(HandshakeInput { number: handshake.number, address: handshake.address, bytes })
    }

    /// Ends the step of a handshake. Returns the input that has arrived meanwhile, or `None` if the
    /// handshake has ended.
    pub(super) fn end_step(&mut self, socket: Socket, number: u64) -> Option<Vec<u8>> {
        let handshake = self.handshakes.get_mut(&socket)?;
        let is_current = handshake.number == number && handshake.is_in_step;
        is_current.then(|| {
            handshake.is_in_step = false;
            std::mem::take(&mut handshake.input)
        })
    }

    /// Has input wait that [`PendingHandshakes::end_step`] has returned. Returns the end of the
    /// stream if that is next.
    pub(super) fn restore_input(
        &mut self,
        socket: Socket,
        input: Vec<u8>,
    ) -> Option<io::Result<()>> {
        let handshake = self.handshakes.get_mut(&socket)?;
        if input.is_empty() {
            return handshake.end.take();
        }
        handshake.input = input;
        self.ready.push_back((socket, handshake.number));
        None
    }

    /// Ends a handshake. Returns it, unless it has ended before.
    pub(super) fn end(&mut self, socket: Socket) -> Option<Handshake> {
        self.handshakes.remove(&socket)
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

    fn is_pending(&self, socket: Socket, number: u64) -> bool {
        self.handshakes.get(&socket).is_some_and(|handshake| handshake.number == number)
    }

    /// Returns whether a handshake waits for its turn.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(due, ..)| *due)
    }
}

/// Numbers of handshakes in progress. An address without one takes no memory.
#[derive(Debug, Default)]
pub(super) struct HandshakeCounts {
    total: usize,
    by_address: HashMap<ClientAddress, usize>,
}

impl HandshakeCounts {
    /// Counts a handshake that begins, unless a limit is reached. Without an address only the limit
    /// of the shard counts.
    pub(super) fn begin(
        &mut self,
        address: Option<ClientAddress>,
        limits: &TlsLimits,
    ) -> Result<(), HandshakeLimit> {
        if self.total >= limits.handshakes_max {
            return Err(HandshakeLimit::Shard);
        }
        if let Some(address) = address {
            match self.by_address.entry(address) {
                Entry::Occupied(entry) if *entry.get() >= limits.handshakes_per_address_max => {
                    return Err(HandshakeLimit::Address);
                }
                entry => *entry.or_default() += 1,
            }
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
    use std::time::Duration;

    use corelane_base::trusted_proxies::TrustedProxies;

    use super::*;

    fn limits() -> TlsLimits {
        TlsLimits {
            handshake_timeout: Duration::from_secs(1),
            handshakes_max: 5,
            handshakes_per_address_max: 2,
            shard_percent: 100,
            trusted_proxies: TrustedProxies::default(),
        }
    }

    fn address(text: &str) -> Option<ClientAddress> {
        ClientAddress::new(text.parse().unwrap())
    }

    #[test]
    fn handshakes_of_one_prefix_share_limit() {
        let mut counts = HandshakeCounts::default();
        let [one, two] = [address("2001:db8:0:1::1"), address("2001:db8:0:1:2::2")];
        assert_eq!(counts.begin(one, &limits()), Ok(()));
        assert_eq!(counts.begin(two, &limits()), Ok(()));
        assert_eq!(counts.begin(two, &limits()), Err(HandshakeLimit::Address));
        assert_eq!(counts.begin(address("2001:db8:0:2::1"), &limits()), Ok(()));
        counts.end(two);
        assert_eq!(counts.begin(one, &limits()), Ok(()));
    }

    #[test]
    fn loopback_handshakes_have_only_shard_limit() {
        let mut counts = HandshakeCounts::default();
        for _ in 0..5 {
            assert_eq!(counts.begin(address("127.0.0.1"), &limits()), Ok(()));
        }
        assert_eq!(counts.begin(address("192.0.2.1"), &limits()), Err(HandshakeLimit::Shard));
    }

    #[test]
    fn ended_handshakes_take_no_memory() {
        let mut counts = HandshakeCounts::default();
        for host in 0..100 {
            let address = address(&format!("192.0.2.{host}"));
            assert_eq!(counts.begin(address, &limits()), Ok(()));
            counts.end(address);
        }
        assert!(counts.by_address.is_empty() && counts.total == 0);
    }
}
