//! A dialect, as its peers run it: a session sans-IO.

use std::sync::Arc;
use std::time::Duration;

use super::http::HttpRules;
use super::link::LinkSink;
use super::peer_settings::PeerSettings;
use super::workspace::Workspace;
use crate::error::ClientError;
use crate::reconnect::Reconnection;
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedText;

/// Where the messages of a session of `P` go over HTTP.
type QueueOf<P> = <<P as ClientProtocol>::Http as HttpRules>::Queue;

/// What an operation of a session needs.
pub(super) struct Step<'a, P: ClientProtocol> {
    /// Where messages go.
    pub(super) sink: LinkSink<'a, QueueOf<P>>,
    pub(super) workspace: &'a mut Workspace,
    pub(super) now: Instant,
}

/// What a session reports to its peer.
#[derive(Debug)]
pub(super) enum HandshakeEnd {
    /// The session is ready.
    Ready,
    /// Those that wait for the handshake fail.
    Failed(ClientError),
}

/// The session of a client with one server. It outlives its connections.
///
/// Its events are collected in the [`Workspace`], and handled once an operation has ended.
pub(super) trait ClientProtocol: Sized + 'static {
    /// What a server declares in the handshake.
    type Server;
    /// What a session reports.
    type Event;
    /// The session, which the responses over HTTP change.
    type Session;
    /// What it sends over HTTP.
    type Http: HttpRules<Server = Self::Server, Session = Self::Session>;

    /// Whether a session over HTTP is lost with its connections, and begun again after a delay.
    /// Otherwise each exchange is repeated by itself.
    const ENDS_WITH_HTTP: bool;

    /// Returns what the server has declared, while the session is ready.
    fn server(&self) -> Option<&Arc<Self::Server>>;

    /// Returns why the connection must end, if it must.
    fn failure(&self) -> Option<&ClientError>;

    /// Returns why the connection has ended, if the session or its stream knows.
    fn end_error(&mut self, stream: Option<ClientError>) -> Option<ClientError>;

    /// Returns when [`ClientProtocol::expire`] must be called next.
    fn deadline(&self) -> Option<Instant>;

    /// Returns whether nothing is in flight or waits.
    fn is_idle(&self) -> bool;

    /// Returns whether a request waits for the next connection.
    fn has_waiting(&self) -> bool;

    /// Begins the handshake.
    fn start(&mut self, step: &mut Step<'_, Self>);

    /// Handles one message of the server.
    fn receive(&mut self, text: PaddedText<'_>, step: &mut Step<'_, Self>);

    /// Handles a message that was too long, the response to the request `id` if that is known.
    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, step: &mut Step<'_, Self>);

    /// Sends what waits, as far as the sink is not full.
    fn send_waiting(&mut self, step: &mut Step<'_, Self>);

    /// Does what is due by now.
    fn expire(&mut self, step: &mut Step<'_, Self>);

    /// Notes the end of a connection, or of an attempt to open one. `is_established`: a handshake
    /// was complete before, and requests wait for the next one.
    fn handle_end(&mut self, error: &ClientError, is_established: bool);

    /// The connection is lost, and another one follows. Returns the least time before it.
    fn suspend(
        &mut self,
        error: &ClientError,
        reconnection: &Reconnection,
        workspace: &mut Workspace,
        now: Instant,
    ) -> Duration;

    /// The connection is lost, and none follows: every request fails.
    fn end(&mut self, error: &ClientError, workspace: &mut Workspace);

    /// Lets the next request begin anew after [`ClientProtocol::end`].
    fn reset(&mut self) {}

    /// The server has ended a connection that may know only an earlier handshake. Returns whether
    /// the session tries that one on the next connection.
    fn fall_back(&mut self, _error: &ClientError) -> bool {
        false
    }

    /// Lets nothing expire, while the user is asked for authorization.
    fn pause(&mut self, _now: Instant) {}

    /// Ends a pause.
    fn resume(&mut self, _now: Instant) {}

    fn session(&mut self) -> &mut Self::Session;

    /// Returns the events of the operation that has ended.
    fn events(workspace: &mut Workspace) -> &mut Vec<Self::Event>;

    /// Handles an event, unless it concerns the peer: that is returned.
    fn handle_session_event(
        &mut self,
        event: Self::Event,
        settings: &PeerSettings,
        workspace: &mut Workspace,
    ) -> Option<HandshakeEnd>;
}
