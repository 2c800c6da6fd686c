//! The connection of a server, whatever its transport.

use std::sync::Arc;

use super::http::{FlowRun, HttpLink, HttpQueue};
use super::messages::{ClosingSocket, MessageStream, StreamOutput};
use super::process::{ExitNotifier, ServerProcess};
use crate::base::time::Instant;
use crate::client::session::{MessageSink, OutgoingMessage};
use crate::engine::ring::Ring;

/// What a server needs of its thread after an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PeerAction {
    None,
    /// Open its streams.
    Connect,
}

#[derive(Debug)]
pub(super) enum Link {
    Idle,
    /// The next attempt to connect is not made before this.
    Waiting(Instant),
    Connecting,
    Open {
        stream: MessageStream,
        #[expect(dead_code, reason = "dropping it ends the program")]
        process: Option<Box<ServerProcess>>,
    },
    /// Connections are opened as exchanges need them.
    Http(Box<HttpLink>),
}

/// Where the messages of a session go. Nothing is sent before the connection is open.
pub(super) enum LinkSink<'a> {
    Closed,
    Stream(&'a mut StreamOutput),
    Http(&'a mut HttpQueue),
}

impl MessageSink for LinkSink<'_> {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        match self {
            Self::Closed => {}
            Self::Stream(output) => output.send(message),
            Self::Http(queue) => queue.send(message),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Stream(output) => output.is_full(),
            Self::Http(queue) => queue.is_full(),
        }
    }

    fn receives_notifications(&self) -> bool {
        match self {
            Self::Closed | Self::Stream(_) => true,
            Self::Http(queue) => queue.receives_notifications(),
        }
    }
}

impl Link {
    /// Returns the open connection.
    pub(super) const fn stream(&mut self) -> Option<&mut MessageStream> {
        match self {
            Self::Open { stream, .. } => Some(stream),
            Self::Idle | Self::Waiting(_) | Self::Connecting | Self::Http(_) => None,
        }
    }

    /// Returns the flow that authorizes the requests, while it runs.
    pub(super) fn flow(&mut self) -> Option<&mut FlowRun> {
        if let Self::Http(link) = self { link.authorization().0.run() } else { None }
    }

    pub(super) const fn sink(&mut self) -> LinkSink<'_> {
        match self {
            Self::Open { stream, .. } => LinkSink::Stream(stream.output()),
            Self::Http(link) => LinkSink::Http(link.queue()),
            Self::Idle | Self::Waiting(_) | Self::Connecting => LinkSink::Closed,
        }
    }

    /// Returns when the link must be looked at next.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Http(link) => link.deadline(now),
            Self::Open { stream, .. } => stream.deadline(),
            Self::Waiting(until) => Some(*until),
            Self::Idle | Self::Connecting => None,
        }
    }

    /// Ends what has timed out by now. Returns whether the next attempt to connect is due.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        match self {
            Self::Open { stream, .. } => stream.expire(now),
            Self::Waiting(until) if *until <= now => {
                *self = Self::Idle;
                return true;
            }
            Self::Waiting(_) | Self::Idle | Self::Connecting | Self::Http(_) => {}
        }
        false
    }

    /// Returns whether the connection must end although it is open: the session `has_ended`, or the
    /// server has violated the protocol.
    pub(super) fn has_failed(&self, has_ended: bool) -> bool {
        match self {
            Self::Http(link) => link.is_lost() || has_ended,
            Self::Open { stream, .. } => stream.failure().is_some() || has_ended,
            Self::Idle | Self::Waiting(_) | Self::Connecting => false,
        }
    }

    /// Returns whether nothing has to be sent before the connection is closed by the client.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Http(link) => link.is_closed(),
            Self::Idle | Self::Waiting(_) | Self::Connecting | Self::Open { .. } => true,
        }
    }

    /// Closes the connection, of which the input `has_ended` or not. Returns the socket to read to
    /// its end; `exit` is held until then.
    pub(super) fn close<R: Ring>(
        &mut self,
        ring: &mut R,
        has_ended: bool,
        exit: &Arc<ExitNotifier>,
    ) -> Option<ClosingSocket> {
        match self {
            Self::Open { stream, .. } => stream.close(ring, has_ended, exit),
            Self::Http(link) => {
                link.close(ring);
                None
            }
            Self::Idle | Self::Waiting(_) | Self::Connecting => None,
        }
    }
}
