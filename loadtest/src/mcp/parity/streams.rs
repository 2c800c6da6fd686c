//! The open streams of a connection, and the requests that opened them.
//!
//! Invariants: a stream ends once, by `eos`; one whose chunks are not in order has failed, whatever
//! follows.

use corelane_parity::envelope::{Chunk, ChunkType};
use corelane_parity::stream::{IncomingStreams, Received};

use crate::metrics::outcome::Failure;

/// Streams of requests that timed out, of which the end is awaited.
const ABANDONED_MAX: usize = 64;

/// The open streams.
#[derive(Debug, Default)]
pub(in crate::mcp) struct OpenStreams {
    order: IncomingStreams,
    open: Vec<OpenStream>,
    /// Whether the end of a stream is no longer awaited, so that its chunks are not known.
    has_forgotten: bool,
}

#[derive(Debug)]
struct OpenStream {
    id: Box<str>,
    /// Id of the request.
    request: u64,
    /// Index of its template.
    call: u16,
    /// Result of the request, if its chunk has arrived.
    outcome: Option<Result<(), Failure>>,
    /// Whether its chunks were not in order.
    is_broken: bool,
    /// Whether its request timed out.
    is_abandoned: bool,
}

/// What a chunk means for the request of its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mcp) enum ChunkEffect {
    /// It continues.
    Delivered,
    /// It has failed; the stream has not ended.
    Failed {
        /// Id of the request.
        request: u64,
    },
    /// It is complete.
    Ended {
        /// Id of the request.
        request: u64,
        /// The failure, or `None` if it succeeded.
        failure: Option<Failure>,
    },
    /// It had timed out, and its stream has ended.
    EndedLate {
        /// Id of the request.
        request: u64,
    },
    /// No open stream has this id.
    Unknown,
}

impl OpenStreams {
    pub(in crate::mcp) const fn is_empty(&self) -> bool {
        self.open.is_empty() && !self.has_forgotten
    }

    /// Adds the stream of a request; returns whether its id is new.
    pub(in crate::mcp) fn open(&mut self, stream_id: &str, request: u64, call: u16) -> bool {
        if self.open.iter().any(|it| &*it.id == stream_id || it.request == request) {
            return false;
        }
        self.order.open(stream_id);
        let id = stream_id.into();
        let (outcome, is_broken, is_abandoned) = (None, false, false);
        self.open.push(OpenStream { id, request, call, outcome, is_broken, is_abandoned });
        true
    }

    /// Returns the id of the stream of a request that timed out, and ignores its chunks from now
    /// on.
    pub(in crate::mcp) fn abandon(&mut self, request: u64) -> Option<&str> {
        let place = self.open.iter().position(|it| it.request == request)?;
        let abandoned = self.open.iter().filter(|it| it.is_abandoned);
        if abandoned.count() >= ABANDONED_MAX
            && let Some(oldest) = self.open.iter().position(|it| it.is_abandoned)
        {
            self.has_forgotten = true;
            self.remove(oldest);
            return self.abandon(request);
        }
        let stream = &mut self.open[place];
        stream.is_abandoned = true;
        Some(&stream.id)
    }

    /// Returns whether the end of a stream is no longer awaited.
    pub(in crate::mcp) const fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// Returns the request of a stream.
    pub(in crate::mcp) fn request_of(&self, stream_id: &str) -> Option<u64> {
        self.open.iter().find(|it| &*it.id == stream_id).map(|it| it.request)
    }

    /// Removes the stream of a request; returns whether there was one.
    pub(in crate::mcp) fn remove_of(&mut self, request: u64) -> bool {
        let place = self.open.iter().position(|it| it.request == request);
        place.map(|place| self.remove(place)).is_some()
    }

    /// Records a chunk. `judge` evaluates the result or error of a request with this template.
    pub(in crate::mcp) fn receive(
        &mut self,
        chunk: &Chunk<'_>,
        judge: impl FnOnce(u16) -> Result<(), Failure>,
    ) -> ChunkEffect {
        let Some(place) = self.open.iter().position(|it| &*it.id == chunk.stream_id) else {
            let is_late = self.has_forgotten;
            return if is_late { ChunkEffect::Delivered } else { ChunkEffect::Unknown };
        };
        let stream = &mut self.open[place];
        let request = stream.request;
        let is_eos = chunk.chunk_type == ChunkType::Eos;
        if stream.is_abandoned {
            if is_eos {
                self.remove(place);
                return ChunkEffect::EndedLate { request };
            }
            return ChunkEffect::Delivered;
        }
        let is_next = !stream.is_broken
            && self.order.receive(chunk.stream_id, chunk.seq, chunk.chunk_type) == Received::Next
            // Only the end follows the result.
            && (is_eos || stream.outcome.is_none());
        if !is_next {
            let was_broken = std::mem::replace(&mut stream.is_broken, true);
            if is_eos {
                self.remove(place);
                return ChunkEffect::Ended { request, failure: Some(Failure::Stream) };
            }
            return if was_broken {
                ChunkEffect::Delivered
            } else {
                ChunkEffect::Failed { request }
            };
        }
        match chunk.chunk_type {
            ChunkType::Result | ChunkType::Error => stream.outcome = Some(judge(stream.call)),
            ChunkType::Eos => {
                // A stream without a result is not complete.
                let outcome = stream.outcome.unwrap_or(Err(Failure::Stream));
                self.remove(place);
                return ChunkEffect::Ended { request, failure: outcome.err() };
            }
            ChunkType::Progress | ChunkType::Log | ChunkType::Partial => {}
        }
        ChunkEffect::Delivered
    }

    fn remove(&mut self, place: usize) {
        let stream = self.open.swap_remove(place);
        self.order.remove(&stream.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture(OpenStreams);

    impl Fixture {
        /// Opens the stream `a` of the request 1.
        fn new() -> Self {
            let mut streams = OpenStreams::default();
            assert!(
                streams.open("a", 1, 0) && !streams.open("a", 2, 0) && !streams.open("b", 1, 0)
            );
            Self(streams)
        }

        fn receive(&mut self, seq: u64, chunk_type: ChunkType) -> ChunkEffect {
            let (stream_id, data, reason) = ("a", None, None);
            let chunk = Chunk { stream_id, seq, chunk_type, data, reason };
            let is_error = chunk_type == ChunkType::Error;
            let outcome = if is_error { Err(Failure::Tool) } else { Ok(()) };
            self.0.receive(&chunk, |_| outcome)
        }
    }

    const FAILED: ChunkEffect = ChunkEffect::Failed { request: 1 };

    fn ended(failure: Option<Failure>) -> ChunkEffect {
        ChunkEffect::Ended { request: 1, failure }
    }

    #[test]
    fn stream_ends_with_its_result() {
        for (chunk_type, failure) in
            [(ChunkType::Result, None), (ChunkType::Error, Some(Failure::Tool))]
        {
            let mut streams = Fixture::new();
            assert_eq!(streams.receive(1, ChunkType::Progress), ChunkEffect::Delivered);
            assert_eq!(streams.receive(2, chunk_type), ChunkEffect::Delivered);
            assert_eq!(streams.receive(3, ChunkType::Eos), ended(failure));
            assert_eq!(streams.receive(4, ChunkType::Eos), ChunkEffect::Unknown);
            assert!(streams.0.open("a", 1, 0), "the id is free again");
        }
    }

    #[test]
    fn chunk_out_of_order_fails_request_once() {
        for wrong in [1, 3] {
            let mut streams = Fixture::new();
            assert_eq!(streams.receive(1, ChunkType::Log), ChunkEffect::Delivered);
            assert_eq!(streams.receive(wrong, ChunkType::Log), FAILED);
            assert_eq!(streams.receive(2, ChunkType::Result), ChunkEffect::Delivered);
            assert_eq!(streams.receive(3, ChunkType::Eos), ended(Some(Failure::Stream)));
        }
    }

    #[test]
    fn chunk_between_result_and_eos_is_failure() {
        let mut streams = Fixture::new();
        assert_eq!(streams.receive(1, ChunkType::Result), ChunkEffect::Delivered);
        assert_eq!(streams.receive(2, ChunkType::Progress), FAILED);
    }

    #[test]
    fn stream_without_result_is_failure() {
        let mut streams = Fixture::new();
        assert_eq!(streams.receive(1, ChunkType::Eos), ended(Some(Failure::Stream)));
    }
}
