//! Reports of all shards: what this one adds, and the response after the last one.

use super::Shard;
use crate::engine::mesh::ShardId;
use crate::server::shard_message::{
    ExchangeAddress, HttpMessage, HttpOutput, ReportMessage, ShardMessage,
};
use crate::telemetry::metrics::{self, Metrics};
use crate::transport::http::response::BodyKind;

/// Adds the part of this shard to a report and passes it on.
#[cold]
pub(super) fn continue_report(shard: &mut Shard, report: ReportMessage) {
    match report {
        ReportMessage::Metrics { exchange, mut counters, remaining } => {
            counters.add(&shard.counters());
            if remaining > 1 {
                let remaining = remaining - 1;
                let report = ReportMessage::Metrics { exchange, counters, remaining };
                let next = ShardId((shard.id.0 + 1) % shard.dispatcher.shard_count);
                shard.outbox.forward(next, ShardMessage::Report(Box::new(report)));
                return;
            }
            let gauges = shard.transports.gauges(shard.dispatcher.shard_count);
            let text = Metrics { counters: &counters, gauges }.to_string();
            respond(shard, exchange, BodyKind::Text(metrics::CONTENT_TYPE), text);
        }
    }
}

fn respond(shard: &mut Shard, exchange: ExchangeAddress, body: BodyKind, text: String) {
    let output = HttpOutput::Document { body, text };
    let message = HttpMessage::Output { exchange, output };
    shard.outbox.forward(exchange.shard, ShardMessage::Http(Box::new(message)));
}
