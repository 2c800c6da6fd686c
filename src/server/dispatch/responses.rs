//! Responses of clients to server requests, and texts that do not parse.
//!
//! Invariants: a response is never answered; a malformed one fails the request that it answers at
//! once. An unreadable message is answered with its id, if that can be read.
//!
//! JSON-RPC 2.0, section 5.

use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::{Id, InvalidMessage};
use corelane_protocol::message_head::MessageHead;

use super::admission::record_invalid;
use super::{Dispatcher, MessageContext, write_error, write_text_error};
use crate::server::connection_state::PeerState;
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
            let response = (id, outcome);
            return self.deferred.handle_response(peer_id, response, ctx.now, peer.outbox);
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
        write_text_error(peer, id, error)
    }
}
