//! Requests that have to wait for the response to the one before (`stdio.sequential`).

use corelane_protocol::in_flight::RequestsInFlight;

use super::admission::RawRequest;
use super::{Dispatcher, MessageContext, write_error};
use crate::server::connection_state::PeerState;
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::waiting_requests::encode_request;
use crate::telemetry::label::Transport;

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
