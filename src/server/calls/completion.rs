//! Completion and cancellation of calls that are answered later.
//!
//! Invariants: a call is completed once; its open client requests are cancelled first.

use std::time::Duration;

use corelane_protocol::error::Error;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::model;

use super::{Call, CallTable, CancelledWork};
use crate::server::client_requests::{ClientRequests, PendingInput};
use crate::server::outbox::{NotificationKind, Outbox};
use crate::server::overload::{EndOfCall, outcome_of};
use crate::server::shard_message::Progress;
use crate::service::{HandlerError, HandlerOutput};

/// How a call ends.
#[derive(Debug)]
pub enum CallResult {
    /// Its handler has ended.
    Handler(Result<HandlerOutput, HandlerError>),
    /// The shard of the task has answered the request about it: the encoded result.
    TaskRequest(Result<Vec<u8>, Error>),
    /// The round trip ends with an `input_required` result: the encrypted state and the inputs that
    /// the handler requests.
    InputRequired { state: Result<String, Error>, open: Vec<PendingInput> },
    /// It took longer than this; the handler is cancelled.
    TimedOut(Duration),
    /// Its connection does not wait for it any longer; the handler is cancelled.
    Cancelled(CancelReason),
}

/// Why a call is cancelled, which decides the error of its response.
#[derive(Clone, Debug)]
pub enum CancelReason {
    Error(Error),
    /// The drain timeout has passed. The error states whether the handler had started.
    Drain,
}

impl CallTable {
    /// Completes a call; sends the response if it is awaited.
    pub fn complete_call(
        &mut self,
        call_id: CallId,
        result: CallResult,
        client_requests: &mut ClientRequests,
        outbox: &mut Outbox,
    ) {
        for number in self.take_open_requests(call_id) {
            client_requests.cancel(number, outbox);
        }
        match result {
            CallResult::TimedOut(after) => return self.time_out(call_id, after, outbox),
            CallResult::Cancelled(reason) => {
                let is_cancelled = self.cancel_with_error(call_id, reason, outbox);
                outbox.counters.requests.cancelled += u64::from(is_cancelled);
                return;
            }
            _ => {}
        }
        let Some(call) = self.remove(call_id) else { return };
        if matches!(result, CallResult::Handler(Ok(_))) {
            notify_elicitations(&call, outbox);
        }
        let Call { reply_to, id, revision, catalog, records, .. } = call;
        let needs_input = matches!(result, CallResult::InputRequired { state: Ok(_), .. });
        outbox.counters.client_requests.input_required += u64::from(needs_input);
        let (mut is_failed, mut is_answered) = (false, false);
        let (mut is_handler, mut failure) = (false, None);
        let error_code = outbox.respond(reply_to, id, |id, text| match result {
            CallResult::Handler(result) => {
                is_handler = true;
                let written = catalog.write_output(revision, id.as_id(), result, text);
                is_failed = written.inspect_err(|error| failure = Some(error.kind))?;
                is_answered = true;
                Ok(())
            }
            CallResult::TaskRequest(body) => {
                model::write_response(text, id.as_id(), &body?);
                is_answered = true;
                Ok(())
            }
            CallResult::InputRequired { state, open } => {
                let state = state?;
                let requests = open.iter().map(|input| (&*input.key, &input.request));
                let suffix = catalog.result_suffix(revision);
                model::begin_response(text, id.as_id());
                model::write_input_required_result(text, requests, Some(&state), suffix);
                model::end_response(text);
                Ok(())
            }
            CallResult::TimedOut(_) | CallResult::Cancelled(_) => Ok(()),
        });
        outbox.counters.requests.tool_errors += u64::from(is_failed);
        // The handler of another call of the round trip, or a task, decides otherwise.
        if let Some(permit) = records.permit.filter(|_| is_handler) {
            permit.record(outcome_of(failure.map_or(Ok(is_failed), Err)));
        }
        if let Some(span) = records.span {
            span.end_request(error_code, is_failed);
        }
        if let Some(audited) = records.audited {
            audited.log(match () {
                () if needs_input => "input_required",
                () if is_failed => "failed",
                () if is_answered => "succeeded",
                () => "error",
            });
        }
    }

    /// Records for the circuit breaker of its tool that the handler of a call has failed.
    pub fn record_failure(&mut self, call_id: CallId) {
        let permit = self.find_awaited(call_id).and_then(|call| call.records.permit.take());
        if let Some(permit) = permit {
            permit.record(EndOfCall::FAILED);
        }
    }

    /// Cancels a call at its deadline and responds with an error.
    fn time_out(&mut self, call_id: CallId, after: Duration, outbox: &mut Outbox) {
        self.record_failure(call_id);
        self.log_end(call_id, "timed_out");
        let message = format!("the call took longer than {after:?} and was cancelled");
        let reason = CancelReason::Error(Error::internal(message));
        let is_cancelled = self.cancel_with_error(call_id, reason, outbox);
        outbox.counters.requests.timed_out += u64::from(is_cancelled);
    }

    /// Cancels a call and responds with an error. Returns `false` if no response is awaited.
    fn cancel_with_error(
        &mut self,
        call_id: CallId,
        reason: CancelReason,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(call) = self.find_awaited(call_id) else { return false };
        let (reply_to, id) = (call.reply_to, call.id.clone());
        self.log_end(call_id, "cancelled");
        let span = self.take_span(call_id);
        let left = self.cancel_work(call_id);
        let error = match reason {
            CancelReason::Error(error) => error,
            CancelReason::Drain if left == Some(CancelledWork::NeverStarts) => {
                Error::not_started_by_drain()
            }
            CancelReason::Drain => Error::cut_by_drain(),
        };
        let error_code = outbox.respond(reply_to, id, |_, _| Err(error));
        if let Some(span) = span {
            span.end_request(error_code, false);
        }
        true
    }

    /// Cancels a call and its open client requests. Returns `false` if it was cancelled before.
    pub fn cancel_call(
        &mut self,
        call_id: CallId,
        client_requests: &mut ClientRequests,
        outbox: &mut Outbox,
    ) -> bool {
        for number in self.take_open_requests(call_id) {
            client_requests.cancel(number, outbox);
        }
        self.log_end(call_id, "cancelled");
        if let Some(span) = self.take_span(call_id) {
            span.end_cancelled();
        }
        self.cancel(call_id)
    }

    /// Sends progress to the caller if it gave a token and the value has grown.
    pub fn send_progress(&mut self, progress: &Progress, outbox: &mut Outbox) {
        let Some(call) = self.find_awaited(progress.call_id) else { return };
        let Some(token) = &call.progress_token else { return };
        if progress.progress <= call.progress {
            return;
        }
        call.progress = progress.progress;
        outbox.notify_with_data(call.reply_to, NotificationKind::Progress, |text| {
            let Progress { progress, total, message, .. } = progress;
            let (token, revision) = (token.as_id(), call.revision);
            model::write_progress(text, token, *progress, *total, message.as_deref(), revision)
        });
    }
}

impl Call {
    /// Sends a part of the result ahead of it.
    pub fn send_partial(&self, data: &serde_json::Value, outbox: &mut Outbox) {
        let data = data.to_string();
        outbox.notify_with_data(self.reply_to, NotificationKind::Partial, |text| {
            let start = text.len();
            text.extend_from_slice(data.as_bytes());
            start..text.len()
        });
    }
}

/// Notifies the client of the URL elicitations that have completed with the call.
fn notify_elicitations(call: &Call, outbox: &mut Outbox) {
    if !call.revision.dialect().elicitation_ids {
        return;
    }
    for elicitation_id in call.open_requests.iter().flat_map(|it| it.accepted_elicitations()) {
        outbox.notify(call.reply_to, NotificationKind::Required, |text| {
            model::write_elicitation_complete(text, elicitation_id);
        });
    }
}
