//! Seeds that are run over WebSocket.

use std::ops::Range;

use super::plan;
use crate::feature_simulation::simulation;
use crate::seeds::SeedRun;

/// Seeds that once failed; always run.
const REGRESSION_SEEDS: [u64; 2] = [
    // A client that did not read while the server drained was counted as closed for both reasons.
    3234,
    // The checker expected a pong of a draining server, which reads nothing but the close frame.
    8008,
];

/// Counts that the runs must reach together.
const REQUIRED_COUNTS: [&str; 20] = [
    "responses",
    "client_requests",
    "closes_answered",
    "going_away_closes",
    "faults_closed",
    "messages_fragmented",
    "stream_notifications",
    "slow_readers_closed",
    "messages_joined",
    "session_notifications",
    "read_pauses",
    "pings_received",
    "pongs_received",
    "client_responses",
    "streams_opened",
    "tasks_finished",
    "incomplete_messages_closed",
    "upgrades",
    "upgrades_refused",
    "clients_vanished",
];

/// Runs every seed, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_seeds(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "over WebSocket",
        test_filter: "websocket_clients",
        regression_seeds: &REGRESSION_SEEDS,
        required_counts: &REQUIRED_COUNTS,
    };
    survey.run(seeds, |seed| simulation::run_for_totals(&plan::draw(seed)));
}
