//! Requests of a session: to the dispatcher, and their cancellation.
//!
//! Invariants: a request is answered once, a stream by its last chunks; the number in the reply
//! target of a call is that of its stream or of its idempotency key.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::cycles::CycleCount;
use corelane_parity::envelope::{Request, Target};
use corelane_parity::error::{HttpStatus, ParityError};
use corelane_parity::write;
use corelane_protocol::error::Error;
use corelane_protocol::json::{Value, ValueKind};
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::EncodedResponse;
use corelane_protocol::params::RequestParams;

use super::carrier::{Carrier, ResponseKind};
use super::output::ParityPath;
use super::session::{EndOutcome, ParitySession, sent_error};
use crate::server::connection_state::{MessageOrigin, OriginDetails, PeerState};
use crate::server::dispatch::{MessageContext, RawRequest};
use crate::server::outbox::OutgoingMessage;
use crate::server::reply_to::{Outcome, ParityKey, PeerId, RefusalFields, ReplyTo};
use crate::server::shard_message::ParityHttpOutput;
use crate::telemetry::counters::ParityRequestCounters;
use crate::telemetry::event::parity::{
    self as parity_event, RejectedFields, RequestFields, RequestRecord,
};
use crate::telemetry::trace::OpenSpan;

/// Counts a request by its method.
fn count(requests: &mut ParityRequestCounters, method: &str) {
    let counter = match method {
        "tools/call" => &mut requests.tools_call,
        "tools/list" => &mut requests.tools_list,
        "resources/list" => &mut requests.resources_list,
        "resources/read" => &mut requests.resources_read,
        "prompts/list" => &mut requests.prompts_list,
        "prompts/get" => &mut requests.prompts_get,
        _ => &mut requests.other,
    };
    *counter += 1;
}

/// What a request has come to when its dispatch ends.
struct Dispatched {
    /// The number of its call or stream.
    number: u32,
    outcome: Outcome,
    /// How long that took.
    took: Duration,
    /// Its response, encoded, if it has a result.
    text: Vec<u8>,
    failure: Option<Error>,
    /// Header fields of its response, if it is refused.
    refusal: Option<RefusalFields>,
}

/// Largest buffer of responses that is stored for reuse.
const RESPONSE_BYTES_KEPT_MAX: usize = 64 << 10;

impl ParityPath<'_> {
    /// Starts a request of a session, and answers it if that is possible at once.
    pub(super) fn start_request(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        request: &Request<'_>,
    ) {
        let mut stream = None;
        if request.streams {
            stream = self.open_stream(carrier, key, request);
            if stream.is_none() {
                return;
            }
        } else if let Carrier::Exchange { .. } = carrier {
            self.parity.is_answered = true;
        }
        count(&mut self.outbox.counters.parity.requests, request.method);
        let Some(dispatched) = self.dispatch_session_request(carrier, key, stream, request) else {
            return;
        };
        let Dispatched { number, outcome, took, text, failure, refusal } = dispatched;
        // What goes to a connection of this shard, or into a stream, is counted there.
        if stream.is_none() && !matches!(carrier, Carrier::Connection(_)) {
            self.outbox.count_outcome(outcome);
        }
        let id = request.id;
        match &failure {
            _ if !outcome.is_response() => self.copy_pending_work(key),
            Some(error) => {
                let error = ParityError::from(error);
                self.end_request(key, number, took, EndOutcome::Failed(&error));
                self.write_failure(key, number, id, &error, refusal);
            }
            None => {
                let response = EncodedResponse::new(&text);
                let message = OutgoingMessage::Result { id, response };
                let _at_once = self.send_message(key, number, &message, took);
            }
        }
        if text.capacity() <= RESPONSE_BYTES_KEPT_MAX {
            self.parity.response = text;
        }
    }

    /// Dispatches a request, in its span if it has one. `stream`: the number of its stream, which
    /// is its progress token. Returns `None` if its response could not be sent.
    fn dispatch_session_request(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        stream: Option<u32>,
        request: &Request<'_>,
    ) -> Option<Dispatched> {
        let Self { parity, connections, dispatcher, outbox, now, .. } = self;
        let mut text = parity.take_response_buffer();
        let session = parity.get_mut(key)?;
        let peer_addr = match carrier {
            Carrier::Connection(connection) => {
                let mut entry = connections.entry(connection)?;
                (stream.is_some() || entry.reserve_output()).then_some(())?;
                entry.connection.record.peer_address().copied()
            }
            Carrier::Remote => session.carrier.remote().and_then(|remote| remote.peer_address),
            Carrier::Exchange { caller, .. } => caller.peer_addr,
        };
        let number = stream.unwrap_or_else(|| session.requests.next_number());
        // The span of a stream began with it.
        let exported = outbox.begin_request_span(stream.is_none(), request.traceparent);
        let is_described = exported.is_some() || is_described(request);
        if stream.is_none() && is_described {
            add(session, number, request, *now, exported);
        }
        if let Carrier::Exchange { address, .. } = carrier
            && stream.is_none()
        {
            session.carrier.add_exchange(number, address);
        }
        let (traceparent, is_streamed) = (request.traceparent, stream.is_some());
        let details = carrier.origin_details(session.id);
        let details = &OriginDetails { traceparent, is_streamed, ..details };
        let mut failure = None;
        let mut peer = PeerState {
            origin: MessageOrigin { peer_addr: peer_addr.as_ref(), details },
            state: &mut session.state,
            pending_work: &mut session.pending_work,
            outgoing: &mut text,
            outbox,
            refusal: None,
            failure: Some(&mut failure),
            left_out: None,
        };
        let call_params = &RequestParams::read(request.params);
        let token = stream.map(|number| Id::Signed(number.into()));
        let meta = &call_params.meta().map(|meta| meta.with_progress_token(token));
        let Request { id, method, params, .. } = *request;
        let raw = RawRequest { id, method, params, call_params, meta };
        let reply_to = ReplyTo { peer_id: PeerId::Parity(key), stream: number };
        let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
        let record = if is_described { session.requests.record_mut(number) } else { None };
        let span = record.map(|record| record.enter());
        let begun = CycleCount::now();
        let outcome = dispatcher.dispatch_request(ctx, &mut peer, &raw);
        let (took, refusal) = (dispatcher.slow_handlers.took(begun), peer.refusal.take());
        drop(span);
        if stream.is_none() && !is_described && !outcome.is_response() {
            session.requests.add(number, *now, None, None);
        }
        if let Some(violation) = session.state.violation
            && let Carrier::Connection(connection) = carrier
            && let Some(connection) = connections.table.get_mut(connection)
        {
            connection.state.violation.get_or_insert(violation);
        }
        Some(Dispatched { number, outcome, took, text, failure, refusal })
    }

    /// Opens the stream of a request, and answers with its id.
    fn open_stream(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        request: &Request<'_>,
    ) -> Option<u32> {
        let streams_max = self.parity.settings.session.streams_max;
        let session = self.parity.get_mut(key)?;
        let opened = if session.state.in_flight.contains(request.id) {
            Err(ParityError::invalid_envelope("a request with this id is in flight"))
        } else {
            session.protocol.streams.open(request.id, streams_max)
        };
        let (number, stream_id) = match opened {
            Ok(stream) => (stream.number(), stream.id().to_owned()),
            Err(error) => {
                if let Some(idempotency_key) = request.idempotency_key {
                    session.protocol.keys.forget(idempotency_key);
                }
                let status = error.http_status();
                self.record_rejected_request(key, request, &error);
                self.reply(carrier, key, status, |out| {
                    write::error_response(out, request.id, &error);
                });
                return None;
            }
        };
        let exported = self.outbox.begin_request_span(true, request.traceparent);
        add(session, number, request, self.now, exported);
        if let Some(record) = session.requests.record_mut(number) {
            record.open_stream(&stream_id);
        }
        if let Carrier::Exchange { address, response: ResponseKind::Chunks, .. } = carrier {
            // The response becomes an event stream: it begins with the stream id.
            let session_id = session.id;
            session.carrier.add_exchange(number, address);
            if let Some(http) = session.carrier.http_mut() {
                let streams = &session.protocol.streams;
                let is_kept = |number| streams.iter().any(|stream| stream.number() == number);
                http.begin_posted(number, is_kept);
            }
            let mut data = Vec::new();
            write::stream_response(&mut data, request.id, &stream_id);
            let id = Some(format!("{stream_id}:0").into());
            let (session, name) = (session_id, "response");
            self.forward(address, ParityHttpOutput::Event { session, name, id, data });
            self.parity.is_answered = true;
        } else {
            self.reply(carrier, key, HttpStatus::OK, |out| {
                write::stream_response(out, request.id, &stream_id);
            });
        }
        Some(number)
    }

    /// Counts a message that is rejected, and writes its line with what can be read of it; `None`
    /// is text that is no JSON.
    #[cold]
    pub(super) fn record_rejection(
        &mut self,
        key: ParityKey,
        message: Option<Value<'_>>,
        error: &ParityError,
    ) {
        self.outbox.count_rejection(error.code);
        let is_recorded = parity_event::is_enabled() || self.outbox.tracer.is_on();
        let Some(session) = self.parity.get(key).filter(|_| is_recorded) else { return };
        let object = message.and_then(Value::as_object).unwrap_or_default();
        let text_of = |name| object.find(name).and_then(Value::as_str);
        let is_id = |id: &Value<'_>| matches!(id.kind(), ValueKind::String | ValueKind::Number);
        let id = object.find("id").filter(is_id).map(written);
        let fields = RejectedFields {
            is_request: text_of("type") == Some("request"),
            request_id: id.as_deref(),
            method: text_of("method"),
            tool: tool_of(object.find("params")),
            traceparent: text_of("traceparent"),
        };
        let exported = self.outbox.begin_request_span(fields.is_request, fields.traceparent);
        let error = sent_error(error);
        parity_event::record_rejection(&session.log_fields(), &fields, error, exported);
    }

    /// Counts a request that is rejected, and writes its line.
    #[cold]
    fn record_rejected_request(
        &mut self,
        key: ParityKey,
        request: &Request<'_>,
        error: &ParityError,
    ) {
        self.outbox.count_rejection(error.code);
        let is_recorded = parity_event::is_enabled() || self.outbox.tracer.is_on();
        let Some(session) = self.parity.get(key).filter(|_| is_recorded) else { return };
        let mut id = Vec::new();
        request.id.write(&mut id);
        let fields = RejectedFields {
            is_request: true,
            request_id: Some(&String::from_utf8_lossy(&id)),
            method: Some(request.method),
            tool: tool_of(request.params),
            traceparent: request.traceparent,
        };
        let exported = self.outbox.begin_request_span(fields.is_request, fields.traceparent);
        let error = sent_error(error);
        parity_event::record_rejection(&session.log_fields(), &fields, error, exported);
    }

    /// Cancels a request or stream, and writes its end. One that is not in flight is ignored: its
    /// response may have crossed the cancellation.
    pub(super) fn cancel_request(&mut self, key: ParityKey, target: Target<'_>) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let streams = &mut session.protocol.streams;
        let stream = match target {
            Target::Request(id) => streams.number_of(id),
            Target::Stream(id) => {
                let open = streams.find_mut(id).filter(|stream| !stream.has_ended());
                open.map(|stream| stream.number())
            }
        };
        let request: Option<IdBuf> = match (stream.and_then(|it| streams.get_mut(it)), target) {
            (Some(stream), _) => Some(stream.request().into()),
            (None, Target::Request(id)) => Some(id.into()),
            (None, Target::Stream(_)) => None,
        };
        let exchange = ReplyTo::standalone(PeerId::Parity(key)).exchange();
        let call_id =
            request.as_ref().and_then(|id| session.state.in_flight.call_of(id.as_id(), exchange));
        let call = call_id.and_then(|call_id| self.dispatcher.deferred.calls.find_awaited(call_id));
        let call_number = call.map(|call| call.reply_to.stream);
        let is_in_flight = stream.is_some() || call_number.is_some();
        self.outbox.counters.parity.repeats.cancellations += u64::from(is_in_flight);
        if let Some(call_number) = call_number {
            self.cancel_if(key, |number| number == call_number);
        }
        match (stream, call_number, &request) {
            (Some(number), _, _) => {
                // Unless it has ended with its call.
                if self.parity.get(key).is_some_and(|session| session.requests.has(number)) {
                    let outcome = EndOutcome::Failed(&ParityError::cancelled());
                    self.end_request(key, number, Duration::ZERO, outcome);
                }
                self.end_stream(key, number, "cancelled");
            }
            (None, Some(number), Some(id)) => {
                let error = ParityError::cancelled();
                let status = error.http_status();
                self.write_call_response(key, number, status, None, |out| {
                    write::error_response(out, id.as_id(), &error);
                });
            }
            _ => {}
        }
        if let Some(session) = self.parity.get_mut(key) {
            session.protocol.end_cancel();
        }
        self.copy_pending_work(key);
    }
}

/// Returns whether more than the number of a request has to be known at its end.
fn is_described(request: &Request<'_>) -> bool {
    request.idempotency_key.is_some() || parity_event::is_enabled()
}

/// Returns the name in the params of a request, such as that of a tool.
fn tool_of(params: Option<Value<'_>>) -> Option<&str> {
    params?.as_object()?.find("name")?.as_str()
}

/// Returns a value as JSON.
fn written(value: Value<'_>) -> String {
    let mut text = Vec::new();
    value.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Adds a request to those that wait for their end. `exported`: its span for the exporter, if there
/// is one.
fn add(
    session: &mut ParitySession,
    number: u32,
    request: &Request<'_>,
    now: Instant,
    exported: Option<OpenSpan>,
) {
    let record = (parity_event::is_enabled() || exported.is_some()).then(|| {
        let mut id = Vec::new();
        request.id.write(&mut id);
        let fields = RequestFields {
            request_id: &String::from_utf8_lossy(&id),
            method: request.method,
            tool: tool_of(request.params),
            traceparent: request.traceparent,
        };
        RequestRecord::begin(session.log_fields(), &fields, exported)
    });
    let keyed = request.idempotency_key.map(|key| (request.id, key));
    session.requests.add(number, now, keyed, record);
}
