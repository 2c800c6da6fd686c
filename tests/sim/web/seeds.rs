//! Which seeds are run over HTTP, and what is said of one that fails.

use std::ops::Range;

use super::evening;
use super::plan::Plan;
use crate::seeds::Survey;

/// Seeds that found something once.
const FAILED: [u64; 5] = [
    // A request that waited for another shard had become a stream when its 202 was written into it.
    21,
    // A connection that was paused and then opened an exchange was never received from again.
    10,
    // What a client had come back for was more than may wait for it, and cut it off each time.
    68, // A stream of HTTP/1.0 that ended without another byte was never over.
    81,
    // A session had as many streams as it may: one request was answered on the stream of the next.
    1661,
];

/// What the runs must reach together.
const REACHES: [&str; 15] = [
    "answers",
    "asked",
    "batches",
    "cuts",
    "editions",
    "frames",
    "notices",
    "pauses",
    "replies",
    "resumed",
    "sessions",
    "streams",
    "tasks_begun",
    "tasks_ended",
    "vanished",
];

/// Runs every seed, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or where something was never reached.
pub(crate) fn survey(seeds: Range<u64>) {
    let survey =
        Survey { about: "over HTTP", test: "over_http", failed: &FAILED, reaches: &REACHES };
    survey.run(seeds, |seed| {
        let plan = Plan::draw(seed);
        let report = evening::run(&plan);
        report.map(|it| it.tally).map_err(|reason| format!("{reason}\n{:?}", plan.faults))
    });
}
