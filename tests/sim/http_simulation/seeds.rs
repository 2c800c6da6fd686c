//! Seeds that are run over HTTP.

use std::ops::Range;

use super::plan::HttpPlan;
use super::simulation;
use crate::seeds::SeedRun;

/// Seeds that once failed; always run.
const REGRESSION_SEEDS: [u64; 9] = [
    // A request that waited for another shard had become a stream when its 202 was written.
    21, // A connection that was paused and then started a request was never read again.
    10,
    // A resumed stream exceeded the outgoing limit, and its client was closed each time.
    68, // A stream over HTTP/1.0 that ended without another byte was never closed.
    81,
    // A session had its maximum of streams: a request was answered on the stream of the next.
    1661,
    // The checker mixed up two sessions, of which one began between head and body of the other.
    2501,
    // The checker expected the response to a request whose connection was cut before it was read.
    4046,
    // The checker expected a session to outlive the half-closed connection of its one stream.
    7006,
    // A connection accepted before a drain was refused in lines, and the checker expected no
    // refusal of requests that have another status.
    938,
];

/// Counts that the runs must reach together.
const REQUIRED_COUNTS: [&str; 15] = [
    "responses",
    "client_requests",
    "batches",
    "connections_cut",
    "catalog_updates",
    "stream_notifications",
    "session_notifications",
    "read_pauses",
    "client_responses",
    "streams_resumed",
    "sessions_created",
    "streams_opened",
    "tasks_created",
    "tasks_finished",
    "clients_vanished",
];

/// Runs every seed, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_seeds(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "over HTTP",
        test_filter: "http_sessions_and",
        regression_seeds: &REGRESSION_SEEDS,
        required_counts: &REQUIRED_COUNTS,
    };
    survey.run(seeds, |seed| {
        let plan = HttpPlan::draw(seed);
        let report = simulation::run(&plan);
        report.map(|it| it.totals).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
    });
}

/// Runs every seed with small memory limits, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_memory_limited(seeds: Range<u64>) {
    let survey = SeedRun {
        subject: "over HTTP with little memory",
        test_filter: "http_memory_account",
        regression_seeds: &[
            // A strict server closed a connection for memory without `MCP-Protocol-Version`.
            4002,
            // The checker took the last error of a closing connection for what it holds, and a
            // general stream without events for one that no other request could have resumed.
            5363,
            // Sessions and handlers alone exceeded the limit: the checker expected the close of a
            // connection that had received less than the next search for holders waits for.
            2461, 3856, // The checker expected no task of a modern request to be gone.
            2543,
        ],
        required_counts: &["memory_charges_refused", "largest_holders_closed", "streams_resumed"],
    };
    survey.run(seeds, |seed| {
        let plan = HttpPlan::draw_memory_limited(seed);
        let report = simulation::run(&plan);
        report.map(|it| it.totals).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
    });
}
