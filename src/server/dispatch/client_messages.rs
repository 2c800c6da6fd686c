//! Responses, progress and cancellations from clients.
//!
//! Invariants: only the peer that received a request can answer it; a response without an open
//! request (unknown, answered before, too late) changes nothing and is counted.

use super::{Dispatcher, MessageContext};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::Id;
use crate::protocol::params::{CancelledNotificationParams, ProgressNotificationParams};
use crate::server::client_requests::{Requester, ResponseKind};
use crate::server::connection_state::PeerState;
use crate::server::handlers::HandlerEvent;
use crate::server::subscriptions::SubscriptionRegistry;

impl Dispatcher {
    /// Handles a response to a server request.
    pub(super) fn handle_response(
        &mut self,
        ctx: MessageContext,
        id: Option<Id<'_>>,
        outcome: Result<Value<'_>, Value<'_>>,
    ) {
        self.counters.requests.responses += 1;
        let answered =
            id.and_then(|id| self.client_requests.take_answered(ctx.reply_to.peer_id, id));
        let Some((number, client_request)) = answered else {
            self.counters.client_requests.unmatched_responses += 1;
            return;
        };
        self.counters.client_requests.answered += 1;
        let (requester, elicitation_id) =
            (client_request.requester, client_request.elicitation_id());
        self.finish_client_request(requester, number, ctx.now);
        match client_request.complete(outcome) {
            ResponseKind::Answered => {}
            ResponseKind::UrlAccepted => self.record_accepted_url(requester, elicitation_id),
            ResponseKind::Malformed => self.counters.client_requests.malformed_responses += 1,
        }
    }

    /// Closes client request `number`: its handler continues.
    pub(in crate::server) fn finish_client_request(
        &mut self,
        requester: Requester,
        number: u64,
        now: Instant,
    ) {
        match requester {
            Requester::Call(call_id) => self.calls.finish_client_request(call_id, number, now),
            Requester::Task(task) => self.tasks.remove_client_request(task, number, now),
        }
    }

    /// Records an accepted URL elicitation; it completes when the handler ends.
    fn record_accepted_url(&mut self, requester: Requester, elicitation_id: Option<Box<str>>) {
        match requester {
            Requester::Call(call_id) => self.calls.record_accepted_url(call_id, elicitation_id),
            Requester::Task(task) => {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.client_requests.record_accepted_url(elicitation_id);
                }
            }
        }
    }

    /// `notifications/progress`: extends the timeout of the server request.
    pub(super) fn handle_progress(&mut self, ctx: MessageContext, params: Option<Value<'_>>) {
        let progress = ProgressNotificationParams::read(params);
        let is_known = progress.is_some_and(|it| {
            self.client_requests.extend_timeout(ctx.reply_to.peer_id, it.progress_token, ctx.now)
        });
        let client_requests = &mut self.counters.client_requests;
        let counter = if is_known {
            &mut client_requests.progress_notifications
        } else {
            &mut client_requests.unmatched_progress
        };
        *counter += 1;
    }

    /// `notifications/cancelled`: cancels the call without a response. An unknown id is ignored:
    /// the response may have crossed the notification.
    pub(super) fn handle_cancelled(&mut self, peer: &mut PeerState<'_>, params: Option<Value<'_>>) {
        let Some(cancelled) = CancelledNotificationParams::read(params) else { return };
        let Some(call_id) = peer.state.in_flight.remove(cancelled.request_id) else { return };
        if let Some(stream) = SubscriptionRegistry::stream_of_call_id(call_id) {
            return self.end_stream(peer, stream);
        }
        let call_id = Key::from_bits(call_id.0);
        let reply_to = self.calls.find_awaited(call_id).map(|call| call.reply_to);
        if self.cancel_call(call_id) {
            self.cancelled_replies.extend(reply_to);
            self.counters.requests.cancelled += 1;
            peer.pending_work.complete_request();
        }
    }

    /// Cancels a call; its open client requests are cancelled at the end of the turn. Returns
    /// `false` if it was cancelled before.
    pub(in crate::server) fn cancel_call(&mut self, call_id: Key) -> bool {
        // Queued as events: no message can be written in the middle of a batch.
        for number in self.calls.take_open_requests(call_id) {
            self.handler_queue.push(HandlerEvent::CancelRequest { number });
        }
        self.calls.cancel(call_id)
    }
}
