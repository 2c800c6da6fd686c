//! The HTTP connections of a session, as its peer uses them.

use super::authorization::{FlowRun, RedirectSender};
use crate::base::time::Instant;
use crate::client::error::ClientError;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::stream::Loss;
use crate::client::target::HttpEndpoint;
use crate::engine::ring::{Ring, Socket};

/// The connections of one session, and what waits for them.
pub(in crate::client::io) trait HttpCarrier {
    /// What the server declares in the handshake.
    type Server;
    /// Where the session sends its messages.
    type Queue;
    /// The session, with what its methods are passed except the sink.
    type Input<'a>;

    /// Creates it without connections. `seed` determines its delays.
    fn new(
        endpoint: &HttpEndpoint,
        handle: &PeerHandle,
        redirects: &RedirectSender,
        seed: u64,
    ) -> Self;

    /// Returns where the session sends its messages.
    fn queue(&mut self) -> &mut Self::Queue;

    /// Returns the flow that authorizes the requests, while it runs.
    fn flow(&mut self) -> Option<&mut FlowRun> {
        None
    }

    /// Lets the authorization of the requests go on.
    fn advance_authorization(&mut self, _input: &mut Self::Input<'_>) {}

    /// Handles the end of a handshake.
    fn handle_ready(&mut self, server: &Self::Server);

    /// Lets the session send what it can, and starts the exchanges that can be. Returns the number
    /// of connections to open for others.
    fn advance(&mut self, ring: &mut dyn Ring, input: &mut Self::Input<'_>) -> usize;

    /// Adds an open connection.
    fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket);

    /// Handles a connection that cannot be opened.
    fn handle_connect_failure(&mut self, error: ClientError, input: &mut Self::Input<'_>);

    /// Handles received bytes.
    fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        bytes: &[u8],
        input: &mut Self::Input<'_>,
    );

    /// Handles the end of a send.
    fn handle_sent(&mut self, socket: Socket, is_failed: bool, now: Instant);

    /// Handles the end or the failure of a connection.
    fn handle_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        input: &mut Self::Input<'_>,
    );

    /// Returns when [`HttpCarrier::expire`] must be called next.
    fn deadline(&self, now: Instant) -> Option<Instant>;

    /// Ends what has timed out, and what the session no longer waits for.
    fn expire(&mut self, ring: &mut dyn Ring, input: &mut Self::Input<'_>);

    /// Returns whether the session is of no use any more.
    fn is_lost(&self) -> bool;

    /// Returns why it is, if that is known.
    fn failure(&self) -> Option<&ClientError> {
        None
    }

    /// Closes the connections, except those needed to end the session on the server.
    fn begin_close(&mut self, ring: &mut dyn Ring, server: Option<&Self::Server>, now: Instant);

    /// Returns whether nothing is left since [`HttpCarrier::begin_close`].
    fn is_closed(&self) -> bool;

    /// Closes the connections.
    fn close(&mut self, ring: &mut dyn Ring);
}
