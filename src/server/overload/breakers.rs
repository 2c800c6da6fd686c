//! The circuit breakers of the tools of one shard.
//!
//! Invariants: there is at most one breaker for each tool of the catalog, and those of calls in
//! flight; every admission is recorded once, by itself or by its permit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_engine::ring::cycles::{CycleCount, CycleRate};

use super::EndOfCall;
use super::running::RunningCalls;
use crate::guard::breaker::{
    BreakerRules, BreakerState, CallOutcome, CallerGroup, CircuitBreaker, Permit, Refused,
};
use crate::service::{BuildNameHasher, Catalog, tool_at};
use crate::telemetry::counters::OverloadCounters;
use crate::telemetry::event::{Event, OverloadEvent};
use crate::telemetry::throttle::EventThrottle;

/// The breakers of the tools of one shard.
#[derive(Debug)]
pub(super) struct ToolBreakers {
    shard: ShardId,
    /// The time of the turn.
    now: Cell<Instant>,
    rate: CycleRate,
    table: RefCell<BreakerTable>,
    changes: Cell<Changes>,
    throttle: RefCell<EventThrottle>,
    shared: RunningCalls,
    /// Odd; groups callers so that no client knows the group of another.
    secret: u64,
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
    rules: Rules,
    /// Indexes of breakers, by the position of the tool in the catalog; [`NO_BREAKER`] for tools
    /// that were not called since the catalog was installed.
    by_position: Vec<u32>,
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

/// A call that a breaker has admitted in this turn: to be recorded, or replaced by a
/// [`CallPermit`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Admission {
    tool: u32,
    permit: Permit,
}

/// A call that a breaker has admitted and that ends in a later turn. Dropped without a record, it
/// is abandoned.
#[derive(Debug)]
pub struct CallPermit {
    /// Taken by the record.
    breakers: Option<Rc<ToolBreakers>>,
    tool: u32,
    permit: Permit,
    admitted_at: Instant,
}

impl CallPermit {
    /// Records that the call has ended.
    pub fn record(mut self, end: EndOfCall) {
        if let Some(breakers) = self.breakers.take() {
            let duration = breakers.now.get().since(self.admitted_at);
            breakers.record(self.tool, self.permit, end, |_| duration);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(breakers) = self.breakers.take() {
            let end = EndOfCall::Outcome(CallOutcome::Abandoned);
            breakers.record(self.tool, self.permit, end, |_| Duration::ZERO);
        }
    }
}

impl ToolBreakers {
    /// Without rules nothing is refused.
    pub(super) fn new(shard: ShardId, shared: RunningCalls) -> Self {
        Self {
            shard,
            now: Cell::default(),
            rate: CycleRate::start(),
            table: RefCell::default(),
            changes: Cell::default(),
            throttle: RefCell::default(),
            secret: shared.draw() | 1,
            shared,
        }
    }

    pub(super) fn set_rules(&self, breaker: BreakerRules, counts_tool_errors: bool) {
        let slow_cycles_min = CycleRate::cycles_min(breaker.slow_after);
        self.table.borrow_mut().rules = Rules { breaker, counts_tool_errors, slow_cycles_min };
    }

    /// Forgets the positions of tools: another catalog is installed.
    pub(super) fn forget_positions(&self) {
        self.table.borrow_mut().by_position = Vec::new();
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

    /// Admits a call of the tool at `position` in the catalog; `None` if there is no such tool.
    /// `caller` differs between callers.
    #[inline]
    pub(super) fn admit(
        &self,
        catalog: &Catalog,
        position: usize,
        caller: u64,
    ) -> Result<Option<Admission>, Refused> {
        let table = &mut *self.table.borrow_mut();
        let mut index = table.by_position.get(position).copied().unwrap_or(NO_BREAKER);
        if index as usize >= table.breakers.len() {
            match table.find_or_insert(self, catalog, position) {
                Some(found) => index = found,
                None => return Ok(None),
            }
        }
        let now = self.now.get();
        let ToolBreaker { breaker, tool } = &mut table.breakers[index as usize];
        let before = breaker.state();
        let caller = CallerGroup::of_hash(caller.wrapping_mul(self.secret));
        let admitted = breaker.admit(&table.rules.breaker, caller, now);
        if breaker.state() != before {
            self.report(tool, before, breaker.state());
        }
        Ok(Some(Admission { tool: index, permit: admitted? }))
    }

    /// Returns the permit of a call that ends in a later turn.
    pub(super) fn permit(self: &Rc<Self>, admission: Admission) -> CallPermit {
        let Admission { tool, permit } = admission;
        let breakers = Some(Rc::clone(self));
        CallPermit { breakers, tool, permit, admitted_at: self.now.get() }
    }

    /// Records that a call which began at `begun` has ended in the turn of its admission, on this
    /// thread.
    #[inline]
    pub(super) fn record_inline(&self, admission: Admission, end: EndOfCall, begun: CycleCount) {
        let Admission { tool, permit } = admission;
        let cycles = CycleCount::now().since(begun);
        self.record(tool, permit, end, |rules| {
            let is_quick = cycles < rules.slow_cycles_min;
            if is_quick { Duration::ZERO } else { self.rate.duration(cycles) }
        });
    }

    /// Records the end of a call that has taken `duration`.
    #[inline]
    fn record(
        &self,
        tool: u32,
        permit: Permit,
        end: EndOfCall,
        duration: impl FnOnce(&Rules) -> Duration,
    ) {
        let BreakerTable { rules, breakers, .. } = &mut *self.table.borrow_mut();
        let outcome = match end {
            EndOfCall::Outcome(outcome) => outcome,
            EndOfCall::ToolError if rules.counts_tool_errors => CallOutcome::Failed,
            EndOfCall::ToolError => CallOutcome::Succeeded,
        };
        let Some(ToolBreaker { breaker, tool }) = breakers.get_mut(tool as usize) else {
            return;
        };
        let before = breaker.state();
        breaker.record(&rules.breaker, permit, outcome, duration(rules), self.now.get());
        if breaker.state() != before {
            self.report(tool, before, breaker.state());
        }
    }

    /// Counts and logs a change of state.
    #[cold]
    fn report(&self, tool: &str, before: BreakerState, state: BreakerState) {
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
    /// Returns the breaker of the tool at a position in the catalog, and has it found there from
    /// now on.
    #[cold]
    fn find_or_insert(
        &mut self,
        owner: &ToolBreakers,
        catalog: &Catalog,
        position: usize,
    ) -> Option<u32> {
        let tool = tool_at(catalog, position)?.name();
        let known = self.keys.get(tool).copied();
        let index = known.or_else(|| self.insert(owner, catalog, tool))?;
        self.by_position.resize(catalog.tools().len(), NO_BREAKER);
        *self.by_position.get_mut(position)? = index;
        Some(index)
    }

    /// Adds the breaker of a tool of the catalog.
    fn insert(&mut self, owner: &ToolBreakers, catalog: &Catalog, tool: &str) -> Option<u32> {
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

impl Default for Rules {
    /// Rules by which no breaker opens.
    fn default() -> Self {
        let breaker = BreakerRules {
            window: Duration::from_secs(1),
            calls_min: u32::MAX,
            failed_percent: 0,
            slow_percent: 0,
            slow_after: Duration::MAX,
            wait: Duration::ZERO,
            wait_max: Duration::ZERO,
            probes_max: 1,
        };
        Self { breaker, counts_tool_errors: false, slow_cycles_min: u64::MAX }
    }
}

/// Stands for the index of a breaker where there is none.
const NO_BREAKER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use corelane_protocol::model::Implementation;

    use super::*;
    use crate::service::{NoArguments, Tool, tool_position};

    const RULES: BreakerRules = BreakerRules {
        window: Duration::from_secs(10),
        calls_min: 1,
        failed_percent: 100,
        slow_percent: 0,
        slow_after: Duration::MAX,
        wait: Duration::from_hours(1),
        wait_max: Duration::from_hours(1),
        probes_max: 1,
    };

    fn catalog(names: &[&str]) -> Catalog {
        let tool = |name: &&str| Tool::new(*name).inline_writer(|NoArguments {}, _, _| Ok(()));
        let builder = Catalog::builder(Implementation::new("breakers", "1"));
        builder.tools(names.iter().map(tool)).build().unwrap()
    }

    /// Calls a tool, with this end; returns whether the call is admitted.
    fn call(breakers: &Rc<ToolBreakers>, catalog: &Catalog, tool: &str, end: EndOfCall) -> bool {
        let position = tool_position(catalog, tool).unwrap();
        let admitted = breakers.admit(catalog, position, 0);
        let admission = admitted.map(|admission| admission.expect("a tool of the catalog"));
        admission.map(|admission| breakers.record_inline(admission, end, CycleCount::now())).is_ok()
    }

    #[test]
    fn open_breaker_follows_tool_to_other_catalog() {
        let breakers = Rc::new(ToolBreakers::new(ShardId(0), RunningCalls::default()));
        breakers.set_rules(RULES, false);
        let succeeded = EndOfCall::Outcome(CallOutcome::Succeeded);
        let one = catalog(&["a", "b", "c"]);
        for tool in ["c", "a"] {
            assert!(call(&breakers, &one, tool, succeeded), "{tool}");
        }
        assert!(call(&breakers, &one, "b", EndOfCall::FAILED));
        assert!(!call(&breakers, &one, "b", succeeded));
        let other = catalog(&["b", "d", "a"]);
        breakers.forget_positions();
        for (tool, is_admitted) in [("a", true), ("b", false), ("d", true), ("b", false)] {
            assert_eq!(call(&breakers, &other, tool, succeeded), is_admitted, "{tool}");
        }
        assert!(breakers.admit(&other, 3, 0).unwrap().is_none());
        assert_eq!(breakers.shared.open_breakers().count(), 1);
    }

    #[test]
    fn breaker_of_removed_tool_is_replaced_closed() {
        let breakers = Rc::new(ToolBreakers::new(ShardId(0), RunningCalls::default()));
        breakers.set_rules(RULES, false);
        let one = catalog(&["a"]);
        assert!(call(&breakers, &one, "a", EndOfCall::FAILED));
        breakers.forget_positions();
        let other = catalog(&["b"]);
        assert!(call(&breakers, &other, "b", EndOfCall::Outcome(CallOutcome::Succeeded)));
        assert_eq!(breakers.table.borrow().breakers.len(), 1);
        assert_eq!(breakers.shared.open_breakers().count(), 0);
    }
}
