//! Several rings of one thread that look like one.
//!
//! A ring over `io_uring` holds as many connections as the process may have files open. Where that
//! is too few, more threads would be the usual answer, and they would have to share the cores of
//! the load: none of them could stay awake for what is due. So a worker has as many rings as it
//! takes.
//!
//! What it keeps true: the names of sockets and of leases are those of their ring, moved up by as
//! many as the rings before it may have; a new connection goes to the ring that holds the fewest;
//! a wait ends with whatever completes in any of the rings, and with a wake.
//!
//! What it does not do: listen.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use corelane::base::time::Moment;
use corelane::engine::ring::{
    Completion, Lease, Operation, Patience, Registered, Ring, RingOptions, Shortages, Socket,
    Source, Waker,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Rings of the same sizes, all of them of the calling thread.
#[derive(Debug)]
pub(super) struct Rings<R> {
    parts: Vec<Part<R>>,
    /// Raised whenever something completes in any of them, or somebody wakes.
    event: OwnedFd,
    /// How many names of sockets a ring has.
    sockets: u32,
    /// How many names of leases a ring has.
    buffers: u16,
    /// What one ring has just brought.
    reaped: Vec<Completion>,
    /// What came before a wait.
    early: Vec<Completion>,
}

/// One of the rings.
#[derive(Debug)]
struct Part<R> {
    ring: R,
    /// Sockets that it has or is about to have.
    held: u32,
}

/// How many receive buffers each of `count` rings may have so that every lease has a name of its
/// own: a power of two.
pub(super) fn receive_buffers_max(count: u32) -> u32 {
    let most = 1 << 15;
    let halvings = count.saturating_sub(1).checked_ilog2().unwrap_or(0);
    (most >> halvings.min(15)).max(1)
}

impl<R: Ring> Rings<R> {
    /// The `rings` as one, each of them of these sizes.
    ///
    /// # Errors
    ///
    /// Where the rings cannot signal through an event, or there is none to be had.
    pub(super) fn new(rings: Vec<R>, options: &RingOptions) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut parts = Vec::with_capacity(rings.len());
        for mut ring in rings {
            ring.signal_through(event.as_fd())?;
            parts.push(Part { ring, held: 0 });
        }
        Ok(Self {
            parts,
            event,
            sockets: options.sockets_max.max(1),
            buffers: options.receive_buffers.max(1),
            reaped: Vec::with_capacity(1_024),
            early: Vec::new(),
        })
    }

    /// The ring of a lease, and what the lease is called there.
    fn lender_of(&mut self, lease: &Lease) -> (&mut R, Lease) {
        let (part, buffer) = (lease.buffer / self.buffers, lease.buffer % self.buffers);
        let lease = Lease { buffer, length: lease.length };
        (&mut self.parts[usize::from(part)].ring, lease)
    }

    /// The ring that holds the fewest sockets, which takes one more.
    fn least(&mut self) -> (u32, &mut Part<R>) {
        let parts = (0..).zip(&mut self.parts);
        let (number, part) =
            parts.min_by_key(|(_, part)| part.held).expect("there is at least one ring");
        part.held += 1;
        (number, part)
    }

    /// Has every ring submit what it was asked and do what was deferred.
    fn look(&mut self) -> Moment {
        let looked = self.parts.iter_mut().map(|part| part.ring.park(Patience::None));
        looked.last().unwrap_or(Moment::ORIGIN)
    }

    /// Has every ring hand over what has completed.
    fn collect(&mut self, completions: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        let (sockets, buffers) = (self.sockets, self.buffers);
        let mut above = Above { sockets: 0, buffers: 0 };
        for part in &mut self.parts {
            part.ring.reap(&mut reaped);
            completions.extend(reaped.drain(..).map(|mut completion| {
                let is_gone = matches!(
                    completion,
                    Completion::Closed { .. } | Completion::Connected { result: Err(_), .. }
                );
                part.held -= u32::from(is_gone);
                above.rename(&mut completion);
                completion
            }));
            // Past the last ring there may be no further name.
            above.sockets = above.sockets.wrapping_add(sockets);
            above.buffers = above.buffers.wrapping_add(buffers);
        }
        self.reaped = reaped;
    }

    /// Waits until the event is raised, or `span` is over.
    fn wait(&self, span: Option<Timespec>) {
        let mut event = [PollFd::new(&self.event, PollFlags::IN)];
        // What ends a wait before its time costs a turn in which nothing has happened.
        poll(&mut event, span.as_ref()).unwrap_or(0);
    }
}

/// What the names of one ring are moved up by.
#[derive(Clone, Copy, Debug)]
struct Above {
    sockets: u32,
    buffers: u16,
}

impl Above {
    /// Has a completion speak in the names of all rings.
    const fn rename(self, completion: &mut Completion) {
        match completion {
            Completion::Received { socket, lease } => {
                socket.0 += self.sockets;
                lease.buffer += self.buffers;
            }
            Completion::Connected { result: Ok(socket), .. }
            | Completion::Ended { socket, .. }
            | Completion::Sent { socket, .. }
            | Completion::Closed { socket } => socket.0 += self.sockets,
            // There is no socket, or nobody listens.
            Completion::Connected { .. }
            | Completion::Accepted { .. }
            | Completion::AcceptFailed { .. } => {}
        }
    }
}

impl<R: Ring> Ring for Rings<R> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        if matches!(source, Source::Listener(_)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let sockets = self.sockets;
        let (number, part) = self.least();
        let registered = part.ring.register(source);
        match registered {
            Ok(Registered::Socket(socket)) => {
                Ok(Registered::Socket(Socket(number * sockets + socket.0)))
            }
            other => {
                part.held -= 1;
                other
            }
        }
    }

    fn submit(&mut self, mut operation: Operation) {
        let socket = match &mut operation {
            Operation::Receive(socket)
            | Operation::Pause(socket)
            | Operation::Send { socket, .. }
            | Operation::Finish(socket)
            | Operation::Close(socket) => socket,
            Operation::Connect { .. } => return self.least().1.ring.submit(operation),
            // No listener has ever been registered.
            Operation::Accept(_) | Operation::CloseListener(_) => return,
        };
        let part = (socket.0 / self.sockets) as usize;
        socket.0 %= self.sockets;
        self.parts[part].ring.submit(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.early);
        self.collect(completions);
    }

    fn park(&mut self, patience: Patience) -> Moment {
        let span = match patience {
            Patience::None => return self.look(),
            Patience::For(span) => Timespec::try_from(span).ok(),
            Patience::Forever => None,
        };
        // What was raised so far has been looked at, or is about to be.
        rustix::io::read(&self.event, &mut [0; 8]).unwrap_or(0);
        self.look();
        // What a ring knows without the kernel (a pipe is closed, a send came too late) raises no
        // event.
        let mut early = std::mem::take(&mut self.early);
        self.collect(&mut early);
        if early.is_empty() {
            self.wait(span);
        }
        self.early = early;
        self.look()
    }

    fn waker(&self) -> Waker {
        self.parts.first().expect("there is at least one ring").ring.waker()
    }

    fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        let (ring, lease) = self.lender_of(lease);
        ring.bytes(&lease)
    }

    fn release(&mut self, lease: Lease) {
        let (ring, lease) = self.lender_of(&lease);
        ring.release(lease);
    }

    fn shortages(&self) -> Shortages {
        self.parts.iter().fold(Shortages::default(), |sum, part| {
            let more = part.ring.shortages();
            Shortages {
                receive_buffers: sum.receive_buffers + more.receive_buffers,
                completions: sum.completions + more.completions,
            }
        })
    }

    fn describe(&self) -> String {
        let first = self.parts.first().map_or_else(String::new, |part| part.ring.describe());
        format!("{first}, {} rings a worker", self.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use corelane::engine::clock::Clock;
    use corelane::engine::ring::uring::UringRing;

    use super::*;

    const COUNT: usize = 3;

    /// Several small rings; none where the kernel has none.
    fn rings() -> Option<Rings<UringRing>> {
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
        rings.ok().map(|rings| Rings::new(rings, &options).unwrap())
    }

    /// Turns until so many completions have come.
    fn turn(rings: &mut Rings<UringRing>, count: usize) -> Vec<Completion> {
        let mut completions = Vec::new();
        while completions.len() < count {
            rings.park(Patience::For(Duration::from_secs(5)));
            rings.reap(&mut completions);
        }
        completions
    }

    /// As many connections as are asked for: what they are called, and their other ends.
    fn connect(
        rings: &mut Rings<UringRing>,
        listener: &TcpListener,
        count: usize,
    ) -> BTreeMap<Socket, TcpStream> {
        let address = listener.local_addr().unwrap();
        let mut pairs = BTreeMap::new();
        for token in 0..count as u64 {
            rings.submit(Operation::Connect { address, from: None, token });
            let [Completion::Connected { token: told, result: Ok(socket) }] = turn(rings, 1)[..]
            else {
                panic!("not connected")
            };
            assert_eq!(told, token);
            rings.submit(Operation::Receive(socket));
            pairs.insert(socket, listener.accept().unwrap().0);
        }
        pairs
    }

    #[test]
    fn connections_spread_over_all_rings_and_hear_what_was_said_to_them() {
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
            let Completion::Received { socket, lease } = completion else { panic!() };
            assert_eq!(rings.bytes(&lease)[..4], socket.0.to_le_bytes());
            rings.release(lease);
            let buffer = socket.0.to_be_bytes().to_vec();
            rings.submit(Operation::Send { socket, buffer, from: 0 });
        }
        for completion in turn(&mut rings, 2 * COUNT) {
            let Completion::Sent { socket, buffer, result: Ok(4) } = completion else { panic!() };
            assert_eq!(buffer, socket.0.to_be_bytes());
        }
        for (socket, peer) in &mut pairs {
            let mut heard = [0; 4];
            peer.read_exact(&mut heard).unwrap();
            assert_eq!(heard, socket.0.to_be_bytes());
        }
    }

    #[test]
    fn a_place_that_was_left_is_taken_again() {
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
    fn a_wait_ends_with_whatever_ends_it_in_one_of_the_rings() {
        let Some(mut rings) = rings() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pairs = connect(&mut rings, &listener, COUNT);
        let (socket, peer) = pairs.iter_mut().next_back().unwrap();
        // So that nothing of the past is left to end it.
        rings.park(Patience::For(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| peer.write_all(b"!").unwrap());
            let mut heard = Vec::new();
            while heard.is_empty() {
                rings.park(Patience::Forever);
                rings.reap(&mut heard);
            }
            let [Completion::Received { socket: told, .. }] = heard[..] else { panic!() };
            assert_eq!(told, *socket);
        });
        let waker = rings.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            rings.park(Patience::Forever);
        });
        let started = rings.park(Patience::None);
        let ended = rings.park(Patience::For(Duration::from_millis(2)));
        assert!(ended.since(started) < Duration::from_secs(5));
    }

    #[test]
    fn a_wait_ends_with_what_a_ring_knows_without_the_kernel() {
        let Some(mut rings) = rings() else { return };
        let socket = Socket(5);
        rings.submit(Operation::Send { socket, buffer: vec![1], from: 0 });
        let started = rings.park(Patience::None);
        let ended = rings.park(Patience::For(Duration::from_mins(1)));
        assert!(ended.since(started) < Duration::from_secs(30));
        let mut told = Vec::new();
        rings.reap(&mut told);
        let [Completion::Sent { socket: back, result: Err(_), .. }] = told[..] else { panic!() };
        assert_eq!(back, socket);
    }

    #[test]
    fn every_lease_has_a_name_of_its_own_however_many_rings_there_are() {
        for count in 1..=65_536_u32 {
            let most = receive_buffers_max(count);
            assert!(most.is_power_of_two() && count * most <= 65_536, "{count}: {most}");
        }
        assert_eq!([1, 2, 3, 5].map(receive_buffers_max), [32_768, 32_768, 16_384, 8_192]);
    }
}
