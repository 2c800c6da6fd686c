//! The circuit breaker over virtual time: calls of a tool that breaks and recovers.
//!
//! Invariants checked: a closed breaker never refuses; an open one admits nothing before its wait
//! has passed; a half-open one never has more probes than allowed; a breaker opens at most once a
//! wait; once the tool works for good, the breaker closes.

use std::time::Duration;

use corelane::internal::{
    BreakerRules, BreakerState, CallOutcome, CallerGroup, CircuitBreaker, Permit,
};
use corelane_base::random::Random;
use corelane_base::time::Instant;

use crate::totals::Totals;

/// Steps of a run in which the tool breaks and recovers.
const STEPS: usize = 2_000;
/// Steps after that, in which the tool works.
const RECOVERY_STEPS: usize = 4_000;

/// A call that runs.
struct Call {
    permit: Permit,
    begun: Instant,
    ends: Instant,
    outcome: CallOutcome,
}

struct Run {
    rules: BreakerRules,
    breaker: CircuitBreaker,
    random: Random,
    now: Instant,
    calls: Vec<Call>,
    opened_at: Option<Instant>,
    totals: Totals,
}

/// Runs one seed.
pub(crate) fn run(seed: u64) -> Result<Totals, String> {
    let mut random = Random::seeded(seed);
    let wait = Duration::from_millis(1 + random.below(2_000) as u64);
    let rules = BreakerRules {
        window: Duration::from_millis(100 + random.below(5_000) as u64),
        calls_min: 1 + u32::try_from(random.below(20)).unwrap_or(1),
        failed_percent: 1 + u8::try_from(random.below(100)).unwrap_or(1),
        slow_percent: u8::try_from(random.below(101)).unwrap_or(1),
        slow_after: Duration::from_millis(50 + random.below(200) as u64),
        wait,
        wait_max: wait * (1 + u32::try_from(random.below(8)).unwrap_or(1)),
        probes_max: 1 + u16::try_from(random.below(5)).unwrap_or(1),
    };
    let mut run = Run {
        rules,
        breaker: CircuitBreaker::default(),
        random,
        now: Instant::ORIGIN,
        calls: Vec::new(),
        opened_at: None,
        totals: Totals::default(),
    };
    let mut fails = false;
    for _ in 0..STEPS {
        fails ^= run.random.chance(1, 60);
        run.step(fails)?;
    }
    for _ in 0..RECOVERY_STEPS {
        run.step(false)?;
    }
    match run.breaker.state() {
        BreakerState::Closed => Ok(run.totals),
        state => Err(format!("{state:?} although the tool works; {rules:?}")),
    }
}

impl Run {
    /// Lets time pass, ends the calls that are over and makes another one.
    fn step(&mut self, fails: bool) -> Result<(), String> {
        self.now = self.now.after(Duration::from_millis(self.random.below(40) as u64));
        while let Some(index) = self.calls.iter().position(|call| call.ends <= self.now) {
            let call = self.calls.swap_remove(index);
            let before = self.breaker.state();
            let duration = call.ends.since(call.begun);
            self.breaker.record(&self.rules, call.permit, call.outcome, duration, self.now);
            self.check_change(before)?;
        }
        let before = self.breaker.state();
        let caller = CallerGroup::of_hash(0);
        let admitted = self.breaker.admit(&self.rules, caller, self.now);
        self.check_change(before)?;
        let state = self.breaker.state();
        match admitted {
            Err(_) if before == BreakerState::Closed => Err("a closed breaker refused".to_owned()),
            Err(refused) => {
                self.totals.breaker_refusals += 1;
                let is_hint = !refused.retry_after.is_zero();
                is_hint.then_some(()).ok_or_else(|| "a refusal without a time to wait".to_owned())
            }
            Ok(_) if state == BreakerState::Open => Err("an open breaker admitted".to_owned()),
            Ok(permit) => {
                self.begin(permit, fails);
                self.check_probes()
            }
        }
    }

    fn begin(&mut self, permit: Permit, fails: bool) {
        let outcome = match self.random.below(10) {
            0 => CallOutcome::Abandoned,
            1..=8 if fails => CallOutcome::Failed,
            _ => CallOutcome::Succeeded,
        };
        // A tool that works is never slow.
        let slow = if fails { 400 } else { 40 };
        let ends = self.now.after(Duration::from_millis(self.random.below(slow) as u64));
        self.calls.push(Call { permit, begun: self.now, ends, outcome });
    }

    fn check_probes(&self) -> Result<(), String> {
        if self.breaker.state() != BreakerState::HalfOpen {
            return Ok(());
        }
        // Probes of an earlier half-open state may still run: those of this one are the latest.
        let permit = self.calls.last().map(|call| call.permit);
        let probes = self.calls.iter().filter(|call| Some(call.permit) == permit).count();
        let is_allowed = probes <= usize::from(self.rules.probes_max);
        is_allowed.then_some(()).ok_or_else(|| format!("{probes} probes run"))
    }

    /// Checks the wait of a breaker that has just opened or ceased to be open.
    fn check_change(&mut self, before: BreakerState) -> Result<(), String> {
        let state = self.breaker.state();
        match (before, state) {
            (BreakerState::Closed | BreakerState::HalfOpen, BreakerState::Open) => {
                self.totals.breakers_opened += 1;
                let earlier = self.opened_at.replace(self.now);
                let apart = earlier.map(|earlier| self.now.since(earlier));
                match apart {
                    Some(apart) if apart < self.rules.wait => {
                        Err(format!("opened again after {apart:?}"))
                    }
                    _ => Ok(()),
                }
            }
            (BreakerState::Open, BreakerState::HalfOpen) => {
                let opened = self.opened_at.map(|opened| self.now.since(opened));
                match opened {
                    Some(wait) if wait >= self.rules.wait => Ok(()),
                    _ => Err(format!("half-open after {opened:?}")),
                }
            }
            (BreakerState::HalfOpen, BreakerState::Closed) => {
                self.totals.breakers_closed += 1;
                Ok(())
            }
            _ if before == state => Ok(()),
            _ => Err(format!("{before:?} became {state:?}")),
        }
    }
}
