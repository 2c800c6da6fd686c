//! A server of any dialect, as the driver moves its bytes.

use std::any::Any;
use std::io;

use super::connect::{OpenError, RegisteredStreams};
use super::http::FlowRun;
use super::link::PeerAction;
use super::loss::Loss;
use super::messages::{ClosingSocket, MessageStream};
use super::peer_settings::PeerSettings;
use super::workspace::Workspace;
use crate::sync::CloseSlot;
use corelane_base::time::Instant;
use corelane_engine::ring::{ReceiveBuffer, Ring, Socket};

/// What the driver does with a server.
pub(super) trait PeerIo: Any {
    /// Returns its address, and how to talk to it.
    fn settings(&self) -> &PeerSettings;

    /// Returns the open connection, unless it is one of HTTP.
    fn stream(&mut self) -> Option<&mut MessageStream>;

    /// Returns the flow that authorizes the requests or the upgrade, while it runs.
    fn flow(&mut self) -> Option<&mut FlowRun>;

    /// Returns how the connection was lost, or `None` while the end of its program is awaited.
    fn await_exit(&mut self, loss: Loss, now: Instant) -> Option<Loss>;

    /// Lets the authorization of HTTP requests go on.
    fn advance_authorization(&mut self, workspace: &mut Workspace, now: Instant);

    /// Starts what can be started. Returns the number of connections to open.
    fn advance(&mut self, ring: &mut dyn Ring, workspace: &mut Workspace, now: Instant) -> usize;

    /// Handles the end of an attempt to connect; returns the sockets of the connection.
    fn handle_opened(
        &mut self,
        opened: Result<RegisteredStreams, OpenError>,
        ring: &mut dyn Ring,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Option<[Socket; 2]>;

    /// Handles received bytes.
    fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        buffer: &ReceiveBuffer,
        workspace: &mut Workspace,
        now: Instant,
    );

    /// Handles the end of a send. Returns `false` if the connection is lost.
    fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool;

    /// Handles the end or the failure of a socket. Returns `false` if the connection is lost.
    fn handle_socket_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> bool;

    /// Handles the loss of the connection. Returns the socket to read to its end.
    fn handle_lost(
        &mut self,
        ring: &mut dyn Ring,
        loss: &Loss,
        workspace: &mut Workspace,
        now: Instant,
    ) -> (PeerAction, Option<ClosingSocket>);

    /// Ends the connection on behalf of the client; `slot` is set once this value is dropped and
    /// its programs have ended.
    fn begin_close(
        &mut self,
        ring: &mut dyn Ring,
        slot: Option<CloseSlot>,
        workspace: &mut Workspace,
        now: Instant,
    );

    /// Returns whether nothing of the connection is left to end since [`PeerIo::begin_close`].
    fn is_closed(&self) -> bool;

    /// Closes what is left of the connection, of which the input `has_ended` or not. Returns the
    /// socket to read to its end.
    fn close(&mut self, ring: &mut dyn Ring, has_ended: bool) -> Option<ClosingSocket>;

    /// Handles an expired timer.
    fn expire(
        &mut self,
        ring: &mut dyn Ring,
        workspace: &mut Workspace,
        now: Instant,
    ) -> PeerAction;

    /// Returns the deadline for which a timer must be set.
    fn arm_timer(&mut self, now: Instant) -> Option<Instant>;

    /// Returns whether the connection must end although it is open: its session has ended, the
    /// server has violated the protocol, or nothing has been in flight for too long.
    fn has_failed(&self, now: Instant) -> bool;
}
