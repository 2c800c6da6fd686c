//! Chunks of streams: numbered and kept on the way out, de-duplicated on the way in.
//!
//! Invariants: the numbers of a stream begin at 1 and grow by 1; nothing follows `eos`; the chunks
//! kept of a stream are its last ones, within the limits of the window.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::envelope::ChunkType;
use super::error::ParityError;
use super::write;
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::ALLOCATION_BYTES;
use corelane_base::time::Instant;
use corelane_protocol::jsonrpc::{Id, IdBuf};

/// What is kept of each stream for a client that returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowLimits {
    /// Number of chunks.
    pub chunks_max: usize,
    /// Bytes of their texts.
    pub bytes_max: usize,
    /// Age of a chunk.
    pub age_max: Duration,
}

/// A stream that this side sends: its number, and the chunks that a client may ask for again.
#[derive(Debug)]
pub struct OutgoingStream {
    number: u32,
    id: Box<str>,
    /// The request that has opened it.
    request: IdBuf,
    next_seq: u64,
    /// When it has ended.
    ended_at: Option<Instant>,
    window: VecDeque<StoredChunk>,
    window_bytes: usize,
    /// Chunks that were dropped before they were numbered, since the last one that was written.
    dropped: u64,
    /// Bytes that were written although its production is paused; `None` while it is not.
    excess_bytes: Option<usize>,
}

#[derive(Debug)]
struct StoredChunk {
    stored_at: Instant,
    text: Box<[u8]>,
}

/// Why a stream cannot continue where its client left it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResumeError {
    /// Chunks after the acknowledged one are not kept any more.
    StaleWindow,
    /// The acknowledged number was never sent.
    FutureSeq,
}

impl ResumeError {
    /// Returns the `reason` of the advice to restart.
    pub const fn as_str(self) -> &'static str {
        match self {
            // Neither can continue.
            Self::StaleWindow | Self::FutureSeq => "stale_window",
        }
    }
}

impl OutgoingStream {
    /// Returns the id on the wire.
    pub const fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number within the session.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the id of the request.
    pub const fn request(&self) -> Id<'_> {
        self.request.as_id()
    }

    /// Returns the number of the next chunk.
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns whether `eos` was written.
    pub const fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns the bytes of the chunks that are kept.
    #[cfg(test)]
    pub const fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Returns whether the window has room for another chunk and `reserved` ones behind it.
    pub fn has_room(&self, limits: &WindowLimits, reserved: usize) -> bool {
        self.window.len() + reserved < limits.chunks_max && self.window_bytes < limits.bytes_max
    }

    /// Returns the bytes that the chunks take which are kept, with their places.
    fn chunks_bytes(&self) -> usize {
        let places = self.window.capacity() * size_of::<StoredChunk>();
        places + self.window_bytes + self.window.len() * ALLOCATION_BYTES
    }

    /// Pauses its production. Returns `false` if it is paused already.
    pub const fn pause_production(&mut self) -> bool {
        let begins = self.excess_bytes.is_none();
        if begins {
            self.excess_bytes = Some(0);
        }
        begins
    }

    /// Continues its production.
    pub const fn resume_production(&mut self) {
        self.excess_bytes = None;
    }

    /// Returns the bytes that were written although its production is paused.
    pub fn excess_bytes(&self) -> usize {
        self.excess_bytes.unwrap_or(0)
    }

    /// Records a chunk that is dropped before it is numbered.
    pub const fn record_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Takes the number of chunks that were dropped since the last one that was written.
    pub const fn take_dropped(&mut self) -> u64 {
        std::mem::replace(&mut self.dropped, 0)
    }

    /// Appends the next chunk to `out` and keeps it within `limits`. Does nothing after the end.
    pub fn write_chunk(
        &mut self,
        out: &mut Vec<u8>,
        chunk_type: ChunkType,
        data: &[u8],
        limits: Option<&WindowLimits>,
        now: Instant,
    ) {
        if self.has_ended() {
            return;
        }
        let start = out.len();
        write::chunk(out, &self.id, self.next_seq, chunk_type, data);
        self.store(&out[start..], limits, now);
    }

    /// Appends the last chunk to `out`.
    pub fn write_eos(
        &mut self,
        out: &mut Vec<u8>,
        reason: &str,
        limits: Option<&WindowLimits>,
        now: Instant,
    ) {
        if self.has_ended() {
            return;
        }
        let start = out.len();
        write::eos(out, &self.id, self.next_seq, reason);
        self.store(&out[start..], limits, now);
        self.ended_at = Some(now);
    }

    fn store(&mut self, text: &[u8], limits: Option<&WindowLimits>, now: Instant) {
        self.next_seq += 1;
        if let Some(excess_bytes) = &mut self.excess_bytes {
            *excess_bytes += text.len();
        }
        let Some(limits) = limits else { return };
        self.window.push_back(StoredChunk { stored_at: now, text: text.into() });
        self.window_bytes += text.len();
        while self.window.len() > limits.chunks_max || self.window_bytes > limits.bytes_max {
            self.drop_oldest();
        }
        self.drop_aged(limits, now);
    }

    fn drop_aged(&mut self, limits: &WindowLimits, now: Instant) {
        let is_aged = |chunk: &StoredChunk| now.since(chunk.stored_at) > limits.age_max;
        while self.window.front().is_some_and(is_aged) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(chunk) = self.window.pop_front() {
            self.window_bytes -= chunk.text.len();
        }
    }

    /// Returns the text of a chunk, if it is kept.
    pub fn text_of(&self, seq: u64) -> Option<&[u8]> {
        let first = self.next_seq - self.window.len() as u64;
        let index = usize::try_from(seq.checked_sub(first)?).ok()?;
        self.window.get(index).map(|chunk| &*chunk.text)
    }

    /// Returns the texts of the chunks after `last_ack_seq`, 0 for all.
    ///
    /// # Errors
    ///
    /// [`ResumeError`] if one of them is not kept, or the number was never sent.
    pub fn resume(
        &mut self,
        last_ack_seq: u64,
        limits: &WindowLimits,
        now: Instant,
    ) -> Result<impl Iterator<Item = &[u8]>, ResumeError> {
        self.drop_aged(limits, now);
        if last_ack_seq >= self.next_seq {
            return Err(ResumeError::FutureSeq);
        }
        let first = self.next_seq - self.window.len() as u64;
        let skipped = (last_ack_seq + 1).checked_sub(first).ok_or(ResumeError::StaleWindow)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.window.iter().skip(skipped).map(|chunk| &*chunk.text))
    }
}

/// Ended streams that are kept whatever their chunks have.
const ENDED_KEPT_MIN: usize = 16;

/// What an ended stream counts beside the bytes of its chunks.
const ENDED_STREAM_BYTES: usize = 1024;

/// The outgoing streams of a session. Without streams nothing is allocated.
#[derive(Debug, Default)]
pub struct OutgoingStreams {
    /// Those that have not ended, and those that [`OutgoingStreams::keep_ended`] has not seen.
    open: Vec<OutgoingStream>,
    /// Those that have ended, in that order.
    ended: VecDeque<OutgoingStream>,
    /// Bytes of the chunks of the ended ones.
    ended_bytes: usize,
    last_number: u32,
}

heap_bytes!(
    OutgoingStreams {}
    // Each stream has few bytes beside its chunks.
    counted { open: OutgoingStreams::chunks_bytes }
    inline { ended, ended_bytes, last_number }
);

impl OutgoingStreams {
    /// Opens a stream for a request.
    ///
    /// # Errors
    ///
    /// `error.rate_limited` if `streams_max` are open.
    pub fn open(
        &mut self,
        request: Id<'_>,
        streams_max: usize,
    ) -> Result<&mut OutgoingStream, ParityError> {
        if self.open_count() >= streams_max {
            let message = format!("{streams_max} streams are open; await the end of one");
            return Err(ParityError::rate_limited(message, 1_000));
        }
        self.last_number = self.last_number.checked_add(1).ok_or_else(|| {
            ParityError::rate_limited("the session has no stream ids left; begin another", 1_000)
        })?;
        let number = self.last_number;
        let stream = OutgoingStream {
            number,
            id: format!("s{number}").into(),
            request: request.into(),
            next_seq: 1,
            ended_at: None,
            window: VecDeque::new(),
            window_bytes: 0,
            dropped: 0,
            excess_bytes: None,
        };
        if self.open.is_empty() {
            // Most sessions have one stream at a time.
            self.open.reserve_exact(1);
        }
        Ok(self.open.push_mut(stream))
    }

    /// Returns the stream with this number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut OutgoingStream> {
        let open = self.open.iter_mut().find(|stream| stream.number == number);
        open.or_else(|| self.ended.iter_mut().rfind(|stream| stream.number == number))
    }

    /// Returns the stream with this id.
    pub fn find_mut(&mut self, id: &str) -> Option<&mut OutgoingStream> {
        let open = self.open.iter_mut().find(|stream| &*stream.id == id);
        open.or_else(|| self.ended.iter_mut().rfind(|stream| &*stream.id == id))
    }

    /// Returns the number of the open stream of a request.
    pub fn number_of(&self, request: Id<'_>) -> Option<u32> {
        let mut open = self.open.iter().filter(|stream| !stream.has_ended());
        open.find(|stream| stream.request() == request).map(OutgoingStream::number)
    }

    /// Returns the number of streams that have not ended.
    pub fn open_count(&self) -> usize {
        self.open.iter().filter(|stream| !stream.has_ended()).count()
    }

    /// Returns the bytes of the chunks that are kept.
    pub fn window_bytes(&self) -> usize {
        let open: usize = self.open.iter().map(|stream| stream.window_bytes).sum();
        open + self.ended_bytes
    }

    /// Returns the bytes that the chunks take which are kept.
    fn chunks_bytes(&self) -> usize {
        self.iter().map(OutgoingStream::chunks_bytes).sum()
    }

    /// Returns the streams that have ended and are kept, then the open ones.
    pub fn iter(&self) -> impl Iterator<Item = &OutgoingStream> {
        self.ended.iter().chain(&self.open)
    }

    /// Calls `resume` with each stream, until one returns an error.
    ///
    /// # Errors
    ///
    /// That of `resume`.
    pub fn resume_each<E>(
        &mut self,
        resume: impl FnMut(&mut OutgoingStream) -> Result<(), E>,
    ) -> Result<(), E> {
        let resumed = self.ended.iter_mut().chain(&mut self.open).try_for_each(resume);
        // Chunks that were too old are gone.
        self.ended_bytes = self.ended.iter().map(|stream| stream.window_bytes).sum();
        resumed
    }

    /// Keeps the streams that have ended within `limits`: until their age is over, the oldest ones
    /// only as long as all together have no more than the bytes of one window.
    pub fn keep_ended(&mut self, limits: Option<&WindowLimits>, now: Instant) {
        for stream in self.open.extract_if(.., |stream| stream.has_ended()) {
            self.ended_bytes += stream.window_bytes;
            self.ended.push_back(stream);
        }
        while let Some(oldest) = self.ended.front() {
            let is_kept = limits.is_some_and(|limits| {
                let bytes = self.ended_bytes + self.ended.len() * ENDED_STREAM_BYTES;
                let is_small = self.ended.len() <= ENDED_KEPT_MIN || bytes <= limits.bytes_max;
                let age = oldest.ended_at.map(|ended_at| now.since(ended_at));
                is_small && age.is_some_and(|age| age <= limits.age_max)
            });
            if is_kept {
                break;
            }
            self.ended_bytes -= oldest.window_bytes;
            self.ended.pop_front();
        }
        if self.open.is_empty() && self.ended.is_empty() {
            (self.open, self.ended) = (Vec::new(), VecDeque::new());
        }
    }
}

/// Ended streams that a client knows, so that their chunks which come again are not new: as many as
/// a server keeps with the default options.
const ENDED_STREAMS_MAX: usize = 1_040;

/// The incoming streams of a client: those that have not ended, and the last ones that have.
#[derive(Debug, Default)]
pub struct IncomingStreams {
    streams: HashMap<Box<str>, IncomingStream>,
    /// The ended streams, oldest first.
    ended: VecDeque<Box<str>>,
}

#[derive(Clone, Copy, Debug)]
struct IncomingStream {
    last_seq: u64,
    has_ended: bool,
}

/// What a received chunk is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// The next one.
    Next,
    /// Received before, to be ignored.
    Duplicate,
    /// Chunks before it are missing; it is not accepted.
    Gap {
        /// The number of the next chunk.
        expected: u64,
    },
    /// The stream has ended before.
    AfterEnd,
    /// No stream has this id.
    UnknownStream,
}

impl IncomingStreams {
    /// Adds the stream of a response.
    pub fn open(&mut self, stream_id: &str) {
        self.open_after(stream_id, 0);
    }

    /// Adds a stream whose chunks up to `last_seq` are not needed.
    pub fn open_after(&mut self, stream_id: &str, last_seq: u64) {
        let stream = IncomingStream { last_seq, has_ended: false };
        self.streams.entry(stream_id.into()).or_insert(stream);
    }

    /// Returns whether a stream is known.
    pub fn contains(&self, stream_id: &str) -> bool {
        self.streams.contains_key(stream_id)
    }

    /// Records a chunk.
    pub fn receive(&mut self, stream_id: &str, seq: u64, chunk_type: ChunkType) -> Received {
        let Some(stream) = self.streams.get_mut(stream_id) else { return Received::UnknownStream };
        if seq <= stream.last_seq {
            return Received::Duplicate;
        }
        if stream.has_ended {
            return Received::AfterEnd;
        }
        if seq != stream.last_seq + 1 {
            return Received::Gap { expected: stream.last_seq + 1 };
        }
        stream.last_seq = seq;
        stream.has_ended = chunk_type == ChunkType::Eos;
        if stream.has_ended {
            self.ended.push_back(stream_id.into());
            if self.ended.len() > ENDED_STREAMS_MAX
                && let Some(oldest) = self.ended.pop_front()
            {
                self.streams.remove(&oldest);
            }
        }
        Received::Next
    }

    /// Forgets a stream.
    pub fn remove(&mut self, stream_id: &str) {
        self.streams.remove(stream_id);
    }

    /// Returns the last number received of each stream that has not ended, ordered by id.
    pub fn last_ack_seq(&self) -> Vec<(String, u64)> {
        let open = self.streams.iter().filter(|(_, stream)| !stream.has_ended);
        let mut acknowledged: Vec<_> =
            open.map(|(id, stream)| (id.to_string(), stream.last_seq)).collect();
        acknowledged.sort_unstable();
        acknowledged
    }
}

#[cfg(test)]
mod tests;
