//! A request that has begun and is not whole.
//!
//! What it keeps true: what has come of it is held once, and looked at once.

use std::mem::take;

use super::chunked::ChunkDecoder;
use super::{Next, PADDING};
use crate::transport::http::head::{BodyLength, Head, HeadEnd};
use crate::transport::http::limits::{Limits, Refusal};

/// Memory taken ahead for a body whose length is known, at most: a peer that only says that it will
/// send much gets no more for it.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// The beginning of a request.
#[derive(Debug)]
pub(super) struct Begun {
    /// The head, once it is whole.
    pub(super) head: Head,
    state: State,
    /// The head and the body, decoded, as far as they have come.
    held: Vec<u8>,
}

/// What is read.
///
/// ```text
/// Head ─▶ Body ─▶ Whole
///           └───▶ Skipped
/// ```
#[derive(Clone, Copy, Debug)]
enum State {
    /// A head has begun.
    Head(HeadEnd),
    /// A head is whole, its body is not.
    Body(Remaining),
    /// A request is whole and waits to be taken.
    Whole,
    /// The rest of a body that nobody wants.
    Skipped(Remaining),
}

/// What is still to come of a body.
#[derive(Clone, Copy, Debug)]
enum Remaining {
    /// As many bytes.
    Bytes(usize),
    /// The rest of the chunks.
    Chunks(ChunkDecoder),
}

impl Begun {
    /// What is held.
    #[inline]
    pub(super) const fn held(&self) -> &[u8] {
        self.held.as_slice()
    }

    /// Whether the request is whole.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.state, State::Whole)
    }

    /// Hands out what is held.
    pub(super) fn release(&mut self) -> Vec<u8> {
        take(&mut self.held)
    }

    /// Skips what is still to come of the body, and hands out what is held. A head has nothing that
    /// could be skipped: it goes on.
    pub(super) fn give_up(&mut self) -> Vec<u8> {
        match self.state {
            State::Body(remaining) => self.state = State::Skipped(remaining),
            State::Whole => {}
            State::Head(_) | State::Skipped(_) => return Vec::new(),
        }
        self.head = Head::EMPTY;
        self.release()
    }

    /// Keeps the beginning of a request whose end has not come.
    pub(super) fn hold(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        if self.held.capacity() == 0 {
            self.held = spare();
        }
        self.held.extend_from_slice(bytes);
    }

    /// Keeps the beginning of a head.
    pub(super) fn begin_head(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        let mut end = HeadEnd::default();
        end.find(bytes);
        self.hold(bytes, spare);
        self.state = State::Head(end);
    }

    /// A head is whole and held: goes on with its body.
    pub(super) fn begin_body(
        &mut self,
        head: Head,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Result<Next, Refusal> {
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
        match self.read_body(remaining, arrival, from, limits)? {
            Next::NeedMore => Ok(Next::Announced),
            next => Ok(next),
        }
    }

    /// Goes on where the arrival before has ended. Nothing, where the rest of a body that nobody
    /// wanted is over.
    pub(super) fn go_on(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Result<Option<Next>, Refusal> {
        match self.state {
            State::Head(end) => self.read_head(end, arrival, from, limits).map(Some),
            State::Body(remaining) => self.read_body(remaining, arrival, from, limits).map(Some),
            State::Whole => Ok(Some(Next::Assembled)),
            State::Skipped(mut remaining) => {
                let is_over = remaining.read(arrival, from, limits, |_| ())?;
                self.state = State::Skipped(remaining);
                Ok((!is_over).then_some(Next::NeedMore))
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
    ) -> Result<Next, Refusal> {
        let rest = &arrival[*from..];
        let room = limits.head_bytes_max.saturating_sub(self.held.len());
        let window = &rest[..rest.len().min(room)];
        let found = end.find(window);
        let length = found.unwrap_or(window.len());
        self.held.extend_from_slice(&window[..length]);
        *from += length;
        if found.is_none() && length < room {
            self.state = State::Head(end);
            return Ok(Next::NeedMore);
        }
        match Head::parse(&self.held, limits)? {
            Some(head) => self.begin_body(head, arrival, from, limits),
            None => Err(Refusal::bad("the head is malformed")),
        }
    }

    /// Goes on with a body.
    fn read_body(
        &mut self,
        mut remaining: Remaining,
        arrival: &[u8],
        from: &mut usize,
        limits: &Limits,
    ) -> Result<Next, Refusal> {
        let held = &mut self.held;
        let is_over = remaining.read(arrival, from, limits, |data| held.extend_from_slice(data))?;
        self.state = if is_over { State::Whole } else { State::Body(remaining) };
        Ok(if is_over { Next::Assembled } else { Next::NeedMore })
    }
}

impl Default for Begun {
    fn default() -> Self {
        Self { head: Head::EMPTY, state: State::Head(HeadEnd::default()), held: Vec::new() }
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
