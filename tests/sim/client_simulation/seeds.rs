//! Seeds that are run.

use std::ops::Range;

use super::plan::{ClientPlan, ClientTransport};
use super::simulation;
use crate::seeds::SeedRun;

/// Counts that the runs of each transport must reach together.
const REQUIRED_COUNTS: [&str; 7] = [
    "client_calls_answered",
    "client_calls_closed",
    "client_calls_timed_out",
    "client_calls_unconnected",
    "client_calls_cancelled",
    "connections_cut",
    "server_restarts",
];

/// Runs every seed of a transport, or those that the environment names.
///
/// # Panics
///
/// At the first seed that fails, or if a required count stays zero.
pub(crate) fn run_seeds(transport: ClientTransport, seeds: Range<u64>) {
    let (subject, test_filter, regression_seeds): (_, _, &[u64]) = match transport {
        // A send that the kernel took in part was not completed.
        ClientTransport::Lines => ("of clients on lines", "line_client_calls", &[43]),
        // Requests that waited for a connection were sent between two sessions. The notification
        // that begins a session was lost, overtaken by a request of the last session, or stuck in a
        // stalled connection. A response was not resumed: its session had ended. A call lost two
        // sessions. A draining server refused a connection of HTTP with a line of JSON.
        ClientTransport::Http => {
            ("of clients over HTTP", "http_client_calls", &[80, 106, 113, 122, 259, 446, 2029])
        }
        ClientTransport::WebSocket => ("of clients over WebSocket", "websocket_client_calls", &[]),
    };
    let survey =
        SeedRun { subject, test_filter, regression_seeds, required_counts: &REQUIRED_COUNTS };
    survey.run(seeds, |seed| {
        let plan = ClientPlan::draw(transport, seed);
        let report = simulation::run(&plan);
        report.map(|it| it.0).map_err(|reason| {
            let ClientPlan { faults, clients, server_ends, cut_chance, .. } = &plan;
            format!("{reason}\n{faults:?}\n{clients:?}\n{server_ends:?}, cuts {cut_chance:?}")
        })
    });
}
