//! Which seeds are run over WebSocket, and what is said of one that fails.

use std::ops::Range;

use super::plan;
use crate::meeting::gathering;
use crate::seeds::Survey;

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
    let survey = Survey {
        about: "over WebSocket",
        test: "clients_of_websocket",
        failed: &FAILED,
        reaches: &REACHES,
    };
    survey.run(seeds, |seed| gathering::tally(&plan::draw(seed)));
}
