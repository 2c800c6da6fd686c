//! Clients that end their input while calls are in flight.

use std::time::Duration;

use super::{assert_near, echo, options, run, scenario, slow};
use crate::line_simulation::action::LineAction;
use crate::line_simulation::expectation::CallEnd;
use crate::line_simulation::scenario::Scenario;

/// A client that ends its input with a call in flight, and reads on.
fn half_closing_scenario(half_close_timeout: Duration, call_ms: u32) -> Scenario {
    let mut options = options();
    options.tcp.half_close_timeout = half_close_timeout;
    let call = slow(2, call_ms, CallEnd::Result);
    scenario(options, vec![vec![echo(1), call, LineAction::ShutdownWrite, LineAction::AwaitClose]])
}

#[test]
fn half_close_cancels_calls_at_once() {
    let report = run(&half_closing_scenario(Duration::ZERO, 100));
    assert_eq!((report.totals.responses, report.totals.half_close_cancellations), (1, 1));
    assert_near(report.client_ends[0], Duration::ZERO);
}

#[test]
fn call_within_half_close_timeout_is_answered() {
    let report = run(&half_closing_scenario(Duration::from_millis(60), 20));
    assert_eq!((report.totals.responses, report.totals.half_close_errors), (2, 0));
    assert_near(report.client_ends[0], Duration::from_millis(20));
}

#[test]
fn call_past_half_close_timeout_gets_error() {
    let report = run(&half_closing_scenario(Duration::from_millis(60), 100));
    assert_eq!((report.totals.responses, report.totals.half_close_errors), (2, 1));
    assert_near(report.client_ends[0], Duration::from_millis(60));
}

#[test]
fn closed_clients_with_calls_free_their_connections() {
    let mut options = options();
    options.tcp.connections_max = 16;
    options.engine.ring_sizes.sockets_max = 64;
    let leaves = |end: LineAction| vec![slow(1, 400, CallEnd::Result), end];
    let mut clients = vec![leaves(LineAction::Close); 8];
    clients.resize(16, leaves(LineAction::ShutdownWrite));
    clients.resize(32, vec![echo(1), LineAction::AwaitResponses]);
    let mut scenario = scenario(options, clients);
    for client in &mut scenario.clients[16..] {
        client.connects_at = Duration::from_millis(10);
    }
    let report = run(&scenario);
    assert_eq!((report.totals.responses, report.totals.connections_refused), (16, 0));
}
