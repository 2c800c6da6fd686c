//! Which seeds are run over WebSocket, and what is said of one that fails.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::plan;
use crate::meeting::gathering;
use crate::seeds::named_seeds;
use crate::tally::Tally;

/// Seeds that found something once.
const FAILED: [u64; 1] = [
    // Who did not read while the server drained was counted as closed for both.
    3234,
];

/// What the runs must reach together.
const REACHES: [&str; 20] = [
    "answers",
    "asked",
    "closes_answered",
    "drains_told",
    "faults_closed",
    "fragmented",
    "frames",
    "given_up",
    "joined",
    "notices",
    "pauses",
    "pings",
    "pongs",
    "replies",
    "streams",
    "tasks_ended",
    "unfinished",
    "upgrades",
    "upgrades_refused",
    "vanished",
];

/// Runs every seed, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey(seeds: Range<u64>) {
    let named = named_seeds();
    let is_survey = named.is_none();
    let mut tally = Tally::default();
    let failed_once = FAILED.into_iter().filter(|_| is_survey);
    for seed in failed_once.chain(named.unwrap_or(seeds)) {
        let plan = plan::draw(seed);
        let replay = format!(
            "seed {seed} over WebSocket failed; \
             again: CORELANE_SEED={seed} cargo test --test sim clients_of_websocket"
        );
        match catch_unwind(AssertUnwindSafe(|| gathering::run(&plan))) {
            Ok(Ok(outing)) => tally = tally.plus(outing.tally),
            Ok(Err(reason)) => panic!("{replay}\n{reason}\n{:?}", plan.faults),
            Err(panic) => {
                eprintln!("{replay}");
                resume_unwind(panic)
            }
        }
    }
    for name in REACHES.iter().filter(|_| is_survey) {
        assert!(tally.count(name) > 0, "WebSocket has never reached {name}:\n{tally}");
    }
}
