//! The state of one connection.

use std::mem::replace;
use std::net::SocketAddr;

use super::framed::Frames;
use super::{LinkOptions, Stream};
use crate::base::pool::BufferPool;
use crate::base::time::Moment;
use crate::engine::ring::Socket;
use crate::transport::http::reader::RequestReader;
use crate::transport::ndjson::LineReader;
use crate::transport::websocket::reader::FrameReader;

/// One connection: two directions, the line being read, the bytes being sent, and the driver's
/// session.
///
/// ```text
///         finish, end of stream          all owed is sent           peer finished, patience over
///  Open ───────────────────────▶ Draining ───────────────▶ Lingering ──────────────────▶ Closing
///    └──────────────────── failure, silence, close ────────────────────────────────────────▲
/// ```
///
/// Where its bytes are frames, Parting stands between Draining and Lingering: a close frame has
/// been queued. A peer that closes, a fault or silence lead there at once.
///
/// The fields stand in this order: what each arrival, each flush and the end of each send look at
/// stands in front and together. With a thousand connections every line of memory that is looked at
/// is fetched anew.
#[derive(Debug)]
#[repr(C)]
pub struct Connection<S> {
    pub(super) phase: Phase,
    pub(super) corked: bool,
    pub(super) paused: bool,
    /// The driver wants no more of it before it has answered what came.
    pub(super) held: bool,
    /// The peer will send nothing more.
    pub(super) input_ended: bool,
    /// A complete message has come.
    pub(super) spoke: bool,
    /// Why it ends, from the moment that this is known.
    pub(super) ending: Option<Ending>,
    pub(super) receive: Socket,
    pub(super) send: Socket,
    /// Bytes with the ring.
    pub(super) sending_bytes: usize,
    /// Corked bytes: whole texts with their terminators, to be sent at the end of the turn.
    pub outgoing: Vec<u8>,
    /// What this connection last weighed, see [`super::Link::weigh`].
    pub(super) weight: usize,
    /// The last complete message, answer, progress of a send or goodbye; until there is one, the
    /// opening.
    pub(super) active: Moment,
    /// Bytes that arrived while the connection was not to be read, from `stash_from` on.
    pub(super) stash: Vec<u8>,
    pub(super) reader: Reader,
    pub(super) stash_from: usize,
    /// What the peer waits for.
    pub standing: Standing,
    /// The driver's own state of this connection.
    pub session: S,
    /// The other end, where it is known.
    pub peer: Option<SocketAddr>,
}

/// What the bytes of a connection are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Framing {
    /// Lines of JSON.
    #[default]
    Lines,
    /// Requests of HTTP.
    Requests,
    /// Frames of WebSocket; what a connection of requests becomes by [`super::Link::adopt`].
    Frames,
}

/// What cuts the bytes of a connection into texts.
#[derive(Debug)]
pub(super) enum Reader {
    /// Lines of JSON.
    Lines(LineReader),
    /// Requests of HTTP.
    Requests(RequestReader),
    /// Frames of WebSocket.
    Frames(Box<Frames>),
}

impl Reader {
    fn of(framing: Framing, now: Moment) -> Self {
        match framing {
            Framing::Lines => Self::Lines(LineReader::new()),
            Framing::Requests => Self::Requests(RequestReader::new()),
            Framing::Frames => Self::Frames(Box::new(Frames::new(FrameReader::new(), now))),
        }
    }

    const fn held_bytes(&self) -> usize {
        match self {
            Self::Lines(reader) => reader.held_bytes(),
            Self::Requests(reader) => reader.held_bytes(),
            Self::Frames(frames) => frames.reader.held_bytes(),
        }
    }

    /// Gives up what has begun to arrive; hands its memory back.
    fn give_up(&mut self) -> Vec<u8> {
        match self {
            Self::Lines(reader) => reader.skip().unwrap_or_default(),
            Self::Requests(reader) => reader.give_up(),
            Self::Frames(frames) => frames.reader.discard(),
        }
    }
}

/// What a peer waits for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    /// Answers that the driver still owes, beyond what is corked.
    pub owed: u32,
    /// The peer waits for what may be said at any time: its silence is no reason to end it. Nothing
    /// is owed for that, so it neither slows the connection nor holds its end back.
    pub listens: bool,
}

impl Standing {
    /// One answer less is owed.
    pub const fn repay(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The server drains.
    Drain,
    /// The socket failed: reset, unreachable.
    Failure,
    /// The peer broke the framing or passed a limit.
    Fault,
    /// Nothing was said for the idle time.
    Idle,
    /// No message was complete within the lease.
    Lease,
    /// The peer has said its last.
    Peer,
    /// It was one too many and never served.
    Refusal,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Read and written.
    Open,
    /// Not read any more; ends when everything owed has been sent.
    Draining,
    /// Not read any more, and nothing more is said: its close frame has been queued.
    Parting,
    /// Half closed; what still arrives is thrown away.
    Lingering,
    /// The ring has been told to close.
    Closing,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: Stream, session: S, now: Moment) -> Self {
        Self {
            session,
            outgoing: Vec::new(),
            standing: Standing { owed: 0, listens: false },
            peer: stream.peer,
            receive: stream.receive,
            send: stream.send,
            reader: Reader::of(stream.framing, now),
            stash: Vec::new(),
            stash_from: 0,
            sending_bytes: 0,
            active: now,
            weight: 0,
            phase: Phase::Open,
            corked: false,
            paused: false,
            held: false,
            input_ended: false,
            ending: None,
            spoke: false,
        }
    }

    /// One answer less is owed. Its peer is not silent: it was waiting, and has yet to read it.
    pub const fn repay(&mut self, now: Moment) {
        self.standing.repay();
        self.active = now;
    }

    /// Bytes that wait for the peer, corked or on their way.
    pub const fn queued_bytes(&self) -> usize {
        self.outgoing.len() + self.sending_bytes
    }

    /// Bytes that may wait for its peer; past it the peer is not read, and advice is not given.
    #[inline]
    pub const fn queue_bytes_max(&self, options: &LinkOptions) -> usize {
        match self.reader {
            Reader::Lines(_) | Reader::Requests(_) => options.outgoing_bytes_max,
            Reader::Frames(_) => options.frames.buffer_bytes_max,
        }
    }

    /// Whether so little waits for its peer that it may be read again.
    pub(super) const fn is_drained(&self, options: &LinkOptions) -> bool {
        self.queued_bytes() <= self.queue_bytes_max(options) / 2
    }

    /// Bytes held for this connection: half a message, what waits to be read, what waits to go.
    pub(super) const fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.stash.len() + self.queued_bytes()
    }

    /// A whole text has come: its answer will be written in this turn.
    #[inline]
    pub(super) fn hear(&mut self, now: Moment, pool: &mut BufferPool) {
        self.active = now;
        self.spoke = true;
        if self.outgoing.capacity() == 0 {
            self.outgoing = pool.take();
        }
    }

    /// Marks it as one that has something to send when the turn ends; `false` where it was marked
    /// before.
    #[inline]
    pub(super) const fn cork(&mut self) -> bool {
        !replace(&mut self.corked, true)
    }

    /// Whether lines of this connection are carried down the road at present.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.phase == Phase::Open && !self.paused && !self.held
    }

    /// Whether what arrives is thrown away.
    pub fn is_discarding(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Whether something is still to be sent to the peer, now or when a call ends.
    pub(super) const fn owes(&self) -> bool {
        self.standing.owed > 0 || self.queued_bytes() > 0
    }

    /// Gives up what was to be read. Whether the peer has closed in it, and the memory.
    pub(super) fn release_input(&mut self) -> (bool, [Vec<u8>; 2]) {
        let begun = self.reader.give_up();
        let mut stash = std::mem::take(&mut self.stash);
        let from = std::mem::take(&mut self.stash_from);
        // What is thrown away is frames all the same: the next ones begin where these end.
        let has_left = self.frames().is_some_and(|frames| frames.is_left(&mut stash[from..]));
        (has_left, [stash, begun])
    }

    /// Whether its bytes are lines.
    pub(super) const fn is_lines(&self) -> bool {
        matches!(self.reader, Reader::Lines(_))
    }

    /// Whether its bytes are frames.
    pub(super) const fn is_frames(&self) -> bool {
        matches!(self.reader, Reader::Frames(_))
    }

    /// Whether the peer has closed as well, after a close frame of ours.
    pub(super) const fn is_answered(&self) -> bool {
        matches!(&self.reader, Reader::Frames(frames) if frames.is_answered)
    }

    /// What a connection of frames has beyond the others.
    pub(super) fn frames(&mut self) -> Option<&mut Frames> {
        match &mut self.reader {
            Reader::Frames(frames) => Some(frames),
            Reader::Lines(_) | Reader::Requests(_) => None,
        }
    }

    /// Whether a request of HTTP has begun to arrive and is to be complete soon.
    pub(super) const fn is_inside_request(&self) -> bool {
        match &self.reader {
            Reader::Lines(_) | Reader::Frames(_) => false,
            Reader::Requests(reader) => reader.is_inside_request(),
        }
    }

    /// Notes why it ends, unless that is known already.
    pub(super) fn end(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
    }
}
