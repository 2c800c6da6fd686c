//! What a session sends, and what it reports.

use serde_json::Value as Json;

use crate::error::ClientError;
use crate::notifications::LogMessage;
use crate::session::Progress;
use corelane_base::time::Instant;
use corelane_parity::capabilities::Capabilities;
use corelane_parity::envelope::{Chunk, ChunkType};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::json::Value;

/// A message to send to the server.
#[derive(Clone, Copy, Debug)]
pub struct ParityMessage<'a> {
    /// What it is.
    pub kind: ParityMessageKind,
    /// The JSON text, on one line.
    pub text: &'a [u8],
}

/// Kind of a [`ParityMessage`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParityMessageKind {
    /// The handshake, which is answered.
    Handshake,
    /// The refined capabilities, which are answered.
    Capabilities,
    /// The request with this id.
    Request {
        /// The id.
        id: u64,
        /// Whether its response opens a stream.
        streams: bool,
    },
    /// A cancellation or a keep-alive, which has no answer of its own.
    Other,
}

/// Where a session writes its messages: the output buffer of a connection, or HTTP requests.
pub trait ParitySink {
    /// Sends one message.
    fn send(&mut self, message: ParityMessage<'_>);

    /// Returns whether requests must wait, because the server does not read what was sent.
    fn is_full(&self) -> bool {
        false
    }
}

/// What an operation of a session needs.
#[derive(Debug)]
pub struct ParityContext<'a, T, S> {
    /// The present.
    pub now: Instant,
    /// Where messages go.
    pub sink: &'a mut S,
    /// Where events go.
    pub events: &'a mut Vec<ParitySessionEvent<T>>,
    /// Memory for a message.
    pub text: &'a mut Vec<u8>,
}

impl<T, S: ParitySink> ParityContext<'_, T, S> {
    /// Sends the message in `text`.
    pub(super) fn send(&mut self, kind: ParityMessageKind) {
        self.sink.send(ParityMessage { kind, text: self.text });
    }
}

/// What a server has declared in its handshake.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityServerInfo {
    /// The id of the session, as the server chose it.
    pub session_id: String,
    /// The name of the server, if it has one.
    pub name: Option<String>,
    /// The version of the server, if it has one.
    pub version: Option<String>,
    /// What both sides have, after a refinement.
    pub capabilities: Capabilities,
    /// Whether the session continues an earlier one; `None` if there was none.
    pub resumed: Option<bool>,
}

/// A chunk of a stream, before its result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParityChunk {
    /// Progress of the handler.
    Progress(Progress),
    /// A log message of the handler.
    Log(LogMessage),
    /// A part of the result.
    Partial(Json),
}

impl ParityChunk {
    /// Reads a chunk; `None` if it is one of the last, or its data are invalid.
    pub(super) fn read(chunk: &Chunk<'_>) -> Option<Self> {
        let data = chunk.data?;
        let member = |name| data.as_object()?.find(name);
        let text = |name| member(name).and_then(Value::as_str).map(str::to_owned);
        match chunk.chunk_type {
            ChunkType::Progress => Some(Self::Progress(Progress {
                progress: member("progress")?.as_f64()?,
                total: member("total").and_then(Value::as_f64),
                message: text("message"),
            })),
            ChunkType::Log => {
                let name = member("level")?.as_str()?;
                let (level, _) = *LoggingLevel::ALL.iter().find(|(_, known)| *known == name)?;
                let data = member("data").map(Value::to_json).unwrap_or_default();
                Some(Self::Log(LogMessage { level, logger: text("logger"), data }))
            }
            ChunkType::Partial => Some(Self::Partial(data.to_json())),
            ChunkType::Result | ChunkType::Error | ChunkType::Eos => None,
        }
    }
}

/// What a session reports. `T` identifies a request to its caller.
#[derive(Debug)]
pub enum ParitySessionEvent<T> {
    /// Requests are permitted; see [`ParitySession::server`](super::ParitySession::server).
    Ready,
    /// The server advises to begin again: the streams of the earlier session have failed.
    Restarted {
        /// Why, in the words of the server.
        reason: String,
    },
    /// A request has ended: with its result as JSON text, or an error.
    Completed {
        /// The request.
        token: T,
        /// Its outcome.
        result: Result<Vec<u8>, ClientError>,
    },
    /// The next chunk of a stream.
    Chunk {
        /// The request.
        token: T,
        /// The chunk.
        chunk: ParityChunk,
    },
    /// A request is repeated.
    Retried {
        /// The error that it was answered with.
        error: ClientError,
    },
    /// The server sent what the dialect does not allow; it was ignored.
    Violation(&'static str),
}
