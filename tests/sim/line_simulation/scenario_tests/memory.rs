//! Clients at the memory limit of a shard.

use std::time::Duration;

use corelane_protocol::revision::Revision;
use serde_json::json;

use super::{echo_large, options, run, scenario};
use crate::line_simulation::action::LineAction;
use crate::line_simulation::expectation::{Expectation, ImmediateResponse};
use crate::line_simulation::expected_response::ExpectedResponse;
use crate::line_simulation::message;

#[test]
fn holders_below_their_share_outlast_larger_ones() {
    let mut options = options();
    options.tcp.connections_max = 16;
    options.engine.ring_sizes.sockets_max = 64;
    options.limits.memory_bytes_max = 48_000;
    // Below a sixteenth of the limit each, together more than the three quarters that are left
    // when larger holders are closed.
    let mut clients: Vec<_> = (1..=14).map(|id| message_in_two_parts(id, 2_900)).collect();
    let mut large = vec![LineAction::Wait(Duration::from_millis(20)), LineAction::StopReading];
    large.extend((1..=60).map(echo_large));
    large.extend([LineAction::Wait(Duration::from_millis(60)), LineAction::Close]);
    clients.push(large);
    let mut scenario = scenario(options, clients);
    for client in &mut scenario.clients[..14] {
        client.is_small = true;
    }
    let report = run(&scenario);
    assert_eq!(report.totals.small_client_responses, 14);
    assert_eq!(report.totals.largest_holders_closed, 1);
}

/// A client that completes a message 50 ms after its first `bytes`.
fn message_in_two_parts(id: u64, bytes: usize) -> Vec<LineAction> {
    let (id, words) = (json!(id), "x".repeat(bytes));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    let answer = ImmediateResponse::new(id, ExpectedResponse::Echo(words));
    let (first, rest) = text.as_bytes().split_at(bytes);
    vec![
        LineAction::Send { bytes: first.to_vec(), expectations: Vec::new() },
        LineAction::Wait(Duration::from_millis(50)),
        LineAction::Send {
            bytes: [rest, b"\n"].concat(),
            expectations: vec![vec![Expectation::Immediate(answer)]],
        },
        LineAction::AwaitResponses,
        LineAction::Close,
    ]
}
