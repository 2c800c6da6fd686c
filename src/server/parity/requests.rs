//! Requests of a session: to the dispatcher, and their cancellation.
//!
//! Invariants: a request is answered once, a stream by its last chunks; the number in the reply
//! target of a call is that of its stream or of its idempotency key.

use std::time::Duration;

use super::carrier::{Carrier, ResponseKind};
use super::convert;
use super::output::ParityPath;
use super::session::{EndOutcome, ParitySession, RequestEnd, is_stream};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::cycles::CycleCount;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::{Id, IdBuf};
use crate::protocol::params::RequestParams;
use crate::protocol::parity::envelope::{Request, Target};
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::write;
use crate::server::connection_state::{MessageOrigin, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext, RawRequest};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard_message::ParityHttpOutput;
use crate::telemetry::counters::ParityRequestCounters;
use crate::telemetry::event::parity::{self as parity_event, RequestRecord};

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

impl ParityPath<'_> {
    /// Starts a request of a session.
    pub(super) fn start_request(&mut self, carrier: Carrier<'_>, key: Key, request: &Request<'_>) {
        count(&mut self.outbox.counters.parity.requests, request.method);
        match carrier {
            _ if request.streams => self.start_stream(carrier, key, request),
            Carrier::Connection(connection) => {
                self.start_call(connection, key, request);
            }
            Carrier::Exchange { .. } | Carrier::Remote => {
                self.start_distant_call(carrier, key, request);
            }
        }
        self.copy_pending_work(key);
    }

    /// Starts a request that has one response.
    #[inline]
    fn start_call(&mut self, connection_key: Key, key: Key, request: &Request<'_>) {
        let Self { parity, connections, dispatcher, outbox, now, .. } = self;
        let Some(session) = parity.get_mut(key) else { return };
        let Some(mut response) = connections.begin_message(connection_key) else { return };
        let number = session.requests.next_number();
        // More than its number has to be known at its end.
        let is_kept = request.idempotency_key.is_some() || parity_event::is_enabled();
        if is_kept {
            add(session, number, request, *now);
        }
        let connection = response.connection();
        let start = connection.outgoing.len();
        let mut peer = PeerState {
            origin: MessageOrigin::of_peer(connection.record.peer_address()),
            state: &mut session.state,
            pending_work: &mut session.pending_work,
            outgoing: &mut connection.outgoing,
            outbox,
            refusal: None,
        };
        let reply_to = ReplyTo { peer_id: PeerId::Parity(key), stream: number };
        let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
        let record = if is_kept { session.requests.record_mut(number) } else { None };
        let (outcome, took) = dispatch(dispatcher, ctx, record, &mut peer, request, None);
        let counters = &mut outbox.counters.parity;
        let mut end = |outcome| {
            if is_kept {
                session.end_request(number, &RequestEnd { outcome, took, now: *now }, counters);
            } else {
                counters.latency.record(took);
            }
        };
        let out = &mut connection.outgoing;
        match outcome {
            Outcome::Response => {
                end(EndOutcome::Result(&out[start..]));
                convert::response_in_place(out, start);
            }
            Outcome::Error(kind) => {
                let error = convert::error_in_place(out, start, kind);
                end(EndOutcome::Failed(&error));
            }
            Outcome::None | Outcome::Notification => {
                // Nothing else is written for a request of the dialect.
                out.truncate(start);
                if !is_kept {
                    session.requests.add(number, *now, None, None);
                }
            }
        }
        connection.state.violation = connection.state.violation.or(session.state.violation);
        if outcome.is_response() {
            response.end();
        } else {
            response.cancel();
        }
        outbox.count_outcome(outcome);
    }

    /// Starts a request that has one response, over HTTP or a connection of another shard.
    fn start_distant_call(&mut self, carrier: Carrier<'_>, key: Key, request: &Request<'_>) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let number = session.requests.next_number();
        add(session, number, request, self.now);
        if let Carrier::Exchange { address, .. } = carrier {
            session.http.get_or_insert_default().exchanges.push((number, address));
            self.parity.is_answered = true;
        }
        let mut text = Vec::new();
        let (outcome, took) = self.dispatch_apart(carrier, key, number, request, &mut text);
        self.outbox.count_outcome(outcome);
        let _at_once = self.send(key, number, outcome, took, &text);
    }

    /// Dispatches a request whose messages are written to `text`. The number of a stream is its
    /// progress token.
    fn dispatch_apart(
        &mut self,
        carrier: Carrier<'_>,
        key: Key,
        number: u32,
        request: &Request<'_>,
        text: &mut Vec<u8>,
    ) -> (Outcome, Duration) {
        let Self { parity, connections, dispatcher, outbox, now, .. } = self;
        let Some(session) = parity.get_mut(key) else { return (Outcome::None, Duration::ZERO) };
        let address = match carrier {
            Carrier::Connection(connection) => {
                connections.table.get(connection).and_then(|it| it.record.peer_address().copied())
            }
            Carrier::Remote => session.remote().and_then(|remote| remote.peer_address),
            Carrier::Exchange { .. } => None,
        };
        let origin = match carrier {
            Carrier::Connection(_) | Carrier::Remote => MessageOrigin::of_peer(address.as_ref()),
            Carrier::Exchange { caller, .. } => MessageOrigin::of_caller(caller, session.id),
        };
        let mut peer = PeerState {
            origin,
            state: &mut session.state,
            pending_work: &mut session.pending_work,
            outgoing: text,
            outbox,
            refusal: None,
        };
        let reply_to = ReplyTo { peer_id: PeerId::Parity(key), stream: number };
        let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
        let token = is_stream(number).then(|| Id::Signed(number.into()));
        let record = session.requests.record_mut(number);
        dispatch(dispatcher, ctx, record, &mut peer, request, token)
    }

    /// Opens the stream of a request, and answers with its id.
    fn open_stream(
        &mut self,
        carrier: Carrier<'_>,
        key: Key,
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
                let status = error.code.properties().http_status;
                self.reply(carrier, key, status, |out| {
                    write::error_response(out, request.id, &error);
                });
                return None;
            }
        };
        add(session, number, request, self.now);
        if let Some(record) = session.requests.record_mut(number) {
            record.open_stream(&stream_id);
        }
        if let Carrier::Exchange { address, response: ResponseKind::Chunks, .. } = carrier {
            // The response becomes an event stream: it begins with the stream id.
            let session_id = session.id;
            session.http.get_or_insert_default().exchanges.push((number, address));
            let mut data = Vec::new();
            write::stream_response(&mut data, request.id, &stream_id);
            let (session, name, id) = (session_id, "response", None);
            self.forward(address, ParityHttpOutput::Event { session, name, id, data });
            self.parity.is_answered = true;
        } else {
            self.reply(carrier, key, 200, |out| {
                write::stream_response(out, request.id, &stream_id);
            });
        }
        Some(number)
    }

    /// Starts a request whose result is streamed.
    fn start_stream(&mut self, carrier: Carrier<'_>, key: Key, request: &Request<'_>) {
        let Some(number) = self.open_stream(carrier, key, request) else { return };
        let mut text = Vec::new();
        let (outcome, took) = self.dispatch_apart(carrier, key, number, request, &mut text);
        if let Carrier::Connection(connection) = carrier
            && let Some(session) = self.parity.get_mut(key)
            && let Some(connection) = self.connections.table.get_mut(connection)
        {
            connection.state.violation = connection.state.violation.or(session.state.violation);
        }
        let _at_once = self.send_to_stream(key, number, outcome, took, &text);
    }

    /// Cancels a request or stream, and writes its end. One that is not in flight is ignored: its
    /// response may have crossed the cancellation.
    pub(super) fn cancel_request(&mut self, key: Key, target: Target<'_>) {
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
                let status = error.code.properties().http_status;
                self.respond(key, number, status, |out| {
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

/// Adds a request to those that wait for their end.
fn add(session: &mut ParitySession, number: u32, request: &Request<'_>, now: Instant) {
    let record = parity_event::is_enabled().then(|| {
        let mut id = Vec::new();
        request.id.write(&mut id);
        let params = request.params.and_then(Value::as_object);
        let tool = params.and_then(|params| params.find("name")).and_then(Value::as_str);
        let about = (&*String::from_utf8_lossy(&id), request.method, tool);
        RequestRecord::begin(session.log_fields(), about, request.traceparent)
    });
    let keyed = request.idempotency_key.map(|key| (request.id, key));
    session.requests.add(number, now, keyed, record);
}

/// Dispatches a request, in its span if it has one. Returns how long that took, too.
fn dispatch<'a>(
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    record: Option<&mut RequestRecord>,
    peer: &mut PeerState<'a>,
    request: &Request<'a>,
    progress_token: Option<Id<'_>>,
) -> (Outcome, Duration) {
    peer.origin.traceparent = request.traceparent;
    peer.origin.is_streamed = progress_token.is_some();
    let call_params = &RequestParams::read(request.params);
    let meta = &call_params.meta().map(|meta| meta.with_progress_token(progress_token));
    let raw = RawRequest {
        id: request.id,
        method: request.method,
        params: request.params,
        call_params,
        meta,
    };
    let _span = record.map(|record| record.enter());
    let begun = CycleCount::now();
    let outcome = dispatcher.dispatch_request(ctx, peer, &raw);
    (outcome, dispatcher.slow_handlers.took(begun))
}
