//! Messages of the parity dialect on connections of MCP: which they are, and errors in its terms.

use super::admission::{RawRequest, Request};
use super::held_requests::try_again;
use super::{Dispatcher, MessageContext};
use crate::connection::CloseReason;
use crate::protocol::eras::Lifecycle;
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::Id;
use crate::protocol::params::RequestParams;
use crate::protocol::parity::envelope::{Target, type_of};
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::write;
use crate::protocol::revision::Revision;
use crate::server::connection_state::{ConnectionState, PeerState};
use crate::server::options::ParityMode;
use crate::server::reply_to::PeerId;
use crate::telemetry::label::Transport;

/// Which dialects a server serves.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct ServedDialects {
    /// The only revision of MCP over HTTP (`http.strict`, `http.pinned`).
    pub(in crate::server) http_revision: Option<Revision>,
    pub(in crate::server) parity: ParityMode,
}

impl Dispatcher {
    /// Returns whether a message that is not JSON-RPC is one of the parity dialect: an object with
    /// a known `type` before any handshake, or whatever comes once the dialect is selected.
    #[cold]
    pub(super) fn is_envelope(
        &self,
        ctx: MessageContext,
        peer: &PeerState<'_>,
        value: Value<'_>,
    ) -> bool {
        let is_connection = matches!(ctx.reply_to.peer_id, PeerId::Connection(_));
        if !is_connection || ctx.in_batch || peer.state.transport == Transport::Http {
            return false;
        }
        match peer.state.lifecycle {
            Lifecycle::OtherDialect => true,
            Lifecycle::NotInitialized => {
                self.dialects.parity != ParityMode::Off && type_of(value).is_some()
            }
            Lifecycle::Initializing(_) | Lifecycle::Initialized(_) => false,
        }
    }

    /// Prepares a new connection, or one that is a WebSocket from now on: where no other dialect is
    /// served, its first message must be a handshake.
    pub(in crate::server) fn require_handshake(&mut self, state: &mut ConnectionState) {
        if self.dialects.parity == ParityMode::Only {
            state.lifecycle = Lifecycle::OtherDialect;
            self.facts.keep_parity_session(state, None, true);
        }
    }
}

/// Writes an error in the terms of the dialect. Where the first message must be a handshake, the
/// connection closes.
#[cold]
pub(super) fn write_parity_error(peer: &mut PeerState<'_>, id: Option<Id<'_>>, error: &Error) {
    write::error(peer.outgoing, id.map(Target::Request), &ParityError::from(error));
    if peer.state.requires_handshake() {
        let ends = !peer.state.transport.is_only_connection();
        peer.state.violation = ends.then_some(CloseReason::ProtocolViolation);
    }
}

impl Dispatcher {
    /// Authenticates the caller of a handshake of the dialect.
    ///
    /// # Errors
    ///
    /// It has no valid token, where one is needed.
    pub(in crate::server) fn check_handshake(
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
