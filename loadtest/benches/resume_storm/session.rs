//! One session of the storm, as its client has it.

use corelane_base::time::Instant;
use memchr::memchr;

use crate::Outcome;
use crate::messages::{self, Acknowledgement, Chunk, Message, NextChunk};

/// A session with its streams, which outlives its connections.
#[derive(Debug, Default)]
pub(crate) struct Session {
    resume_token: String,
    streams: Vec<Stream>,
    /// The beginning of a message whose rest has not arrived.
    partial: Vec<u8>,
}

/// A stream as its client has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// The number of the last chunk received.
    pub(crate) last_seq: u64,
    /// The same when the present connection began.
    seq_before: u64,
}

/// What arrived on the connections of all sessions since the last reset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Acknowledgements.
    pub(crate) acknowledged: usize,
    /// Streams with their next chunk.
    pub(crate) continued: usize,
    pub(crate) last_acknowledged: Option<Instant>,
    pub(crate) last_continued: Option<Instant>,
    /// Chunks that were received before.
    pub(crate) repeated: u64,
}

impl Session {
    pub(crate) fn new(streams: usize) -> Self {
        Self { streams: vec![Stream::default(); streams], ..Self::default() }
    }

    /// Returns its first message on a new connection.
    pub(crate) fn handshake(&mut self) -> Vec<u8> {
        self.partial.clear();
        for stream in &mut self.streams {
            stream.seq_before = stream.last_seq;
        }
        if self.resume_token.is_empty() {
            return messages::handshake();
        }
        messages::resumption(&self.resume_token, &self.streams)
    }

    /// Returns its streams.
    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Handles received bytes. Returns whether they have an acknowledgement of a new session.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        arrived: &mut Arrived,
    ) -> Outcome<bool> {
        let mut is_new = false;
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            let message = if self.partial.is_empty() {
                messages::read(line)?
            } else {
                self.partial.extend_from_slice(line);
                messages::read(&std::mem::take(&mut self.partial))?
            };
            match message {
                Message::Acknowledged(ack) => {
                    is_new |= self.acknowledge(*ack)?;
                    arrived.acknowledged += 1;
                    arrived.last_acknowledged = Some(now);
                }
                Message::Chunk(chunk) => self.receive_chunk(chunk, now, arrived)?,
                Message::Opened | Message::Keepalive => {}
            }
        }
        self.partial.extend_from_slice(rest);
        Ok(is_new)
    }

    /// Returns whether the session is new.
    fn acknowledge(&mut self, ack: Acknowledgement) -> Outcome<bool> {
        let is_new = self.resume_token.is_empty();
        if !is_new {
            let mut next: Vec<_> = ack.streams.iter().map(NextChunk::place).collect();
            next.sort_unstable();
            let streams = (1..).zip(&self.streams);
            let expected = streams.map(|(number, stream)| Some((number, stream.last_seq + 1)));
            if ack.resumed != Some(true) || !next.into_iter().eq(expected) {
                return Err(format!("not resumed where it was: {ack:?}").into());
            }
        }
        self.resume_token = ack.resume_token;
        Ok(is_new)
    }

    fn receive_chunk(&mut self, chunk: Chunk, now: Instant, arrived: &mut Arrived) -> Outcome<()> {
        let stream = chunk.stream.checked_sub(1).and_then(|index| self.streams.get_mut(index));
        let stream = stream.ok_or_else(|| format!("chunk of an unknown stream: {chunk:?}"))?;
        if chunk.progress != chunk.seq {
            return Err(format!("chunk with the content of another one: {chunk:?}").into());
        }
        if chunk.seq <= stream.last_seq {
            arrived.repeated += 1;
            return Ok(());
        }
        if chunk.seq != stream.last_seq + 1 {
            let last = stream.last_seq;
            return Err(format!("chunks are missing after {last}: {chunk:?}").into());
        }
        if stream.last_seq == stream.seq_before {
            arrived.continued += 1;
            arrived.last_continued = Some(now);
        }
        stream.last_seq = chunk.seq;
        Ok(())
    }
}
