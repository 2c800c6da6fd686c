//! The codec of a connection and the state of its parser.

use super::websocket_state::WebSocketState;
use crate::base::time::Instant;
use crate::transport::http::reader::RequestReader;
use crate::transport::ndjson::LineReader;
use crate::transport::websocket::reader::FrameReader;

/// The codec of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Codec {
    /// Newline-delimited JSON.
    #[default]
    Ndjson,
    /// HTTP/1.1 requests.
    Http,
    /// WebSocket frames, after [`crate::connection::Connections::upgrade_to_websocket`].
    WebSocket,
}

/// The parser state of a connection.
#[derive(Debug)]
pub(super) enum CodecState {
    Ndjson(LineReader),
    Http(RequestReader),
    WebSocket(Box<WebSocketState>),
}

impl CodecState {
    pub(super) fn new(codec: Codec, now: Instant) -> Self {
        match codec {
            Codec::Ndjson => Self::Ndjson(LineReader::new()),
            Codec::Http => Self::Http(RequestReader::new()),
            Codec::WebSocket => Self::upgraded(FrameReader::new(), now),
        }
    }

    /// Creates the state of a connection that is upgraded to WebSocket.
    pub(super) fn upgraded(reader: FrameReader, now: Instant) -> Self {
        Self::WebSocket(Box::new(WebSocketState::new(reader, now)))
    }

    pub(super) const fn codec(&self) -> Codec {
        match self {
            Self::Ndjson(_) => Codec::Ndjson,
            Self::Http(_) => Codec::Http,
            Self::WebSocket(_) => Codec::WebSocket,
        }
    }

    /// Returns the bytes of the incomplete message.
    pub(super) const fn held_bytes(&self) -> usize {
        match self {
            Self::Ndjson(reader) => reader.held_bytes(),
            Self::Http(reader) => reader.held_bytes(),
            Self::WebSocket(frames) => frames.held_bytes(),
        }
    }

    /// Discards the incomplete message and returns its buffer.
    pub(super) fn discard_partial(&mut self) -> Vec<u8> {
        match self {
            Self::Ndjson(reader) => reader.skip_line().unwrap_or_default(),
            Self::Http(reader) => reader.discard_request(),
            Self::WebSocket(frames) => frames.discard_messages(),
        }
    }
}
