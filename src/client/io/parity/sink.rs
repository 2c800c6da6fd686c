//! Where the messages of a session go: its stream, or HTTP requests.

use super::http::ParityOutbox;
use crate::client::io::link::LinkSink;
use crate::client::parity_session::{ParityMessage, ParitySink};

/// Where the messages of a session go.
pub(super) enum PeerSink<'a> {
    Link(LinkSink<'a>),
    Http(&'a mut ParityOutbox),
}

impl ParitySink for PeerSink<'_> {
    fn send(&mut self, message: ParityMessage<'_>) {
        match self {
            Self::Link(sink) => ParitySink::send(sink, message),
            Self::Http(outbox) => outbox.send(message),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Link(sink) => ParitySink::is_full(sink),
            Self::Http(outbox) => outbox.is_full(),
        }
    }
}
