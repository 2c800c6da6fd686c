//! Completion of calls that are answered later.

use super::Shard;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::model;
use crate::server::handlers::Progress;
use crate::server::reply_to::Outcome;
use crate::service::{HandlerError, HandlerOutput};

impl Shard {
    /// Completes the call of an ended handler; sends the response if it is awaited.
    pub(super) fn complete_call<R: Ring>(
        &mut self,
        ring: &mut R,
        call_id: Key,
        result: Result<HandlerOutput, HandlerError>,
        now: Instant,
    ) {
        // Client requests that it did not wait for; the others are closed.
        for number in self.dispatcher.calls.take_open_requests(call_id) {
            self.cancel_client_request(number, now);
        }
        let Some(call) = self.dispatcher.calls.remove(call_id) else { return };
        let (reply_to, id) = (call.reply_to, call.id.as_id());
        self.complete_request(reply_to.peer_id, id, now);
        let elicitation_ids = call
            .open_requests
            .iter()
            .flat_map(|open_requests| open_requests.accepted_elicitations());
        let has_ids = result.is_ok() && call.revision.dialect().elicitation_ids;
        for elicitation_id in elicitation_ids.filter(|_| has_ids) {
            let mut text = self.take_text_buffer();
            model::write_elicitation_complete(&mut text, elicitation_id);
            self.send_message(reply_to, Outcome::Notification, text);
        }
        let mut text = self.take_text_buffer();
        match call.catalog.write_output(call.revision, id, result, &mut text) {
            Ok(is_failed) => {
                self.dispatcher.counters.requests.tool_errors += u64::from(is_failed);
                self.send_message(reply_to, Outcome::Response, text);
            }
            Err(error) => self.send_error(reply_to, id, &error, call.revision),
        }
        self.after_response(ring, reply_to, now);
    }

    /// Cancels a call at its deadline and responds with an error.
    pub(super) fn time_out_call<R: Ring>(&mut self, ring: &mut R, call_id: Key, now: Instant) {
        let Some(call) = self.dispatcher.calls.find_awaited(call_id) else { return };
        let (reply_to, id, revision) = (call.reply_to, call.id.clone(), call.revision);
        self.dispatcher.cancel_call(call_id);
        self.dispatcher.counters.requests.timed_out += 1;
        let duration = self.dispatcher.request_timeout;
        let error =
            Error::internal(format!("the call took longer than {duration:?} and was cancelled"));
        self.complete_request(reply_to.peer_id, id.as_id(), now);
        self.send_error(reply_to, id.as_id(), &error, revision);
        self.after_response(ring, reply_to, now);
    }

    /// Sends progress to the caller if it gave a token and the value has grown. Dropped while the
    /// caller's output queue is full: progress is best effort.
    pub(super) fn send_progress<R: Ring>(
        &mut self,
        ring: &mut R,
        progress: &Progress,
        now: Instant,
    ) {
        let Some(call) = self.dispatcher.calls.find_awaited(progress.call_id) else { return };
        let reply_to = call.reply_to;
        if call.progress_token.is_none()
            || progress.progress <= call.progress
            || !self.has_queue_space(reply_to.peer_id)
        {
            return;
        }
        let mut text = self.take_text_buffer();
        let Some(call) = self.dispatcher.calls.find_awaited(progress.call_id) else { return };
        call.progress = progress.progress;
        let Some(token) = &call.progress_token else { return };
        let message = progress.message.as_deref();
        let (total, revision) = (progress.total, call.revision);
        model::write_progress(
            &mut text,
            token.as_id(),
            progress.progress,
            total,
            message,
            revision,
        );
        self.send_message(reply_to, Outcome::Notification, text);
        self.dispatcher.counters.requests.progress_notifications += 1;
        self.check_peer_memory(ring, reply_to.peer_id, now);
    }

    /// Cancels the calls of a connection that nothing can be sent to any more.
    pub(super) fn abandon_connection(&mut self, key: Key) {
        self.cancel_connection_calls(key);
    }

    /// Cancels every call of a connection; none of them gets a response.
    pub(super) fn cancel_connection_calls(&mut self, key: Key) {
        self.cancel_streams(key);
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        for (_, call_id) in connection.state.in_flight.drain() {
            if self.dispatcher.cancel_call(Key::from_bits(call_id.0)) {
                self.dispatcher.counters.requests.cancelled += 1;
                connection.pending_work.complete_request();
            }
        }
    }
}
