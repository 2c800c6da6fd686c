//! An incomplete request, whose bytes are stored and scanned once.

use std::mem::take;

use super::RequestEvent;
use super::chunked::ChunkDecoder;
use crate::http::head::{BodyLength, Head, HeadEnd, RequestError, RequestLimits};
use corelane_base::pool::reserve_part;
use corelane_protocol::json::padding_of;

/// Memory reserved for a body of known length. Bounds what a peer gains by announcing a large one.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// An incomplete request.
#[derive(Debug)]
pub(super) struct PartialRequest {
    /// The head, once complete.
    pub(super) head: Head,
    state: PartialState,
    /// The head and the decoded body, as far as received.
    buffer: Vec<u8>,
}

/// Reading state.
///
/// ```text
/// Head ─▶ Body ─▶ Complete
///           └───▶ Skipping
/// ```
#[derive(Clone, Copy, Debug)]
enum PartialState {
    /// Inside the head.
    Head(HeadEnd),
    /// Inside the body.
    Body(RemainingBody),
    /// The request is complete and waits to be taken.
    Complete,
    /// Skipping the rest of a discarded body.
    Skipping(RemainingBody),
}

/// The rest of a body.
#[derive(Clone, Copy, Debug)]
enum RemainingBody {
    /// A number of bytes.
    Bytes(usize),
    /// Chunks.
    Chunks(ChunkDecoder),
}

impl PartialRequest {
    /// Returns the stored bytes.
    #[inline]
    pub(super) const fn buffer(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// Returns the capacity of the buffer of the stored bytes.
    pub(super) const fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the buffer of the stored bytes.
    pub(super) const fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Returns whether the request is complete.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.state, PartialState::Complete)
    }

    /// Takes the stored bytes.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        take(&mut self.buffer)
    }

    /// Holds the head of a request that was rejected.
    pub(super) fn rejected(head: Vec<u8>) -> Self {
        Self { buffer: head, ..Self::default() }
    }

    /// Stores a complete request again.
    pub(super) fn restore(&mut self, head: Head, bytes: Vec<u8>) {
        *self = Self { head, state: PartialState::Complete, buffer: bytes };
    }

    /// Skips the rest of the body and returns the stored bytes. An incomplete head is kept.
    pub(super) fn discard(&mut self) -> Vec<u8> {
        match self.state {
            PartialState::Body(remaining) => self.state = PartialState::Skipping(remaining),
            PartialState::Complete => {}
            PartialState::Head(_) | PartialState::Skipping(_) => return Vec::new(),
        }
        self.head = Head::EMPTY;
        self.take_buffer()
    }

    /// Stores the beginning of a request.
    pub(super) fn append(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        if self.buffer.capacity() == 0 {
            self.buffer = spare();
        }
        reserve_part(&mut self.buffer, bytes.len(), usize::MAX);
        self.buffer.extend_from_slice(bytes);
    }

    /// Stores the beginning of a head.
    pub(super) fn start_head(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        let mut end = HeadEnd::default();
        end.find(bytes);
        self.append(bytes, spare);
        self.state = PartialState::Head(end);
    }

    /// Continues with the body after a complete head.
    pub(super) fn start_body(
        &mut self,
        head: Head,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
    ) -> Result<RequestEvent, RequestError> {
        let remaining = match head.body {
            BodyLength::None => RemainingBody::Bytes(0),
            // At most `body_bytes_max`, checked with the head.
            BodyLength::Length(length) => {
                RemainingBody::Bytes(usize::try_from(length).unwrap_or(usize::MAX))
            }
            BodyLength::Chunked => RemainingBody::Chunks(ChunkDecoder::default()),
        };
        if let RemainingBody::Bytes(length) = remaining {
            self.buffer.reserve(length.min(RESERVED_BYTES_MAX) + padding_of(length));
        }
        self.head = head;
        match self.read_body(remaining, arrival, from, limits)? {
            RequestEvent::NeedMore => Ok(RequestEvent::HeadComplete),
            next => Ok(next),
        }
    }

    /// Continues with new input. Returns `None` when a skipped body has ended.
    pub(super) fn resume(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
    ) -> Result<Option<RequestEvent>, RequestError> {
        match self.state {
            PartialState::Head(end) => self.read_head(end, arrival, from, limits).map(Some),
            PartialState::Body(remaining) => {
                self.read_body(remaining, arrival, from, limits).map(Some)
            }
            PartialState::Complete => Ok(Some(RequestEvent::Assembled)),
            PartialState::Skipping(mut remaining) => {
                let is_over = remaining.read(arrival, from, limits, |_| ())?;
                self.state = PartialState::Skipping(remaining);
                Ok((!is_over).then_some(RequestEvent::NeedMore))
            }
        }
    }

    /// Continues the head, up to its end or its limit.
    fn read_head(
        &mut self,
        mut end: HeadEnd,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
    ) -> Result<RequestEvent, RequestError> {
        let rest = &arrival[*from..];
        let available = limits.head_bytes_max.saturating_sub(self.buffer.len());
        let window = &rest[..rest.len().min(available)];
        let found = end.find(window);
        let length = found.unwrap_or(window.len());
        self.buffer.extend_from_slice(&window[..length]);
        *from += length;
        if found.is_none() && length < available {
            self.state = PartialState::Head(end);
            return Ok(RequestEvent::NeedMore);
        }
        match Head::parse(&self.buffer, limits)? {
            Some(head) => self.start_body(head, arrival, from, limits),
            None => Err(RequestError::bad_request("the head is malformed")),
        }
    }

    /// Continues the body.
    fn read_body(
        &mut self,
        mut remaining: RemainingBody,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
    ) -> Result<RequestEvent, RequestError> {
        let held = &mut self.buffer;
        let length_max = match remaining {
            RemainingBody::Bytes(bytes) => held.len().saturating_add(bytes),
            RemainingBody::Chunks(_) => limits.head_bytes_max.saturating_add(limits.body_bytes_max),
        };
        let length_max = length_max.saturating_add(padding_of(length_max));
        let is_over = remaining.read(arrival, from, limits, |data| {
            reserve_part(held, data.len() + padding_of(held.len()), length_max);
            held.extend_from_slice(data);
        })?;
        self.state = if is_over { PartialState::Complete } else { PartialState::Body(remaining) };
        Ok(if is_over { RequestEvent::Assembled } else { RequestEvent::NeedMore })
    }
}

impl Default for PartialRequest {
    fn default() -> Self {
        Self {
            head: Head::EMPTY,
            state: PartialState::Head(HeadEnd::default()),
            buffer: Vec::new(),
        }
    }
}

impl RemainingBody {
    /// Reads `arrival[*from..]` up to the end of the body or the input, passes the data to `append`
    /// and advances `from`. Returns whether the body has ended.
    fn read(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        mut append: impl FnMut(&[u8]),
    ) -> Result<bool, RequestError> {
        match self {
            Self::Bytes(count) => {
                let length = (*count).min(arrival.len() - *from);
                append(&arrival[*from..*from + length]);
                *from += length;
                *count -= length;
                Ok(*count == 0)
            }
            Self::Chunks(decoder) => decoder.decode(arrival, from, limits, append),
        }
    }
}
