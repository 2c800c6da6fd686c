//! The circuit breakers of the tools of one shard.
//!
//! Invariants: there is at most one breaker for each tool of the catalog, and those of calls in
//! flight; every permit is recorded once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::EndOfCall;
use super::running::RunningCalls;
use crate::base::time::Instant;
use crate::engine::mesh::ShardId;
use crate::engine::ring::cycles::{CycleCount, CycleRate};
use crate::guard::breaker::{
    BreakerRules, BreakerState, CallOutcome, CircuitBreaker, Permit, Refused,
};
use crate::service::{BuildNameHasher, Catalog};
use crate::telemetry::counters::OverloadCounters;
use crate::telemetry::event::{Event, OverloadEvent};
use crate::telemetry::throttle::EventThrottle;

/// The breakers of the tools of one shard.
#[derive(Debug)]
pub(super) struct ToolBreakers {
    shard: ShardId,
    rules: Cell<Rules>,
    /// The time of the turn.
    now: Cell<Instant>,
    rate: CycleRate,
    table: RefCell<BreakerTable>,
    changes: Cell<Changes>,
    throttle: RefCell<EventThrottle>,
    shared: RunningCalls,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    breaker: BreakerRules,
    counts_tool_errors: bool,
    /// Below this number of cycles a call is not slow.
    slow_cycles_min: u64,
}

/// Breakers by the name of their tool.
#[derive(Debug, Default)]
struct BreakerTable {
    keys: HashMap<Rc<str>, u32, BuildNameHasher>,
    breakers: Vec<ToolBreaker>,
}

#[derive(Debug)]
struct ToolBreaker {
    tool: Rc<str>,
    breaker: CircuitBreaker,
}

/// Numbers of changes of state.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    opened: u64,
    half_opened: u64,
    closed: u64,
}

/// A call that a breaker has admitted. Dropped without a record, it is abandoned.
#[derive(Debug)]
pub(in crate::server) struct CallPermit {
    /// Taken by the record.
    breakers: Option<Rc<ToolBreakers>>,
    tool: u32,
    permit: Permit,
    admitted_at: Instant,
    begun: CycleCount,
}

impl CallPermit {
    /// Records that the call has ended in a later turn.
    pub(in crate::server) fn record(mut self, end: EndOfCall) {
        if let Some(breakers) = self.breakers.take() {
            let duration = breakers.now.get().since(self.admitted_at);
            breakers.record((self.tool, self.permit), end, duration);
        }
    }

    /// Records that the call has ended in the turn of its admission, on this thread.
    #[inline]
    pub(in crate::server) fn record_inline(mut self, end: EndOfCall) {
        if let Some(breakers) = self.breakers.take() {
            let cycles = CycleCount::now().since(self.begun);
            let is_quick = cycles < breakers.rules.get().slow_cycles_min;
            let duration = if is_quick { Duration::ZERO } else { breakers.rate.duration(cycles) };
            breakers.record((self.tool, self.permit), end, duration);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(breakers) = self.breakers.take() {
            let end = EndOfCall::Outcome(CallOutcome::Abandoned);
            breakers.record((self.tool, self.permit), end, Duration::ZERO);
        }
    }
}

impl ToolBreakers {
    /// Without rules nothing is refused.
    pub(super) fn new(shard: ShardId, shared: RunningCalls) -> Self {
        Self {
            shard,
            rules: Cell::new(Rules::OFF),
            now: Cell::default(),
            rate: CycleRate::start(),
            table: RefCell::default(),
            changes: Cell::default(),
            throttle: RefCell::default(),
            shared,
        }
    }

    pub(super) fn set_rules(&self, breaker: BreakerRules, counts_tool_errors: bool) {
        let slow_cycles_min = CycleRate::cycles_min(breaker.slow_after);
        self.rules.set(Rules { breaker, counts_tool_errors, slow_cycles_min });
    }

    /// Closes all breakers.
    pub(super) fn close_all(&self) {
        for ToolBreaker { breaker, .. } in &mut self.table.borrow_mut().breakers {
            if breaker.state() != BreakerState::Closed {
                self.shared.open_breakers().release();
            }
            breaker.reset();
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(super) fn set_now(&self, now: Instant) {
        self.now.set(now);
    }

    /// Admits a call of a tool; `None` if the catalog has no such tool.
    #[inline]
    pub(super) fn admit(
        self: &Rc<Self>,
        catalog: &Catalog,
        tool: &str,
    ) -> Result<Option<CallPermit>, Refused> {
        let mut table = self.table.borrow_mut();
        let Some(index) = table.find(tool).or_else(|| table.insert(self, catalog, tool)) else {
            return Ok(None);
        };
        let (rules, now) = (&self.rules.get().breaker, self.now.get());
        let ToolBreaker { breaker, tool } = &mut table.breakers[index as usize];
        let before = breaker.state();
        let admitted = breaker.admit(rules, now);
        if breaker.state() != before {
            self.report(tool, (before, breaker.state()));
        }
        let permit = admitted?;
        let (admitted_at, begun) = (now, CycleCount::now());
        let breakers = Some(Rc::clone(self));
        Ok(Some(CallPermit { breakers, tool: index, permit, admitted_at, begun }))
    }

    #[inline]
    fn record(&self, (tool, permit): (u32, Permit), end: EndOfCall, duration: Duration) {
        let rules = self.rules.get();
        let outcome = match end {
            EndOfCall::Outcome(outcome) => outcome,
            EndOfCall::ToolError if rules.counts_tool_errors => CallOutcome::Failed,
            EndOfCall::ToolError => CallOutcome::Succeeded,
        };
        let mut table = self.table.borrow_mut();
        let Some(ToolBreaker { breaker, tool }) = table.breakers.get_mut(tool as usize) else {
            return;
        };
        let before = breaker.state();
        breaker.record(&rules.breaker, permit, (outcome, duration), self.now.get());
        if breaker.state() != before {
            self.report(tool, (before, breaker.state()));
        }
    }

    /// Counts and logs a change of state.
    #[cold]
    fn report(&self, tool: &str, (before, state): (BreakerState, BreakerState)) {
        let mut changes = self.changes.get();
        let (counter, name) = match state {
            BreakerState::Open => (&mut changes.opened, "open"),
            BreakerState::HalfOpen => (&mut changes.half_opened, "half_open"),
            BreakerState::Closed => (&mut changes.closed, "closed"),
        };
        *counter += 1;
        self.changes.set(changes);
        if before == BreakerState::Closed {
            self.shared.open_breakers().acquire();
        } else if state == BreakerState::Closed {
            self.shared.open_breakers().release();
        }
        let event =
            OverloadEvent::BreakerChanged { shard: self.shard.0, tool: tool.into(), state: name };
        Event::from(event).emit_within(&mut self.throttle.borrow_mut(), self.now.get());
    }

    pub(super) fn add_counters(&self, counters: &mut OverloadCounters) {
        let Changes { opened, half_opened, closed } = self.changes.get();
        counters.breakers_opened += opened;
        counters.breakers_half_opened += half_opened;
        counters.breakers_closed += closed;
    }
}

impl Drop for ToolBreakers {
    fn drop(&mut self) {
        let breakers = &self.table.get_mut().breakers;
        for _ in breakers.iter().filter(|it| it.breaker.state() != BreakerState::Closed) {
            self.shared.open_breakers().release();
        }
    }
}

impl BreakerTable {
    #[inline]
    fn find(&self, tool: &str) -> Option<u32> {
        self.keys.get(tool).copied()
    }

    /// Adds the breaker of a tool of the catalog.
    #[cold]
    fn insert(&mut self, owner: &ToolBreakers, catalog: &Catalog, tool: &str) -> Option<u32> {
        catalog.tool(tool)?;
        let tool: Rc<str> = tool.into();
        let Some(index) = self.unused(owner, catalog) else {
            let index = u32::try_from(self.breakers.len()).ok()?;
            let breaker = CircuitBreaker::default();
            self.breakers.push(ToolBreaker { tool: Rc::clone(&tool), breaker });
            self.keys.insert(tool, index);
            return Some(index);
        };
        let entry = &mut self.breakers[index as usize];
        self.keys.remove(&entry.tool);
        entry.tool = Rc::clone(&tool);
        entry.breaker.reset();
        self.keys.insert(tool, index);
        Some(index)
    }

    /// Returns the place of a breaker whose tool has left the catalog, once there are more breakers
    /// than tools.
    fn unused(&self, owner: &ToolBreakers, catalog: &Catalog) -> Option<u32> {
        if self.breakers.len() < catalog.tools().count() {
            return None;
        }
        let index = self.breakers.iter().position(|it| catalog.tool(&it.tool).is_none())?;
        if self.breakers[index].breaker.state() != BreakerState::Closed {
            owner.shared.open_breakers().release();
        }
        u32::try_from(index).ok()
    }
}

impl Rules {
    const OFF: Self = Self {
        breaker: BreakerRules {
            window: Duration::from_secs(1),
            calls_min: u32::MAX,
            failed_percent: 0,
            slow_percent: 0,
            slow_after: Duration::MAX,
            wait: Duration::ZERO,
            wait_max: Duration::ZERO,
            probes_max: 1,
        },
        counts_tool_errors: false,
        slow_cycles_min: u64::MAX,
    };
}
