//! The open streams of a readiness ring: their table, and what each of them waits for.
//!
//! What it keeps true: the poller watches a stream for no less than it waits for, and for more
//! only until the next event that nobody waits for. Dropping interest is put off like that because
//! most of it never costs anything: a paused stream without bytes, or an ended one that is about
//! to be closed, needs no word with the kernel.
//!
//! Watching is level-triggered: a stream that was not read empty is reported again, so that a
//! short read may be trusted as the last one without a second read that fails.

use std::collections::VecDeque;
use std::io;
use std::mem;

use polling::{Event, PollMode, Poller};
use rustix::io::Errno;

use super::buffers::Buffers;
use super::descriptor::{Descriptor, Kind};
use crate::engine::ring::{Completion, Socket};

/// Every open stream of one ring, and what they share.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) places: Vec<Option<Stream>>,
    vacant: Vec<u32>,
    sockets_max: usize,
    pub(super) buffers: Buffers,
    /// Buffers that one stream may take in one visit.
    pub(super) share: usize,
    /// Found no buffer; the first to be read, in this order, when buffers are back.
    pub(super) starved: VecDeque<Socket>,
    /// Times a stream became starved.
    pub(super) starvations: u64,
    /// Receiving from what is always ready.
    pub(super) files: Vec<Socket>,
    /// What has happened and was not yet reaped.
    pub(super) completed: Vec<Completion>,
}

/// One open stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) descriptor: Descriptor,
    /// What the poller reports.
    watched: Interest,
    pub(super) intake: Intake,
    /// The sending half ends after the departure that is under way.
    pub(super) is_finishing: bool,
    /// The token of a connection that is being made.
    pub(super) connecting: Option<u64>,
    /// The send under way.
    pub(super) departure: Option<Departure>,
}

/// What a stream does about bytes that arrive.
///
/// ```text
///            Receive                 no buffer
///   Paused ──────────▶ Receiving ──────────────▶ Starved
///      ◀──────────────   │   ◀──────────────────   │
///      ▲     Pause       │      buffers back       │
///      └─────────────────┼─────────────────────────┘ Pause
///                        ▼ end of the stream, or failure
///                      Ended
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Intake {
    /// The end was told; nothing more will be received.
    Ended,
    /// Not asked to receive, or asked to stop.
    Paused,
    /// Reads whenever it is ready.
    Receiving,
    /// Was ready when no buffer was free; stands in the line of [`Streams::starved`].
    Starved,
}

/// A send that has not gone as a whole.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) buffer: Vec<u8>,
    /// Where the operation began.
    pub(super) from: usize,
    /// Where the unsent part begins now.
    pub(super) next: usize,
}

/// Directions in which readiness is of interest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Interest {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Streams {
    /// An empty table for at most `sockets_max` streams; it grows with them. One visit to a stream
    /// takes at most `burst_buffers_max` buffers, and never more than a quarter of them.
    pub(super) fn new(sockets_max: u32, burst_buffers_max: u16, buffers: Buffers) -> Self {
        Self {
            places: Vec::new(),
            vacant: Vec::new(),
            sockets_max: sockets_max.min(SOCKETS_MAX) as usize,
            share: usize::from(burst_buffers_max).min(buffers.count() / 4).max(1),
            buffers,
            starved: VecDeque::new(),
            starvations: 0,
            files: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// Whether no further stream can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.vacant.is_empty() && self.places.len() >= self.sockets_max
    }

    /// Names a stream. [`Errno::NFILE`], the table of files is full, where there is no place.
    pub(super) fn open(&mut self, stream: Stream) -> io::Result<Socket> {
        if let Some(name) = self.vacant.pop() {
            self.places[name as usize] = Some(stream);
            return Ok(Socket(name));
        }
        match u32::try_from(self.places.len()) {
            Ok(name) if self.places.len() < self.sockets_max => {
                self.places.push(Some(stream));
                Ok(Socket(name))
            }
            _ => Err(Errno::NFILE.into()),
        }
    }

    /// The stream of a name, while it is open.
    #[inline]
    pub(super) fn find(&mut self, socket: Socket) -> Option<&mut Stream> {
        self.places.get_mut(socket.index())?.as_mut()
    }

    /// Takes a stream out of the table and out of every line that it stands in. The name can be
    /// used again at once: the ring reports it closed before anything of its next bearer.
    pub(super) fn remove(&mut self, poller: &Poller, socket: Socket) -> Option<Stream> {
        let mut stream = self.places.get_mut(socket.index())?.take()?;
        self.vacant.push(socket.0);
        if stream.intake == Intake::Starved {
            self.starved.retain(|&other| other != socket);
        }
        if stream.descriptor.kind() == Kind::File {
            self.files.retain(|&other| other != socket);
        }
        if stream.watched != Interest::default() {
            stream.watched = Interest::default();
            // Only a poller that does not know the descriptor refuses.
            let forgotten = poller.delete(&stream.descriptor);
            debug_assert!(forgotten.is_ok(), "{socket:?}: {forgotten:?}");
        }
        Some(stream)
    }

    /// Takes every stream out.
    pub(super) fn remove_all(&mut self, poller: &Poller) {
        for index in 0..self.places.len() {
            if let Ok(name) = u32::try_from(index) {
                drop(self.remove(poller, Socket(name)));
            }
        }
    }

    /// Has the poller report everything that the stream waits for.
    #[inline]
    pub(super) fn watch(&mut self, poller: &Poller, socket: Socket) -> io::Result<()> {
        let Some(stream) = self.find(socket) else {
            return Ok(());
        };
        let wanted = stream.wanted();
        let (watched, kind) = (stream.watched, stream.descriptor.kind());
        if kind == Kind::File {
            self.line_up_file(socket);
            return Ok(());
        }
        if (watched.readable || !wanted.readable) && (watched.writable || !wanted.writable) {
            return Ok(());
        }
        match stream.tell(poller, socket) {
            // A device that cannot be watched is like a file: always ready.
            Err(_) if kind == Kind::Terminal => {
                stream.descriptor.become_file();
                self.line_up_file(socket);
                Ok(())
            }
            told => told,
        }
    }

    /// Has the poller report nothing but what the stream waits for.
    pub(super) fn trim(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.wanted() != stream.watched {
            // Less interest in what is watched already is not refused.
            let told = stream.tell(poller, socket);
            debug_assert!(told.is_ok(), "{socket:?}: {told:?}");
        }
    }

    /// Notes a file that has something to do.
    fn line_up_file(&mut self, socket: Socket) {
        if !self.files.contains(&socket) {
            self.files.push(socket);
        }
    }

    /// Drops what was completed and not yet reaped of a stream that is asked to close, but for its
    /// send. A shard reaps before it submits, so that there is most often nothing to look at.
    pub(super) fn withdraw(&mut self, socket: Socket) {
        if self.completed.is_empty() {
            return;
        }
        let completed = mem::take(&mut self.completed);
        for completion in completed {
            match completion {
                Completion::Received { socket: of, lease } if of == socket => {
                    self.buffers.release(lease);
                }
                Completion::Ended { socket: of, .. } if of == socket => {}
                other => self.completed.push(other),
            }
        }
    }
}

impl Stream {
    /// A stream that nobody asked anything of yet.
    pub(super) const fn new(descriptor: Descriptor) -> Self {
        Self {
            descriptor,
            watched: Interest { readable: false, writable: false },
            intake: Intake::Paused,
            is_finishing: false,
            connecting: None,
            departure: None,
        }
    }

    /// What it waits for.
    #[inline]
    pub(super) const fn wanted(&self) -> Interest {
        Interest {
            readable: matches!(self.intake, Intake::Receiving),
            writable: self.departure.is_some() || self.connecting.is_some(),
        }
    }

    /// Tells the poller what it waits for. After a refusal nothing is watched.
    fn tell(&mut self, poller: &Poller, socket: Socket) -> io::Result<()> {
        let (wanted, nothing) = (self.wanted(), Interest::default());
        let watched = mem::replace(&mut self.watched, wanted);
        let told = if watched == wanted {
            Ok(())
        } else if watched == nothing {
            let event = wanted.event(socket.index());
            // SAFETY: the poller must forget a descriptor before it is closed. `Streams::remove`,
            // the only way out of the table, has it forget every stream that is watched, and the
            // ring empties the table before it drops it.
            unsafe { poller.add_with_mode(&self.descriptor, event, PollMode::Level) }
        } else if wanted == nothing {
            poller.delete(&self.descriptor)
        } else {
            poller.modify_with_mode(&self.descriptor, wanted.event(socket.index()), PollMode::Level)
        };
        if told.is_err() && watched == nothing {
            self.watched = nothing;
        }
        told
    }
}

impl Interest {
    /// The same in the words of the poller.
    #[inline]
    pub(super) const fn event(self, key: usize) -> Event {
        Event::new(key, self.readable, self.writable)
    }
}

/// The most sockets that one ring names: the keys above belong to its listeners.
pub(super) const SOCKETS_MAX: u32 = 1 << 30;
