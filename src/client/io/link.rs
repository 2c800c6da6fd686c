//! The connection of a server, whatever its transport.

use std::io;

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

    fn receives_notifications(&self) -> bool {
        match self {
            Self::Closed | Self::Lines(_) => true,
            Self::Http(queue) => queue.receives_notifications(),
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

/// How a connection was lost.
#[derive(Debug)]
pub(super) enum Loss {
    /// The server ended it, or receiving failed.
    EndOfStream(io::Result<()>),
    /// Sending failed.
    Send(io::Error),
    /// The handshake failed.
    Handshake,
}

impl Loss {
    /// Returns the error of the system, if there is one.
    pub(super) const fn error(&self) -> Option<&io::Error> {
        match self {
            Self::EndOfStream(Err(error)) | Self::Send(error) => Some(error),
            Self::EndOfStream(Ok(())) | Self::Handshake => None,
        }
    }
}
