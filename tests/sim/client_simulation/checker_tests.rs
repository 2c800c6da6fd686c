//! Wrong clients and servers, which a run must detect.

use corelane_engine::ring::sim::Faults;

use super::plan::{ClientPlan, ClientTransport, Mutation};
use super::simulation;

/// Runs a wrong client in runs without faults; returns what is reported.
fn report(mutation: Mutation) -> String {
    let mut plan = ClientPlan::draw(ClientTransport::Lines, 1);
    (plan.faults, plan.cut_chance, plan.server_ends) = (Faults::NONE, None, Vec::new());
    plan.mutation = Some(mutation);
    simulation::run(&plan).expect_err("the run detects the mutation")
}

#[test]
fn call_that_ends_twice_is_detected() {
    let report = report(Mutation::CompletesTwice);
    assert!(report.contains("ends, but it is Answered"), "{report}");
}

#[test]
fn answer_of_another_call_is_detected() {
    let report = report(Mutation::SwapsAnswers);
    assert!(report.contains("has the answer of another call"), "{report}");
}

#[test]
fn tool_call_executed_twice_is_detected() {
    let report = report(Mutation::ExecutesTwice);
    assert!(report.contains("was executed 2 times"), "{report}");
}

#[test]
fn call_that_never_ends_is_detected() {
    let report = report(Mutation::LosesOutcome);
    assert!(report.contains("does not end"), "{report}");
}

#[test]
fn client_that_stays_disconnected_is_detected() {
    let report = report(Mutation::StaysDisconnected);
    assert!(report.contains("not every client works again"), "{report}");
}
