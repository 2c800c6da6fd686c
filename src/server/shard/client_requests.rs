//! Requests and log messages from handlers to their clients.
//!
//! Invariants: a request that cannot be answered (the client is gone, or its input has ended) fails
//! at once; a withdrawn one is cancelled at the client. Requests of a task go to the connection
//! that began it and carry its id.

use std::rc::Rc;

use super::Shard;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::Ring;
use crate::protocol::in_flight::CallId;
use crate::protocol::model::{self, InputRequest};
use crate::protocol::revision::Revision;
use crate::server::client_requests::{
    CLIENT_REQUESTS_MAX, ClientRequest, Oneshot, PendingInput, PendingInputs, Requester,
    too_many_requests,
};
use crate::server::handlers::LogMessage;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::service::ClientRequestError;

impl Shard {
    /// Sends a request of a handler to its client.
    pub(super) fn send_client_request<R: Ring>(
        &mut self,
        ring: &mut R,
        (requester, number): (Requester, u64),
        request: InputRequest,
        oneshot: Rc<Oneshot>,
        now: Instant,
    ) {
        let Some((reply_to, revision, task)) = self.requester_target(requester) else {
            return oneshot.send(Err(ClientRequestError::Cancelled));
        };
        if !self.can_respond(reply_to.peer_id) {
            return oneshot.send(Err(client_gone_error(requester)));
        }
        let is_asked = match requester {
            Requester::Call(call_id) => {
                self.dispatcher.calls.add_client_request(call_id, number, CLIENT_REQUESTS_MAX, now)
            }
            Requester::Task(task) => {
                self.dispatcher.tasks.add_client_request(task, number, CLIENT_REQUESTS_MAX, now)
            }
        };
        if !is_asked {
            return oneshot.send(Err(too_many_requests()));
        }
        let mut text = self.take_text_buffer();
        let client_request = self.dispatcher.client_requests.open(
            number,
            (reply_to, requester),
            request,
            oneshot,
            now,
        );
        let (id, task) = (client_request.id.as_id(), task.as_deref());
        model::write_server_request(&mut text, id, &client_request.request, revision, task);
        self.send_message(reply_to, Outcome::Notification, text);
        self.dispatcher.counters.client_requests.sent += 1;
        self.check_peer_memory(ring, reply_to.peer_id, now);
    }

    /// Returns the reply target, revision and task of a handler, or `None` if it is cancelled.
    fn requester_target(
        &mut self,
        requester: Requester,
    ) -> Option<(ReplyTo, Revision, Option<String>)> {
        match requester {
            Requester::Call(call_id) => {
                let call = self.dispatcher.calls.find_awaited(call_id)?;
                Some((call.reply_to, call.revision, None))
            }
            Requester::Task(task) => {
                let task = self.dispatcher.tasks.get_mut(task).filter(|task| !task.has_ended())?;
                let reply_to = ReplyTo::standalone(task.peer);
                Some((reply_to, task.revision, Some(task.id_text().to_owned())))
            }
        }
    }

    /// Ends a round trip with an `input_required` result.
    pub(super) fn send_input_required<R: Ring>(
        &mut self,
        ring: &mut R,
        call_id: Key,
        (inputs, open): (&PendingInputs, &[PendingInput]),
        now: Instant,
    ) {
        let Some(call) = self.dispatcher.calls.remove(call_id) else { return };
        let (reply_to, id) = (call.reply_to, call.id.as_id());
        self.complete_request(reply_to.peer_id, id, now);
        let keys = open.iter().map(|input| &*input.key);
        let unix_ms = self.dispatcher.wall_clock.unix_ms(now);
        let state =
            self.dispatcher.request_states.encrypt(&inputs.state, keys, inputs.digest, unix_ms);
        match state {
            Ok(state) => {
                self.dispatcher.counters.client_requests.input_required += 1;
                let requests = open.iter().map(|input| (&*input.key, &input.request));
                let suffix = call.catalog.result_suffix(call.revision);
                let mut text = self.take_text_buffer();
                model::begin_response(&mut text, id);
                model::write_input_required_result(&mut text, requests, Some(&state), suffix);
                model::end_response(&mut text);
                self.send_message(reply_to, Outcome::Response, text);
            }
            Err(error) => self.send_error(reply_to, id, &error, call.revision),
        }
        self.after_response(ring, reply_to, now);
    }

    /// Cancels a client request that its handler no longer waits for.
    pub(super) fn cancel_client_request(&mut self, number: u64, now: Instant) {
        let Some(client_request) = self.dispatcher.client_requests.take(number) else { return };
        self.dispatcher.finish_client_request(client_request.requester, number, now);
        self.dispatcher.counters.client_requests.cancelled += 1;
        self.send_cancelled(&client_request, "the answer is not needed any more");
        client_request.fail(ClientRequestError::Cancelled);
    }

    /// Times out client requests.
    pub(super) fn expire_client_requests(&mut self, now: Instant) {
        while let Some((number, client_request)) = self.dispatcher.client_requests.pop_overdue(now)
        {
            self.dispatcher.finish_client_request(client_request.requester, number, now);
            self.dispatcher.counters.client_requests.timed_out += 1;
            self.send_cancelled(&client_request, "the answer did not come in time");
            client_request.fail(ClientRequestError::Timeout);
        }
    }

    /// Fails the open client requests of a peer, or of all peers, because no response will be read.
    /// Their handlers can then end in time.
    pub(super) fn fail_client_requests(&mut self, peer_id: Option<PeerId>, now: Instant) {
        let numbers = match peer_id {
            None => self.dispatcher.client_requests.numbers(),
            Some(peer_id) => self.client_requests_to(peer_id),
        };
        for number in numbers {
            if let Some(client_request) = self.dispatcher.client_requests.take(number) {
                self.dispatcher.finish_client_request(client_request.requester, number, now);
                self.dispatcher.counters.client_requests.cancelled += 1;
                self.send_cancelled(&client_request, "nothing more is read");
                let error = client_gone_error(client_request.requester);
                client_request.fail(error);
            }
        }
    }

    /// Returns the open client requests to a peer: of its calls and of its tasks. Cost: one pass
    /// over its requests in flight, and over the tasks of the shard if it has any.
    fn client_requests_to(&mut self, peer_id: PeerId) -> Vec<u64> {
        let mut numbers = self.dispatcher.tasks.client_requests_to(peer_id);
        let call_ids = self.peer(peer_id).map(|(state, _)| state.in_flight.call_ids().collect());
        let call_ids: Vec<CallId> = call_ids.unwrap_or_default();
        for call_id in call_ids {
            numbers.extend(self.dispatcher.calls.open_requests(Key::from_bits(call_id.0)));
        }
        numbers
    }

    /// Sends `notifications/cancelled` for a client request.
    fn send_cancelled(&mut self, client_request: &ClientRequest, reason: &str) {
        let mut text = self.take_text_buffer();
        model::write_cancelled(&mut text, client_request.id.as_id(), Some(reason));
        self.send_message(client_request.reply_to, Outcome::Notification, text);
    }

    /// Sends a log message to the client of a call or task if its level is requested. Like progress
    /// it is dropped while the client's output queue is full.
    pub(super) fn send_log<R: Ring>(&mut self, ring: &mut R, message: &LogMessage, now: Instant) {
        let Some((reply_to, revision, task)) = self.requester_target(message.requester) else {
            return;
        };
        let Some((state, _)) = self.peer(reply_to.peer_id) else { return };
        let is_unwanted = !revision.is_modern() && message.level < state.log_level;
        if is_unwanted || !self.has_queue_space(reply_to.peer_id) {
            return;
        }
        let mut text = self.take_text_buffer();
        let data = message.data.to_string();
        let (level, logger, data) = (message.level, message.logger.as_deref(), data.as_bytes());
        match task {
            Some(task) => model::write_task_logging_message(&mut text, level, logger, data, &task),
            None => model::write_logging_message(&mut text, level, logger, data),
        }
        self.send_message(reply_to, Outcome::Notification, text);
        self.dispatcher.counters.requests.log_notifications += 1;
        self.check_peer_memory(ring, reply_to.peer_id, now);
    }
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
