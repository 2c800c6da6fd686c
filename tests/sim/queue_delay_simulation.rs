//! Load shedding by queue delay over virtual time: a queue before threads with a fixed rate.
//!
//! Invariants checked: a load below the capacity is never shed; under a load above it, calls that
//! are served have waited for little more than target and interval together, although the queue
//! could hold many times as many.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::internal::{DelayGuard, DelayRules};
use corelane_base::random::Random;
use corelane_base::time::Instant;

use crate::totals::Totals;

/// Runs one seed.
pub(crate) fn run(seed: u64) -> Result<Totals, String> {
    let mut random = Random::seeded(seed);
    let service_us = 200 + random.below(1_800) as u64;
    let rules = DelayRules {
        target: Duration::from_micros(3 * service_us + random.below(5_000) as u64),
        interval: Duration::from_millis(20 + random.below(180) as u64),
    };
    // Percentage of the capacity.
    let load = [50, 80, 150, 300, 1_000][random.below(5)];
    let mut totals = Totals::default();
    let (mut queue, mut guard) = (VecDeque::new(), DelayGuard::default());
    let (mut now_us, mut free_at_us) = (0_u64, 0_u64);
    for _ in 0..20_000 {
        // Evenly distributed around the mean.
        now_us += random.below(usize::try_from(2 * service_us * 100 / load).unwrap_or(1)) as u64;
        while let Some(&queued_us) = queue.front() {
            let begins_us = free_at_us.max(queued_us);
            if begins_us > now_us {
                break;
            }
            queue.pop_front();
            free_at_us = begins_us + service_us;
            totals.queued_calls += 1;
            let waited = Duration::from_micros(begins_us - queued_us);
            // What was queued before the first refusal is served, too.
            let bound =
                4 * (rules.target + rules.interval) * u32::try_from(load / 100 + 1).unwrap_or(1);
            if waited > bound {
                return Err(format!("a call waited for {waited:?}, {rules:?}, load {load} %"));
            }
        }
        let delay = queue.front().map(|queued_us| Duration::from_micros(now_us - queued_us));
        guard.update(&rules, delay, Instant::from_nanoseconds(1_000 * now_us));
        if !guard.is_shedding() {
            queue.push_back(now_us);
            continue;
        }
        totals.shed_calls += 1;
        if load <= 50 {
            return Err(format!("a call was refused at load {load} %, {rules:?}"));
        }
    }
    if load >= 150 && totals.shed_calls == 0 {
        return Err(format!("no call was refused at load {load} %, {rules:?}"));
    }
    Ok(totals)
}
