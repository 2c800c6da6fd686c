//! Server requests (up to 2025-11-25): sent to the client of a call or task, answered by it,
//! cancelled or timed out.
//!
//! Invariants: a request that cannot be answered (the client is gone, or its input has ended)
//! fails; one whose client has not completed the handshake waits for it; a withdrawn one is
//! cancelled at the client. Requests of a task go to the connection that began it and carry its id.
//! The deadline of a requester is suspended while a request is open; the suspended time is known
//! when the last one closes.

use std::time::Duration;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::time::Instant;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model;
use corelane_protocol::params::ProgressNotificationParams;
use corelane_protocol::revision::Revision;

use super::{
    CLIENT_REQUESTS_MAX, ClientRequest, ClientRequests, Delivery, HANDSHAKE_TIMEOUT,
    NewClientRequest, ResponseKind, too_many_requests,
};
use crate::server::outbox::{NotificationKind, Outbox};
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::server::shard_message::Requester;
use crate::service::ClientRequestError;

/// Where the messages of a call or task go.
#[derive(Debug)]
pub struct RequesterTarget {
    pub reply_to: ReplyTo,
    pub revision: Revision,
    pub task: Option<String>,
}

/// The calls and tasks of a shard, which make client requests.
pub trait Requesters {
    /// Returns the target of a call or task, or `None` if it is cancelled.
    fn target(&mut self, requester: Requester) -> Option<RequesterTarget>;

    /// Adds request `number`. Returns `false` if `open_max` are open.
    fn add(&mut self, requester: Requester, number: u64, open_max: usize, now: Instant) -> bool;

    /// Removes request `number`: the handler continues.
    fn finish(&mut self, requester: Requester, number: u64, now: Instant);

    /// Records an accepted URL elicitation; it completes when the handler ends.
    fn record_accepted_url(&mut self, requester: Requester, elicitation_id: Option<Box<str>>);
}

impl ClientRequests {
    /// Sends a request of a handler to its client.
    pub fn request_client(
        &mut self,
        requesters: &mut impl Requesters,
        requester: Requester,
        number: u64,
        request: NewClientRequest,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Some(target) = requesters.target(requester) else {
            return request.oneshot.send(Err(ClientRequestError::Cancelled));
        };
        if !requesters.add(requester, number, CLIENT_REQUESTS_MAX, now) {
            return request.oneshot.send(Err(too_many_requests()));
        }
        let RequesterTarget { reply_to, revision, task } = target;
        let client_request = self.open(number, reply_to, requester, request, now);
        let id = client_request.id.as_id();
        outbox.request(reply_to, number, |text| {
            let request = &client_request.request;
            model::write_server_request(text, id, request, revision, task.as_deref());
        });
        client_request.discard_texts();
    }

    /// Notes that request `number` is sent. Returns `false` if it was cancelled before.
    pub fn mark_sent(&mut self, number: u64) -> bool {
        let client_request = self.open.get_mut(&number);
        client_request.map(|it| it.delivery = Delivery::Sent).is_some()
    }

    /// Holds request `number`, whose client has not completed the handshake. It fails if that takes
    /// too long, or if there is no memory for its text.
    pub fn hold(
        &mut self,
        requesters: &mut impl Requesters,
        number: u64,
        text: &[u8],
        now: Instant,
    ) {
        let Some(client_request) = self.open.get_mut(&number) else { return };
        client_request.delivery = Delivery::Held(text.into());
        let bytes = client_request.heap_bytes();
        match client_request.charge.account().charge(bytes) {
            Ok(charge) => client_request.charge = charge,
            Err(error) => {
                let Some(client_request) = self.take(number) else { return };
                requesters.finish(client_request.requester, number, now);
                return client_request.fail(ClientRequestError::Refused(error));
            }
        }
        client_request.deadline = now.after(HANDSHAKE_TIMEOUT).min(client_request.deadline);
        self.timers.insert(client_request.deadline, number);
        self.held.push(number);
    }

    /// Sends the requests that were held until `peer_id` completed the handshake.
    pub fn send_held(&mut self, peer_id: PeerId, now: Instant, outbox: &mut Outbox) {
        let Self { open, held, timers, timeout, .. } = self;
        held.retain(|number| {
            let Some(client_request) = open.get_mut(number) else { return false };
            if client_request.reply_to.peer_id != peer_id {
                return true;
            }
            let delivery = std::mem::replace(&mut client_request.delivery, Delivery::Queued);
            if let Delivery::Held(text) = delivery {
                outbox.request(client_request.reply_to, *number, |out| {
                    out.extend_from_slice(&text);
                });
            }
            client_request.charge.shrink(client_request.heap_bytes());
            client_request.sent_at = now;
            client_request.deadline = now.after(*timeout);
            timers.insert(client_request.deadline, *number);
            false
        });
    }

    /// Fails request `number`, which was not sent: its client is gone.
    pub fn fail_unsent(&mut self, requesters: &mut impl Requesters, number: u64, now: Instant) {
        let Some(client_request) = self.take(number) else { return };
        let requester = client_request.requester;
        requesters.finish(requester, number, now);
        client_request.fail(client_gone_error(requester));
    }

    /// Cancels request `number` of an ended call or task.
    pub fn cancel(&mut self, number: u64, outbox: &mut Outbox) -> Option<Requester> {
        let client_request = self.take(number)?;
        let requester = client_request.requester;
        outbox.counters.client_requests.cancelled += 1;
        send_cancelled(&client_request, "the answer is not needed any more", outbox);
        client_request.fail(ClientRequestError::Cancelled);
        Some(requester)
    }

    /// Cancels request `number`, for which its handler no longer waits.
    pub fn withdraw(
        &mut self,
        requesters: &mut impl Requesters,
        number: u64,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        if let Some(requester) = self.cancel(number, outbox) {
            requesters.finish(requester, number, now);
        }
    }

    /// Fails the requests that were not answered in time.
    pub fn expire(&mut self, requesters: &mut impl Requesters, now: Instant, outbox: &mut Outbox) {
        while let Some((number, client_request)) = self.pop_overdue(now) {
            requesters.finish(client_request.requester, number, now);
            outbox.counters.client_requests.timed_out += 1;
            send_cancelled(&client_request, "the answer did not come in time", outbox);
            let error = match client_request.delivery {
                Delivery::Held(_) => ClientRequestError::NotInitialized,
                Delivery::Queued | Delivery::Sent => ClientRequestError::Timeout,
            };
            client_request.fail(error);
        }
    }

    /// Fails requests because no response will be read. Their handlers can then end in time.
    pub fn fail_unreadable(
        &mut self,
        requesters: &mut impl Requesters,
        numbers: Vec<u64>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        for number in numbers {
            let Some(client_request) = self.take(number) else { continue };
            let requester = client_request.requester;
            requesters.finish(requester, number, now);
            outbox.counters.client_requests.cancelled += 1;
            send_cancelled(&client_request, "nothing more is read", outbox);
            client_request.fail(client_gone_error(requester));
        }
    }

    /// Handles a response of `peer_id`.
    pub fn handle_response(
        &mut self,
        requesters: &mut impl Requesters,
        peer_id: PeerId,
        id: Option<Id<'_>>,
        outcome: Result<Value<'_>, Value<'_>>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        outbox.counters.requests.responses += 1;
        let counters = &mut outbox.counters.client_requests;
        let Some((number, client_request)) = id.and_then(|id| self.take_answered(peer_id, id))
        else {
            counters.unmatched_responses += 1;
            return;
        };
        counters.answered += 1;
        let requester = client_request.requester;
        let elicitation_id = client_request.elicitation_id();
        requesters.finish(requester, number, now);
        match client_request.complete(outcome) {
            ResponseKind::Answered => {}
            ResponseKind::UrlAccepted => requesters.record_accepted_url(requester, elicitation_id),
            ResponseKind::Malformed => counters.malformed_responses += 1,
        }
    }

    /// Fails request `number`, whose response is malformed; `None` if it answers no request.
    #[cold]
    pub fn fail_answered(
        &mut self,
        requesters: &mut impl Requesters,
        number: Option<u64>,
        error: ClientRequestError,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        outbox.counters.requests.responses += 1;
        let counters = &mut outbox.counters.client_requests;
        let Some((number, client_request)) =
            number.and_then(|number| Some((number, self.take(number)?)))
        else {
            counters.unmatched_responses += 1;
            return;
        };
        counters.answered += 1;
        counters.malformed_responses +=
            u64::from(matches!(error, ClientRequestError::InvalidResponse(_)));
        requesters.finish(client_request.requester, number, now);
        client_request.fail(error);
    }

    /// `notifications/progress` of `peer_id`: extends the timeout of the server request.
    pub fn handle_progress(
        &mut self,
        peer_id: PeerId,
        params: Option<Value<'_>>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let is_known = ProgressNotificationParams::read(params)
            .is_some_and(|it| self.extend_timeout(peer_id, it.progress_token, now));
        let counters = &mut outbox.counters.client_requests;
        let counter = if is_known {
            &mut counters.progress_notifications
        } else {
            &mut counters.unmatched_progress
        };
        *counter += 1;
    }
}

/// Sends `notifications/cancelled` for a client request, if the client has received it.
fn send_cancelled(client_request: &ClientRequest, reason: &str, outbox: &mut Outbox) {
    if !matches!(client_request.delivery, Delivery::Sent) {
        return;
    }
    outbox.notify(client_request.reply_to, NotificationKind::Required, |text| {
        model::write_cancelled(text, client_request.id.as_id(), Some(reason));
    });
}

/// The error for requests whose client is gone. A call ends with it; a task may go on.
fn client_gone_error(requester: Requester) -> ClientRequestError {
    match requester {
        Requester::Call(_) => ClientRequestError::Cancelled,
        Requester::Task(_) => {
            ClientRequestError::ErrorResponse("the client that began the task is gone".into())
        }
    }
}

/// The open server requests of one handler.
#[derive(Debug, Default)]
pub struct OpenRequests {
    numbers: Vec<u64>,
    /// Since when at least one has been open.
    open_since: Option<Instant>,
    /// Accepted URL elicitations, by `elicitationId` (2025-11-25).
    accepted_elicitations: Vec<Box<str>>,
}

heap_bytes!(OpenRequests { numbers, accepted_elicitations } inline { open_since });

impl OpenRequests {
    /// Adds request `number`. Returns `false` if `open_max` are open.
    pub fn add(&mut self, number: u64, open_max: usize, now: Instant) -> bool {
        if self.numbers.len() >= open_max {
            return false;
        }
        self.numbers.push(number);
        self.open_since.get_or_insert(now);
        true
    }

    /// Removes request `number`. Returns how long any was open, if it was the last.
    pub fn remove(&mut self, number: u64, now: Instant) -> Option<Duration> {
        self.numbers.retain(|open| *open != number);
        if !self.numbers.is_empty() {
            return None;
        }
        self.open_since.take().map(|since| now.since(since))
    }

    /// Returns whether any request is open.
    pub const fn is_open(&self) -> bool {
        self.open_since.is_some()
    }

    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    pub fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.numbers)
    }

    /// Records an accepted URL elicitation.
    pub fn record_accepted_url(&mut self, elicitation_id: Option<Box<str>>) {
        self.accepted_elicitations.extend(elicitation_id);
    }

    pub fn accepted_elicitations(&self) -> &[Box<str>] {
        &self.accepted_elicitations
    }
}
