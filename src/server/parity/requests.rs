//! Requests of a session: to the dispatcher, and their cancellation.
//!
//! Invariants: a request is answered once, a stream by its last chunks; the number in the reply
//! target of a call is that of its stream or of its idempotency key.

use super::convert;
use super::output::ParityOutput;
use crate::base::slab::Key;
use crate::connection::Codec;
use crate::protocol::jsonrpc::{Id, IdBuf};
use crate::protocol::params::RequestParams;
use crate::protocol::parity::envelope::{Request, Target};
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::write;
use crate::server::connection_state::{MessageOrigin, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext, RawRequest};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::transport::ndjson;
use crate::transport::websocket::writer;

/// Starts a request of a session that `connection` carries.
pub(super) fn start(
    path: &mut ParityOutput<'_>,
    dispatcher: &mut Dispatcher,
    (connection, key): (Key, Key),
    request: &Request<'_>,
) {
    if request.streams {
        start_stream(path, dispatcher, (connection, key), request);
    } else {
        start_call(path, dispatcher, (connection, key), request);
    }
    path.copy_pending_work(key);
}

/// Starts a request that has one response.
#[inline]
fn start_call(
    path: &mut ParityOutput<'_>,
    dispatcher: &mut Dispatcher,
    (connection_key, key): (Key, Key),
    request: &Request<'_>,
) {
    let ParityOutput { parity, connections, websockets, outbox, now } = path;
    let is_websocket = connections.table.codec(connection_key) == Codec::WebSocket;
    // Reserves the output buffer, and marks it for the flush.
    if connections.outgoing(connection_key).is_none() {
        return;
    }
    let Some(session) = parity.get_mut(key) else { return };
    let Some(connection) = connections.table.get_mut(connection_key) else { return };
    let number = match request.idempotency_key {
        Some(idempotency_key) => session.keyed_calls.add_call(request.id, idempotency_key),
        None => ReplyTo::STANDALONE,
    };
    let mark = is_websocket.then(|| writer::begin_message(&mut connection.outgoing));
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
    let outcome = dispatch(dispatcher, ctx, &mut peer, request, None);
    let out = &mut connection.outgoing;
    match outcome {
        Outcome::Response => {
            session.finish_key(number, Some(&out[start..]));
            convert::response_in_place(out, start);
        }
        Outcome::Error(kind) => {
            session.finish_key(number, None);
            convert::error_in_place(out, start, kind);
        }
        // Nothing else is written for a request of the dialect.
        Outcome::None | Outcome::Notification | Outcome::Envelope => out.truncate(start),
    }
    match (mark, outcome.is_response()) {
        (Some(mark), true) => websockets.end_frame(out, mark, connection.state.compression),
        (Some(mark), false) => writer::cancel_message(out, mark),
        (None, true) => ndjson::end_line(out),
        (None, false) => {}
    }
    connection.record.traffic.messages_out += u64::from(outcome.is_response());
    connection.state.violated_limit |= session.state.violated_limit;
    outbox.count_outcome(outcome);
}

/// Starts a request whose result is streamed.
fn start_stream(
    path: &mut ParityOutput<'_>,
    dispatcher: &mut Dispatcher,
    (connection_key, key): (Key, Key),
    request: &Request<'_>,
) {
    let streams_max = path.parity.settings.session.streams_max;
    let Some(session) = path.parity.get_mut(key) else { return };
    if session.state.in_flight.contains(request.id) {
        let error = ParityError::invalid_envelope("a request with this id is in flight");
        return path.write_message(connection_key, |out| {
            write::error_response(out, request.id, &error);
        });
    }
    let stream = match session.protocol.streams.open(request.id, streams_max) {
        Ok(stream) => stream,
        Err(error) => {
            if let Some(idempotency_key) = request.idempotency_key {
                session.protocol.keys.forget(idempotency_key);
            }
            return path.write_message(connection_key, |out| {
                write::error_response(out, request.id, &error);
            });
        }
    };
    let (number, stream_id) = (stream.number(), stream.id().to_owned());
    if let Some(idempotency_key) = request.idempotency_key {
        session.keyed_calls.add(number, request.id, idempotency_key);
    }
    path.write_message(connection_key, |out| {
        write::stream_response(out, request.id, &stream_id);
    });
    let mut text = Vec::new();
    let ParityOutput { parity, connections, outbox, now, .. } = path;
    let Some(session) = parity.get_mut(key) else { return };
    let Some(connection) = connections.table.get_mut(connection_key) else { return };
    let mut peer = PeerState {
        origin: MessageOrigin::of_peer(connection.record.peer_address()),
        state: &mut session.state,
        pending_work: &mut session.pending_work,
        outgoing: &mut text,
        outbox,
        refusal: None,
    };
    let reply_to = ReplyTo { peer_id: PeerId::Parity(key), stream: number };
    let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
    let token = Some(Id::Signed(number.into()));
    let outcome = dispatch(dispatcher, ctx, &mut peer, request, token);
    connection.state.violated_limit |= session.state.violated_limit;
    path.send_to_stream((key, number), outcome, &text);
}

fn dispatch(
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
    progress_token: Option<Id<'_>>,
) -> Outcome {
    let call_params = &RequestParams::read(request.params);
    let meta = &call_params.meta().map(|meta| meta.with_progress_token(progress_token));
    let raw = RawRequest {
        id: request.id,
        method: request.method,
        params: request.params,
        call_params,
        meta,
    };
    dispatcher.dispatch_request(ctx, peer, &raw)
}

/// Cancels a request or stream, and writes its end. One that is not in flight is ignored: its
/// response may have crossed the cancellation.
pub(super) fn cancel(
    path: &mut ParityOutput<'_>,
    dispatcher: &mut Dispatcher,
    (connection_key, key): (Key, Key),
    target: Target<'_>,
) {
    let ParityOutput { parity, connections, outbox, .. } = path;
    let Some(session) = parity.get_mut(key) else { return };
    let Some(connection) = connections.table.get(connection_key) else { return };
    let streams = &mut session.protocol.streams;
    let stream = match target {
        Target::Request(id) => streams.number_of(id),
        Target::Stream(id) => {
            let open = streams.find_mut(id).filter(|stream| !stream.has_ended());
            open.map(|stream| stream.number())
        }
    };
    let request: Option<IdBuf> = match (stream.and_then(|number| streams.get_mut(number)), target) {
        (Some(stream), _) => Some(stream.request().into()),
        (None, Target::Request(id)) => Some(id.into()),
        (None, Target::Stream(_)) => None,
    };
    let call_id = request.as_ref().and_then(|id| ParityOutput::take_call(session, id.as_id()));
    if let Some(call_id) = call_id {
        let mut peer = PeerState {
            origin: MessageOrigin::of_peer(connection.record.peer_address()),
            state: &mut session.state,
            pending_work: &mut session.pending_work,
            outgoing: &mut Vec::new(),
            outbox,
            refusal: None,
        };
        dispatcher.deferred.cancel_call(call_id, &mut peer);
    }
    let keyed = request.as_ref().map(|id| session.keyed_calls.number_of(id.as_id()));
    if let (Some(number), true) = (keyed, call_id.is_some() || stream.is_some()) {
        session.finish_key(number, None);
    }
    match (stream, call_id, &request) {
        (Some(number), _, _) => path.end_stream((key, number), "cancelled"),
        (None, Some(_), Some(id)) => path.write_message(connection_key, |out| {
            write::error_response(out, id.as_id(), &ParityError::cancelled());
        }),
        _ => {}
    }
    if let Some(session) = path.parity.get_mut(key) {
        session.protocol.end_cancel();
    }
    path.copy_pending_work(key);
}
