//! Several rings of one thread behind the interface of one.
//!
//! An `io_uring` ring holds as many direct descriptors as the process may have files open. More
//! load threads would raise that limit, but they would share cores and could not spin for due
//! requests. So one load thread uses several rings.
//!
//! Invariants: sockets and receive buffers are numbered per ring and offset by the numbers of the
//! rings before it. A new connection goes to the ring with the fewest sockets. A wait ends with a
//! completion of any ring, or a wake-up. Listeners are not supported.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Exhaustion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions,
    Socket, Source, Waker,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Rings of equal sizes, owned by the calling thread.
#[derive(Debug)]
pub(super) struct RingSet<R> {
    rings: Vec<RingEntry<R>>,
    /// Eventfd, signalled by a completion of any ring and by wake-ups.
    event_fd: OwnedFd,
    /// Socket numbers per ring.
    sockets_per_ring: u32,
    /// Receive buffer numbers per ring.
    buffers_per_ring: u16,
    /// Completions of one ring, reused.
    reaped: Vec<Completion>,
    /// Completions reaped before a wait.
    early: Vec<Completion>,
}

#[derive(Debug)]
struct RingEntry<R> {
    ring: R,
    /// Sockets that are open or connecting.
    open_sockets: u32,
}

/// Returns how many receive buffers each of `count` rings may have so that all buffer numbers are
/// unique: a power of two.
pub(super) fn receive_buffers_max(count: u32) -> u32 {
    let most = 1 << 15;
    let halvings = count.saturating_sub(1).checked_ilog2().unwrap_or(0);
    (most >> halvings.min(15)).max(1)
}

impl<R: Ring> RingSet<R> {
    /// Combines `rings`, each created with `options`.
    ///
    /// # Errors
    ///
    /// Returns an error if the eventfd cannot be created or registered with a ring.
    pub(super) fn new(rings: Vec<R>, options: &RingOptions) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut parts = Vec::with_capacity(rings.len());
        for mut ring in rings {
            ring.register_eventfd(event.as_fd())?;
            parts.push(RingEntry { ring, open_sockets: 0 });
        }
        Ok(Self {
            rings: parts,
            event_fd: event,
            sockets_per_ring: options.sockets_max.max(1),
            buffers_per_ring: options.receive_buffers.max(1),
            reaped: Vec::with_capacity(1_024),
            early: Vec::new(),
        })
    }

    /// Returns the ring of a receive buffer, and the buffer with its number in that ring.
    fn ring_of_buffer(&mut self, buffer: &ReceiveBuffer) -> (&mut R, ReceiveBuffer) {
        let (part, index) =
            (buffer.index / self.buffers_per_ring, buffer.index % self.buffers_per_ring);
        let buffer = ReceiveBuffer { index, len: buffer.len };
        (&mut self.rings[usize::from(part)].ring, buffer)
    }

    /// Returns the ring with the fewest sockets, and counts one more socket for it.
    fn least_loaded(&mut self) -> (u32, &mut RingEntry<R>) {
        let parts = (0..).zip(&mut self.rings);
        let (number, part) =
            parts.min_by_key(|(_, part)| part.open_sockets).expect("at least one ring");
        part.open_sockets += 1;
        (number, part)
    }

    /// Lets every ring submit its queued operations.
    fn submit_all(&mut self) -> Instant {
        let looked = self.rings.iter_mut().map(|part| part.ring.park(ParkTimeout::Zero));
        looked.last().unwrap_or(Instant::ORIGIN)
    }

    /// Reaps the completions of every ring.
    fn reap_all(&mut self, completions: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        let (sockets, buffers) = (self.sockets_per_ring, self.buffers_per_ring);
        let mut above = NumberOffset { sockets: 0, buffers: 0 };
        for part in &mut self.rings {
            part.ring.reap(&mut reaped);
            completions.extend(reaped.drain(..).map(|mut completion| {
                let is_gone = matches!(
                    completion,
                    Completion::Closed { .. } | Completion::Connected { result: Err(_), .. }
                );
                part.open_sockets -= u32::from(is_gone);
                above.translate(&mut completion);
                completion
            }));
            // After the last ring the sum may overflow.
            above.sockets = above.sockets.wrapping_add(sockets);
            above.buffers = above.buffers.wrapping_add(buffers);
        }
        self.reaped = reaped;
    }

    /// Waits for the eventfd, for `span` at most.
    fn wait_for_event(&self, span: Option<Timespec>) {
        let mut event = [PollFd::new(&self.event_fd, PollFlags::IN)];
        // An early end costs one turn without completions.
        poll(&mut event, span.as_ref()).unwrap_or(0);
    }
}

/// Offset of the numbers of one ring.
#[derive(Clone, Copy, Debug)]
struct NumberOffset {
    sockets: u32,
    buffers: u16,
}

impl NumberOffset {
    /// Adds the offset to the numbers in a completion.
    const fn translate(self, completion: &mut Completion) {
        match completion {
            Completion::Received { socket, buffer } => {
                socket.0 += self.sockets;
                buffer.index += self.buffers;
            }
            Completion::Connected { result: Ok(socket), .. }
            | Completion::EndOfStream { socket, .. }
            | Completion::PeerCertificate { socket, .. }
            | Completion::Sent { socket, .. }
            | Completion::Closed { socket } => socket.0 += self.sockets,
            // No socket, or no listener.
            Completion::Connected { .. }
            | Completion::Accepted { .. }
            | Completion::AcceptFailed { .. } => {}
        }
    }
}

impl<R: Ring> Ring for RingSet<R> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        if matches!(source, Source::Listener(_)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let sockets = self.sockets_per_ring;
        let (number, part) = self.least_loaded();
        let registered = part.ring.register(source);
        match registered {
            Ok(Registered::Socket(socket)) => {
                Ok(Registered::Socket(Socket(number * sockets + socket.0)))
            }
            other => {
                part.open_sockets -= 1;
                other
            }
        }
    }

    fn submit(&mut self, mut operation: Operation) {
        let socket = match &mut operation {
            Operation::Receive(socket)
            | Operation::StopReceive(socket)
            | Operation::Send { socket, .. }
            | Operation::ShutdownWrite(socket)
            | Operation::Close(socket)
            | Operation::Reset(socket) => socket,
            Operation::Connect { .. } => return self.least_loaded().1.ring.submit(operation),
            // `register` rejects listeners.
            Operation::Accept(_) | Operation::CloseListener(_) => return,
        };
        let part = (socket.0 / self.sockets_per_ring) as usize;
        socket.0 %= self.sockets_per_ring;
        self.rings[part].ring.submit(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.early);
        self.reap_all(completions);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        let span = match timeout {
            ParkTimeout::Zero => return self.submit_all(),
            ParkTimeout::After(span) => Timespec::try_from(span).ok(),
            ParkTimeout::Infinite => None,
        };
        // Resets the eventfd: everything signalled so far is reaped below.
        rustix::io::read(&self.event_fd, &mut [0; 8]).unwrap_or(0);
        self.submit_all();
        // Completions that a ring produces without the kernel (a pipe is closed, a send came too
        // late) do not signal the eventfd.
        let mut early = std::mem::take(&mut self.early);
        self.reap_all(&mut early);
        if early.is_empty() {
            self.wait_for_event(span);
        }
        self.early = early;
        self.submit_all()
    }

    fn waker(&self) -> Waker {
        self.rings.first().expect("at least one ring").ring.waker()
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        let (ring, buffer) = self.ring_of_buffer(buffer);
        ring.bytes(&buffer)
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        let (ring, buffer) = self.ring_of_buffer(&buffer);
        ring.release(buffer);
    }

    fn exhaustion(&self) -> Exhaustion {
        self.rings.iter().fold(Exhaustion::default(), |sum, part| {
            let more = part.ring.exhaustion();
            Exhaustion {
                receive_buffers: sum.receive_buffers + more.receive_buffers,
                completions: sum.completions + more.completions,
            }
        })
    }

    fn describe(&self) -> String {
        let first = self.rings.first().map_or_else(String::new, |part| part.ring.describe());
        format!("{first}, {} rings per thread", self.rings.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use corelane_engine::clock::Clock;
    use corelane_engine::ring::uring::UringRing;

    use super::*;

    const COUNT: usize = 3;

    /// Creates several small rings, or `None` without `io_uring`.
    fn rings() -> Option<RingSet<UringRing>> {
        let options = RingOptions {
            sockets_max: 4,
            submissions_max: 16,
            completions_max: 64,
            receive_buffers: 8,
            ..RingOptions::default()
        };
        let clock = Clock::start();
        let rings: io::Result<Vec<_>> =
            (0..COUNT).map(|_| UringRing::new(&options, clock)).collect();
        rings.ok().map(|rings| RingSet::new(rings, &options).unwrap())
    }

    /// Runs turns until `count` completions have arrived.
    fn turn(rings: &mut RingSet<UringRing>, count: usize) -> Vec<Completion> {
        let mut completions = Vec::new();
        while completions.len() < count {
            rings.park(ParkTimeout::After(Duration::from_secs(5)));
            rings.reap(&mut completions);
        }
        completions
    }

    /// Opens `count` connections; returns their peers by socket.
    fn connect(
        rings: &mut RingSet<UringRing>,
        listener: &TcpListener,
        count: usize,
    ) -> BTreeMap<Socket, TcpStream> {
        let address = listener.local_addr().unwrap();
        let mut pairs = BTreeMap::new();
        for token in 0..count as u64 {
            rings.submit(Operation::Connect {
                address,
                local_address: None,
                keepalive: false,
                token,
            });
            let [Completion::Connected { token: completed, result: Ok(socket) }] =
                turn(rings, 1)[..]
            else {
                panic!("not connected")
            };
            assert_eq!(completed, token);
            rings.submit(Operation::Receive(socket));
            pairs.insert(socket, listener.accept().unwrap().0);
        }
        pairs
    }

    #[test]
    fn ring_set_spreads_connections_and_delivers_data() {
        let Some(mut rings) = rings() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pairs = connect(&mut rings, &listener, 2 * COUNT);
        let mut held = [0; COUNT];
        for socket in pairs.keys() {
            held[socket.index() / 4] += 1;
        }
        assert_eq!(held, [2; COUNT]);

        for (socket, peer) in &mut pairs {
            peer.write_all(&socket.0.to_le_bytes()).unwrap();
        }
        for completion in turn(&mut rings, 2 * COUNT) {
            let Completion::Received { socket, buffer: lease } = completion else { panic!() };
            assert_eq!(rings.bytes(&lease)[..4], socket.0.to_le_bytes());
            rings.release(lease);
            let buffer = socket.0.to_be_bytes().to_vec();
            rings.submit(Operation::Send { socket, buffer, offset: 0 });
        }
        for completion in turn(&mut rings, 2 * COUNT) {
            let Completion::Sent { socket, buffer, result: Ok(4) } = completion else { panic!() };
            assert_eq!(buffer, socket.0.to_be_bytes());
        }
        for (socket, peer) in &mut pairs {
            let mut received = [0; 4];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(received, socket.0.to_be_bytes());
        }
    }

    #[test]
    fn ring_set_reuses_closed_socket_number() {
        let Some(mut rings) = rings() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pairs = connect(&mut rings, &listener, 4 * COUNT);
        let left = *pairs.keys().nth(4).unwrap();
        rings.submit(Operation::Close(left));
        let closed = turn(&mut rings, 1);
        assert!(matches!(closed[..], [Completion::Closed { socket }] if socket == left));
        assert_eq!(connect(&mut rings, &listener, 1).into_keys().collect::<Vec<_>>(), [left]);
    }

    #[test]
    fn ring_set_wait_ends_on_any_ring() {
        let Some(mut rings) = rings() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pairs = connect(&mut rings, &listener, COUNT);
        let (socket, peer) = pairs.iter_mut().next_back().unwrap();
        // Consumes earlier signals.
        rings.park(ParkTimeout::After(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| peer.write_all(b"!").unwrap());
            let mut completions = Vec::new();
            while completions.is_empty() {
                rings.park(ParkTimeout::Infinite);
                rings.reap(&mut completions);
            }
            let [Completion::Received { socket: from, .. }] = completions[..] else { panic!() };
            assert_eq!(from, *socket);
        });
        let waker = rings.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            rings.park(ParkTimeout::Infinite);
        });
        let started = rings.park(ParkTimeout::Zero);
        let ended = rings.park(ParkTimeout::After(Duration::from_millis(2)));
        assert!(ended.since(started) < Duration::from_secs(5));
    }

    #[test]
    fn ring_set_wait_ends_on_userspace_completion() {
        let Some(mut rings) = rings() else { return };
        let socket = Socket(5);
        rings.submit(Operation::Send { socket, buffer: vec![1], offset: 0 });
        let started = rings.park(ParkTimeout::Zero);
        let ended = rings.park(ParkTimeout::After(Duration::from_mins(1)));
        assert!(ended.since(started) < Duration::from_secs(30));
        let mut completions = Vec::new();
        rings.reap(&mut completions);
        let [Completion::Sent { socket: back, result: Err(_), .. }] = completions[..] else {
            panic!()
        };
        assert_eq!(back, socket);
    }

    #[test]
    fn receive_buffer_numbers_are_unique_across_rings() {
        for count in 1..=65_536_u32 {
            let most = receive_buffers_max(count);
            assert!(most.is_power_of_two() && count * most <= 65_536, "{count}: {most}");
        }
        assert_eq!([1, 2, 3, 5].map(receive_buffers_max), [32_768, 32_768, 16_384, 8_192]);
    }
}
