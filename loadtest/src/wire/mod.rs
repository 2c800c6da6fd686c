//! Client side of each transport: bytes to messages, without a socket.
//!
//! A [`Reader`] parses what a server sends into [`WireEvent`]s, with one parser per framing. If a
//! connection is encrypted, a [`TlsFilter`](corelane_tls::TlsFilter) lies below.
//!
//! Invariants: any cut of a stream gives the same events; a violation of the framing is reported
//! once as [`FramingError`], and nothing after it is read; no event exceeds [`MESSAGE_BYTES_MAX`].
//! Message contents are handled by [`crate::mcp`].

pub mod frames;
pub mod lines;
pub mod responses;
pub mod tls;

/// Maximum message size: 64 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Event parsed from a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WireEvent<'a> {
    /// A message.
    Message(&'a [u8]),
    /// End of an HTTP response. A message in its body comes before this.
    ResponseEnd {
        /// Status code.
        status: u16,
        /// Value of `Mcp-Session-Id`, if present.
        session: Option<&'a str>,
        /// Whether the server closes the connection after it.
        closes_connection: bool,
        /// Whether its body was an SSE stream.
        is_stream: bool,
        /// Its head and the beginning of its body; empty after [`Reader::stop_quoting`].
        excerpt: &'a [u8],
    },
    /// Bytes to send in return: a pong.
    Reply(&'a [u8]),
    /// WebSocket close frame.
    Close,
}

/// The part of a message or response that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartialMessage {
    /// What it is a part of.
    pub of: &'static str,
    /// Bytes that have arrived.
    pub received: u64,
    /// Length in bytes, if it is known.
    pub length: Option<u64>,
}

/// Violation of the framing by the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct FramingError(pub &'static str);

/// Result of one read: consumed bytes and an event, or `None` if more bytes are needed.
pub type ReadResult<'a> = Result<Option<(usize, Option<WireEvent<'a>>)>, FramingError>;

/// Calls `read` with the buffered bytes followed by `arrived`; `read` returns how many bytes it
/// consumed, and the rest is buffered. Bytes that are consumed as they arrive are not copied.
///
/// # Errors
///
/// Returns the error of `read`; the buffer is then unspecified.
#[inline]
pub fn read_buffered<E>(
    buffered: &mut Vec<u8>,
    arrived: &[u8],
    read: impl FnOnce(&[u8]) -> Result<usize, E>,
) -> Result<(), E> {
    if buffered.is_empty() {
        let done = read(arrived)?;
        buffered.extend_from_slice(&arrived[done..]);
        return Ok(());
    }
    buffered.extend_from_slice(arrived);
    let done = read(buffered)?;
    buffered.drain(..done);
    Ok(())
}

/// Parser of the byte stream of one connection.
#[derive(Debug)]
pub enum Reader {
    /// Lines: TCP and stdio.
    Lines(lines::LineReader),
    /// HTTP/1.1 responses.
    Responses(Box<responses::ResponseReader>),
    /// WebSocket frames, after the upgrade.
    Frames(Box<frames::FrameReader>),
}

impl Reader {
    /// Returns whether no part of the next message or response was read.
    #[inline]
    pub const fn is_at_message_start(&self) -> bool {
        match self {
            Self::Lines(reader) => reader.is_at_message_start(),
            Self::Responses(reader) => reader.is_at_message_start(),
            Self::Frames(reader) => reader.is_at_message_start(),
        }
    }

    /// Frees empty buffers with a capacity above `kept_bytes_max`.
    #[inline]
    pub fn shrink(&mut self, kept_bytes_max: usize) {
        match self {
            Self::Lines(_) => {}
            Self::Responses(reader) => reader.shrink(kept_bytes_max),
            Self::Frames(reader) => reader.shrink(kept_bytes_max),
        }
    }

    /// Gives up the excerpts of responses, for streams that stay open.
    pub fn stop_quoting(&mut self) {
        if let Self::Responses(reader) = self {
            reader.stop_quoting();
        }
    }

    /// Returns whether the current response is a successful SSE stream whose head has been read.
    #[inline]
    pub const fn is_in_event_stream(&self) -> bool {
        match self {
            Self::Responses(reader) => reader.is_in_event_stream(),
            Self::Lines(_) | Self::Frames(_) => false,
        }
    }

    /// Returns what has arrived of an incomplete message. `bytes` are those that were not consumed.
    pub fn partial_message(&self, bytes: &[u8]) -> Option<PartialMessage> {
        match self {
            Self::Responses(reader) => reader.partial_response(),
            _ if bytes.is_empty() => None,
            Self::Lines(_) => {
                let received = bytes.len() as u64;
                Some(PartialMessage { of: "the line", received, length: None })
            }
            Self::Frames(_) => Some(frames::partial_frame(bytes)),
        }
    }

    /// Handles the end of the stream. Returns whether it completes an HTTP response; then
    /// [`Reader::read_next`] returns the rest of its events without further bytes.
    pub fn end(&mut self) -> bool {
        match self {
            Self::Responses(reader) => reader.end(),
            Self::Lines(_) | Self::Frames(_) => false,
        }
    }

    /// Reads the next event from `bytes`. Returns how many bytes are consumed, and the event if
    /// there is one, or `None` if more bytes are needed. Unconsumed bytes must be passed again,
    /// followed by later ones.
    #[inline]
    pub fn read_next<'a>(&'a mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        match self {
            Self::Lines(reader) => reader.read_next(bytes),
            Self::Responses(reader) => reader.read_next(bytes),
            Self::Frames(reader) => reader.read_next(bytes),
        }
    }
}
