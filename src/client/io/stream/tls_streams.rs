//! TLS of the sockets of an I/O thread, below HTTP and lines: these send and receive plaintext
//! over a [`TlsRing`], whatever their socket carries.
//!
//! Invariants: a socket with an entry sends nothing that is not encrypted, until it is closed;
//! plaintext is passed on before the end of its connection; an end without `close_notify` is an
//! error, since data may be missing.

use std::io;

use super::partial_sends::PartialSends;
use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Operation, PADDING, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source,
    Waker,
};
use corelane_tls::{TlsError, TlsFilter, TlsScratch};

/// Largest buffer that is kept for the next send.
const SPARE_BYTES_MAX: usize = 64 << 10;
/// Index of the buffer that names the plaintext of a [`TlsStreams`]; no ring has as many.
const PLAINTEXT: u16 = u16::MAX;

/// A TLS connection after its handshake.
#[derive(Debug)]
pub struct TlsConnection {
    pub filter: Box<TlsFilter>,
    /// Plaintext that came with the end of the handshake.
    pub received: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    connection: TlsConnection,
    is_sending: bool,
    /// What ended the plaintext, until it is passed on.
    end: Option<io::Result<()>>,
}

/// The encrypted sockets of a thread.
#[derive(Debug, Default)]
pub struct TlsStreams {
    /// By socket; shorter if the later ones are not encrypted.
    entries: Vec<Option<Box<Entry>>>,
    /// The plaintext that was received last, with its padding.
    scratch: TlsScratch,
    /// An empty buffer for ciphertext.
    spare: Vec<u8>,
    /// Sockets whose output could not be encrypted.
    failed: Vec<(Socket, TlsError)>,
    sends: PartialSends,
}

impl TlsStreams {
    /// Adds a socket.
    pub fn insert(&mut self, socket: Socket, connection: TlsConnection) {
        let index = socket.index();
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Box::new(Entry { connection, is_sending: false, end: None }));
    }

    fn entry(&mut self, socket: Socket) -> Option<&mut Entry> {
        self.entries.get_mut(socket.index())?.as_deref_mut()
    }

    /// Returns whether a socket is encrypted.
    pub fn is_encrypted(&self, socket: Socket) -> bool {
        self.entries.get(socket.index()).is_some_and(Option::is_some)
    }

    /// Decrypts received bytes. Returns the plaintext, which [`TlsRing::bytes`] has, or `None` if
    /// the socket is not encrypted.
    pub fn receive(&mut self, socket: Socket, bytes: &[u8]) -> Option<ReceiveBuffer> {
        let entry = self.entries.get_mut(socket.index())?.as_deref_mut()?;
        let TlsConnection { filter, received } = &mut entry.connection;
        self.scratch.plaintext.clear();
        self.scratch.plaintext.append(received);
        match filter.receive(bytes, &mut self.scratch) {
            Err(error) => entry.end = Some(Err(io::Error::other(error))),
            Ok(()) if filter.is_closed() => entry.end = Some(Ok(())),
            Ok(()) => {}
        }
        let length = self.scratch.plaintext.len();
        self.scratch.plaintext.resize(length + PADDING, 0);
        // At most the bytes of a receive buffer and of one more record.
        Some(ReceiveBuffer { index: PLAINTEXT, len: u32::try_from(length).unwrap_or(u32::MAX) })
    }

    /// Takes the end of the plaintext of a socket, once.
    pub fn take_end(&mut self, socket: Socket) -> Option<io::Result<()>> {
        self.entry(socket)?.end.take()
    }

    /// Returns how the stream of a socket ended whose bytes end with `result`.
    pub fn end(&mut self, socket: Socket, result: io::Result<()>) -> io::Result<()> {
        match self.entry(socket) {
            Some(entry) if !entry.connection.filter.is_closed() => result.and_then(|()| {
                let text = "the server closed the TLS connection without close_notify";
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
            }),
            _ => result,
        }
    }

    /// Handles the end of a send. Returns its buffer, or `None` if the rest of it is being sent.
    pub fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: io::Result<usize>,
    ) -> Option<io::Result<Vec<u8>>> {
        let sent = self.sends.handle_sent(ring, socket, buffer, result)?;
        if let Some(entry) = self.entry(socket) {
            entry.is_sending = false;
        }
        Some(sent)
    }

    /// Notes that a socket is used for a new connection.
    pub fn begin_sends(&mut self, socket: Socket) {
        self.sends.open(socket);
    }

    /// Takes a socket whose output could not be encrypted.
    pub fn take_failed(&mut self) -> Option<(Socket, TlsError)> {
        self.failed.pop()
    }

    /// Returns the ciphertext of `buffer[offset..]`, or `None` if it cannot be encrypted.
    fn encrypt(&mut self, socket: Socket, mut buffer: Vec<u8>, offset: usize) -> Option<Vec<u8>> {
        let entry = self.entries.get_mut(socket.index())?.as_deref_mut()?;
        let mut ciphertext = std::mem::take(&mut self.spare);
        let encrypted = entry.connection.filter.encrypt(&buffer[offset..], &mut ciphertext);
        if let Err(error) = encrypted {
            self.failed.push((socket, error));
            return None;
        }
        entry.is_sending = true;
        buffer.clear();
        if buffer.capacity() <= SPARE_BYTES_MAX {
            self.spare = buffer;
        }
        Some(ciphertext)
    }

    /// Removes a socket. Returns the `close_notify` or the alert to send before it is closed.
    fn remove(&mut self, socket: Socket) -> Option<Vec<u8>> {
        let mut entry = self.entries.get_mut(socket.index())?.take()?;
        let mut output = Vec::new();
        if !entry.is_sending {
            entry.connection.filter.close(&mut output);
        }
        (!output.is_empty()).then_some(output)
    }
}

/// A ring whose encrypted sockets send and receive plaintext.
#[derive(Debug)]
pub struct TlsRing<'a, R> {
    ring: &'a mut R,
    tls: &'a mut TlsStreams,
}

impl<'a, R> TlsRing<'a, R> {
    pub const fn new(ring: &'a mut R, tls: &'a mut TlsStreams) -> Self {
        Self { ring, tls }
    }
}

impl<R: Ring> Ring for TlsRing<'_, R> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Send { socket, buffer, offset } if self.tls.is_encrypted(socket) => {
                if let Some(buffer) = self.tls.encrypt(socket, buffer, offset) {
                    self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                }
            }
            Operation::Close(socket) | Operation::Reset(socket) => {
                if let Some(buffer) = self.tls.remove(socket) {
                    // Sent as far as the socket accepts it before the close.
                    self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                }
                self.tls.sends.begin_close(socket);
                self.ring.submit(operation);
            }
            operation => self.ring.submit(operation),
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.ring.reap(completions);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        match buffer.index {
            PLAINTEXT => &mut self.tls.scratch.plaintext,
            _ => self.ring.bytes(buffer),
        }
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        if buffer.index != PLAINTEXT {
            self.ring.release(buffer);
        }
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}
