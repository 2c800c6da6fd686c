//! One server, whatever its dialect.

use super::connect::{OpenError, RegisteredStreams};
use super::http::FlowRun;
use super::input_tasks::FinishedInput;
use super::link::{Link, PeerAction};
use super::messages::ClosingSocket;
use super::parity::ParityPeer;
use super::peer::Peer;
use super::peer_handle::PeerHandle;
use super::stream::Loss;
use super::workspace::Workspace;
use crate::base::time::Instant;
use crate::client::oneshot::CloseSlot;
use crate::engine::ring::{ReceiveBuffer, Ring, Socket};

/// One server.
pub(super) enum AnyPeer {
    /// It speaks MCP.
    Mcp(Box<Peer>),
    /// It speaks the parity dialect.
    Parity(Box<ParityPeer>),
}

impl AnyPeer {
    pub(super) fn handle(&self) -> &PeerHandle {
        match self {
            Self::Mcp(peer) => peer.handle(),
            Self::Parity(peer) => peer.handle(),
        }
    }

    pub(super) fn link(&mut self) -> &mut Link {
        match self {
            Self::Mcp(peer) => peer.link(),
            Self::Parity(peer) => peer.link(),
        }
    }

    /// Returns the flow that authorizes the requests or the upgrade, while it runs.
    pub(super) fn flow(&mut self) -> Option<&mut FlowRun> {
        self.link().flow()
    }

    /// Lets the authorization of HTTP requests go on.
    pub(super) fn advance_authorization(&mut self, workspace: &mut Workspace, now: Instant) {
        if let Self::Mcp(peer) = self {
            peer.with_http(workspace, now, |link, input| {
                let (authorization, queue) = link.authorization();
                authorization.advance(queue, input);
            });
        }
    }

    /// Starts what can be started. Returns the number of connections to open.
    pub(super) fn advance<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> usize {
        match self {
            Self::Mcp(peer) => peer.advance(ring, workspace, now),
            Self::Parity(peer) => peer.advance(ring),
        }
    }

    /// Handles the end of an attempt to connect; returns the sockets of the connection.
    pub(super) fn handle_opened<R: Ring>(
        &mut self,
        opened: Result<RegisteredStreams, OpenError>,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]> {
        match self {
            Self::Mcp(peer) => peer.handle_opened(opened, ring, workspace, now),
            Self::Parity(peer) => peer.handle_opened(opened, ring, workspace, now),
        }
    }

    /// Handles received bytes.
    #[inline]
    pub(super) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        received: (Socket, &ReceiveBuffer),
        workspace: &mut Workspace,
        now: Instant,
    ) {
        match self {
            Self::Mcp(peer) => peer.receive(ring, received, workspace, now),
            Self::Parity(peer) => peer.receive(ring, received, workspace, now),
        }
    }

    /// Handles the end of a send. Returns `false` if the connection is lost.
    #[inline]
    pub(super) fn handle_sent(
        &mut self,
        socket: Socket,
        sent: Result<Vec<u8>, ()>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        match self {
            Self::Mcp(peer) => peer.handle_sent(socket, sent, workspace, now),
            Self::Parity(peer) => peer.handle_sent(socket, sent, workspace, now),
        }
    }

    /// Handles the end or the failure of a socket. Returns `false` if the connection is lost.
    pub(super) fn handle_socket_end<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, loss): (Socket, &Loss),
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool {
        match self {
            Self::Mcp(peer) => peer.handle_socket_end(ring, socket, loss, workspace, now),
            Self::Parity(peer) => peer.handle_socket_end(ring, (socket, loss), workspace, now),
        }
    }

    /// Handles the loss of the connection.
    pub(super) fn handle_lost<R: Ring>(
        &mut self,
        ring: &mut R,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> (PeerAction, Option<ClosingSocket>) {
        match self {
            Self::Mcp(peer) => peer.handle_lost(ring, loss, workspace, now),
            Self::Parity(peer) => peer.handle_lost(ring, loss, workspace, now),
        }
    }

    /// Ends the connection on behalf of the client.
    pub(super) fn begin_close<R: Ring>(
        &mut self,
        ring: &mut R,
        slot: Option<CloseSlot>,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        match self {
            Self::Mcp(peer) => peer.begin_close(ring, slot, workspace, now),
            Self::Parity(peer) => peer.begin_close(ring, slot, workspace, now),
        }
    }

    /// Returns whether nothing of the connection is left to end.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Mcp(peer) => peer.is_closed(),
            Self::Parity(peer) => peer.is_closed(),
        }
    }

    /// Closes what is left of the connection.
    pub(super) fn close<R: Ring>(&mut self, ring: &mut R) -> Option<ClosingSocket> {
        match self {
            Self::Mcp(peer) => peer.close(ring, false),
            Self::Parity(peer) => peer.close(ring, false),
        }
    }

    /// Handles an expired timer.
    pub(super) fn expire<R: Ring>(
        &mut self,
        ring: &mut R,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction {
        match self {
            Self::Mcp(peer) => peer.expire(ring, workspace, now),
            Self::Parity(peer) => peer.expire(ring, workspace, now),
        }
    }

    /// Returns the deadline for which a timer must be set.
    #[inline]
    pub(super) fn arm_timer(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Mcp(peer) => peer.arm_timer(now),
            Self::Parity(peer) => peer.arm_timer(now),
        }
    }

    /// Returns whether the connection must end although it is open.
    #[inline]
    pub(super) fn has_failed(&self, now: Instant) -> bool {
        match self {
            Self::Mcp(peer) => peer.has_failed(now),
            Self::Parity(peer) => peer.has_failed(now),
        }
    }

    /// Passes on what a handler of input has provided.
    pub(super) fn provide_input(
        &mut self,
        finished: &FinishedInput,
        workspace: &mut Workspace,
        now: Instant,
    ) {
        if let Self::Mcp(peer) = self {
            peer.provide_input(finished, workspace, now);
        }
    }
}
