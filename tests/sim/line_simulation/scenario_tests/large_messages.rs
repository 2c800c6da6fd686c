//! Large messages beside small ones.

use corelane_protocol::revision::Revision;
use serde_json::json;

use super::{echo, options, run, scenario, send};
use crate::line_simulation::action::LineAction;
use crate::line_simulation::expectation::{Expectation, ImmediateResponse};
use crate::line_simulation::expected_response::ExpectedResponse;
use crate::line_simulation::message;
use crate::line_simulation::scenario::Scenario;

/// A client that makes `small` calls one after the other, and two that send four large ones each.
fn large_messages_beside(small: u64) -> Scenario {
    let mut options = options();
    options.limits.message_bytes_max = 1 << 20;
    options.limits.memory_bytes_max = 64 << 20;
    options.limits.unproven_bytes_max = 64 << 20;
    options.limits.outgoing_bytes_max = 4 << 20;
    let calls = (1..=small).flat_map(|id| [echo(id), LineAction::AwaitResponses]).collect();
    let mut large: Vec<_> = (1..=4).map(echo_large).collect();
    large.push(LineAction::AwaitResponses);
    scenario(options, vec![calls, large.clone(), large])
}

fn echo_large(id: u64) -> LineAction {
    let (id, words) = (json!(id), "x".repeat(200_000));
    let text = message::call(&id, "echo", &json!({"message": words}), None, Revision::LATEST);
    send(text, Expectation::Immediate(ImmediateResponse::new(id, ExpectedResponse::Echo(words))))
}

#[test]
fn large_messages_wait_and_are_answered() {
    let report = run(&large_messages_beside(200));
    assert_eq!(report.totals.responses, 208);
    assert!(report.totals.read_pauses > 0);
}

#[test]
fn large_messages_alone_do_not_wait() {
    let report = run(&large_messages_beside(0));
    assert_eq!((report.totals.responses, report.totals.read_pauses), (8, 0));
}
