//! A ring under test, with helpers that wait for a specific completion.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Listener, Operation, PADDING, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket,
    Source,
};

/// Timeout of every wait.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A ring and its completions so far.
pub(super) struct TestRing<R> {
    pub(super) ring: R,
    /// In the order of arrival; a wait removes the completion that it returns.
    pub(super) completions: Vec<Completion>,
    pub(super) now: Instant,
}

impl<R: Ring> TestRing<R> {
    pub(super) fn new(mut ring: R) -> Self {
        let now = ring.park(ParkTimeout::Zero);
        Self { ring, completions: Vec::new(), now }
    }

    pub(super) fn submit(&mut self, operation: Operation) {
        self.ring.submit(operation);
    }

    /// Parks and reaps once.
    pub(super) fn turn(&mut self, timeout: ParkTimeout) {
        self.now = self.ring.park(timeout);
        self.ring.reap(&mut self.completions);
    }

    /// Turns until no completion arrives for 20 ms: all bytes in flight on the loopback are there.
    pub(super) fn run_until_idle(&mut self) {
        loop {
            let completion = self.completions.len();
            let before = self.now;
            self.turn(ParkTimeout::After(Duration::from_millis(20)));
            let waited = self.now.since(before);
            if self.completions.len() == completion && waited >= Duration::from_millis(19) {
                return;
            }
            assert!(waited < TIMEOUT, "completions keep arriving");
        }
    }

    /// Turns until `choose` returns a value for a completion, and removes that completion.
    pub(super) fn await_completion<T>(
        &mut self,
        mut choose: impl FnMut(&Completion) -> Option<T>,
    ) -> T {
        let deadline = self.now.after(TIMEOUT);
        loop {
            let found = self
                .completions
                .iter()
                .enumerate()
                .find_map(|(at, completion)| Some((at, choose(completion)?)));
            if let Some((at, chosen)) = found {
                // `choose` has copied the handle of its receive buffer.
                self.completions.remove(at);
                return chosen;
            }
            let remaining = deadline.since(self.now);
            assert!(!remaining.is_zero(), "timed out; completions: {:?}", self.completions);
            self.turn(ParkTimeout::After(remaining));
        }
    }

    /// Listens on a free port and accepts.
    pub(super) fn listen(&mut self) -> (Listener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        match self.ring.register(Source::Listener(listener.into())).unwrap() {
            Registered::Listener(name) => {
                self.submit(Operation::Accept(name));
                (name, address)
            }
            Registered::Socket(_) => panic!("listener was registered as a socket"),
        }
    }

    /// Registers a connected stream or pipe.
    pub(super) fn register(&mut self, source: Source) -> Socket {
        match self.ring.register(source).unwrap() {
            Registered::Socket(socket) => socket,
            Registered::Listener(_) => panic!("stream was registered as a listener"),
        }
    }

    pub(super) fn await_accepted(&mut self) -> Socket {
        self.await_completion(|completion| match completion {
            Completion::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
    }

    /// Connects a client; returns it with its accepted socket.
    pub(super) fn connect(&mut self, address: SocketAddr) -> (TcpStream, Socket) {
        let client = connect(address);
        (client, self.await_accepted())
    }

    /// Connects a client to a new listener; its socket receives.
    pub(super) fn connect_receiving(&mut self) -> (TcpStream, Socket) {
        let (_, address) = self.listen();
        let (client, socket) = self.connect(address);
        self.submit(Operation::Receive(socket));
        (client, socket)
    }

    /// Waits for the next receive buffer of a socket; panics at the end of the stream.
    pub(super) fn await_received(&mut self, of: Socket) -> ReceiveBuffer {
        self.await_completion(|completion| match completion {
            Completion::Received { socket, buffer } if *socket == of => {
                Some(ReceiveBuffer { index: buffer.index, len: buffer.len })
            }
            Completion::EndOfStream { socket, result } if *socket == of => {
                panic!("end of stream: {result:?}")
            }
            _ => None,
        })
    }

    /// Returns the bytes of a receive buffer and releases it.
    pub(super) fn take_bytes(&mut self, buffer: ReceiveBuffer) -> Vec<u8> {
        let bytes = self.ring.bytes(&buffer);
        assert!(bytes.len() >= buffer.len as usize + PADDING, "the padding is missing");
        let taken = bytes[..buffer.len as usize].to_vec();
        self.ring.release(buffer);
        taken
    }

    /// Receives exactly `count` bytes.
    pub(super) fn await_bytes(&mut self, of: Socket, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let buffer = self.await_received(of);
            bytes.extend(self.take_bytes(buffer));
        }
        assert_eq!(bytes.len(), count, "more bytes than sent");
        bytes
    }

    pub(super) fn await_end_of_stream(&mut self, of: Socket) -> std::io::Result<()> {
        self.await_completion(|completion| match completion {
            Completion::EndOfStream { socket, result } if *socket == of => {
                Some(copy_result(result))
            }
            _ => None,
        })
    }

    pub(super) fn await_closed(&mut self, of: Socket) {
        self.await_completion(|completion| match completion {
            Completion::Closed { socket } if *socket == of => Some(()),
            _ => None,
        });
    }

    pub(super) fn send(&mut self, socket: Socket, bytes: &[u8]) {
        self.submit(Operation::Send { socket, buffer: bytes.to_vec(), offset: 0 });
    }

    /// Waits for the send in flight; returns its buffer and result.
    pub(super) fn await_sent(&mut self, of: Socket) -> (Vec<u8>, std::io::Result<usize>) {
        self.await_completion(|completion| match completion {
            Completion::Sent { socket, buffer, result } if *socket == of => {
                Some((buffer.clone(), copy_result(result)))
            }
            _ => None,
        })
    }

    pub(super) fn close(&mut self, socket: Socket) {
        self.submit(Operation::Close(socket));
        self.await_closed(socket);
    }

    /// Returns whether there is a completion of `socket`.
    pub(super) fn has_completion_of(&self, of: Socket) -> bool {
        self.completions.iter().any(|completion| match completion {
            Completion::Accepted { socket, .. }
            | Completion::Received { socket, .. }
            | Completion::EndOfStream { socket, .. }
            | Completion::PeerCertificate { socket, .. }
            | Completion::Sent { socket, .. }
            | Completion::Closed { socket } => *socket == of,
            Completion::AcceptFailed { .. } | Completion::Connected { .. } => false,
        })
    }
}

/// Connects a client with the timeouts of the tests.
pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.set_write_timeout(Some(TIMEOUT)).unwrap();
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

/// Bytes without repetition at short distances.
pub(super) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()
}

/// Closes the connection with a TCP reset.
pub(super) fn reset(client: TcpStream) {
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

pub(super) fn copy_result<T: Copy>(result: &std::io::Result<T>) -> std::io::Result<T> {
    match result {
        Ok(value) => Ok(*value),
        Err(error) => match error.raw_os_error() {
            Some(code) => Err(std::io::Error::from_raw_os_error(code)),
            None => Err(error.kind().into()),
        },
    }
}
