//! Pauses and continues the streams of a shard, and reports what is sent to other shards.
//!
//! Invariants: a paused handler continues in the turn in which its carrier has room, or with its
//! cancellation; output is reported once.

use std::rc::Rc;

use super::flow::{FlowControl, PausedStream, is_drained, is_open, load_of};
use super::frontend::ParityFrontend;
use crate::base::slab::Key;
use crate::connection::Connections;
use crate::protocol::parity::server_session::SessionSettings;
use crate::protocol::parity::stream::OutgoingStream;
use crate::server::calls::{CallTable, HandlerWork};
use crate::server::connection_state::{ConnectionState, ResponseOwner};
use crate::server::outbox::Outbox;
use crate::server::shard_message::{CarrierAddress, ExchangeAddress, FrontAddress, SessionMessage};

/// Pauses a stream of a session and its handler, if that is a future, until what carries the
/// session has room.
pub(in crate::server) fn pause_stream(
    parity: &mut ParityFrontend,
    session: Key,
    number: u32,
    calls: &mut CallTable,
) {
    let Some(of_key) = parity.get_mut(session) else { return };
    let stream = of_key.protocol.streams.get_mut(number);
    if !stream.is_some_and(OutgoingStream::pause_production) {
        return;
    }
    let token = of_key.state.in_flight.calls().find_map(|call_id| {
        let call = calls.find_awaited(call_id).filter(|call| call.reply_to.stream == number)?;
        match &call.work {
            HandlerWork::Local { token, .. } => Some(Rc::clone(token)),
            HandlerWork::Blocking { .. } | HandlerWork::Remote(_) => None,
        }
    });
    if let Some(token) = &token {
        token.pause();
    }
    parity.flow.add_paused(PausedStream { session, number, token });
}

/// Continues the streams whose carriers have room, and reports what is sent to other shards.
pub(in crate::server) fn end_turn(
    parity: &mut ParityFrontend,
    connections: &Connections<ConnectionState>,
    shards: u16,
    outbox: &mut Outbox,
) {
    let settings = parity.settings.session;
    let (mut paused, mut due) = parity.flow.take();
    paused.retain(|paused| !continues(parity, paused, connections, &settings));
    due.retain(|due| match *due {
        CarrierAddress::Front(front) => !report_front(parity, front, connections, outbox),
        CarrierAddress::Exchange(exchange) => {
            !report_exchange(&mut parity.flow, exchange, connections, shards, outbox)
        }
    });
    parity.flow.restore(paused, due);
}

/// Continues a stream if what carries its session has room. Returns whether it continues, or is
/// gone.
fn continues(
    parity: &mut ParityFrontend,
    paused: &PausedStream,
    connections: &Connections<ConnectionState>,
    settings: &SessionSettings,
) -> bool {
    if let Some(session) = parity.get_mut(paused.session) {
        if !load_of(session, paused.number, connections, settings).is_low() {
            return false;
        }
        if let Some(stream) = session.protocol.streams.get_mut(paused.number) {
            stream.resume_production();
        }
    }
    if let Some(token) = &paused.token {
        token.resume();
    }
    true
}

/// Reports the output of a front if it is sent. Returns whether nothing is left to report.
fn report_front(
    parity: &mut ParityFrontend,
    address: FrontAddress,
    connections: &Connections<ConnectionState>,
    outbox: &mut Outbox,
) -> bool {
    let Some(session) = parity.get_mut(address.key) else { return true };
    let connection = session.connection.and_then(|key| connections.table.get(key));
    let Some(front) = session.front_mut() else { return true };
    if connection.is_some_and(|it| !is_drained(it, connections)) {
        return false;
    }
    let (session, bytes) = (front.session, std::mem::take(&mut front.unreported_bytes));
    let carrier = CarrierAddress::Front(address);
    outbox.forward(front.owner, SessionMessage::Sent { session, carrier, bytes });
    true
}

/// Reports the output to an HTTP exchange if it is sent. Returns whether nothing is left to report.
fn report_exchange(
    flow: &mut FlowControl,
    exchange: ExchangeAddress,
    connections: &Connections<ConnectionState>,
    shards: u16,
    outbox: &mut Outbox,
) -> bool {
    let connection = connections.table.get(exchange.connection);
    if is_open(connections, exchange) && connection.is_some_and(|it| !is_drained(it, connections)) {
        return false;
    }
    let bytes = flow.take_unreported(exchange);
    let open = connection.and_then(|connection| connection.state.exchange.as_ref());
    let open = open.filter(|open| open.serial == exchange.serial);
    if let (Some(bytes), Some(ResponseOwner::Parity(Some(session)))) =
        (bytes, open.map(|it| it.owner))
    {
        let carrier = CarrierAddress::Exchange(exchange);
        outbox.forward(session.owner(shards), SessionMessage::Sent { session, carrier, bytes });
    }
    true
}
