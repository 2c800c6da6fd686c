//! Matching of responses with the requests in flight on one connection.

mod parity;
mod stream_events;

use std::fmt::Display;

use corelane_base::time::Instant;

use super::handshake::status_failure;
use super::in_flight::{InFlight, InFlightRequest, InFlightState};
use super::message_kind::{MessageKind, classify_message, explain_result, result_text};
use super::request_template::{ID_COUNT, ID_FIRST, RequestTemplate};
use super::request_templates::RequestTemplates;
use crate::metrics::failure_examples::BODY_BYTES_MAX;
use crate::metrics::outcome::Failure;

/// A request that succeeded or failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompletedRequest {
    /// Index of its template.
    pub call: u16,
    /// Intended send time.
    pub intended: Instant,
    /// Actual send time.
    pub sent: Instant,
    /// The failure, or `None` if it succeeded.
    pub failure: Option<Failure>,
}

/// A request without an answer that is sent again over another connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnansweredRequest {
    /// Index of its template.
    pub call: u16,
    /// Intended send time.
    pub intended: Instant,
}

/// Result of processing received bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReceiveEvent {
    /// A request succeeded or failed.
    Completed(CompletedRequest),
    /// The result of the request that is completed next, a JSON text, if its template keeps it.
    Result(String),
    /// The request that ends next has to be sent again with these members of its params.
    InputRequired(String),
    /// A response without a request, or a second response.
    Unsolicited,
    /// The response to a request that had timed out.
    Late,
    /// The answer or error of a failed request, or of an unsolicited response for `None`.
    Failed {
        /// The failure.
        failure: Option<Failure>,
        /// The beginning of the answer.
        answer: Vec<u8>,
    },
    /// A notification of the server.
    Notification,
    /// The first event of the stream of a request, its response excluded.
    FirstEvent {
        /// Index of the template of the request.
        call: u16,
        /// Its intended send time.
        intended: Instant,
    },
    /// The first progress of a request.
    FirstProgress {
        /// Index of the template of the request.
        call: u16,
        /// Its intended send time.
        intended: Instant,
    },
    /// A chunk of a stream.
    Chunk,
    /// A keep-alive of the server, with the seconds in which it expects a message.
    Keepalive(Option<u64>),
    /// The next completed request was answered by an SSE stream.
    Streamed,
    /// A request of the server.
    ServerRequest {
        /// Its id as JSON text.
        id: String,
        /// Its method.
        method: String,
    },
    /// These bytes must be sent to the server.
    Send(Vec<u8>),
    /// The server closes the connection, or announced that it will.
    Closing,
}

/// Matches responses with requests.
#[derive(Debug)]
pub(super) struct ResponseMatcher {
    /// In send order, with consecutive ids.
    requests: InFlight,
    next_id: u64,
    /// Whether responses arrive over HTTP: the body counts when its HTTP response is complete.
    is_http: bool,
    /// Result in the body of the current HTTP response, if one was found.
    body_result: Option<Result<(), Failure>>,
}

impl ResponseMatcher {
    pub(super) const fn new(is_http: bool) -> Self {
        Self { requests: InFlight::new(), next_id: ID_FIRST, is_http, body_result: None }
    }

    /// Frees capacity that is no longer needed.
    #[inline]
    pub(super) fn shrink(&mut self) {
        self.requests.shrink();
    }

    /// Returns whether a request was recorded.
    pub(super) const fn has_sent(&self) -> bool {
        self.next_id != ID_FIRST
    }

    pub(super) fn in_flight(&self) -> usize {
        self.requests.request_count()
    }

    /// Records a request and returns its id.
    #[inline]
    pub(super) fn add_request(&mut self, call: u16, intended: Instant, sent: Instant) -> u64 {
        let id = self.next_id;
        self.next_id = if id + 1 < ID_FIRST + ID_COUNT { id + 1 } else { ID_FIRST };
        self.requests.add(InFlightRequest {
            id,
            intended,
            sent,
            call,
            state: InFlightState::Waiting,
            has_event: false,
            has_progress: false,
        });
        id
    }

    /// Records a request whose end is not reported.
    pub(super) fn add_unreported(&mut self, now: Instant) {
        self.add_request(0, now, now);
        let last = self.in_flight() - 1;
        if let Some(request) = self.requests.request_mut(last) {
            request.state = InFlightState::Failed;
        }
    }

    /// Completes the oldest request if `bytes` begin with exactly the expected response; returns
    /// its length.
    #[inline]
    pub(super) fn match_template(
        &mut self,
        calls: &RequestTemplates,
        bytes: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) -> Option<usize> {
        let request = self.requests.oldest()?;
        let template = calls.response_template(request.call)?;
        let len = template.match_length(bytes, request.id)?;
        if template.is_stream() {
            on_event(ReceiveEvent::Streamed);
        }
        self.complete_request(0, None, on_event);
        Some(len)
    }

    /// Handles a message; `whole` is its framed form if that arrived contiguously.
    pub(super) fn handle_message(
        &mut self,
        calls: &mut RequestTemplates,
        text: &[u8],
        whole: Option<&[u8]>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        if let Some(mut reader) = calls.take_parity_reader() {
            self.handle_parity_message(calls, &mut reader, text, whole, on_event);
            return calls.restore_parity_reader(reader);
        }
        let expected = |id| {
            let request = self.requests.get(self.position(id)?)?;
            calls.call(request.call)?.check()
        };
        let quoted = &text[..text.len().min(BODY_BYTES_MAX)];
        match classify_message(text, expected) {
            MessageKind::Response { id, failure: Some(Failure::InputRequired) }
                if self.answer_input(calls, id, text, on_event) => {}
            MessageKind::Response { id, failure } => match self.position(id) {
                Some(0) if self.is_http => {
                    self.explain_result(calls, id, failure, text);
                    self.report_result(calls, id, failure, text, on_event);
                    self.body_result = Some(failure.map_or(Ok(()), Err));
                }
                _ if self.is_http => self.reject_body(Failure::Wrong, &id),
                Some(place) => {
                    self.explain_result(calls, id, failure, text);
                    self.report_result(calls, id, failure, text, on_event);
                    self.learn_template(calls, place, failure, whole);
                    self.complete_request(place, failure, on_event);
                    if failure.is_some() {
                        self.report_answer(id, failure, quoted, on_event);
                    }
                }
                None => self.handle_unmatched(id, quoted, on_event),
            },
            MessageKind::Request { id, method } => {
                if calls.have_progress_token() {
                    self.record_message(calls, text, on_event);
                }
                on_event(ReceiveEvent::ServerRequest { id: id.into(), method: method.into() });
            }
            MessageKind::Notification => {
                if calls.have_progress_token() {
                    self.record_message(calls, text, on_event);
                }
                on_event(ReceiveEvent::Notification);
            }
            MessageKind::Invalid if self.is_http => {
                self.body_result = Some(Err(Failure::Garbage));
            }
            // It takes the place of a response: the oldest request fails.
            MessageKind::UnmatchedResponse { id, is_error } => {
                let failure = if is_error { Failure::Rpc } else { Failure::Wrong };
                if self.is_http {
                    return self.reject_body(failure, &id);
                }
                self.explain_id(&id);
                self.fail_oldest(failure, quoted, on_event);
            }
            MessageKind::Invalid => self.fail_oldest(Failure::Garbage, quoted, on_event),
        }
    }

    /// Handles the end of an HTTP response.
    pub(super) fn finish_http_response(
        &mut self,
        calls: &mut RequestTemplates,
        status: u16,
        excerpt: &[u8],
        whole: Option<&[u8]>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let body_result = self.body_result.take();
        let Some(id) = self.requests.oldest().map(|request| request.id) else {
            return report_unsolicited(excerpt, on_event);
        };
        let failure = match (status, body_result) {
            // The stream has not ended.
            (200..300, None) if self.remove_stream(id) => Some(Failure::Stream),
            (200..300, Some(result)) => result.err(),
            (400..600, Some(Err(failure @ Failure::Parity(_)))) => Some(failure),
            (400..600, _) => Some(status_failure(status)),
            _ => Some(Failure::Garbage),
        };
        self.remove_stream(id);
        self.learn_template(calls, 0, failure, whole);
        let is_reported =
            self.requests.oldest().is_some_and(|request| request.state == InFlightState::Waiting);
        self.complete_request(0, failure, on_event);
        if failure.is_some() && is_reported {
            self.report_answer(id, failure, excerpt, on_event);
        }
    }

    /// Fails the HTTP response in progress, whose body has another id.
    #[cold]
    fn reject_body(&mut self, failure: Failure, id: &impl Display) {
        self.explain_id(id);
        self.body_result = Some(Err(failure));
    }

    /// Keeps the reason why the response to the oldest request is wrong: its id.
    #[cold]
    fn explain_id(&mut self, id: &impl Display) {
        if let Some(request) = self.requests.oldest().map(|request| request.id) {
            let id = id.to_string();
            let id = if id.is_empty() { "no id".into() } else { format!("id {id}") };
            let text = format!("the response has {id}, expected id {request}");
            self.requests.set_reason(request, text);
        }
    }

    /// Keeps the reason why the result of a request is wrong, if it is wanted.
    fn explain_result(
        &mut self,
        calls: &RequestTemplates,
        id: u64,
        failure: Option<Failure>,
        text: &[u8],
    ) {
        if calls.explains(failure)
            && let Some(place) = self.position(id)
            && let Some(request) = self.requests.get(place)
            && let Some(check) = calls.call(request.call).and_then(RequestTemplate::check)
            && let Some(reason) = explain_result(text, check)
        {
            self.requests.set_reason(id, reason);
        }
    }

    /// Reports the answers to a result that requires input; the end of its request is not reported
    /// then. Returns whether there are answers.
    #[cold]
    fn answer_input(
        &mut self,
        calls: &RequestTemplates,
        id: u64,
        text: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) -> bool {
        let Some(place) = self.position(id) else { return false };
        let Some((answers, result)) = calls.answers().zip(result_text(text)) else { return false };
        match answers.members(result) {
            Ok(members) => {
                if let Some(request) = self.requests.request_mut(place) {
                    request.state = InFlightState::Failed;
                }
                on_event(ReceiveEvent::InputRequired(members));
                if self.is_http {
                    self.body_result = Some(Ok(()));
                } else {
                    self.complete_request(place, None, on_event);
                }
                true
            }
            Err(reason) => {
                self.requests.set_reason(id, reason);
                false
            }
        }
    }

    /// Reports the result of a request if its template keeps it.
    fn report_result(
        &self,
        calls: &RequestTemplates,
        id: u64,
        failure: Option<Failure>,
        text: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let call = self.position(id).and_then(|place| self.requests.get(place));
        let call = call.and_then(|request| calls.call(request.call));
        if failure.is_none()
            && call.is_some_and(RequestTemplate::keeps_result)
            && let Some(result) = result_text(text)
        {
            on_event(ReceiveEvent::Result(result.to_owned()));
        }
    }

    /// Reports the answer of a failed request, behind the reason if that is known.
    #[cold]
    fn report_answer(
        &mut self,
        id: u64,
        failure: Option<Failure>,
        quoted: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let answer = match self.requests.take_reason(id) {
            Some(reason) => [reason.as_bytes(), b":\n", quoted].concat(),
            None => quoted.to_vec(),
        };
        on_event(ReceiveEvent::Failed { failure, answer });
    }

    /// Returns the position of the request with this id if it has no response yet.
    fn position(&self, id: u64) -> Option<usize> {
        let first = self.requests.oldest()?.id;
        // Ids wrap around.
        let distance = if id >= first { id - first } else { (id + ID_COUNT).checked_sub(first)? };
        let place = usize::try_from(distance).ok()?;
        let request = self.requests.get(place)?;
        (request.id == id && request.state != InFlightState::Answered).then_some(place)
    }

    fn learn_template(
        &self,
        calls: &mut RequestTemplates,
        place: usize,
        failure: Option<Failure>,
        whole: Option<&[u8]>,
    ) {
        if failure.is_none()
            && let Some(whole) = whole
            && let Some(request) = self.requests.get(place)
            && request.state == InFlightState::Waiting
            // A template of a whole event stream would hide its events.
            && !(self.is_http && request.has_event)
            && calls.call(request.call).is_some_and(RequestTemplate::has_response_template)
        {
            calls.set_response_template(request.call, whole, request.id);
        }
    }

    /// Fails the oldest unanswered request, because an invalid message took the place of a
    /// response.
    fn fail_oldest(
        &mut self,
        failure: Failure,
        quoted: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let waiting =
            self.requests.entries().position(|request| request.state != InFlightState::Answered);
        match waiting {
            Some(place) => {
                let id = self.requests.get(place).map(|request| request.id).unwrap_or_default();
                self.remove_stream(id);
                self.complete_request(place, Some(failure), on_event);
                self.report_answer(id, Some(failure), quoted, on_event);
            }
            None => report_unsolicited(quoted, on_event),
        }
    }

    /// Handles a response to no request in flight.
    #[cold]
    fn handle_unmatched(
        &mut self,
        id: u64,
        quoted: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        if self.requests.remove_timed_out(id) {
            return on_event(ReceiveEvent::Late);
        }
        let expected = match self.requests.oldest() {
            Some(request) => format!("expected id {}", request.id),
            None => "no request is in flight".into(),
        };
        let reason = format!("the response has id {id}, {expected}:\n");
        report_unsolicited(&[reason.as_bytes(), quoted].concat(), on_event);
    }

    /// Completes a request. One whose stream has failed was reported before.
    fn complete_request(
        &mut self,
        place: usize,
        failure: Option<Failure>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let Some(request) = self.requests.request_mut(place) else { return };
        if request.state == InFlightState::Waiting {
            let InFlightRequest { call, intended, sent, .. } = *request;
            on_event(ReceiveEvent::Completed(CompletedRequest { call, intended, sent, failure }));
        }
        request.state = InFlightState::Answered;
        while self.requests.oldest().is_some_and(|request| request.state == InFlightState::Answered)
        {
            self.requests.remove_oldest();
        }
    }

    /// Fails the unanswered requests that were sent before `before` as timeouts and removes them;
    /// `on_timeout` receives the id of each, and that of its stream. Returns whether there were
    /// any.
    pub(super) fn time_out(
        &mut self,
        before: Instant,
        mut on_timeout: impl FnMut(u64, Option<&str>),
        on_event: &mut impl FnMut(ReceiveEvent),
    ) -> bool {
        let mut is_any = false;
        while let Some(mut request) = self.requests.oldest().copied()
            && request.sent < before
        {
            is_any = true;
            report_failure(&mut request, Failure::Timeout, on_event);
            self.requests.remove_oldest();
            if request.state != InFlightState::Answered {
                // Over HTTP the connection ends, and its answer with it.
                if !self.is_http {
                    self.requests.add_timed_out(request.id);
                }
                let streams = self.requests.streams();
                on_timeout(request.id, streams.and_then(|all| all.abandon(request.id)));
            }
        }
        is_any
    }

    /// Removes the only request in flight, unless it is the first of all or was reported.
    pub(super) fn take_only_waiting(&mut self) -> Option<UnansweredRequest> {
        let request = self.requests.oldest().filter(|_| self.in_flight() == 1)?;
        let InFlightRequest { id, call, intended, state, .. } = *request;
        (id != ID_FIRST && state == InFlightState::Waiting).then(|| {
            self.requests.remove_oldest();
            UnansweredRequest { call, intended }
        })
    }

    /// Removes the only request in flight, if it waits; returns its id.
    pub(super) fn cancel(&mut self) -> Option<u64> {
        let request = self.requests.oldest().filter(|_| self.in_flight() == 1)?;
        let (id, state) = (request.id, request.state);
        (state == InFlightState::Waiting).then(|| {
            self.body_result = None;
            self.requests.remove_oldest();
            if !self.is_http {
                self.requests.add_timed_out(id);
            }
            id
        })
    }

    /// Removes all requests; returns those that wait for an answer.
    pub(super) fn take_waiting(&mut self) -> Vec<UnansweredRequest> {
        self.body_result = None;
        let requests = self.requests.take_all();
        let waiting = requests.filter(|request| request.state == InFlightState::Waiting);
        waiting
            .map(|InFlightRequest { call, intended, .. }| UnansweredRequest { call, intended })
            .collect()
    }

    /// Fails all requests in flight, because the connection ended.
    pub(super) fn fail_all(&mut self, failure: Failure, on_event: &mut impl FnMut(ReceiveEvent)) {
        self.body_result = None;
        for request in
            self.requests.take_all().filter(|request| request.state == InFlightState::Waiting)
        {
            let InFlightRequest { call, intended, sent, .. } = request;
            on_event(ReceiveEvent::Completed(CompletedRequest {
                call,
                intended,
                sent,
                failure: Some(failure),
            }));
        }
    }
}

/// Reports the failure of a request whose response, or the end of its stream, may still arrive.
fn report_failure(
    request: &mut InFlightRequest,
    failure: Failure,
    on_event: &mut impl FnMut(ReceiveEvent),
) {
    if request.state == InFlightState::Waiting {
        request.state = InFlightState::Failed;
        let InFlightRequest { call, intended, sent, .. } = *request;
        let failure = Some(failure);
        on_event(ReceiveEvent::Completed(CompletedRequest { call, intended, sent, failure }));
    }
}

fn report_unsolicited(quoted: &[u8], on_event: &mut impl FnMut(ReceiveEvent)) {
    on_event(ReceiveEvent::Unsolicited);
    on_event(ReceiveEvent::Failed { failure: None, answer: quoted.to_vec() });
}
