//! Matching of messages of the parity dialect.

use corelane_parity::envelope::{Chunk, ChunkType, Envelope, Response};
use corelane_parity::error::ErrorCode;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;

use super::{ReceiveEvent, ResponseMatcher, report_failure, report_unsolicited};
use crate::mcp::message_kind::check_result;
use crate::mcp::parity::failure_of;
use crate::mcp::parity::messages::MessageReader;
use crate::mcp::parity::streams::ChunkEffect;
use crate::mcp::request_template::RequestTemplate;
use crate::mcp::request_templates::RequestTemplates;
use crate::mcp::result_check::ResultCheck;
use crate::metrics::failure_examples::BODY_BYTES_MAX;
use crate::metrics::outcome::Failure;

/// A received text.
#[derive(Clone, Copy)]
struct ReceivedText<'a> {
    /// Its beginning, for examples of failures.
    quoted: &'a [u8],
    /// Its framed form, if that arrived contiguously.
    whole: Option<&'a [u8]>,
}

impl ResponseMatcher {
    /// Handles a message of the parity dialect; see [`ResponseMatcher::handle_message`].
    pub(super) fn handle_parity_message(
        &mut self,
        calls: &mut RequestTemplates,
        reader: &mut MessageReader,
        text: &[u8],
        whole: Option<&[u8]>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let received = ReceivedText { quoted: &text[..text.len().min(BODY_BYTES_MAX)], whole };
        reader.read(text, |envelope| match envelope {
            Some(Envelope::Chunk(chunk)) => self.handle_chunk(calls, &chunk, received, on_event),
            Some(Envelope::Response(response)) => {
                self.handle_response(calls, &response, received, on_event);
            }
            Some(Envelope::Keepalive { timeout_hint }) => {
                on_event(ReceiveEvent::Keepalive(timeout_hint));
            }
            Some(Envelope::Error { id, stream_id, error }) => {
                self.handle_error(id, stream_id, failure_of(error), received, on_event);
            }
            // It takes the place of a response: the oldest request fails.
            _ => self.handle_error(None, None, Failure::Garbage, received, on_event),
        });
    }

    fn handle_response(
        &mut self,
        calls: &mut RequestTemplates,
        response: &Response<'_>,
        received: ReceivedText<'_>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let id = request_id(response.id);
        let Some((id, place)) = id.and_then(|id| Some((id, self.position(id)?))) else {
            if self.is_http {
                return self.reject_body(Failure::Wrong, &id.unwrap_or_default());
            }
            return self.handle_unmatched_response(response, received, on_event);
        };
        let number = self.requests.get(place).map(|request| request.call).unwrap_or_default();
        let call = calls.call(number);
        let is_stream = call.is_some_and(RequestTemplate::is_stream);
        let failure = match response.outcome {
            Err(error) => Some(failure_of(error)),
            Ok(result) if is_stream => match self.open_stream(result, id, number) {
                Ok(()) => return,
                Err(failure) => Some(failure),
            },
            Ok(result) => judge(result, call.and_then(RequestTemplate::check)).err(),
        };
        if let (Ok(result), true) = (response.outcome, calls.explains(failure)) {
            self.explain_value(calls, id, result);
        }
        if self.is_http {
            let is_first = place == 0;
            let failure = if is_first { failure } else { Some(Failure::Wrong) };
            self.body_result = Some(failure.map_or(Ok(()), Err));
            return;
        }
        if !is_stream {
            self.learn_template(calls, place, failure, received.whole);
        }
        self.finish_request(id, failure, received.quoted, on_event);
    }

    /// Handles a response to no request in flight. If it opens the stream of a request that timed
    /// out, the answer arrives with the stream.
    fn handle_unmatched_response(
        &mut self,
        response: &Response<'_>,
        received: ReceivedText<'_>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let Some(id) = request_id(response.id) else {
            return report_unsolicited(received.quoted, on_event);
        };
        if let Err(error) = response.outcome {
            return self.finish_request(id, Some(failure_of(error)), received.quoted, on_event);
        }
        if self.requests.is_timed_out(id)
            && let Ok(result) = response.outcome
            && self.open_stream(result, id, 0).is_ok()
        {
            self.requests.streams_or_default().abandon(id);
        } else {
            self.handle_unmatched(id, received.quoted, on_event);
        }
    }

    /// Records the stream of a request.
    fn open_stream(&mut self, result: Value<'_>, request: u64, call: u16) -> Result<(), Failure> {
        let stream_id = result.as_object().and_then(|result| result.find("streamId")?.as_str());
        let streams = self.requests.streams_or_default();
        let is_new = stream_id.is_some_and(|stream_id| streams.open(stream_id, request, call));
        if is_new { Ok(()) } else { Err(Failure::Wrong) }
    }

    fn handle_chunk(
        &mut self,
        calls: &RequestTemplates,
        chunk: &Chunk<'_>,
        received: ReceivedText<'_>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        self.record_chunk(chunk, on_event);
        let mut is_wrong = false;
        let judge = |call| match (chunk.chunk_type, chunk.data) {
            (ChunkType::Error, Some(error)) => Err(failure_of(error)),
            (_, Some(result)) => {
                let outcome = judge(result, calls.call(call).and_then(RequestTemplate::check));
                is_wrong = outcome == Err(Failure::Wrong);
                outcome
            }
            (_, None) => Err(Failure::Stream),
        };
        let effect = self.requests.streams().map(|streams| streams.receive(chunk, judge));
        if let Some(result) = chunk.data.filter(|_| is_wrong)
            && calls.explains(Some(Failure::Wrong))
            && let Some(request) =
                self.requests.streams().and_then(|it| it.request_of(chunk.stream_id))
        {
            self.explain_value(calls, request, result);
        }
        on_event(ReceiveEvent::Chunk);
        match effect.unwrap_or(ChunkEffect::Unknown) {
            ChunkEffect::Delivered => {}
            ChunkEffect::Unknown => report_unsolicited(received.quoted, on_event),
            ChunkEffect::Failed { request } => {
                let place = self.position(request);
                if let Some(request) = place.and_then(|place| self.requests.request_mut(place)) {
                    let failure = Failure::Stream;
                    report_failure(request, failure, on_event);
                    let answer = received.quoted.to_vec();
                    on_event(ReceiveEvent::Failed { failure: Some(failure), answer });
                }
            }
            ChunkEffect::EndedLate { request } => {
                self.handle_unmatched(request, received.quoted, on_event);
            }
            ChunkEffect::Ended { failure, .. } if self.is_http => {
                self.body_result = Some(failure.map_or(Ok(()), Err));
            }
            ChunkEffect::Ended { request, failure } => {
                self.finish_request(request, failure, received.quoted, on_event);
            }
        }
    }

    /// Records a chunk that is not the result, its error or the end of a stream.
    fn record_chunk(&mut self, chunk: &Chunk<'_>, on_event: &mut impl FnMut(ReceiveEvent)) {
        let is_progress = match chunk.chunk_type {
            ChunkType::Progress => true,
            ChunkType::Log | ChunkType::Partial => false,
            ChunkType::Result | ChunkType::Error | ChunkType::Eos => return,
        };
        let streams = self.requests.streams();
        let request = streams.and_then(|streams| streams.request_of(chunk.stream_id));
        if let Some(place) = request.and_then(|request| self.position(request)) {
            self.record_stream_event(place, is_progress, on_event);
        }
    }

    /// Handles an error that is no response: the request that it is about fails, else the oldest.
    fn handle_error(
        &mut self,
        id: Option<Id<'_>>,
        stream_id: Option<&str>,
        failure: Failure,
        received: ReceivedText<'_>,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        if self.is_http {
            self.body_result = Some(Err(failure));
            return;
        }
        let streams = self.requests.streams();
        let of_stream = streams.and_then(|streams| streams.request_of(stream_id?));
        match id.and_then(request_id).or(of_stream) {
            Some(request) => {
                self.finish_request(request, Some(failure), received.quoted, on_event);
            }
            None if stream_id.is_some() && self.has_forgotten_streams() => {}
            None => self.fail_oldest(failure, received.quoted, on_event),
        }
    }

    /// Completes a request by its id, with its stream.
    fn finish_request(
        &mut self,
        id: u64,
        failure: Option<Failure>,
        quoted: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        if failure.is_some() {
            self.remove_stream(id);
        }
        let refuses_cancel = failure == Some(Failure::Parity(ErrorCode::FeatureNotAvailable));
        if refuses_cancel && self.requests.is_timed_out(id) {
            // The request goes on.
            return;
        }
        let Some(place) = self.position(id) else {
            return self.handle_unmatched(id, quoted, on_event);
        };
        self.complete_request(place, failure, on_event);
        if failure.is_some() {
            self.report_answer(id, failure, quoted, on_event);
        }
    }

    /// Keeps the reason why the result of a request is wrong, if it is.
    #[cold]
    fn explain_value(&mut self, calls: &RequestTemplates, id: u64, result: Value<'_>) {
        let place = self.position(id);
        let request = place.and_then(|place| self.requests.get(place));
        let call = request.and_then(|request| calls.call(request.call));
        let check = call.and_then(RequestTemplate::check);
        if let Some(reason) = check.and_then(|check| check.explain(&text_of(result))) {
            self.requests.set_reason(id, reason);
        }
    }

    /// Returns whether the stream of a request that timed out is no longer known.
    fn has_forgotten_streams(&mut self) -> bool {
        self.requests.streams().is_some_and(|streams| streams.has_forgotten())
    }

    /// Removes the stream of a request; returns whether there was one.
    pub(super) fn remove_stream(&mut self, request: u64) -> bool {
        self.requests.streams().is_some_and(|streams| streams.remove_of(request))
    }
}

/// Returns the id of one of our requests.
fn request_id(id: Id<'_>) -> Option<u64> {
    id.as_u64()
}

/// Evaluates the result of a request.
fn judge(result: Value<'_>, check: Option<&ResultCheck>) -> Result<(), Failure> {
    check_result(&text_of(result), check).map_or(Ok(()), Err)
}

fn text_of(result: Value<'_>) -> String {
    let mut text = Vec::new();
    result.write(&mut text);
    String::from_utf8(text).unwrap_or_default()
}
