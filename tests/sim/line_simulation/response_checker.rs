//! Checker of the responses on one connection.
//!
//! A server processes the messages of one connection in order. So requests that are answered at
//! once are answered in order, and every response proves that all messages up to its request were
//! read. Checks that:
//!
//! - every response belongs to a request, comes once, and has the right id and content;
//! - immediate responses keep the order of their requests;
//! - progress increases, step by step unless buffers are full, and stops at the result;
//! - nothing is sent for a call whose cancellation was certainly read;
//! - a call is refused by the limit of requests in flight only while the limit is reached;
//! - a second request with the same id is refused exactly while the first is in flight;
//! - nothing follows a final error (connection refused, message too large);
//! - a call is cancelled by the server only after the client has ended its input, or at the
//!   end of its drain;
//! - of two calls that time out, the one that was read earlier ends first;
//! - an older catalog version is never seen after a newer one.

use std::collections::VecDeque;

use corelane_base::time::Instant;
use serde_json::Value;

use crate::line_simulation::call_in_flight::CallInFlight;
use crate::line_simulation::expectation::{CallEnd, Expectation, ImmediateResponse};
use crate::line_simulation::expected_response::{
    CONNECTION_LIMIT, ExpectedResponse, INTERNAL, TOO_LARGE,
};
use crate::line_simulation::input_end::InputEnd;
use crate::totals::Totals;

/// State of a connection, as its client sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConnectionStatus {
    /// Requests are answered.
    Open,
    /// The server refused it for lack of room and sent the error.
    Refused,
    /// The server refused it because it drains, and sent the error.
    RefusedDraining,
    /// The server closes it after an error that it has sent.
    Closing,
}

/// Expected responses of one connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct ResponseChecker {
    immediate: VecDeque<PendingResponses>,
    deferred: Vec<CallInFlight>,
    /// Number of messages sent; the number of the last one.
    sent: u64,
    /// Number of the last message that was certainly read.
    read: u64,
    status: ConnectionStatus,
    lines: usize,
    /// Newest catalog version that a response named.
    catalog_version: u64,
    has_catalog_version: bool,
    /// Present time, as last set by [`Self::set_now`].
    now: Instant,
    /// Progress may be skipped because the outgoing buffer may fill up.
    may_miss_progress: bool,
    calls_in_flight_max: usize,
    /// Calls may be refused because the server is short of memory.
    may_exhaust_memory: bool,
    /// Requests of the server that are still to come.
    client_requests_due: usize,
    /// Ids of those that have arrived.
    client_requests_open: Vec<Value>,
    /// The end of the input of a TCP client.
    input_end: Option<InputEnd>,
    /// Whether the server may cancel the calls, because its drain has taken too long.
    may_cut_calls: bool,
    pub(crate) totals: Totals,
}

#[derive(Debug)]
struct PendingResponses {
    number: u64,
    responses: Vec<ImmediateResponse>,
    is_batch: bool,
}

impl ResponseChecker {
    /// A connection on which nothing was sent yet.
    pub(crate) fn new(
        may_miss_progress: bool,
        calls_in_flight_max: usize,
        may_exhaust_memory: bool,
    ) -> Self {
        Self {
            may_miss_progress,
            calls_in_flight_max,
            may_exhaust_memory,
            client_requests_due: 0,
            client_requests_open: Vec::new(),
            input_end: None,
            may_cut_calls: false,
            immediate: VecDeque::new(),
            deferred: Vec::new(),
            sent: 0,
            read: 0,
            status: ConnectionStatus::Open,
            lines: 0,
            catalog_version: 0,
            has_catalog_version: false,
            now: Instant::ORIGIN,
            totals: Totals::default(),
        }
    }

    pub(crate) const fn set_now(&mut self, now: Instant, may_cut_calls: bool) {
        (self.now, self.may_cut_calls) = (now, may_cut_calls);
    }

    /// Records the expectations of messages that are about to be sent, one list per message.
    pub(crate) fn record_sent(&mut self, notes: Vec<Vec<Expectation>>) {
        for message in notes {
            self.sent += 1;
            for note in message {
                self.add_expectation(note);
            }
        }
    }

    /// Records that the client has ended its input, over TCP.
    pub(crate) const fn end_input(&mut self, input_end: InputEnd) {
        self.input_end = Some(input_end);
    }

    fn add_expectation(&mut self, note: Expectation) {
        let number = self.sent;
        match note {
            Expectation::Immediate(response) => {
                self.immediate.push_back(PendingResponses {
                    number,
                    responses: vec![response],
                    is_batch: false,
                });
            }
            Expectation::Batch(responses) => {
                self.immediate.push_back(PendingResponses { number, responses, is_batch: true });
            }
            Expectation::Deferred(call) => {
                let sent_at = self.now;
                let running = CallInFlight {
                    number,
                    response: call,
                    progress: 0,
                    cancelled: None,
                    sent_at,
                    read_by: None,
                };
                self.deferred.push(running);
            }
            Expectation::Cancellation(id) => {
                let running = self.deferred.iter_mut().find(|running| running.response.id == id);
                if let Some(running) = running {
                    running.cancelled = Some(number);
                }
            }
            Expectation::ClientRequest => self.client_requests_due += 1,
            Expectation::Nothing => {}
        }
    }

    /// Checks one received line.
    ///
    /// # Errors
    ///
    /// The reason why the line is not expected.
    pub(crate) fn check_line(&mut self, line: &[u8]) -> Result<(), String> {
        self.lines += 1;
        let text = String::from_utf8_lossy(line);
        if self.status != ConnectionStatus::Open {
            return Err(format!("received after the final error: {text}"));
        }
        let message: Value =
            serde_json::from_slice(line).map_err(|error| format!("{error}: {text}"))?;
        if let Some(batch) = message.as_array() {
            return self.check_batch(batch);
        }
        match message["method"].as_str() {
            Some("notifications/progress") => self.check_progress(&message["params"]),
            Some("roots/list") if self.client_requests_due > 0 => {
                self.client_requests_due -= 1;
                self.client_requests_open.push(message["id"].clone());
                self.totals.client_requests += 1;
                Ok(())
            }
            Some("notifications/cancelled") => {
                self.check_client_request_cancelled(&message["params"])
            }
            Some(_) => Err(format!("unexpected message: {text}")),
            None if self.take_final_error(&message) => Ok(()),
            None => self.check_response(&message),
        }
    }

    /// The server cancels a request of its own, once.
    fn check_client_request_cancelled(&mut self, params: &Value) -> Result<(), String> {
        let asked = self.client_requests_open.iter().position(|id| *id == params["requestId"]);
        let asked = asked.ok_or_else(|| format!("no open request of the server: {params}"))?;
        self.client_requests_open.swap_remove(asked);
        self.totals.client_requests_cancelled += 1;
        Ok(())
    }

    /// Handles the two errors after which a server closes a connection whatever was sent.
    fn take_final_error(&mut self, message: &Value) -> bool {
        if message.get("id").is_some_and(|id| !id.is_null()) {
            return false;
        }
        let code = message["error"]["code"].as_i64();
        if self.lines == 1 && code == Some(CONNECTION_LIMIT) && message.get("id").is_none() {
            let text = message["error"]["message"].as_str().unwrap_or_default();
            let is_draining = text.contains("shutting down");
            self.status = if is_draining {
                ConnectionStatus::RefusedDraining
            } else {
                ConnectionStatus::Refused
            };
            self.totals.connections_refused += u64::from(!is_draining);
            self.totals.connections_refused_draining += u64::from(is_draining);
            let names_address = text.contains("address_share_percent");
            self.totals.connections_refused_by_address += u64::from(names_address);
        } else if code == Some(INTERNAL) {
            self.status = ConnectionStatus::Closing;
            self.totals.memory_limit_closes += 1;
        }
        self.status != ConnectionStatus::Open
    }

    fn check_response(&mut self, message: &Value) -> Result<(), String> {
        let front = self.immediate.front().filter(|due| !due.is_batch);
        if front.is_some_and(|due| due.responses[0].matches(message)) {
            let Some(due) = self.immediate.pop_front() else { return Ok(()) };
            self.complete_immediate(&due.responses[0], message)?;
            return self.mark_read(due.number);
        }
        if let Some(number) = self.take_limit_error(message)? {
            return self.mark_read(number);
        }
        if InputEnd::is_cancellation(message) || is_cut_by_drain(message) {
            return self.check_cancellation(message);
        }
        let found = self.deferred.iter().position(|running| running.response.matches(message));
        let Some(found) = found else {
            return Err(format!("unexpected message {message}; {}", self.expectations()));
        };
        let CallInFlight { number, response: call, progress, sent_at, .. } =
            self.deferred.remove(found);
        if message.get("error").is_some() {
            self.totals.call_timeouts += 1;
            if self.deferred.iter().any(|other| other.times_out_before(sent_at)) {
                return Err(format!(
                    "{message} came before an older call; {}",
                    self.expectations()
                ));
            }
        } else if call.token.is_some() && progress != call.steps && !self.may_miss_progress {
            return Err(format!("{progress} of {} progress steps before {message}", call.steps));
        }
        self.totals.responses += 1;
        self.mark_read(number)
    }

    /// Checks the error of a call that the server has cancelled after the end of the input, or at
    /// the end of its drain.
    fn check_cancellation(&mut self, message: &Value) -> Result<(), String> {
        let found = self.deferred.iter().position(|it| Some(&it.response.id) == message.get("id"));
        let is_cut = is_cut_by_drain(message);
        let is_due = if is_cut {
            self.may_cut_calls && ExpectedResponse::Error(CONNECTION_LIMIT).matches(message)
        } else {
            self.input_end.is_some_and(|end| end.explains(message, self.now))
        };
        let Some(found) = found.filter(|_| is_due) else {
            return Err(format!("unexpected message {message}; {}", self.expectations()));
        };
        let CallInFlight { number, .. } = self.deferred.remove(found);
        self.totals.responses += 1;
        self.totals.calls_cut += u64::from(is_cut);
        self.totals.half_close_errors += u64::from(!is_cut);
        self.mark_read(number)
    }

    /// Handles the refusal of a call by the limit of requests in flight or of memory; returns the
    /// number of its message. All earlier immediate responses have been received by now.
    fn take_limit_error(&mut self, message: &Value) -> Result<Option<u64>, String> {
        let text = message["error"]["message"].as_str().unwrap_or_default();
        let is_memory = text.contains("short of memory") && self.may_exhaust_memory;
        if !is_memory && !text.contains("requests are in flight") {
            return Ok(None);
        }
        let found = self.deferred.iter().position(|it| Some(&it.response.id) == message.get("id"));
        let Some(found) = found else { return Err(format!("unexpected message {message}")) };
        let refused = self.deferred.remove(found);
        if is_memory {
            self.totals.responses += 1;
            self.totals.memory_limit_errors += 1;
            return Ok(Some(refused.number));
        }
        let before = self.deferred[..found].iter();
        let in_flight =
            before.filter(|it| it.cancelled.is_none_or(|cancelled| cancelled > refused.number));
        if in_flight.count() < self.calls_in_flight_max {
            return Err(format!("{message} below the limit; {}", self.expectations()));
        }
        self.totals.responses += 1;
        self.totals.in_flight_limit_errors += 1;
        Ok(Some(refused.number))
    }

    fn check_batch(&mut self, batch: &[Value]) -> Result<(), String> {
        let (mut answers, mut refused) = (Vec::new(), None);
        for message in batch {
            match self.take_limit_error(message)? {
                Some(number) => refused = Some(number),
                None => answers.push(message),
            }
        }
        if let Some(number) = refused.filter(|_| answers.is_empty()) {
            return self.mark_read(number);
        }
        let batch = answers;
        let front = self.immediate.front().filter(|due| due.is_batch);
        let fits = front.is_some_and(|due| {
            due.responses.len() == batch.len()
                && due.responses.iter().zip(&batch).all(|(due, got)| due.matches(got))
        });
        let Some(due) = self.immediate.pop_front().filter(|_| fits) else {
            return Err(format!("unexpected batch {batch:?}; {}", self.expectations()));
        };
        for (response, message) in due.responses.iter().zip(batch) {
            self.complete_immediate(response, message)?;
        }
        self.totals.batches += 1;
        self.mark_read(due.number)
    }

    fn check_progress(&mut self, params: &Value) -> Result<(), String> {
        let token = params.get("progressToken");
        let found =
            self.deferred.iter_mut().find(|running| running.response.token.as_ref() == token);
        let Some(running) = found.filter(|_| token.is_some()) else {
            return Err(format!("progress without a call in flight: {params}"));
        };
        let (last, steps) = (running.progress, running.response.steps);
        let furthest = if self.may_miss_progress { steps } else { steps.min(last + 1) };
        let next = last + 1..=furthest;
        let progress = next.clone().find(|&step| params["progress"].as_f64() == Some(step.into()));
        let has_total = params["total"].as_f64() == Some(steps.into());
        let Some(progress) = progress.filter(|_| has_total) else {
            return Err(format!("expected step {next:?} of {steps}, received {params}"));
        };
        running.progress = progress;
        self.totals.progress_notifications += 1;
        let number = running.number;
        self.mark_read(number)
    }

    /// Records that an immediate response came in its turn.
    fn complete_immediate(
        &mut self,
        due: &ImmediateResponse,
        message: &Value,
    ) -> Result<(), String> {
        self.check_catalog_version(&message["result"])?;
        self.totals.responses += 1;
        self.totals.messages_too_large +=
            u64::from(due.expected == ExpectedResponse::Error(TOO_LARGE));
        if due.closes_connection {
            self.status = ConnectionStatus::Closing;
        }
        if !due.is_duplicate_id {
            return Ok(());
        }
        let is_refused = message.get("error").is_some();
        let is_in_flight =
            self.deferred.iter().any(|running| Some(&running.response.id) == due.id.as_ref());
        self.totals.duplicate_ids_refused += u64::from(is_refused);
        if is_refused == is_in_flight {
            return Ok(());
        }
        Err(format!("{message}, while its id in flight is {is_in_flight}"))
    }

    /// Checks that catalog versions do not go back. Only immediate responses prove that, because a
    /// call keeps the version it began with.
    fn check_catalog_version(&mut self, result: &Value) -> Result<(), String> {
        let modern = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        let server = result.get("serverInfo").unwrap_or(modern);
        let version = server["version"].as_str().and_then(|version| version.strip_prefix("1.0."));
        let Some(catalog) = version.and_then(|number| number.parse().ok()) else { return Ok(()) };
        let last = std::mem::replace(&mut self.catalog_version, catalog);
        self.totals.catalog_changes_seen += u64::from(last != catalog && self.has_catalog_version);
        self.has_catalog_version = true;
        if catalog < last {
            return Err(format!("catalog {catalog} is seen after {last}"));
        }
        Ok(())
    }

    /// Accepts timeouts of all calls in flight, because the clock is about to jump. Returns the
    /// number of those calls.
    pub(crate) fn prepare_clock_jump(&mut self) -> usize {
        for running in &mut self.deferred {
            if running.response.end == CallEnd::Result {
                running.response.end = CallEnd::Either;
            }
        }
        self.deferred.len()
    }

    /// Records that message `number` was read, and so were all before it; their immediate responses
    /// must have arrived.
    fn mark_read(&mut self, number: u64) -> Result<(), String> {
        self.read = self.read.max(number);
        if self.immediate.front().is_some_and(|due| due.number < number) {
            return Err(format!("message {number} was answered early; {}", self.expectations()));
        }
        let before = self.deferred.len();
        let (read, now) = (self.read, self.now);
        for running in self.deferred.iter_mut().filter(|running| running.number <= read) {
            running.read_by.get_or_insert(now);
        }
        self.deferred.retain(|running| running.cancelled.is_none_or(|cancelled| cancelled > read));
        self.totals.cancelled_calls_dropped += (before - self.deferred.len()) as u64;
        Ok(())
    }

    /// Number of messages sent.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) const fn status(&self) -> ConnectionStatus {
        self.status
    }

    /// Returns whether a response is due after which the server closes the connection.
    pub(crate) fn expects_close(&self) -> bool {
        let mut responses = self.immediate.iter().flat_map(|due| &due.responses);
        responses.any(|response| response.closes_connection)
    }

    /// Returns whether every response has arrived; cancelled calls need none.
    pub(crate) fn is_complete(&self) -> bool {
        self.immediate.is_empty() && self.unanswered().next().is_none()
    }

    /// Returns the calls that must be answered.
    fn unanswered(&self) -> impl Iterator<Item = &CallInFlight> {
        let are_cancelled = self.input_end.is_some_and(|end| end.cancels_at_once());
        let calls = self.deferred.iter().filter(move |_| !are_cancelled);
        calls.filter(|running| running.cancelled.is_none())
    }

    /// Counts the calls that the end of the input has cancelled without a response.
    pub(crate) fn count_half_close_cancellations(&mut self) {
        let are_cancelled = self.input_end.is_some_and(|end| end.cancels_at_once());
        let cancelled = self.deferred.iter().filter(|running| running.cancelled.is_none());
        self.totals.half_close_cancellations +=
            if are_cancelled { cancelled.count() as u64 } else { 0 };
    }

    /// Returns whether every call that was certainly read has its response.
    pub(crate) fn is_complete_as_far_as_read(&self) -> bool {
        !self.unanswered().any(|running| running.number <= self.read)
    }

    /// Describes the responses that are still due.
    pub(crate) fn expectations(&self) -> String {
        let next = self.immediate.front();
        let running: Vec<String> =
            self.deferred.iter().map(|running| format!("{running:?}")).collect();
        format!("next in order: {next:?}; later: [{}]", running.join(", "))
    }
}

/// Returns whether a message is the error of a request that the end of a drain has cut.
fn is_cut_by_drain(message: &Value) -> bool {
    message["error"]["data"]["started"].is_boolean()
}
