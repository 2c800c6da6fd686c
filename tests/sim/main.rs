//! Simulation tests: the real server over simulated rings, with many seeds and injected faults.
//!
//! A seed decides everything: sizes, faults, clients, the order in which shards run. A failing run
//! prints its seed; `CORELANE_SEED=7 cargo test --test sim TEST` repeats that one alone, and
//! `CORELANE_SEED=0..9000` runs a range. The mesh has runs of its own, because it carries more
//! kinds of messages than a server sends.

mod totals;

mod breaker_simulation;

mod queue_delay_simulation;

mod harness;

mod connection_turns;

mod line_simulation;

mod mesh_simulation;

mod parity_simulation;

mod rate_simulation;

mod websocket;

mod fairness_simulation;

mod feature_simulation;

mod http_simulation;

mod websocket_simulation;

mod client_simulation;

mod seeds;

use corelane_test_support::alloc_counter::CountingAllocator;

use crate::client_simulation::plan::{ClientPlan, ClientTransport};
use crate::client_simulation::seeds::run_seeds as run_clients;
use crate::line_simulation::scenario::{Scenario, ScenarioKind};
use crate::rate_simulation::plan::Demand;
use crate::seeds::{
    SeedRun, run_fairness, run_feature_simulations, run_memory_limited_features, run_mesh,
    run_rates, run_scenarios,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn calm_server_answers_each_request_once_in_order() {
    run_scenarios(ScenarioKind::Calm, 0..100);
}

#[test]
fn breaker_admits_probes_only_and_closes_again() {
    let survey = SeedRun {
        subject: "of the circuit breaker",
        test_filter: "breaker_admits_probes",
        regression_seeds: &[],
        required_counts: &["breakers_opened", "breakers_closed", "breaker_refusals"],
    };
    survey.run(0..500, breaker_simulation::run);
}

#[test]
fn queue_delay_stays_bounded_under_overload() {
    let survey = SeedRun {
        subject: "of load shedding",
        test_filter: "queue_delay_stays",
        regression_seeds: &[],
        required_counts: &["queued_calls", "shed_calls"],
    };
    survey.run(0..300, queue_delay_simulation::run);
}

#[test]
fn drained_server_answers_what_it_has_read() {
    run_scenarios(ScenarioKind::Drained, 0..160);
}

#[test]
fn clock_jumps_leave_calls_answered_once_or_late() {
    run_scenarios(ScenarioKind::Jumped, 0..80);
}

#[test]
fn piped_server_answers_all_and_ends_with_input() {
    run_scenarios(ScenarioKind::Piped, 0..60);
}

#[test]
fn tight_limits_refuse_excess_and_lose_nothing() {
    run_scenarios(ScenarioKind::Tight, 0..100);
}

#[test]
fn memory_limit_closes_no_client_below_its_share() {
    run_scenarios(ScenarioKind::MemoryLimited, 0..100);
}

#[test]
fn vanished_clients_leave_no_server_state_behind() {
    run_feature_simulations(0..240);
}

#[test]
fn memory_account_equals_what_is_held() {
    run_memory_limited_features(0..120);
}

#[test]
fn http_sessions_and_streams_survive_lost_connections() {
    http_simulation::seeds::run_seeds(0..200);
}

#[test]
fn http_memory_account_equals_what_is_held() {
    http_simulation::seeds::run_memory_limited(0..100);
}

#[test]
fn websocket_clients_receive_whole_frames_and_one_close() {
    websocket_simulation::seeds::run_seeds(0..120);
}

#[test]
fn line_client_calls_end_once_despite_faults() {
    run_clients(ClientTransport::Lines, 0..30);
}

#[test]
fn http_client_calls_end_once_despite_faults() {
    run_clients(ClientTransport::Http, 0..30);
}

#[test]
fn websocket_client_calls_end_once_despite_faults() {
    run_clients(ClientTransport::WebSocket, 0..30);
}

#[test]
fn parity_streams_survive_lost_connections() {
    parity_simulation::seeds::run_seeds(0..200);
}

#[test]
fn parity_tokens_expire_alike() {
    parity_simulation::seeds::run_expiries(0..40);
}

#[test]
fn mesh_messages_arrive_once_in_channel_order() {
    run_mesh(0..400);
}

#[test]
fn rate_limit_of_shards_is_never_exceeded() {
    run_rates(Demand::Moving, 0..12);
}

#[test]
fn rate_limit_goes_to_shard_with_demand() {
    run_rates(Demand::OneShard, 0..12);
}

#[test]
fn hostile_clients_leave_places_to_honest_ones() {
    run_fairness(0..16);
}

#[test]
fn same_seed_gives_same_run() {
    for chapter in ScenarioKind::ALL {
        let run = || line_simulation::simulation::run(&Scenario::draw(chapter, 1));
        assert_eq!(run(), run(), "{chapter:?}");
    }
    assert_eq!(mesh_simulation::simulation::run(1), mesh_simulation::simulation::run(1));
    let plan = feature_simulation::simulation::FeaturePlan::draw(1);
    assert_eq!(
        feature_simulation::simulation::run(&plan),
        feature_simulation::simulation::run(&plan)
    );
    let plan = websocket_simulation::plan::draw(1);
    assert_eq!(
        feature_simulation::simulation::run(&plan),
        feature_simulation::simulation::run(&plan)
    );
    let plan = http_simulation::HttpPlan::draw(1);
    assert_eq!(http_simulation::run(&plan), http_simulation::run(&plan));
    let plan = parity_simulation::ParityPlan::draw(1);
    assert_eq!(parity_simulation::run(&plan), parity_simulation::run(&plan));
    let plan = fairness_simulation::plan::FairnessPlan::draw(1);
    let run = || fairness_simulation::simulation::run(&plan);
    assert_eq!(run(), run());
    for transport in ClientTransport::ALL {
        let run = || client_simulation::simulation::run(&ClientPlan::draw(transport, 1));
        assert_eq!(run(), run(), "{transport:?}");
    }
}
