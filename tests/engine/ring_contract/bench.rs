//! A ring on a bench: its completions, sorted by what a test waits for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::ring::{
    Completion, Lease, Listener, Operation, PADDING, Patience, Registered, Ring, Socket, Source,
};

/// How long a test waits before it fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A ring and what it has told so far.
pub(super) struct Bench<R> {
    pub(super) ring: R,
    /// In the order in which they were reaped; a test takes out what it waited for.
    pub(super) told: Vec<Completion>,
    pub(super) now: Moment,
}

impl<R: Ring> Bench<R> {
    pub(super) fn new(mut ring: R) -> Self {
        let now = ring.park(Patience::None);
        Self { ring, told: Vec::new(), now }
    }

    pub(super) fn submit(&mut self, operation: Operation) {
        self.ring.submit(operation);
    }

    /// One park and one reaping.
    pub(super) fn turn(&mut self, patience: Patience) {
        self.now = self.ring.park(patience);
        self.ring.reap(&mut self.told);
    }

    /// Turns until nothing comes for a moment: what is on its way over the loopback has arrived.
    pub(super) fn settle(&mut self) {
        loop {
            let told = self.told.len();
            let before = self.now;
            self.turn(Patience::For(Duration::from_millis(20)));
            let waited = self.now.since(before);
            if self.told.len() == told && waited >= Duration::from_millis(19) {
                return;
            }
            assert!(waited < PATIENCE, "the ring does not settle");
        }
    }

    /// Turns until a completion is told that `choose` takes.
    pub(super) fn await_one<T>(&mut self, mut choose: impl FnMut(&Completion) -> Option<T>) -> T {
        let deadline = self.now.after(PATIENCE);
        loop {
            let found =
                self.told.iter().enumerate().find_map(|(at, told)| Some((at, choose(told)?)));
            if let Some((at, chosen)) = found {
                // A lease that goes out of sight here was chosen with its completion.
                self.told.remove(at);
                return chosen;
            }
            let left = deadline.since(self.now);
            assert!(!left.is_zero(), "did not come; told instead: {:?}", self.told);
            self.turn(Patience::For(left));
        }
    }

    /// Listens on a port of the system's choice and accepts.
    pub(super) fn listen(&mut self) -> (Listener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        match self.ring.register(Source::Listener(listener.into())).unwrap() {
            Registered::Listener(name) => {
                self.submit(Operation::Accept(name));
                (name, address)
            }
            Registered::Socket(_) => panic!("a listener is not a socket"),
        }
    }

    /// Brings something in from outside.
    pub(super) fn adopt(&mut self, source: Source) -> Socket {
        match self.ring.register(source).unwrap() {
            Registered::Socket(socket) => socket,
            Registered::Listener(_) => panic!("a socket is not a listener"),
        }
    }

    pub(super) fn await_accepted(&mut self) -> Socket {
        self.await_one(|told| match told {
            Completion::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
    }

    /// A client and the socket that the ring accepted for it.
    pub(super) fn pair(&mut self, address: SocketAddr) -> (TcpStream, Socket) {
        let client = dial(address);
        (client, self.await_accepted())
    }

    /// A listener, a client and its socket, which receives.
    pub(super) fn connected(&mut self) -> (TcpStream, Socket) {
        let (_, address) = self.listen();
        let (client, socket) = self.pair(address);
        self.submit(Operation::Receive(socket));
        (client, socket)
    }

    /// The next lease of a socket; fails where the stream ends instead.
    pub(super) fn await_lease(&mut self, of: Socket) -> Lease {
        self.await_one(|told| match told {
            Completion::Received { socket, lease } if *socket == of => {
                Some(Lease { buffer: lease.buffer, length: lease.length })
            }
            Completion::Ended { socket, result } if *socket == of => {
                panic!("ended instead: {result:?}")
            }
            _ => None,
        })
    }

    /// The bytes of a lease, which goes back.
    pub(super) fn take(&mut self, lease: Lease) -> Vec<u8> {
        let bytes = self.ring.bytes(&lease);
        assert!(bytes.len() >= lease.length as usize + PADDING, "the padding is missing");
        let taken = bytes[..lease.length as usize].to_vec();
        self.ring.release(lease);
        taken
    }

    /// Exactly this many bytes of a socket.
    pub(super) fn await_bytes(&mut self, of: Socket, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let lease = self.await_lease(of);
            bytes.extend(self.take(lease));
        }
        assert_eq!(bytes.len(), count, "more came than was sent");
        bytes
    }

    pub(super) fn await_ended(&mut self, of: Socket) -> std::io::Result<()> {
        self.await_one(|told| match told {
            Completion::Ended { socket, result } if *socket == of => Some(copy(result)),
            _ => None,
        })
    }

    pub(super) fn await_closed(&mut self, of: Socket) {
        self.await_one(|told| match told {
            Completion::Closed { socket } if *socket == of => Some(()),
            _ => None,
        });
    }

    pub(super) fn send(&mut self, socket: Socket, bytes: &[u8]) {
        self.submit(Operation::Send { socket, buffer: bytes.to_vec(), from: 0 });
    }

    /// The outcome of the send under way, and its buffer.
    pub(super) fn await_sent(&mut self, of: Socket) -> (Vec<u8>, std::io::Result<usize>) {
        self.await_one(|told| match told {
            Completion::Sent { socket, buffer, result } if *socket == of => {
                Some((buffer.clone(), copy(result)))
            }
            _ => None,
        })
    }

    pub(super) fn close(&mut self, socket: Socket) {
        self.submit(Operation::Close(socket));
        self.await_closed(socket);
    }

    /// Whether anything was told of a socket.
    pub(super) fn has_told_of(&self, of: Socket) -> bool {
        self.told.iter().any(|told| match told {
            Completion::Accepted { socket, .. }
            | Completion::Received { socket, .. }
            | Completion::Ended { socket, .. }
            | Completion::Sent { socket, .. }
            | Completion::Closed { socket } => *socket == of,
            Completion::AcceptFailed { .. } | Completion::Connected { .. } => false,
        })
    }
}

/// A client that gives up as late as the tests do.
pub(super) fn dial(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    client.set_nodelay(true).unwrap();
    client
}

pub(super) fn write(client: &mut impl Write, bytes: &[u8]) {
    client.write_all(bytes).unwrap();
}

pub(super) fn read(client: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

/// Bytes in which no two places near each other look the same.
pub(super) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()
}

/// Has the connection end with a reset when it is dropped.
pub(super) fn reset(client: TcpStream) {
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

pub(super) fn copy<T: Copy>(result: &std::io::Result<T>) -> std::io::Result<T> {
    match result {
        Ok(value) => Ok(*value),
        Err(error) => match error.raw_os_error() {
            Some(code) => Err(std::io::Error::from_raw_os_error(code)),
            None => Err(error.kind().into()),
        },
    }
}
