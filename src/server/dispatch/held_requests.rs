//! Messages that wait: for the authorization server to say what their token is, or for the response
//! to the request before (`stdio.sequential`).

use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::in_flight::RequestsInFlight;

use super::admission::{RawRequest, Request, request_counter};
use super::{Dispatcher, MessageContext, write_error};
use crate::server::connection_state::PeerState;
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId};
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

impl Dispatcher {
    /// Returns whether a request has to wait for those in flight. One whose id is in flight gets an
    /// error at once.
    #[cold]
    pub(super) fn must_wait(
        &self,
        ctx: MessageContext,
        peer: &PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> bool {
        let in_flight = &peer.state.in_flight;
        peer.state.transport == Transport::Stdio
            && matches!(ctx.reply_to.peer_id, PeerId::Connection(_))
            && self.waiting.defers(in_flight)
            && !in_flight.contains(raw.id)
    }

    /// Has a request wait, or responds that there is no memory for that.
    #[cold]
    pub(super) fn queue_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let Self { waiting, handlers, deferred, .. } = self;
        let text = encode_request(raw.id, raw.method, raw.params);
        let held_bytes = |in_flight: &RequestsInFlight| {
            deferred.calls.argument_bytes(in_flight) + waiting.held_bytes()
        };
        let charge = match handlers.charge(peer, text.capacity(), held_bytes) {
            Ok(charge) => charge,
            Err(error) => {
                let revision = peer.state.lifecycle.revision();
                return write_error(peer, Some(raw.id), &error, revision);
            }
        };
        waiting.push((raw.id, text), charge, &mut peer.state.in_flight);
        // It is counted again when it starts.
        let messages_in = &mut peer.outbox.counters.traffic.messages_in;
        *messages_in -= u64::from(!ctx.in_batch);
        if let PeerId::Connection(key) = ctx.reply_to.peer_id
            && waiting.is_full()
        {
            peer.outbox.push(Effect::HoldInput(key));
        }
        Outcome::None
    }
}
