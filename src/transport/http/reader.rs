//! Requests from a stream of HTTP/1.1 (RFC 9112, sections 2.2, 6, 7 and 9.3).
//!
//! What it keeps true: a request inside one arrival is never copied; one that comes in several is
//! copied once, its head looked at once for its end and once for its meaning; an idle reader holds
//! no bytes, and is two words as long as every request came whole; what outgrows a limit is refused
//! as soon as that is known, before the rest is buffered; the same stream gives the same requests
//! wherever it is cut.
//!
//! What it does not do: answer, wait, or say how long a peer may take.

mod chunked;

mod begun;

use std::mem::replace;
use std::ops::Range;

use self::begun::Begun;
use super::head::{BodyLength, Head};
use super::limits::{Limits, Refusal};

/// Bytes of zeros behind an assembled request, so that a parser may read its body in whole vectors.
pub const PADDING: usize = 64;

/// Empty lines before a request, at most: one is what old clients send behind a body (RFC 9112,
/// section 2.2), more than a few is somebody who wants to keep us busy.
const EMPTY_LINES_MAX: u8 = 8;

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
#[derive(Debug, Default)]
pub struct RequestReader {
    stage: Stage,
    empty_lines: EmptyLines,
    /// The request that is not whole; it is here from the first one on that came in pieces.
    begun: Option<Box<Begun>>,
}

/// How far the stream has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Stage {
    /// Nothing of a request has come.
    #[default]
    Idle,
    /// A request has begun.
    Begun,
    /// Nothing is read any more.
    Refused,
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
        let empty_lines = EmptyLines { count: 0, has_begun: false };
        Self { stage: Stage::Idle, empty_lines, begun: None }
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
        if self.stage != Stage::Idle
            && let Some(next) = self.go_on(arrival, from, limits)
        {
            return next;
        }
        self.begin(arrival, from, limits, spare)
    }

    /// The request announced by [`Next::Assembled`]. Give its memory back to the pool.
    pub fn take(&mut self) -> Assembled {
        let whole = self.begun.as_mut().filter(|begun| begun.is_whole());
        let Some(begun) = whole.filter(|_| self.stage == Stage::Begun) else {
            return Assembled { bytes: vec![0; PADDING], head: Head::EMPTY, body: 0..0 };
        };
        self.stage = Stage::Idle;
        let mut bytes = begun.release();
        let head = replace(&mut begun.head, Head::EMPTY);
        let body = head.bytes as usize..bytes.len();
        bytes.resize(body.end + PADDING, 0);
        Assembled { bytes, head, body }
    }

    /// The head announced by [`Next::Announced`] and the bytes that its places are counted in.
    pub fn announced(&self) -> (&Head, &[u8]) {
        self.begun.as_ref().map_or((&Head::EMPTY, &[]), |begun| (&begun.head, begun.held()))
    }

    /// Forgets the request that has been announced, and skips what is still to come of its body;
    /// hands its memory back. The request behind it is read as if this one had been taken.
    pub fn give_up(&mut self) -> Vec<u8> {
        match &mut self.begun {
            Some(begun) if self.stage == Stage::Begun => {
                if begun.is_whole() {
                    self.stage = Stage::Idle;
                }
                begun.give_up()
            }
            _ => Vec::new(),
        }
    }

    /// Bytes held for a request that is not whole.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        match &self.begun {
            Some(begun) if self.is_inside_request() => begun.held().len(),
            _ => 0,
        }
    }

    /// Whether a request has begun and is not over: a peer that ends the stream here has said half
    /// of something.
    #[inline]
    pub const fn is_inside_request(&self) -> bool {
        matches!(self.stage, Stage::Begun)
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
        if rest.is_empty() {
            return Next::NeedMore;
        }
        self.empty_lines.count = 0;
        let head = match Head::parse(rest, limits) {
            Ok(Some(head)) => head,
            Ok(None) => {
                *from = arrival.len();
                self.begun().begin_head(rest, spare);
                return Next::NeedMore;
            }
            Err(refusal) => return self.refuse(refusal),
        };
        let head_end = start + head.bytes as usize;
        *from = head_end;
        if let Some(length) = length_within(&head, arrival.len() - head_end) {
            *from += length;
            return Next::Inside { head, start, body: head_end..*from };
        }
        let begun = self.begun();
        begun.hold(&arrival[start..head_end], spare);
        begun.begin_body(head, arrival, from, limits).unwrap_or_else(|refusal| self.refuse(refusal))
    }

    /// Goes on with a request that has begun in an earlier arrival. Nothing, where one that was
    /// given up is over: another may begin.
    #[inline(never)]
    fn go_on(&mut self, arrival: &[u8], from: &mut usize, limits: &Limits) -> Option<Next> {
        let Some(begun) = self.begun.as_mut().filter(|_| self.stage == Stage::Begun) else {
            *from = arrival.len();
            return Some(Next::NeedMore);
        };
        match begun.go_on(arrival, from, limits) {
            Ok(Some(next)) => Some(next),
            Ok(None) => {
                self.stage = Stage::Idle;
                None
            }
            Err(refusal) => Some(self.refuse(refusal)),
        }
    }

    /// The place of a request that begins and is not whole.
    #[cold]
    fn begun(&mut self) -> &mut Begun {
        self.stage = Stage::Begun;
        self.begun.get_or_insert_default()
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Next {
        *self = Self { stage: Stage::Refused, ..Self::new() };
        Next::Refused(refusal)
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
