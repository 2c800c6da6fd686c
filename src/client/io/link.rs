//! The connection of a server, whatever its transport.

use std::sync::Arc;

use super::http::{FlowRun, HttpAuthorization, HttpLink, HttpRules, UpgradeVerdict};
use super::loss::{ExitWait, Loss};
use super::messages::{ClosingSocket, MessageStream, StreamOutput};
use super::process::{ExitNotifier, ServerProcess};
use crate::error::ClientError;
use crate::parity_session::{ParityMessage, ParitySink};
use crate::session::{MessageSink, OutgoingMessage};
use corelane_base::time::Instant;
use corelane_engine::ring::{Ring, Socket};
use corelane_protocol::revision::Revision;

/// What a server needs of its thread after an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PeerAction {
    None,
    /// Open its streams.
    Connect,
}

/// The connection of a server. `H` are the rules of its session over HTTP.
pub(super) enum Link<H: HttpRules> {
    Idle,
    /// The next attempt to connect is not made before this.
    Waiting(Instant),
    Connecting,
    Open {
        stream: MessageStream,
        /// Dropping it ends the program.
        process: Option<Box<ServerProcess>>,
        /// The connection is lost, and the end of the program is awaited.
        exit_wait: Option<Box<ExitWait>>,
    },
    /// A flow obtains tokens for the upgrade to WebSocket.
    Authorizing(Box<HttpAuthorization>),
    /// Connections are opened as exchanges need them.
    Http(Box<HttpLink<H>>),
}

/// Where the messages of a session go. Nothing is sent before the connection is open.
pub(super) enum LinkSink<'a, Q> {
    Closed,
    Stream(&'a mut StreamOutput),
    Http(&'a mut Q),
}

impl<Q: MessageSink> MessageSink for LinkSink<'_, Q> {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        match self {
            Self::Closed => {}
            Self::Stream(output) => MessageSink::send(*output, message),
            Self::Http(queue) => queue.send(message),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Stream(output) => MessageSink::is_full(*output),
            Self::Http(queue) => queue.is_full(),
        }
    }

    fn receives_notifications(&self) -> bool {
        match self {
            Self::Closed | Self::Stream(_) => true,
            Self::Http(queue) => queue.receives_notifications(),
        }
    }

    fn request_notifications(&mut self, revision: Revision) {
        if let Self::Http(queue) = self {
            queue.request_notifications(revision);
        }
    }
}

impl<Q: ParitySink> ParitySink for LinkSink<'_, Q> {
    fn send(&mut self, message: ParityMessage<'_>) {
        match self {
            Self::Closed => {}
            Self::Stream(output) => ParitySink::send(*output, message),
            Self::Http(queue) => queue.send(message),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Stream(output) => ParitySink::is_full(*output),
            Self::Http(queue) => queue.is_full(),
        }
    }
}

impl<H: HttpRules> Link<H> {
    /// Returns the link over an open connection. Dropping it ends `process`.
    pub(super) fn open(stream: MessageStream, process: Option<ServerProcess>) -> Self {
        Self::Open { stream, process: process.map(Box::new), exit_wait: None }
    }

    /// Returns how the connection was lost: `loss`, or how the program behind it has ended. Returns
    /// `None` while that is awaited; [`Link::has_failed`] tells when it is known.
    pub(super) fn await_exit(&mut self, loss: Loss, now: Instant) -> Option<Loss> {
        let Self::Open { stream, process: Some(process), exit_wait } = self else {
            return Some(loss);
        };
        let is_lost = loss.has_ended() || loss.is_send_failure();
        let mut wait = match exit_wait.take() {
            Some(mut wait) => {
                wait.add(loss);
                wait
            }
            None if is_lost => Box::new(ExitWait::new(loss, now)),
            None => return Some(loss),
        };
        wait.check(process, stream.is_sending(), now);
        if wait.is_over() {
            return Some(wait.into_loss(process));
        }
        *exit_wait = Some(wait);
        None
    }

    /// Returns the open connection.
    pub(super) const fn stream(&mut self) -> Option<&mut MessageStream> {
        match self {
            Self::Open { stream, .. } => Some(stream),
            _ => None,
        }
    }

    /// Returns why the connections of HTTP are of no use, if that is known.
    pub(super) fn failure(&self) -> Option<&ClientError> {
        match self {
            Self::Http(link) => link.rules.failure(),
            _ => None,
        }
    }

    /// Returns the open connection if `socket` is one of it. A socket of a flow that has ended may
    /// still complete.
    pub(super) fn stream_of(&mut self, socket: Socket) -> Option<&mut MessageStream> {
        self.stream().filter(|stream| stream.sockets().contains(&socket))
    }

    /// Returns the flow that authorizes the requests or the upgrade, while it runs.
    pub(super) fn flow(&mut self) -> Option<&mut FlowRun> {
        match self {
            Self::Http(link) => link.flow(),
            Self::Authorizing(flow) => flow.run(),
            _ => None,
        }
    }

    /// Returns the link that follows a refused upgrade to WebSocket, or why there is none. The
    /// session is paused while the link is [`Link::Authorizing`].
    pub(super) fn after_refusal(
        verdict: UpgradeVerdict,
        now: Instant,
    ) -> Result<Self, Option<ClientError>> {
        match verdict {
            UpgradeVerdict::Other => Err(None),
            UpgradeVerdict::Refused(error) => Err(Some(error)),
            UpgradeVerdict::Repeat => Ok(Self::Waiting(now)),
            UpgradeVerdict::Authorize(flow) => Ok(Self::Authorizing(flow)),
        }
    }

    /// Returns how the authorization of the upgrade has ended, once it has; the link is connecting
    /// then.
    pub(super) fn take_authorized(&mut self) -> Option<Result<(), ClientError>> {
        let Self::Authorizing(flow) = self else { return None };
        // Tokens are stored now.
        let end = flow.take_end()?;
        *self = Self::Connecting;
        Some(end.error.map_or(Ok(()), Err))
    }

    /// Returns the flow that authorizes the upgrade if `socket` is its connection.
    pub(super) fn upgrade_flow_of(&mut self, socket: Socket) -> Option<&mut FlowRun> {
        match self {
            Self::Authorizing(flow) => flow.run().filter(|flow| flow.owns(socket)),
            _ => None,
        }
    }

    pub(super) fn sink(&mut self) -> LinkSink<'_, H::Queue> {
        match self {
            Self::Open { stream, .. } => LinkSink::Stream(stream.output()),
            Self::Http(link) => LinkSink::Http(link.rules.queue()),
            Self::Idle | Self::Waiting(_) | Self::Connecting | Self::Authorizing(_) => {
                LinkSink::Closed
            }
        }
    }

    /// Returns when the link must be looked at next.
    pub(super) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Http(link) => link.deadline(now),
            Self::Open { exit_wait: Some(wait), .. } => wait.deadline(),
            Self::Open { stream, .. } => stream.deadline(),
            Self::Waiting(until) => Some(*until),
            Self::Authorizing(flow) => flow.deadline(),
            Self::Idle | Self::Connecting => None,
        }
    }

    /// Ends what has timed out by now. Returns whether the next attempt to connect is due.
    pub(super) fn expire(&mut self, ring: &mut dyn Ring, now: Instant) -> bool {
        match self {
            Self::Open { stream, process: Some(process), exit_wait: Some(wait) } => {
                wait.check(process, stream.is_sending(), now);
            }
            Self::Open { stream, .. } => stream.expire(now),
            Self::Waiting(until) if *until <= now => {
                *self = Self::Idle;
                return true;
            }
            Self::Authorizing(flow) => flow.expire(ring, now),
            Self::Waiting(_) | Self::Idle | Self::Connecting | Self::Http(_) => {}
        }
        false
    }

    /// Returns whether the connection must end although it is open: the session `has_ended`, or the
    /// server has violated the protocol.
    pub(super) fn has_failed(&self, has_ended: bool) -> bool {
        match self {
            Self::Http(link) => link.rules.is_lost() || has_ended,
            Self::Open { exit_wait: Some(wait), .. } => wait.is_over(),
            Self::Open { stream, .. } => stream.failure().is_some() || has_ended,
            Self::Idle | Self::Waiting(_) | Self::Connecting | Self::Authorizing(_) => false,
        }
    }

    /// Returns whether nothing has to be sent before the connection is closed by the client.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Http(link) => link.is_closed(),
            _ => true,
        }
    }

    /// Closes the connection, of which the input `has_ended` or not. Returns the socket to read to
    /// its end; `exit` is held until then.
    pub(super) fn close(
        &mut self,
        ring: &mut dyn Ring,
        has_ended: bool,
        exit: &Arc<ExitNotifier>,
    ) -> Option<ClosingSocket> {
        match self {
            Self::Open { stream, exit_wait, .. } => {
                let has_ended = has_ended || exit_wait.as_ref().is_some_and(|it| it.has_ended());
                stream.close(ring, has_ended, exit)
            }
            Self::Http(link) => {
                link.close(ring);
                None
            }
            Self::Authorizing(flow) => {
                flow.cancel(ring);
                None
            }
            Self::Idle | Self::Waiting(_) | Self::Connecting => None,
        }
    }
}
