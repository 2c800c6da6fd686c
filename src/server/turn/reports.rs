//! Reports of all shards: what this one adds, and the response after the last one.

use std::time::{Duration, SystemTime};

use corelane_engine::mesh::ShardId;
use corelane_transport::http::response::BodyKind;

use crate::connection::Connection;
use crate::server::connection_state::ConnectionState;
use crate::server::diagnostics::{
    ConnectionPage, ListPosition, PageBuilder, Rows, SLOTS_PER_TURN, write_page,
};
use crate::server::shard::Shard;
use crate::server::shard_message::{ExchangeAddress, HttpOutput, ReportMessage, ShardMessage};
use crate::telemetry::connection_info::ConnectionInfo;
use crate::telemetry::metrics::{self, Metrics, OverloadGauges};
use crate::telemetry::open_work::QueueDepths;

/// Adds the part of this shard to a report and passes it on.
#[cold]
pub(super) fn continue_report(shard: &mut Shard, report: ReportMessage) {
    match report {
        ReportMessage::Metrics { exchange, mut counters, rate_keys, mut queues, remaining } => {
            counters.add(&shard.counters());
            queues.push(queue_depths(shard));
            let rate_keys = rate_keys + shard.dispatcher.rate.keys(shard.now);
            if remaining > 1 {
                let remaining = remaining - 1;
                let next = ShardId((shard.id.0 + 1) % shard.dispatcher.shard_count);
                return forward(
                    shard,
                    next,
                    ReportMessage::Metrics { exchange, counters, rate_keys, queues, remaining },
                );
            }
            let shards = shard.dispatcher.shard_count;
            queues.sort_unstable_by_key(|depths| depths.shard);
            let gauges = shard.transports.gauges(shards, rate_keys, overload(shard), queues);
            let text = Metrics { counters: &counters, gauges }.to_string().into_bytes();
            respond(shard, exchange, BodyKind::Text(metrics::CONTENT_TYPE), text);
        }
        ReportMessage::Connections { exchange, page } => continue_list(shard, exchange, page),
    }
}

/// Adds connections of this shard to a page, at most [`SLOTS_PER_TURN`] of them.
fn continue_list(shard: &mut Shard, exchange: Option<ExchangeAddress>, mut page: PageBuilder) {
    let (connections, next_slot) =
        shard.transports.connections.table.part(page.position.slot, SLOTS_PER_TURN);
    for connection in connections.filter(|connection| !connection.is_closed()) {
        page.push(describe(shard, connection));
    }
    page.position = match next_slot {
        Some(slot) => ListPosition { slot, ..page.position },
        None => ListPosition { shard: page.position.shard + 1, slot: 0 },
    };
    let is_last = page.position.shard >= shard.dispatcher.shard_count;
    // A thread asks each shard by itself, since it notices those that have ended.
    let ends_with_shard = next_slot.is_none() && exchange.is_none();
    if is_last || ends_with_shard || page.is_full() {
        let next = (!is_last).then_some(page.position);
        finish_list(shard, exchange, page.rows, next);
    } else if next_slot.is_some() {
        // Goes on in a later turn.
        let report = ReportMessage::Connections { exchange, page };
        shard.transports.large_work.push_result(ShardMessage::Report(Box::new(report)));
    } else {
        forward(shard, page.shard(), ReportMessage::Connections { exchange, page });
    }
}

fn finish_list(
    shard: &mut Shard,
    exchange: Option<ExchangeAddress>,
    rows: Rows,
    next: Option<ListPosition>,
) {
    match (rows, exchange) {
        (Rows::Json(rows), Some(exchange)) => {
            respond(shard, exchange, BodyKind::Json, write_page(&rows, next));
        }
        // The thread has stopped waiting if this fails.
        (Rows::Values(rows, reply), _) => _ = reply.try_send(ConnectionPage { rows, next }),
        (Rows::Json(_), None) => {}
    }
}

fn describe(shard: &Shard, connection: &Connection<ConnectionState>) -> ConnectionInfo {
    let started_ms = shard.dispatcher.deferred.wall_clock.unix_ms(connection.record.opened_at());
    ConnectionInfo {
        shard: shard.id.0,
        transport: connection.state.transport,
        peer: connection.record.peer(),
        started: SystemTime::UNIX_EPOCH + Duration::from_millis(started_ms),
        traffic: connection.record.traffic,
        requests_pending: connection.pending_work.pending_responses,
        bytes_buffered: connection.held_bytes(),
        pings: connection.pings(),
    }
}

fn forward(shard: &mut Shard, to: ShardId, report: ReportMessage) {
    shard.outbox.forward(to, ShardMessage::Report(Box::new(report)));
}

fn respond(shard: &mut Shard, exchange: ExchangeAddress, body: BodyKind, text: Vec<u8>) {
    let output = HttpOutput::Document { body, text };
    shard.outbox.write_exchange(exchange, output);
}

/// Returns what waits in the queues of a shard.
fn queue_depths(shard: &Shard) -> QueueDepths {
    let Shard { transports, dispatcher, inbox, outbox, .. } = shard;
    QueueDepths {
        shard: shard.id.0,
        mesh_received: inbox.waiting(),
        mesh_unsent: inbox.queued(),
        outbox: outbox.len(),
        large_work: transports.large_work.len(),
        introspection: dispatcher.held.len(),
        calls: dispatcher.deferred.calls.len(),
        client_requests: dispatcher.deferred.client_requests.len(),
    }
}

/// Returns the numbers of overload protection.
fn overload(shard: &Shard) -> OverloadGauges {
    let running = shard.dispatcher.deferred.overload.running();
    OverloadGauges {
        calls_running: running.count(),
        breakers_open: running.open_breakers().count(),
        memory_pressure: shard.transports.acceptor.pressure().number(),
        blocking_waiting: shard.dispatcher.handlers.blocking_pool.waiting(),
    }
}
