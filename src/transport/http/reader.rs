//! Requests from a stream of HTTP/1.1 (RFC 9112, sections 2.2, 6, 7 and 9.3).
//!
//! What it keeps true: a request inside one arrival is never copied; one that comes in several is
//! copied once, its head looked at once for its end and once for its meaning; an idle reader holds
//! no memory; what outgrows a limit is refused as soon as that is known, before the rest is
//! buffered; the same stream gives the same requests wherever it is cut.
//!
//! What it does not do: answer, wait, or say how long a peer may take.

mod chunked;

use std::mem::{replace, take};
use std::ops::Range;

use self::chunked::ChunkDecoder;
use super::head::{BodyLength, Head, HeadEnd};
use super::limits::{Limits, Refusal};

/// Bytes of zeros behind an assembled request, so that a parser may read its body in whole vectors.
pub const PADDING: usize = 64;

/// Empty lines before a request, at most: one is what old clients send behind a body (RFC 9112,
/// section 2.2), more than a few is somebody who wants to keep us busy.
const EMPTY_LINES_MAX: u8 = 8;

/// Memory taken ahead for a body whose length is known, at most: a peer that only says that it will
/// send much gets no more for it.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// What the next bytes of a stream are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// A head is whole and its body is not. Said once a request, and only where the body has to be
    /// waited for: see [`RequestReader::announced`]. Either call [`RequestReader::next`] on, or
    /// [`RequestReader::give_up`] first.
    Announced,
    /// A whole request that came in several arrivals, or in chunks: fetch it with
    /// [`RequestReader::take`].
    Assembled,
    /// A whole request, found inside the arrival itself.
    Inside {
        /// Its head; places are counted from `start`.
        head: Head,
        /// Where it begins in the arrival.
        start: usize,
        /// Where its body stands in the arrival.
        body: Range<usize>,
    },
    /// The arrival is used up.
    NeedMore,
    /// What came is no request. Said once; nothing more is read.
    Refused(Refusal),
}

/// A request that came in several arrivals, or in chunks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assembled {
    /// Its head and its body, decoded, then at least [`PADDING`] zeros.
    pub bytes: Vec<u8>,
    /// Its head; places are counted from the first of `bytes`.
    pub head: Head,
    /// Where its body stands in `bytes`.
    pub body: Range<usize>,
}

/// Cuts one stream into requests.
#[derive(Debug)]
pub struct RequestReader {
    state: State,
    /// The request that is not whole: its head and its body, decoded, as far as they have come.
    held: Vec<u8>,
    /// The head of the request whose body is awaited.
    head: Head,
    empty_lines: EmptyLines,
}

/// What is read.
///
/// ```text
/// Idle ─▶ Head ─▶ Body ─▶ Whole ─▶ Idle
///   └───────────────▲ └─▶ Skipped ─▶ Idle        any ─▶ Refused
/// ```
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Nothing of a request has come.
    #[default]
    Idle,
    /// A head has begun.
    Head(HeadEnd),
    /// A head is whole, its body is not.
    Body(Remaining),
    /// A request is whole and waits to be taken.
    Whole,
    /// The rest of a body that nobody wants.
    Skipped(Remaining),
    /// Nothing is read any more.
    Refused,
}

/// What is still to come of a body.
#[derive(Clone, Copy, Debug)]
enum Remaining {
    /// As many bytes.
    Bytes(usize),
    /// The rest of the chunks.
    Chunks(ChunkDecoder),
}

/// The empty lines before a request.
#[derive(Clone, Copy, Debug, Default)]
struct EmptyLines {
    count: u8,
    /// The carriage return of one has come, its line feed has not.
    has_begun: bool,
}

impl RequestReader {
    /// A reader before the first request, holding no memory.
    pub const fn new() -> Self {
        Self {
            state: State::Idle,
            held: Vec::new(),
            head: Head::EMPTY,
            empty_lines: EmptyLines { count: 0, has_begun: false },
        }
    }

    /// Looks at `arrival[*from..]` for the next request and moves `from` behind what was used.
    /// `spare` provides the memory when a request has to be kept (an empty buffer from a pool).
    ///
    /// Call it until it says [`Next::NeedMore`] or [`Next::Refused`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Next {
        if let State::Idle = self.state {
            return self.begin(arrival, from, limits, spare);
        }
        self.go_on(arrival, from, limits, spare)
    }

    /// The request announced by [`Next::Assembled`]. Give its memory back to the pool.
    pub fn take(&mut self) -> Assembled {
        let mut bytes = take(&mut self.held);
        let head = replace(&mut self.head, Head::EMPTY);
        if let State::Whole = self.state {
            self.state = State::Idle;
        }
        let body = head.bytes as usize..bytes.len();
        bytes.resize(body.end + PADDING, 0);
        Assembled { bytes, head, body }
    }

    /// The head announced by [`Next::Announced`] and the bytes that its places are counted in.
    pub fn announced(&self) -> (&Head, &[u8]) {
        (&self.head, &self.held)
    }

    /// Forgets the request that has been announced, and skips what is still to come of its body;
    /// hands its memory back. The request behind it is read as if this one had been taken.
    pub fn give_up(&mut self) -> Vec<u8> {
        match self.state {
            State::Body(remaining) => self.state = State::Skipped(remaining),
            State::Whole => self.state = State::Idle,
            State::Head(_) | State::Idle | State::Refused | State::Skipped(_) => return Vec::new(),
        }
        self.head = Head::EMPTY;
        take(&mut self.held)
    }

    /// Bytes held for a request that is not whole.
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether a request has begun and is not over: a peer that ends the stream here has said half
    /// of something.
    pub const fn is_inside_request(&self) -> bool {
        !matches!(self.state, State::Idle | State::Refused)
    }

    /// Reads from the beginning of a request.
    #[inline]
    fn begin(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Next {
        if let Err(refusal) = self.empty_lines.skip(arrival, from) {
            return self.refuse(refusal);
        }
        let start = *from;
        let rest = &arrival[start..];
        let head = match Head::parse(rest, limits) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if !rest.is_empty() {
                    let mut end = HeadEnd::default();
                    end.find(rest);
                    self.hold(rest, spare);
                    self.state = State::Head(end);
                    *from = arrival.len();
                }
                return Next::NeedMore;
            }
            Err(refusal) => return self.refuse(refusal),
        };
        self.empty_lines.count = 0;
        let head_end = start + head.bytes as usize;
        *from = head_end;
        if let Some(length) = length_within(&head, arrival.len() - head_end) {
            *from += length;
            return Next::Inside { head, start, body: head_end..*from };
        }
        self.hold(&arrival[start..head_end], spare);
        self.begin_body(head, arrival, from, limits)
    }

    /// Goes on with a request that has begun in an earlier arrival.
    #[inline(never)]
    fn go_on(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Next {
        match self.state {
            State::Idle => self.begin(arrival, from, limits, spare),
            State::Head(end) => self.read_head(end, arrival, from, limits),
            State::Body(remaining) => self.read_body(remaining, arrival, from, limits),
            State::Whole => Next::Assembled,
            State::Skipped(mut remaining) => match remaining.read(arrival, from, limits, |_| ()) {
                Ok(true) => {
                    self.state = State::Idle;
                    self.begin(arrival, from, limits, spare)
                }
                Ok(false) => {
                    self.state = State::Skipped(remaining);
                    Next::NeedMore
                }
                Err(refusal) => self.refuse(refusal),
            },
            State::Refused => {
                *from = arrival.len();
                Next::NeedMore
            }
        }
    }

    /// Goes on with a head, up to its end or to what a head may be long.
    fn read_head(
        &mut self,
        mut end: HeadEnd,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Next {
        let rest = &arrival[*from..];
        let room = limits.head_bytes_max.saturating_sub(self.held.len());
        let window = &rest[..rest.len().min(room)];
        let found = end.find(window);
        let length = found.unwrap_or(window.len());
        self.held.extend_from_slice(&window[..length]);
        *from += length;
        if found.is_none() && length < room {
            self.state = State::Head(end);
            return Next::NeedMore;
        }
        match Head::parse(&self.held, limits) {
            Ok(Some(head)) => self.begin_body(head, arrival, from, limits),
            Ok(None) => self.refuse(Refusal::bad("the head is malformed")),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// A head is whole and held: goes on with its body.
    fn begin_body(
        &mut self,
        head: Head,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Next {
        self.empty_lines.count = 0;
        let remaining = match head.body {
            BodyLength::None => Remaining::Bytes(0),
            // No longer than `body_bytes_max`, or the head would have been refused.
            BodyLength::Length(length) => {
                Remaining::Bytes(usize::try_from(length).unwrap_or(usize::MAX))
            }
            BodyLength::Chunked => Remaining::Chunks(ChunkDecoder::default()),
        };
        if let Remaining::Bytes(length) = remaining {
            self.held.reserve(length.min(RESERVED_BYTES_MAX) + PADDING);
        }
        self.head = head;
        match self.read_body(remaining, arrival, from, limits) {
            Next::NeedMore => Next::Announced,
            next => next,
        }
    }

    /// Goes on with a body.
    fn read_body(
        &mut self,
        mut remaining: Remaining,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Next {
        let held = &mut self.held;
        match remaining.read(arrival, from, limits, |data| held.extend_from_slice(data)) {
            Ok(true) => {
                self.state = State::Whole;
                Next::Assembled
            }
            Ok(false) => {
                self.state = State::Body(remaining);
                Next::NeedMore
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Keeps the beginning of a request whose end has not come.
    fn hold(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        if self.held.capacity() == 0 {
            self.held = spare();
        }
        self.held.extend_from_slice(bytes);
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Next {
        *self = Self { state: State::Refused, ..Self::new() };
        Next::Refused(refusal)
    }
}

impl Default for RequestReader {
    fn default() -> Self {
        Self::new()
    }
}

impl Remaining {
    /// Reads `arrival[*from..]` to the end of the body or of the arrival, hands the data to `keep`
    /// and moves `from` behind what was used. Says whether the body is over.
    fn read(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
        mut keep: impl FnMut(&[u8]),
    ) -> Result<bool, Refusal> {
        match self {
            Self::Bytes(count) => {
                let length = (*count).min(arrival.len() - *from);
                keep(&arrival[*from..*from + length]);
                *from += length;
                *count -= length;
                Ok(*count == 0)
            }
            Self::Chunks(decoder) => decoder.decode(arrival, from, limits, keep),
        }
    }
}

impl EmptyLines {
    /// Moves `from` behind the empty lines that a request may have before it.
    #[inline]
    fn skip(&mut self, arrival: &[u8], from: &mut usize) -> Result<(), Refusal> {
        while let Some(&byte) = arrival.get(*from) {
            match (byte, self.has_begun) {
                (b'\r', false) => self.has_begun = true,
                (b'\n', true) => {
                    self.has_begun = false;
                    self.count += 1;
                }
                (_, false) => break,
                (_, true) => return Err(Refusal::bad("a carriage return stands alone")),
            }
            if self.count > EMPTY_LINES_MAX {
                return Err(Refusal::bad("too many empty lines before a request"));
            }
            *from += 1;
        }
        Ok(())
    }
}

/// The length of a body that is whole in the `available` bytes behind its head, as it stands there.
#[inline]
fn length_within(head: &Head, available: usize) -> Option<usize> {
    match head.body {
        BodyLength::None => Some(0),
        BodyLength::Length(length) => {
            usize::try_from(length).ok().filter(|&length| length <= available)
        }
        BodyLength::Chunked => None,
    }
}
