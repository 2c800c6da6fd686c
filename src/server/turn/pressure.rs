//! What a shard takes on while memory is short, by the step of the memory guard.

use std::rc::Rc;

use corelane_engine::ring::Ring;

use crate::guard::pressure::PressureStep;
use crate::server::memory::MemoryLimit;
use crate::server::overload::OverloadRules;
use crate::server::shard::{Shard, held_memory};
use crate::server::shard_message::ShardLimits;

/// Returns the limits at a step.
pub(super) fn restrict(
    limits: &ShardLimits,
    step: PressureStep,
    rules: &OverloadRules,
) -> ShardLimits {
    let mut limits = *limits;
    if step >= PressureStep::RefuseMessages {
        let bytes_max = rules.short_message_bytes_max();
        for limit in [
            &mut limits.connections.message_bytes_max,
            &mut limits.http_request.body_bytes_max,
            &mut limits.websocket.frame_limits.message_bytes_max,
        ] {
            *limit = bytes_max.min(*limit);
        }
    }
    if step >= PressureStep::EndStreams {
        limits.subscriptions.streams_max = 0;
    }
    limits
}

/// Applies a step, which may be the current one again: then further connections are closed.
#[cold]
pub(super) fn apply_step<R: Ring>(shard: &mut Shard, ring: &mut R, step: PressureStep) {
    let before = shard.transports.acceptor.pressure();
    if step != before {
        shard.outbox.counters.overload.pressure_steps += 1;
        shard.transports.acceptor.set_pressure(step);
        shard.apply_limits();
    }
    if step >= PressureStep::EndStreams && before < PressureStep::EndStreams {
        end_streams(shard);
    }
    if step == PressureStep::CloseSlowest {
        close_slowest(shard, ring);
    }
    shard.apply_outbox(ring);
}

/// Ends all notification streams with their results.
fn end_streams(shard: &mut Shard) {
    let before = shard.outbox.counters.subscriptions.closed;
    for key in shard.connection_keys() {
        shard.end_idle_stream(key);
        shard.complete_streams(key);
    }
    let counters = &mut shard.outbox.counters;
    counters.overload.streams_shed += counters.subscriptions.closed - before;
}

/// Closes connections until half of what is held for clients is freed, those for which most is held
/// first; those that hold less than their share stay.
fn close_slowest<R: Ring>(shard: &mut Shard, ring: &mut R) {
    let held_bytes = held_memory(&shard.transports, &shard.dispatcher).total();
    let limit = MemoryLimit::new((held_bytes / 2).max(KEPT_BYTES));
    let memory = Rc::clone(&shard.dispatcher.handlers.memory);
    let usual = memory.limit();
    memory.set_limit(limit);
    shard.free_memory(ring);
    memory.set_limit(usual);
}

/// What a shard holds at least without closing a connection: less would not relieve the machine.
const KEPT_BYTES: usize = 1 << 20;
