//! Messages over TCP and stdio that wait until the authorization server has said what their token
//! is.

use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::in_flight::RequestsInFlight;

use super::admission::{Request, request_counter};
use super::{Dispatcher, MessageContext};
use crate::server::connection_state::PeerState;
use crate::server::reply_to::PeerId;
use crate::server::waiting_requests::encode_request;
use crate::telemetry::label::Transport;

impl Dispatcher {
    /// Has a request wait for the answer about its token: its connection reads nothing more until
    /// then, and dispatches it again.
    ///
    /// # Errors
    ///
    /// The error response if it cannot wait: it is part of a batch or of a WebSocket connection,
    /// whose token was verified before, or there is no memory for it.
    #[cold]
    pub(super) fn hold_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let PeerId::Connection(key) = ctx.reply_to.peer_id else { return Err(try_again()) };
        if ctx.in_batch || peer.state.transport == Transport::WebSocket {
            return Err(try_again());
        }
        let mut text = encode_request(request.id(), request.method.as_str(), request.params());
        text.shrink_to_fit();
        let Self { held, handlers, deferred, .. } = self;
        let held_bytes = |in_flight: &RequestsInFlight| deferred.calls.argument_bytes(in_flight);
        let charge = handlers.charge(peer, text.capacity(), held_bytes)?;
        held.insert(key, text, charge);
        // It is counted again when it is dispatched.
        peer.outbox.counters.traffic.messages_in -= 1;
        *request_counter(&mut peer.outbox.counters.requests, Some(request.method)) -= 1;
        Ok(())
    }
}

/// The error for a request that is to be sent again.
pub(super) fn try_again() -> Error {
    Error::new(ErrorKind::TooManyRequests, "the token is being verified; try again")
        .with_data(r#"{"retryable":true,"retryAfterMs":1000}"#)
}
