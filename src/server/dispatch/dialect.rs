//! Messages of the parity dialect on connections of MCP: which they are, and errors in its terms.

use corelane_parity::envelope::type_of;
use corelane_parity::error::ParityError;
use corelane_parity::write;
use corelane_protocol::eras::Lifecycle;
use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::params::RequestParams;
use corelane_protocol::revision::Revision;

use super::admission::{RawRequest, Request};
use super::held_requests::try_again;
use super::{Dispatcher, MessageContext};
use crate::connection::CloseReason;
use crate::server::connection_state::{ConnectionState, PeerDialect, PeerState};
use crate::server::options::ParityMode;
use crate::server::reply_to::{Outcome, PeerId};
use crate::telemetry::label::Transport;

/// Which dialects a server serves.
#[derive(Clone, Copy, Debug)]
pub struct ServedDialects {
    /// The only revision of MCP over HTTP (`http.strict`, `http.pinned`).
    pub http_revision: Option<Revision>,
    pub parity: ParityMode,
}

impl Dispatcher {
    /// Selects the parity dialect for a connection whose message is not JSON-RPC but an object with
    /// a known `type`, before any handshake. Returns whether it is selected: then the message is
    /// not dispatched.
    #[cold]
    pub(super) fn selects_parity(
        &self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        value: Value<'_>,
    ) -> bool {
        let is_connection = matches!(ctx.reply_to.peer_id, PeerId::Connection(_));
        let may_select = is_connection
            && !ctx.in_batch
            && peer.state.transport != Transport::Http
            && peer.state.lifecycle == Lifecycle::NotInitialized
            && self.dialects.parity != ParityMode::Off;
        let selects = may_select && type_of(value).is_some();
        if selects {
            peer.state.dialect = PeerDialect::Parity;
        }
        selects
    }

    /// Prepares a new connection, or one that is a WebSocket from now on: where no other dialect is
    /// served, its first message must be a handshake.
    pub fn require_handshake(&self, state: &mut ConnectionState) {
        if self.dialects.parity == ParityMode::Only {
            state.dialect = PeerDialect::ParityHandshake;
        }
    }
}

/// Writes the error for a text that is not a message, in the terms of the dialect: it has no id.
/// Where the first message must be a handshake, the connection closes.
#[cold]
pub(super) fn write_parity_error(peer: &mut PeerState<'_>, error: &Error) -> Outcome {
    peer.outbox.count_error(error);
    write::error(peer.outgoing, None, &ParityError::from(error));
    if peer.state.dialect == PeerDialect::ParityHandshake {
        let ends = !peer.state.transport.is_only_connection();
        peer.state.violation = ends.then_some(CloseReason::ProtocolViolation);
    }
    Outcome::Error(error.kind)
}

impl Dispatcher {
    /// Authenticates the caller of a handshake of the dialect.
    ///
    /// # Errors
    ///
    /// It has no valid token, where one is needed.
    pub fn check_handshake(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
    ) -> Result<(), Error> {
        if !self.auth.is_active() {
            return Ok(());
        }
        let call_params = &RequestParams::default();
        let raw = RawRequest {
            id: Id::Signed(0),
            method: "ping",
            params: None,
            call_params,
            meta: &call_params.meta(),
        };
        // A handshake is not held: the client sends it again.
        let checked = self.check_caller(ctx, peer, &Request::ping(&raw));
        checked.map_err(|error| error.unwrap_or_else(try_again))
    }
}
