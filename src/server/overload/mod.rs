//! Overload protection of one shard: which calls run, and which are refused at once.
//!
//! ```text
//!   call ─ circuit breaker of the tool ─▶ Admission ─ limits of running calls ─▶ RunningCall
//!                                           └─ leaves its turn ─▶ CallPermit
//! ```
//!
//! An [`Admission`] records the end of a call in its turn; a [`CallPermit`] is stored with a call
//! that takes longer. A [`RunningCall`] is owned by the handler and counts it until it has ended,
//! also after its call was cancelled.
//!
//! Invariants: a call is refused before its handler starts, and never waits; every admission is
//! recorded once, as abandoned if its call ends in no other way.

mod running;

mod breakers;

mod memory_watch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_engine::ring::cycles::CycleCount;
use corelane_protocol::error::{Error, ErrorKind};

use self::breakers::ToolBreakers;
pub(super) use self::breakers::{Admission, CallPermit};
use self::memory_watch::pressure_rules;
pub(super) use self::memory_watch::{EndWatch, MemoryWatch};
pub(super) use self::running::{CallerId, RunningCall, RunningCalls};
use crate::guard::breaker::{BreakerRules, CallOutcome, Refused};
use crate::guard::queue_delay::{DelayGuard, DelayRules};
use crate::server::options::{BreakerOptions, OverloadOptions};
use crate::service::Catalog;
use crate::telemetry::counters::OverloadCounters;
use crate::telemetry::event::{Event, OverloadEvent};
use crate::telemetry::throttle::EventThrottle;

/// Rules that can change while a shard runs.
#[derive(Clone, Debug, Default)]
pub(super) struct OverloadRules {
    calls_max: Option<usize>,
    tool_calls_max: Option<usize>,
    tool_calls: Vec<(String, usize)>,
    breaker: Option<BreakerRules>,
    counts_tool_errors: bool,
    guards_memory: bool,
    queue: Option<DelayRules>,
    short_message_bytes_max: usize,
}

impl OverloadRules {
    /// The rules of `options`.
    pub(super) fn new(options: &OverloadOptions) -> Self {
        let limit = |number: u32| (number > 0).then_some(number as usize);
        let tool_calls = options.tool_calls.iter();
        Self {
            calls_max: limit(options.calls_max),
            tool_calls_max: limit(options.tool_calls_max),
            tool_calls: tool_calls.map(|(name, max)| (name.clone(), *max as usize)).collect(),
            breaker: breaker_rules(&options.breaker),
            counts_tool_errors: options.breaker.tool_errors,
            guards_memory: pressure_rules(&options.memory).is_enabled(),
            queue: delay_rules(options),
            short_message_bytes_max: options.memory.message_bytes_max,
        }
    }

    /// Returns whether the memory guard is on.
    pub(super) const fn guards_memory(&self) -> bool {
        self.guards_memory
    }

    /// Returns the length of the longest message while memory is short.
    pub(super) const fn short_message_bytes_max(&self) -> usize {
        self.short_message_bytes_max
    }

    const fn limits_calls(&self) -> bool {
        self.calls_max.is_some() || self.tool_calls_max.is_some() || !self.tool_calls.is_empty()
    }

    /// Returns the limit of running calls of a tool.
    fn limit_of(&self, tool: &str) -> Option<usize> {
        let own = self.tool_calls.iter().find(|(name, _)| name == tool);
        own.map_or(self.tool_calls_max, |(_, max)| Some(*max))
    }
}

/// Returns the rules of load shedding by queue delay, or `None` if it is off.
fn delay_rules(options: &OverloadOptions) -> Option<DelayRules> {
    let OverloadOptions { queue_target: target, queue_interval: interval, .. } = *options;
    let interval = if interval.is_zero() { target * INTERVAL_TARGETS } else { interval };
    (!target.is_zero()).then_some(DelayRules { target, interval })
}

/// Returns the rules of circuit breakers, or `None` if they are off.
fn breaker_rules(options: &BreakerOptions) -> Option<BreakerRules> {
    let is_on = options.failed_percent > 0 || options.slow_percent > 0;
    is_on.then_some(BreakerRules {
        window: options.window,
        calls_min: options.calls_min,
        failed_percent: options.failed_percent,
        slow_percent: options.slow_percent,
        slow_after: options.slow_after,
        wait: options.wait,
        wait_max: options.wait_max,
        probes_max: options.probes_max,
    })
}

/// Overload protection of one shard.
#[derive(Debug)]
pub(super) struct Overload {
    shard: ShardId,
    rules: Arc<OverloadRules>,
    has_breakers: bool,
    breakers: Rc<ToolBreakers>,
    running: RunningCalls,
    queue: Cell<DelayGuard>,
    refused: Cell<Refusals>,
    throttle: RefCell<EventThrottle>,
}

/// Numbers of refused calls.
#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    breaker: u64,
    concurrency: u64,
    queue: u64,
}

impl Overload {
    pub(super) fn new(shard: ShardId, rules: Arc<OverloadRules>, running: RunningCalls) -> Self {
        let breakers = Rc::new(ToolBreakers::new(shard, running.clone()));
        let mut overload = Self {
            shard,
            rules: Arc::default(),
            has_breakers: false,
            breakers,
            running,
            queue: Cell::default(),
            refused: Cell::default(),
            throttle: RefCell::default(),
        };
        overload.set_rules(rules);
        overload
    }

    /// Applies other rules. Breakers keep their state unless they are switched off.
    pub(super) fn set_rules(&mut self, rules: Arc<OverloadRules>) {
        self.has_breakers = rules.breaker.is_some();
        if let Some(breaker) = rules.breaker {
            self.breakers.set_rules(breaker, rules.counts_tool_errors);
        } else {
            self.breakers.close_all();
        }
        self.rules = rules;
    }

    /// Returns the rules.
    pub(super) fn rules(&self) -> &OverloadRules {
        &self.rules
    }

    /// Returns what all shards share.
    pub(super) const fn running(&self) -> &RunningCalls {
        &self.running
    }

    /// Sets the time at which calls end that are completed from now on.
    #[inline]
    pub(super) fn set_now(&self, now: Instant) {
        self.breakers.set_now(now);
    }

    /// Returns whether calls of tools need a permit.
    #[inline]
    pub(super) const fn has_breakers(&self) -> bool {
        self.has_breakers
    }

    /// Forgets the positions of tools: another catalog is installed.
    pub(super) fn forget_positions(&self) {
        self.breakers.forget_positions();
    }

    /// Admits a call of the tool at `position` in the catalog; `None` if there is no such tool.
    /// `caller` differs between callers.
    ///
    /// # Errors
    ///
    /// The circuit breaker of the tool is open.
    #[inline]
    pub(super) fn admit(
        &self,
        catalog: &Catalog,
        position: usize,
        caller: u64,
        now: Instant,
    ) -> Result<Option<Admission>, Error> {
        self.breakers.set_now(now);
        self.breakers.admit(catalog, position, caller).map_err(|refused| self.refuse(refused))
    }

    /// Returns the permit of an admitted call that ends in a later turn.
    pub(super) fn permit(&self, admission: Admission) -> CallPermit {
        self.breakers.permit(admission)
    }

    /// Records that an admitted call, which began at `begun`, has ended in its turn.
    #[inline]
    pub(super) fn record_inline(&self, admission: Admission, end: EndOfCall, begun: CycleCount) {
        self.breakers.record_inline(admission, end, begun);
    }

    /// Records that an admitted call was not made.
    #[cold]
    pub(super) fn abandon(&self, admission: Admission) {
        drop(self.breakers.permit(admission));
    }

    #[cold]
    fn refuse(&self, Refused { retry_after }: Refused) -> Error {
        let numbers = self.refused.get();
        self.refused.set(Refusals { breaker: numbers.breaker + 1, ..numbers });
        busy("the tool fails or is slow and is not called for a while", retry_after)
    }

    /// Counts a call whose handler is about to start; `tool` is empty if it calls no tool.
    ///
    /// # Errors
    ///
    /// A limit of running calls is reached.
    pub(super) fn start_call(
        &self,
        tool: &str,
        caller: CallerId<'_>,
    ) -> Result<RunningCall, Error> {
        if !self.rules.limits_calls() {
            return Ok(RunningCall::default());
        }
        let tool_max = if tool.is_empty() { None } else { self.rules.limit_of(tool) };
        let tool = tool_max.map(|max| (tool, max));
        self.running.start(caller, self.rules.calls_max, tool).map_err(|limit| {
            let refused = self.refused.get();
            self.refused.set(Refusals { concurrency: refused.concurrency + 1, ..refused });
            let event = Event::from(OverloadEvent::CallRefused { shard: self.shard.0, limit });
            event.emit_within(&mut self.throttle.borrow_mut(), self.breakers.now());
            busy("too many calls are running; try again later", CONCURRENCY_RETRY)
        })
    }

    /// Returns whether waiting times are measured.
    pub(super) fn measures_delay(&self) -> bool {
        self.rules.queue.is_some()
    }

    /// Returns whether a call that would wait for a thread is refused, given how long the next one
    /// has waited.
    pub(super) fn sheds(&self, delay: Option<Duration>, now: Instant) -> bool {
        let Some(rules) = &self.rules.queue else { return false };
        let mut guard = self.queue.get();
        let has_changed = guard.update(rules, delay, now);
        self.queue.set(guard);
        let is_shedding = guard.is_shedding();
        if has_changed {
            let delay = delay.unwrap_or_default();
            let event = Event::from(OverloadEvent::QueueDelayed { delay, is_shedding });
            event.emit_within(&mut self.throttle.borrow_mut(), now);
        }
        is_shedding
    }

    /// Returns the error of a call that is refused because others wait for too long; `None` if the
    /// queue is full.
    pub(super) fn shed_error(&self) -> Option<Error> {
        let rules = self.rules.queue.filter(|_| self.queue.get().is_shedding())?;
        let refused = self.refused.get();
        self.refused.set(Refusals { queue: refused.queue + 1, ..refused });
        Some(busy("calls wait for too long before they run; try again later", rules.interval))
    }

    pub(super) fn add_counters(&self, counters: &mut OverloadCounters) {
        let Refusals { breaker, concurrency, queue } = self.refused.get();
        counters.refused_breaker += breaker;
        counters.refused_concurrency += concurrency;
        counters.refused_queue += queue;
        self.breakers.add_counters(counters);
    }
}

/// Returns how a call has ended whose response is `outcome`: whether it has `isError`, or an error.
#[inline]
pub(super) const fn outcome_of(outcome: Result<bool, ErrorKind>) -> EndOfCall {
    match outcome {
        Ok(true) => EndOfCall::ToolError,
        Err(ErrorKind::Internal | ErrorKind::HandlerPanicked) => {
            EndOfCall::Outcome(CallOutcome::Failed)
        }
        // Refused before it ran.
        Err(
            ErrorKind::TooManyRequests
            | ErrorKind::Overloaded { .. }
            | ErrorKind::Draining
            | ErrorKind::CutByDrain,
        ) => EndOfCall::Outcome(CallOutcome::Abandoned),
        Ok(false) | Err(_) => EndOfCall::Outcome(CallOutcome::Succeeded),
    }
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndOfCall {
    Outcome(CallOutcome),
    /// With `isError`, which fails it if the rules say so.
    ToolError,
}

impl EndOfCall {
    /// The handler has failed, or took too long.
    pub(super) const FAILED: Self = Self::Outcome(CallOutcome::Failed);
}

/// Returns the error of a call that is refused for now.
#[cold]
fn busy(message: &'static str, retry_after: Duration) -> Error {
    let milliseconds = retry_after.as_nanos().div_ceil(1_000_000).max(1);
    let seconds = u16::try_from(milliseconds.div_ceil(1_000)).unwrap_or(u16::MAX);
    let data = format!(r#"{{"retryable":true,"retryAfterMs":{milliseconds}}}"#);
    Error::new(ErrorKind::Overloaded { retry_after_seconds: seconds }, message).with_data(data)
}

/// Targets in the default interval of queue delay (RFC 8289, section 4.4: 5 and 100 ms).
const INTERVAL_TARGETS: u32 = 20;

/// Retry hint at a limit of running calls, whose end is not known.
const CONCURRENCY_RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_hint_is_rounded_up() {
        let cases = [(0, 1, 1), (1, 1, 1), (1_000_001, 2, 1), (1_000_000_000, 1_000, 1)];
        for (nanoseconds, milliseconds, seconds) in cases {
            let error = busy("busy", Duration::from_nanos(nanoseconds));
            assert_eq!(error.kind, ErrorKind::Overloaded { retry_after_seconds: seconds });
            let data = format!(r#"{{"retryable":true,"retryAfterMs":{milliseconds}}}"#);
            assert_eq!(error.data.as_deref(), Some(&*data));
        }
        let error = busy("busy", Duration::from_millis(4_001));
        assert_eq!(error.kind.retry_after_seconds(), Some(5));
    }

    #[test]
    fn refused_calls_say_nothing_about_tool() {
        let abandoned = EndOfCall::Outcome(CallOutcome::Abandoned);
        assert_eq!(outcome_of(Err(ErrorKind::TooManyRequests)), abandoned);
        assert_eq!(outcome_of(Err(ErrorKind::Draining)), abandoned);
        assert_eq!(outcome_of(Err(ErrorKind::HandlerPanicked)), EndOfCall::FAILED);
        let succeeded = EndOfCall::Outcome(CallOutcome::Succeeded);
        assert_eq!(outcome_of(Err(ErrorKind::InvalidParams)), succeeded);
    }
}
