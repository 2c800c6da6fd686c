//! The connection of a server, whatever its transport.

use super::connect::ServerProcess;
use super::http::{HttpLink, HttpQueue};
use super::line_stream::{LineOutput, LineStream};
use crate::client::session::{MessageSink, OutgoingMessage};

#[derive(Debug)]
pub(super) enum Link {
    Idle,
    Connecting,
    Open {
        stream: LineStream,
        #[expect(dead_code, reason = "dropping it ends the program")]
        process: Option<ServerProcess>,
    },
    /// Connections are opened as exchanges need them.
    Http(Box<HttpLink>),
}

/// Where the messages of a session go. Nothing is sent before the connection is open.
pub(super) enum LinkSink<'a> {
    Closed,
    Lines(&'a mut LineOutput),
    Http(&'a mut HttpQueue),
}

impl MessageSink for LinkSink<'_> {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        match self {
            Self::Closed => {}
            Self::Lines(output) => output.send(message),
            Self::Http(queue) => queue.send(message),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Lines(output) => output.is_full(),
            Self::Http(queue) => queue.is_full(),
        }
    }
}

impl Link {
    pub(super) const fn sink(&mut self) -> LinkSink<'_> {
        match self {
            Self::Open { stream, .. } => LinkSink::Lines(stream.output()),
            Self::Http(link) => LinkSink::Http(link.queue()),
            Self::Idle | Self::Connecting => LinkSink::Closed,
        }
    }
}
