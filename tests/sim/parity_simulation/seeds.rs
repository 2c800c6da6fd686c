//! Seeds that are run.

use std::ops::Range;

use super::plan::ParityPlan;
use super::totals::ParityTotals;
use crate::seeds::{run_with_replay_hint, seeds_from_environment};

/// Seeds that once failed; always run.
const REGRESSION_SEEDS: [u64; 4] = [
    // The checker did not expect that a draining server refuses a connection before a request.
    1388,
    // A connection waited for the responses of a session of another shard that had ended.
    1657,
    // The checker did not expect that an ended session is unknown to what its client sends beside.
    4716,
    // The checker did not expect that a session without capabilities in time is unknown over HTTP.
    8950,
];

/// Counts that no seed has to reach.
const RARE_COUNTS: [&str; 3] = ["events_taken_late", "restarts_other", "drains"];

/// Runs every seed, or those that the environment names, with tokens that expire.
///
/// # Panics
///
/// At the first seed that fails, or whose sessions do not all continue.
pub(crate) fn run_expiries(seeds: Range<u64>) {
    for seed in seeds_from_environment().unwrap_or(seeds) {
        let replay = format!(
            "seed {seed} of the parity dialect with tokens failed; \
             repeat it with: CORELANE_SEED={seed} cargo test --test sim parity_tokens_expire"
        );
        let plan = ParityPlan::draw_expiry(seed);
        let report = run_with_replay_hint(&replay, || super::run(&plan));
        let (resumed, peers) = (report.totals.sessions_resumed, plan.peers.len() as u64);
        assert_eq!(resumed, peers, "{replay}: {:#?}", report.totals);
    }
}

/// Runs every seed, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_seeds(seeds: Range<u64>) {
    let named = seeds_from_environment();
    let is_survey = named.is_none();
    let mut totals = ParityTotals::default();
    let always = REGRESSION_SEEDS.into_iter().filter(|_| is_survey);
    for seed in always.chain(named.clone().unwrap_or(seeds)) {
        let replay = format!(
            "seed {seed} of the parity dialect failed; \
             repeat it with: CORELANE_SEED={seed} cargo test --test sim parity_streams_survive"
        );
        let report = run_with_replay_hint(&replay, || {
            let plan = ParityPlan::draw(seed);
            super::run(&plan).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
        });
        totals = totals.plus(report.totals);
    }
    if let Some(named) = named.filter(|named| named.end - named.start > 1) {
        eprintln!("seeds {named:?} of the parity dialect:\n{totals:#?}");
    }
    for (name, count) in totals.rows() {
        let is_required = is_survey && !RARE_COUNTS.contains(&name);
        assert!(count > 0 || !is_required, "no seed of the parity dialect counted any {name}");
    }
}
