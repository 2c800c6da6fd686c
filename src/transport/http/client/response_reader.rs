//! Parses a stream into HTTP/1.1 responses (RFC 9112, sections 4, 6 and 7).
//!
//! Invariants: the result does not depend on how the stream is split; interim responses (1xx) are
//! skipped; a response over a limit is rejected before the rest is held.

use super::response_head::{
    BodyEnd, NOT_HTTP, ResponseError, ResponseHead, ResponseLimits, may_be_response,
};
use crate::http::head::{HeadEnd, RequestLimits};
use crate::http::reader::chunked::ChunkDecoder;
use crate::http::status::Status;

/// Why a response over the limit is rejected, whatever its framing.
const BODY_TOO_LARGE: &str = "the body of the response is too large";

/// The result of reading the next part of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponseEvent {
    /// All input is consumed. A part of the body may have been appended.
    NeedMore,
    /// The head is complete: see [`ResponseReader::head`].
    HeadComplete,
    /// The body is complete; its last part has been appended. The next response may follow.
    Complete,
}

/// Splits a stream into responses.
#[derive(Debug, Default)]
pub struct ResponseReader {
    state: ReaderState,
    /// The head of the current or last response.
    head: Option<ResponseHead>,
    /// The bytes of an incomplete head.
    partial: Vec<u8>,
    end: HeadEnd,
}

#[derive(Clone, Copy, Debug, Default)]
enum ReaderState {
    /// Before a response, or in its head.
    #[default]
    Head,
    /// The rest of a body that ends after this many bytes.
    Length(u64),
    Chunks(ChunkDecoder),
    /// In a body that ends with the connection.
    Close,
}

impl ResponseReader {
    /// Creates a reader before the first response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the head of the current response, or of the last one before the next has begun.
    pub const fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// Reads `arrival[*from..]` and advances `from`. Appends decoded bytes of the body to `body`,
    /// which the caller empties: before each response, and of an event stream at any time.
    ///
    /// Call until it returns [`ResponseEvent::NeedMore`] or an error.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Invalid`], also if `body` exceeds its limit.
    pub fn next(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &ResponseLimits,
        body: &mut Vec<u8>,
    ) -> Result<ResponseEvent, ResponseError> {
        let is_complete = match &mut self.state {
            ReaderState::Head => return self.read_head(arrival, from, limits),
            ReaderState::Length(rest) => {
                let available = arrival.len() - *from;
                let length = usize::try_from(*rest).unwrap_or(usize::MAX).min(available);
                body.extend_from_slice(&arrival[*from..*from + length]);
                *from += length;
                *rest -= length as u64;
                *rest == 0
            }
            ReaderState::Chunks(decoder) => {
                // An event stream is unlimited; its events are not.
                let is_stream = self.head.as_ref().is_some_and(ResponseHead::is_event_stream);
                let body_bytes_max = if is_stream { usize::MAX } else { limits.body_bytes_max };
                let limits = RequestLimits {
                    head_bytes_max: limits.head_bytes_max,
                    body_bytes_max,
                    ..RequestLimits::default()
                };
                let decoded = decoder.decode(arrival, from, &limits, |data| {
                    body.extend_from_slice(data);
                });
                decoded.map_err(|error| {
                    let is_too_large = error.status == Status::CONTENT_TOO_LARGE;
                    let reason = if is_too_large { BODY_TOO_LARGE } else { error.reason };
                    ResponseError::Invalid(reason)
                })?
            }
            ReaderState::Close => {
                body.extend_from_slice(&arrival[*from..]);
                *from = arrival.len();
                false
            }
        };
        if body.len() > limits.body_bytes_max {
            return Err(ResponseError::Invalid(BODY_TOO_LARGE));
        }
        if is_complete {
            self.state = ReaderState::Head;
            return Ok(ResponseEvent::Complete);
        }
        Ok(ResponseEvent::NeedMore)
    }

    /// Handles the end of the connection. Returns whether it completes a response.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Truncated`] inside a response.
    pub const fn end_of_stream(&mut self) -> Result<bool, ResponseError> {
        match self.state {
            ReaderState::Close => {
                self.state = ReaderState::Head;
                Ok(true)
            }
            ReaderState::Head if self.partial.is_empty() => Ok(false),
            _ => Err(ResponseError::Truncated),
        }
    }

    fn read_head(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &ResponseLimits,
    ) -> Result<ResponseEvent, ResponseError> {
        loop {
            let rest = &arrival[*from..];
            if rest.is_empty() {
                return Ok(ResponseEvent::NeedMore);
            }
            let available = limits.head_bytes_max.saturating_sub(self.partial.len());
            let window = &rest[..rest.len().min(available)];
            let found = self.end.find(window);
            let length = found.unwrap_or(window.len());
            *from += length;
            let head = match found {
                // Most heads arrive in one piece.
                Some(_) if self.partial.is_empty() => ResponseHead::parse(&window[..length])?,
                _ => {
                    self.partial.extend_from_slice(&window[..length]);
                    if !may_be_response(&self.partial) {
                        return Err(ResponseError::Invalid(NOT_HTTP));
                    }
                    if found.is_none() {
                        if length == available {
                            let text = "the head of the response is too large";
                            return Err(ResponseError::Invalid(text));
                        }
                        continue;
                    }
                    ResponseHead::parse(&std::mem::take(&mut self.partial))?
                }
            };
            self.end = HeadEnd::default();
            match head.status {
                101 => return Err(ResponseError::Invalid("the server switches protocols")),
                // An interim response precedes the final one (RFC 9110, section 15.2).
                100..200 => {}
                _ => return self.begin_body(head, limits),
            }
        }
    }

    fn begin_body(
        &mut self,
        head: ResponseHead,
        limits: &ResponseLimits,
    ) -> Result<ResponseEvent, ResponseError> {
        self.state = match head.body_end {
            BodyEnd::Length(length) => {
                if length > limits.body_bytes_max as u64 && !head.is_event_stream() {
                    return Err(ResponseError::Invalid(BODY_TOO_LARGE));
                }
                ReaderState::Length(length)
            }
            BodyEnd::Chunks => ReaderState::Chunks(ChunkDecoder::default()),
            BodyEnd::Close => ReaderState::Close,
        };
        self.head = Some(head);
        Ok(ResponseEvent::HeadComplete)
    }
}
