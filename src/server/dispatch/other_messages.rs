//! Messages that are no requests of MCP: responses of clients to server requests, texts that do not
//! parse, and messages of the parity dialect.
//!
//! Invariants: a response is never answered; a malformed one fails the request that it answers at
//! once. An unreadable message is answered with its id, if that can be read, in the terms of the
//! dialect.
//!
//! JSON-RPC 2.0, section 5.

use corelane_parity::envelope::type_of;
use corelane_parity::error::ParityError;
use corelane_parity::write;
use corelane_protocol::eras::Lifecycle;
use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::{Id, InvalidMessage};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::params::RequestParams;
use corelane_protocol::revision::Revision;

use super::admission::{RawRequest, Request, record_invalid, try_again};
use super::{Dispatcher, MessageContext, write_error, write_text_error};
use crate::connection::CloseReason;
use crate::server::connection_state::{ConnectionState, PeerDialect, PeerState};
use crate::server::options::ParityMode;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::service::ClientRequestError;
use crate::telemetry::label::Transport;

impl Dispatcher {
    /// Handles a response of a client.
    pub(super) fn handle_response(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        id: Option<Id<'_>>,
        outcome: Result<Value<'_>, Value<'_>>,
    ) {
        let (peer_id, in_flight) = (ctx.reply_to.peer_id, &peer.state.in_flight);
        if let None | Some(Id::Text(_)) = id {
            return self.deferred.handle_response(peer_id, id, outcome, ctx.now, peer.outbox);
        }
        // The ids of server requests are texts.
        let error = Error::invalid_request("the \"id\" of a response must be that of its request");
        let error = ClientRequestError::invalid_message(error);
        self.deferred.fail_answered(peer_id, in_flight, None, error, ctx.now, peer.outbox);
    }

    /// Handles a message that is not valid JSON-RPC.
    #[cold]
    pub(super) fn handle_invalid(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        invalid: &InvalidMessage<'_>,
    ) -> Outcome {
        let InvalidMessage { id, is_response, error, .. } = invalid;
        record_invalid(ctx, peer);
        let answers = |id: &Id<'_>| self.deferred.awaits_answer(ctx.reply_to.peer_id, *id);
        if *is_response || id.as_ref().is_some_and(answers) {
            return self.reject_response(ctx, peer, *id, error);
        }
        write_error(peer, *id, error, peer.state.lifecycle.revision())
    }

    /// Fails the request that a malformed response answers. Only over HTTP, whose requests need a
    /// status, an error without id is written.
    #[cold]
    fn reject_response(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        id: Option<Id<'_>>,
        error: &Error,
    ) -> Outcome {
        let MessageContext { reply_to: ReplyTo { peer_id, stream }, now, in_batch, .. } = ctx;
        let reason = ClientRequestError::invalid_message(error.clone());
        let in_flight = &peer.state.in_flight;
        self.deferred.fail_answered(peer_id, in_flight, id, reason, now, peer.outbox);
        let is_post = matches!(peer_id, PeerId::HttpSession(_)) && stream != ReplyTo::STANDALONE;
        if is_post && !in_batch && peer.state.transport == Transport::Http {
            return write_error(peer, None, error, peer.state.lifecycle.revision());
        }
        Outcome::None
    }

    /// Handles a text that does not parse or is too long, of which `head` can be read. Writes the
    /// error, unless the text is a response.
    #[cold]
    pub fn reject_text(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        head: &MessageHead,
        error: &Error,
    ) -> Outcome {
        let id = head.id();
        if head.is_response() && !peer.state.dialect.is_parity() {
            let outcome = self.reject_response(ctx, peer, id, error);
            peer.outbox.count_outcome(outcome);
            return outcome;
        }
        write_text_error(peer, head, error)
    }
}

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
            && self.serves_parity();
        let selects = may_select && type_of(value).is_some();
        if selects {
            peer.state.dialect = PeerDialect::Parity;
        }
        selects
    }

    /// Returns whether the first message of a connection may be one of the parity dialect.
    pub fn serves_parity(&self) -> bool {
        self.dialects.parity != ParityMode::Off
    }

    /// Prepares a new connection, or one that is a WebSocket from now on: where no other dialect is
    /// served, its first message must be a handshake.
    pub fn require_handshake(&self, state: &mut ConnectionState) {
        if self.dialects.parity == ParityMode::Only {
            state.dialect = PeerDialect::ParityHandshake;
        }
    }
}

/// Writes the error for a text that is not a message, in the terms of the dialect. Where the first
/// message must be a handshake, the connection closes.
#[cold]
pub(super) fn write_parity_error(
    peer: &mut PeerState<'_>,
    head: &MessageHead,
    error: &Error,
) -> Outcome {
    peer.outbox.count_error(error);
    let sent = ParityError::from(error);
    peer.outbox.record_refusal(peer.state.transport, head, &[], &sent);
    write::rejection(peer.outgoing, head, &sent);
    if peer.state.dialect == PeerDialect::ParityHandshake {
        peer.state.violation = Some(CloseReason::ProtocolViolation);
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
