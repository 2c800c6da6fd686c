//! The open streams of a readiness ring: their table, their interest in events, and how they
//! connect.
//!
//! Invariants: the poller watches a stream for at least what it waits for, and for more only until
//! the next unwanted event. Interest is reduced lazily because most reductions never cost anything:
//! a paused stream without bytes, or one at its end that is about to be closed, needs no system
//! call. Each attempt to connect is completed exactly once, with a connected socket or an error; a
//! failed attempt leaves no descriptor open. The kernel and the shard limit how long an attempt may
//! take.
//!
//! Polling is level-triggered: a stream that was not emptied is reported again, so that a short
//! read can be taken as the last one.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use polling::{Event, PollMode, Poller};
use rustix::io::Errno;
use socket2::{SockAddr, SockRef};

use super::descriptor::{Descriptor, DescriptorKind};
use crate::ring::outgoing_socket::OutgoingSocket;
use crate::ring::{Completion, Shortage, Socket, SocketLimit};

/// All open streams of a ring.
#[derive(Debug)]
pub(super) struct StreamTable {
    entries: Vec<Option<Stream>>,
    vacant: Vec<u32>,
    /// Vacant names whose close may be reported and not handled yet.
    closed: Vec<u32>,
    sockets_max: usize,
    /// Files with something to read or write; they are always ready.
    files: Vec<Socket>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) descriptor: Descriptor,
    /// It was accepted by means of the descriptor that is kept in reserve.
    pub(super) is_from_reserve: bool,
    /// The interest registered with the poller.
    registered: Interest,
    pub(super) receive_state: ReceiveState,
    /// The write side is to be shut down after the send in progress.
    pub(super) shutdown_pending: bool,
    /// The token of a connect in progress.
    pub(super) connecting: Option<u64>,
    /// The send in progress.
    pub(super) pending_send: Option<PendingSend>,
}

/// The receive state of a stream.
///
/// ```text
///            Receive                 no buffer
///   Stopped ─────────▶ Receiving ──────────────▶ Starved
///      ◀──────────────   │   ◀──────────────────   │
///      ▲   StopReceive   │    buffers released     │
///      └─────────────────┼─────────────────────────┘ StopReceive
///                        ▼ end of stream, or error
///                      AtEnd
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReceiveState {
    /// End of stream or an error was reported.
    AtEnd,
    /// Not asked to receive, or asked to stop.
    Stopped,
    /// Read whenever it is ready.
    Receiving,
    /// Ready when no buffer was free; queued until one is.
    Starved,
}

#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) buffer: Vec<u8>,
    /// The offset of the operation.
    pub(super) offset: usize,
    /// The start of the unsent part.
    pub(super) next: usize,
}

/// The directions in which readiness is of interest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Interest {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl StreamTable {
    /// Returns the bytes of the table, without what is being sent.
    pub(super) const fn allocated_bytes(&self) -> usize {
        let names = self.vacant.capacity() + self.closed.capacity() + self.files.capacity();
        self.entries.capacity() * size_of::<Option<Stream>>() + names * size_of::<u32>()
    }

    /// Creates an empty table for at most `sockets_max` streams.
    pub(super) fn new(sockets_max: u32) -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            closed: Vec::new(),
            sockets_max: sockets_max.min(SOCKETS_MAX) as usize,
            files: Vec::new(),
        }
    }

    /// Returns the shortage of streams or of descriptors of the process besides an open stream. The
    /// system assigns the lowest free number to a descriptor: as many are open as its number says.
    pub(super) fn shortage(&mut self, socket: Socket, open_files_max: u32) -> Option<Shortage> {
        let stream = self.find(socket)?;
        let number = u32::try_from(stream.descriptor.as_raw_fd()).unwrap_or(0);
        let free = open_files_max.saturating_sub(number + 1);
        let free = if stream.is_from_reserve { 0 } else { free };
        let open_files = SocketLimit::OpenFiles(open_files_max);
        Shortage::of(open_files, free).or_else(|| {
            let vacant = self.vacant.len() + self.closed.len();
            let free = vacant + self.sockets_max.saturating_sub(self.entries.len());
            let [free, most] = [free, self.sockets_max].map(|it| u32::try_from(it).unwrap_or(0));
            Shortage::of(SocketLimit::SocketsMax(most), free)
        })
    }

    /// Returns whether no further stream can be opened.
    pub(super) fn is_full(&self) -> bool {
        let is_occupied = self.vacant.is_empty() && self.closed.is_empty();
        is_occupied && self.entries.len() >= self.sockets_max
    }

    /// Adds a stream whose name a completion reports, behind that of the close of an earlier stream
    /// of this name. Fails with [`Errno::NFILE`] if the table is full.
    pub(super) fn add(&mut self, stream: Stream) -> io::Result<Socket> {
        let vacant = self.vacant.pop().or_else(|| self.closed.pop());
        self.insert(vacant, stream)
    }

    /// Adds a stream whose name is known before the completions of this park are handled. Fails
    /// with [`Errno::NFILE`] if the table is full, streams closed in this park included.
    pub(super) fn add_at_once(&mut self, stream: Stream) -> io::Result<Socket> {
        let vacant = self.vacant.pop();
        self.insert(vacant, stream)
    }

    fn insert(&mut self, vacant: Option<u32>, stream: Stream) -> io::Result<Socket> {
        if let Some(name) = vacant {
            self.entries[name as usize] = Some(stream);
            return Ok(Socket(name));
        }
        match u32::try_from(self.entries.len()) {
            Ok(name) if self.entries.len() < self.sockets_max => {
                self.entries.push(Some(stream));
                Ok(Socket(name))
            }
            _ => Err(Errno::NFILE.into()),
        }
    }

    /// Returns the stream of a socket, or `None` once it is closed.
    #[inline]
    pub(super) fn find(&mut self, socket: Socket) -> Option<&mut Stream> {
        self.entries.get_mut(socket.index())?.as_mut()
    }

    /// Frees the names of the streams that were closed before: their closes are handled.
    pub(super) fn free_closed(&mut self) {
        self.vacant.append(&mut self.closed);
    }

    /// Removes a stream from the table and the poller.
    pub(super) fn remove(&mut self, poller: &Poller, socket: Socket) -> Option<Stream> {
        let mut stream = self.entries.get_mut(socket.index())?.take()?;
        self.closed.push(socket.0);
        if stream.descriptor.kind() == DescriptorKind::File {
            self.files.retain(|&other| other != socket);
        }
        if stream.registered != Interest::default() {
            stream.registered = Interest::default();
            // Fails only if the poller does not know the descriptor.
            let result = poller.delete(&stream.descriptor);
            debug_assert!(result.is_ok(), "{socket:?}: {result:?}");
        }
        Some(stream)
    }

    /// Removes all streams.
    pub(super) fn remove_all(&mut self, poller: &Poller) {
        for index in 0..self.entries.len() {
            if let Ok(name) = u32::try_from(index) {
                drop(self.remove(poller, Socket(name)));
            }
        }
    }

    /// Has the poller watch for everything that the stream waits for.
    #[inline]
    pub(super) fn register(&mut self, poller: &Poller, socket: Socket) -> io::Result<()> {
        let Some(stream) = self.find(socket) else {
            return Ok(());
        };
        let wanted = stream.wanted();
        let (watched, kind) = (stream.registered, stream.descriptor.kind());
        if kind == DescriptorKind::File {
            self.queue_file(socket);
            return Ok(());
        }
        if (watched.readable || !wanted.readable) && (watched.writable || !wanted.writable) {
            return Ok(());
        }
        match stream.update_poller(poller, socket) {
            // A device that cannot be polled is treated as a file.
            Err(_) if kind == DescriptorKind::Terminal => {
                stream.descriptor.treat_as_file();
                self.queue_file(socket);
                Ok(())
            }
            result => result,
        }
    }

    /// Has the poller watch only for what the stream waits for.
    pub(super) fn reduce_interest(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.wanted() != stream.registered {
            // Reducing registered interest does not fail.
            let result = stream.update_poller(poller, socket);
            debug_assert!(result.is_ok(), "{socket:?}: {result:?}");
        }
    }

    /// Queues a file that has something to read or write.
    fn queue_file(&mut self, socket: Socket) {
        if !self.files.contains(&socket) {
            self.files.push(socket);
        }
    }

    /// Returns the files with something to read or write.
    #[inline]
    pub(super) fn files(&self) -> &[Socket] {
        &self.files
    }

    /// Removes the file at `index` of [`StreamTable::files`], whose place the last one takes.
    pub(super) fn remove_file(&mut self, index: usize) {
        self.files.swap_remove(index);
    }
}

impl Stream {
    /// Creates a stream without interest.
    pub(super) const fn new(descriptor: Descriptor) -> Self {
        Self {
            descriptor,
            is_from_reserve: false,
            registered: Interest { readable: false, writable: false },
            receive_state: ReceiveState::Stopped,
            shutdown_pending: false,
            connecting: None,
            pending_send: None,
        }
    }

    /// Returns the interest of the stream.
    #[inline]
    pub(super) const fn wanted(&self) -> Interest {
        Interest {
            readable: matches!(self.receive_state, ReceiveState::Receiving),
            writable: self.pending_send.is_some() || self.connecting.is_some(),
        }
    }

    /// Updates the poller to the stream's interest. After an error nothing is watched.
    fn update_poller(&mut self, poller: &Poller, socket: Socket) -> io::Result<()> {
        let (wanted, nothing) = (self.wanted(), Interest::default());
        let watched = mem::replace(&mut self.registered, wanted);
        let result = if watched == wanted {
            Ok(())
        } else if watched == nothing {
            let event = wanted.event(socket.index());
            // SAFETY: a descriptor must be removed from the poller before it is closed.
            // `StreamTable::remove`, the only way out of the table, does so for every watched
            // stream, and the ring empties the table before dropping it.
            unsafe { poller.add_with_mode(&self.descriptor, event, PollMode::Level) }
        } else if wanted == nothing {
            poller.delete(&self.descriptor)
        } else {
            poller.modify_with_mode(&self.descriptor, wanted.event(socket.index()), PollMode::Level)
        };
        if result.is_err() && watched == nothing {
            self.registered = nothing;
        }
        result
    }
}

impl Interest {
    /// Converts to an event of the poller.
    #[inline]
    pub(super) const fn event(self, key: usize) -> Event {
        Event::new(key, self.readable, self.writable)
    }
}

/// The greatest number of sockets of a ring; greater keys belong to listeners.
pub(super) const SOCKETS_MAX: u32 = 1 << 30;

/// Outgoing connections.
impl StreamTable {
    /// Starts to connect.
    pub(super) fn connect(
        &mut self,
        poller: &Poller,
        outgoing: &OutgoingSocket,
        token: u64,
        completed: &mut Vec<Completion>,
    ) {
        match self.open_connection(poller, outgoing, token) {
            Ok(ConnectProgress::InProgress) => {}
            Ok(ConnectProgress::Connected(socket)) => {
                completed.push(Completion::Connected { token, result: Ok(socket) });
            }
            Err(error) => completed.push(Completion::Connected { token, result: Err(error) }),
        }
    }

    /// Completes an attempt: a socket that was connecting has become writable.
    pub(super) fn complete_connect(
        &mut self,
        poller: &Poller,
        socket: Socket,
        completed: &mut Vec<Completion>,
    ) {
        let Some(stream) = self.find(socket) else { return };
        let Some(token) = stream.connecting else { return };
        let error = match SockRef::from(&stream.descriptor).take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(error),
        };
        let result = match error {
            None => {
                stream.connecting = None;
                self.reduce_interest(poller, socket);
                Ok(socket)
            }
            Some(error) => {
                drop(self.remove(poller, socket));
                Err(error)
            }
        };
        completed.push(Completion::Connected { token, result });
    }

    /// Opens the socket, and begins to connect it.
    fn open_connection(
        &mut self,
        poller: &Poller,
        outgoing: &OutgoingSocket,
        token: u64,
    ) -> io::Result<ConnectProgress> {
        let descriptor = Descriptor::socket(outgoing.open()?.into())?;
        let connected = SockRef::from(&descriptor).connect(&SockAddr::from(outgoing.address));
        let mut stream = Stream::new(descriptor);
        match connected {
            Ok(()) => return self.add(stream).map(ConnectProgress::Connected),
            // An interrupted connect continues asynchronously, like one in progress.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INPROGRESS | Errno::INTR) => {}
                _ => return Err(error),
            },
        }
        stream.connecting = Some(token);
        let socket = self.add(stream)?;
        if let Err(error) = self.register(poller, socket) {
            drop(self.remove(poller, socket));
            return Err(error);
        }
        Ok(ConnectProgress::InProgress)
    }
}

/// The state of a connect attempt after the system call.
enum ConnectProgress {
    Connected(Socket),
    InProgress,
}
