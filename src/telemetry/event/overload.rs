//! Log events of overload protection.

use std::time::Duration;

use tracing::{error, info, warn};

use super::Event;

/// A log event of overload protection.
#[derive(Clone, Debug)]
pub enum OverloadEvent {
    /// A circuit breaker has changed its state.
    BreakerChanged {
        /// Shard of the breaker.
        shard: u16,
        /// Name of the tool.
        tool: Box<str>,
        /// The new state.
        state: &'static str,
    },
    /// A call was refused.
    CallRefused {
        /// Shard of the call.
        shard: u16,
        /// Option with the limit that is reached.
        limit: &'static str,
    },
    /// The memory guard cannot start.
    GuardFailed {
        /// Why.
        error: Box<str>,
    },
    /// Memory has become shorter or less short.
    PressureChanged {
        /// The new step.
        step: &'static str,
        /// Percentage of the memory that is used.
        used_percent: u8,
        /// Percentage of the time in which some task of the group waited for memory.
        stalled_percent: u8,
    },
    /// Calls wait for too long before they run: some are refused, or no longer.
    QueueDelayed {
        /// How long the last one waited.
        delay: Duration,
        /// Whether calls are refused from now on.
        is_shedding: bool,
    },
}

impl From<OverloadEvent> for Event<'_> {
    fn from(event: OverloadEvent) -> Self {
        Self::Overload(event)
    }
}

impl OverloadEvent {
    /// Emits the event with the number of events that were suppressed since the last one.
    pub(super) fn emit(&self, suppressed: u64) {
        match self {
            Self::BreakerChanged { shard, tool, state } => {
                warn!(shard, tool, state, suppressed, "circuit breaker changed");
            }
            Self::CallRefused { shard, limit } => warn!(shard, limit, suppressed, "call refused"),
            Self::GuardFailed { error } => error!("{error}"),
            Self::PressureChanged { step, used_percent, stalled_percent } => {
                warn!(step, used_percent, stalled_percent, "memory pressure changed");
            }
            Self::QueueDelayed { delay, is_shedding: true } => {
                warn!(?delay, suppressed, "calls wait for too long: new ones are refused");
            }
            Self::QueueDelayed { delay, is_shedding: false } => {
                info!(?delay, suppressed, "calls no longer wait for too long");
            }
        }
    }
}
