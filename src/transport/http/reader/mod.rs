//! Parses a stream into HTTP/1.1 requests (RFC 9112, sections 2.2, 6, 7 and 9.3).
//!
//! Invariants: a request within one read is not copied, one from several reads is copied once; an
//! idle reader holds no bytes; a request over a limit is rejected before the rest is buffered; the
//! result does not depend on how the stream is split.

pub(super) mod chunked;

mod partial;

use std::mem::replace;
use std::ops::Range;

use self::partial::PartialRequest;
use super::grammar::is_token_byte;
use super::head::{BodyLength, Head, HeadEnd, RequestError, RequestLimits};
use corelane_protocol::json::{PADDING_BYTES, padding_of};

/// Empty lines allowed before a request. Old clients send one after a body (RFC 9112, section 2.2).
const EMPTY_LINES_MAX: u8 = 8;

/// The result of reading the next request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RequestEvent {
    /// A head is complete and its body is not. Returned once per request that has to wait for its
    /// body: see [`RequestReader::pending_head`]. Call [`RequestReader::next`] again, or
    /// [`RequestReader::discard_request`] first.
    HeadComplete,
    /// A complete request from several reads or chunks: call [`RequestReader::take`].
    Assembled,
    /// A complete request within the input.
    InPlace {
        /// The head; positions count from `start`.
        head: Head,
        /// Start of the request in the input.
        start: usize,
        /// Range of the body in the input.
        body: Range<usize>,
    },
    /// All input is consumed.
    NeedMore,
    /// The request is invalid. Returned once; no further input is read. See
    /// [`RequestReader::take_rejected_head`].
    Rejected(RequestError),
}

/// A request from several reads or chunks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assembled {
    /// Head and decoded body, followed by at least [`PADDING_BYTES`] zero bytes, which may be
    /// overwritten.
    pub bytes: Vec<u8>,
    /// The head; positions count from the first of `bytes`.
    pub head: Head,
    /// Range of the body in `bytes`.
    pub body: Range<usize>,
}

/// Splits a stream into requests.
#[derive(Debug, Default)]
pub struct RequestReader {
    state: ReaderState,
    empty_lines: EmptyLines,
    /// The incomplete request; allocated for the first one that arrives in pieces.
    partial: Option<Box<PartialRequest>>,
}

/// State of a reader.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ReaderState {
    /// Before a request.
    #[default]
    Idle,
    /// Inside a request.
    InRequest,
    /// Rejected; no further input is read.
    Rejected,
}

/// The empty lines before a request.
#[derive(Clone, Copy, Debug, Default)]
struct EmptyLines {
    count: u8,
    /// The carriage return of an empty line has arrived, its line feed has not.
    saw_return: bool,
}

impl RequestReader {
    /// Creates a reader before the first request, without a buffer.
    pub const fn new() -> Self {
        let empty_lines = EmptyLines { count: 0, saw_return: false };
        Self { state: ReaderState::Idle, empty_lines, partial: None }
    }

    /// Reads the next request from `arrival[*from..]` and advances `from`. `spare` provides an
    /// empty buffer if an incomplete request has to be stored.
    ///
    /// Call until it returns [`RequestEvent::NeedMore`] or [`RequestEvent::Rejected`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> RequestEvent {
        if self.state != ReaderState::Idle
            && let Some(next) = self.resume(arrival, from, limits)
        {
            return next;
        }
        self.read_request(arrival, from, limits, spare)
    }

    /// Returns the request announced by [`RequestEvent::Assembled`]. Return its buffer to the pool.
    pub fn take(&mut self) -> Assembled {
        let complete = self.partial.as_mut().filter(|partial| partial.is_complete());
        let Some(partial) = complete.filter(|_| self.state == ReaderState::InRequest) else {
            return Assembled { bytes: vec![0; PADDING_BYTES], head: Head::EMPTY, body: 0..0 };
        };
        self.state = ReaderState::Idle;
        let mut bytes = partial.take_buffer();
        let head = replace(&mut partial.head, Head::EMPTY);
        let body = head.bytes as usize..bytes.len();
        bytes.resize(body.end + padding_of(body.len()), 0);
        Assembled { bytes, head, body }
    }

    /// Takes a request back, so that [`RequestReader::next`] returns it again.
    pub fn restore(&mut self, request: Assembled) {
        let Assembled { mut bytes, head, body } = request;
        bytes.truncate(body.end);
        self.partial().restore(head, bytes);
    }

    /// Returns whether a request is complete that was taken back.
    pub fn holds_complete_request(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.is_complete())
    }

    /// Returns the head announced by [`RequestEvent::HeadComplete`] and the bytes it refers to.
    pub fn pending_head(&self) -> (&Head, &[u8]) {
        self.partial
            .as_ref()
            .map_or((&Head::EMPTY, &[]), |partial| (&partial.head, partial.buffer()))
    }

    /// Discards the pending request and skips the rest of its body. Returns its buffer. The next
    /// request is read normally.
    pub fn discard_request(&mut self) -> Vec<u8> {
        match &mut self.partial {
            Some(partial) if self.state == ReaderState::InRequest => {
                if partial.is_complete() {
                    self.state = ReaderState::Idle;
                }
                partial.discard()
            }
            _ => Vec::new(),
        }
    }

    /// Takes the head of the request that was rejected, as far as the limits allow and valid or
    /// not; empty if it has none. Its fields are read by
    /// [`field_values`](super::head::field_values).
    pub fn take_rejected_head(&mut self) -> Vec<u8> {
        match &mut self.partial {
            Some(partial) if self.state == ReaderState::Rejected => partial.take_buffer(),
            _ => Vec::new(),
        }
    }

    /// Returns the bytes held for an incomplete request.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        match &self.partial {
            Some(partial) if self.is_inside_request() => partial.buffer().len(),
            _ => 0,
        }
    }

    /// Returns the capacity of the buffer of an incomplete request.
    pub const fn held_capacity(&self) -> usize {
        match &self.partial {
            Some(partial) if self.is_inside_request() => partial.capacity(),
            _ => 0,
        }
    }

    /// Returns the buffer of an incomplete request, which may be replaced by one with the same
    /// bytes.
    #[cold]
    pub fn buffer_mut(&mut self) -> Option<&mut Vec<u8>> {
        let is_inside = self.is_inside_request();
        let partial = self.partial.as_mut().filter(|_| is_inside)?;
        Some(partial.buffer_mut())
    }

    /// Returns whether a request is incomplete.
    #[inline]
    pub const fn is_inside_request(&self) -> bool {
        matches!(self.state, ReaderState::InRequest)
    }

    /// Reads from the start of a request.
    #[inline]
    fn read_request(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> RequestEvent {
        if let Err(error) = self.empty_lines.skip(arrival, from) {
            return self.reject(error, Vec::new());
        }
        let start = *from;
        let rest = &arrival[start..];
        if rest.is_empty() {
            return RequestEvent::NeedMore;
        }
        self.empty_lines.count = 0;
        let head = match Head::parse(rest, limits) {
            Ok(Some(head)) => head,
            Ok(None) => {
                *from = arrival.len();
                self.partial().start_head(rest, spare);
                return RequestEvent::NeedMore;
            }
            Err(error) => return self.reject(error, sent_head(rest, limits).to_vec()),
        };
        let head_end = start + head.bytes as usize;
        *from = head_end;
        if let Some(length) = complete_body_length(&head, arrival.len() - head_end) {
            *from += length;
            return RequestEvent::InPlace { head, start, body: head_end..*from };
        }
        let partial = self.partial();
        partial.append(&arrival[start..head_end], spare);
        match partial.start_body(head, arrival, from, limits) {
            Ok(next) => next,
            Err(error) => self.reject_partial(error, limits),
        }
    }

    /// Continues an incomplete request. Returns `None` if a discarded request has ended and the
    /// next one may begin.
    #[inline(never)]
    fn resume(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
    ) -> Option<RequestEvent> {
        let Some(partial) = self.partial.as_mut().filter(|_| self.state == ReaderState::InRequest)
        else {
            *from = arrival.len();
            return Some(RequestEvent::NeedMore);
        };
        match partial.resume(arrival, from, limits) {
            Ok(Some(next)) => Some(next),
            Ok(None) => {
                self.state = ReaderState::Idle;
                None
            }
            Err(error) => Some(self.reject_partial(error, limits)),
        }
    }

    /// Enters the state of an incomplete request.
    #[cold]
    fn partial(&mut self) -> &mut PartialRequest {
        self.state = ReaderState::InRequest;
        self.partial.get_or_insert_default()
    }

    #[cold]
    fn reject_partial(&mut self, error: RequestError, limits: &RequestLimits) -> RequestEvent {
        let mut head = self.partial().take_buffer();
        head.truncate(sent_head(&head, limits).len());
        self.reject(error, head)
    }

    #[cold]
    fn reject(&mut self, error: RequestError, head: Vec<u8>) -> RequestEvent {
        *self = Self { state: ReaderState::Rejected, ..Self::new() };
        if !head.is_empty() {
            self.partial = Some(Box::new(PartialRequest::rejected(head)));
        }
        RequestEvent::Rejected(error)
    }
}

impl EmptyLines {
    /// Advances `from` past empty lines before a request.
    #[inline]
    fn skip(&mut self, arrival: &[u8], from: &mut usize) -> Result<(), RequestError> {
        while let Some(&byte) = arrival.get(*from) {
            match (byte, self.saw_return) {
                (b'\r', false) => self.saw_return = true,
                (b'\n', true) => {
                    self.saw_return = false;
                    self.count += 1;
                }
                (_, false) => break,
                (_, true) => {
                    return Err(RequestError::bad_request("CR without LF before the request"));
                }
            }
            if self.count > EMPTY_LINES_MAX {
                return Err(RequestError::bad_request("too many empty lines before a request"));
            }
            *from += 1;
        }
        Ok(())
    }
}

/// Returns the head at the start of `bytes` as far as the limits allow, whatever its lines are.
/// Empty if the request does not even begin like one.
#[cold]
fn sent_head<'b>(bytes: &'b [u8], limits: &RequestLimits) -> &'b [u8] {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    if !window.first().is_some_and(|&first| is_token_byte(first)) {
        return &[];
    }
    let end = HeadEnd::default().find(window);
    &window[..end.unwrap_or(window.len())]
}

/// Returns the length of a body that lies completely in the `available` bytes behind its head.
#[inline]
fn complete_body_length(head: &Head, available: usize) -> Option<usize> {
    match head.body {
        BodyLength::None => Some(0),
        BodyLength::Length(length) => {
            usize::try_from(length).ok().filter(|&length| length <= available)
        }
        BodyLength::Chunked => None,
    }
}
